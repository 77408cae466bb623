//! `sim sweep`: one scenario at many points.

pub(super) mod answer;
mod plan;
mod points;
mod progress;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use rayon::ThreadPoolBuilder;

use self::plan::Plan;
use self::points::Points;
use super::failure::Failure;
use super::format::Format;
use crate::sweep::SweepFolder;

/// Run a scenario at many points and find the best.
///
/// Every --vary names a key of the scenario and its values; every combination of them is a point. At each point all
/// candidates are compared as `sim run` does, on traffic of the same seeds everywhere. Points run in parallel; the answer
/// is the same bytes for any number of threads, shards and interruptions.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sim sweep scenarios/chunked.toml --vary rate=4,5,6,7 --vary max_num_seqs=64,256 --seeds 5
      Eight points; figures are means with intervals, and what five seeds do not tell apart is said.
  sim sweep scenarios/chunked.toml --vary 'cudagraph_capture_sizes=[1,8,32],[1,2,4,8,16,32,64]'
      Ladders of the server; candidates with one of their own keep it.
  sim sweep scenarios/chunked.toml --vary profile=a100-llama-3-8b,mine.toml --vary slo.ttft=1s,2s
      Words need no quotes.
  sim sweep scenarios/chunked.toml --vary rate=2,4,6,8 --vary max_num_seqs=64,128,256 --sample 6
      Six points of twelve.
  sim sweep scenarios/chunked.toml --vary rate=2,4,6,8 --out results
      Points are kept as they finish: the same command goes on where it was ended.
  sim sweep scenarios/chunked.toml --vary rate=4,5,6,7 --shard 0/2 --out part0
      Half of the points; `sim merge part0 part1 --out results` puts the halves together.

--shard auto takes the index from SLURM_ARRAY_TASK_ID, else from JOB_COMPLETION_INDEX (Kubernetes).
auto/N says how many shards there are; without N only a Slurm array that counts from 0 without gaps
says so itself. --shard I/N asks no environment, and without --shard nothing there matters.
sim/CLUSTER.md has scripts for both.")]
pub(super) struct Arguments {
    /// The scenario file.
    scenario: PathBuf,
    /// A key of the scenario and its values; may be given several times, the last key varying fastest. A key is a whole
    /// path (traffic.arrivals.poisson.rate), or the end of one (rate, max_num_seqs); for candidates candidate.KEY (all of
    /// them) or candidate.NAME.KEY. Values are written as in the scenario.
    #[arg(long = "vary", value_name = "KEY=V1,V2,...", required = true)]
    vary: Vec<String>,
    /// Run only N points, drawn at random from all combinations, none twice.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=crate::limits::SWEEP_POINTS_MAX))]
    sample: Option<u64>,
    /// With --sample: seed of the draw.
    #[arg(long, value_name = "S", default_value_t = 0, requires = "sample")]
    sample_seed: u64,
    /// Seed of the traffic at every point [default: the scenario's].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    seed: Option<u64>,
    /// Run K seeds at every point (the seed, the seed + 1, ...).
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    seeds: u32,
    /// Price with this profile instead: a built-in name (`calibrate list`) or a file.
    #[arg(long, value_name = "FILE|NAME")]
    profile: Option<String>,
    /// Run only this candidate; may be given several times.
    #[arg(long = "candidate", value_name = "NAME")]
    candidates: Vec<String>,
    /// Run on so many threads [default: one for each core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Run only part I of N, counted from 0; auto or auto/N under Slurm or Kubernetes.
    #[arg(long, value_name = "I/N|auto", requires = "out")]
    shard: Option<String>,
    /// Keep each point in this folder as it finishes, and write manifest.json, figures.csv and reports.jsonl there. A folder
    /// that holds the same sweep, finished or not, is gone on with.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// With --out: also write figures.parquet and rungs.parquet. Needs a build with the feature `frames`.
    #[arg(long, requires = "out")]
    parquet: bool,
    /// How the answer is written.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(super) fn execute(arguments: &Arguments, out: &mut impl Write) -> Result<(), Failure> {
    let parquet = super::parquet::check(arguments.parquet)?;
    let threads = usize::from(arguments.threads.unwrap_or(0));
    let pool = ThreadPoolBuilder::new().num_threads(threads).build().map_err(|error| Failure::Usage {
        message: format!("cannot start {threads} threads: {error}"),
        help: Some("give fewer --threads".to_owned()),
    })?;
    let plan = pool.install(|| Plan::of(arguments))?;
    let Some(path) = &arguments.out else {
        let points = pool.install(|| Points { plan: &plan }.run())?;
        return answer::write(&plan.manifest, points.into_iter().map(Ok), arguments.format, out);
    };
    let folder = SweepFolder::open(path, plan.manifest.clone())?;
    if !folder.is_finished() {
        pool.install(|| Points { plan: &plan }.run_into(&folder))?;
        folder.finish(plan.numbers.iter().map(|&point| folder.point(point)))?;
    }
    if let Some(parquet) = parquet {
        folder.write_tables(parquet)?;
    }
    answer::write(&plan.manifest, folder.finished()?.points()?, arguments.format, out)
}
