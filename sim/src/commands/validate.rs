//! `sim validate`: measured runs against predicted ones.

use std::io::Write;
use std::path::PathBuf;

use calibrate::served_model::{ModelRequest, ServedModel};
use clap::{Args, ValueEnum};
use kernels::geometry::ModelGeometry;
use reports::{RunValidation, ValidateReport};

use super::failure::Failure;
use crate::fit::FitError;
use crate::validate::{RunFiles, Settings, SharedHeads, Text, validate};

/// Compare measured runs of vLLM with predicted ones.
///
/// For every run of a folder: the same requests through the simulated server, priced by the kernel tables of the run's card
/// and model, nothing fitted; wall time, throughput, TTFT, TPOT and running requests measured beside predicted, with the
/// targets that a prediction should meet; milliseconds per step by running requests, and the error of single requests.
#[derive(Debug, Args)]
#[command(after_help = "\
The folder holds, flat and side by side, for every run NAME, such as rtx4090_llama8b_tp1:
  vllm_run_NAME_meta.json        what ran
  vllm_run_NAME_requests.jsonl   request_id, input_toks, output_toks, queued_ts, first_token_ts,
                                 last_token_ts
  vllm_run_NAME_timeseries.csv   t, prompt_throughput, gen_throughput, running, waiting,
                                 kv_cache_pct
  kernels_NAME_dense.csv, kernels_NAME_per_sequence.csv, kernels_NAME_attention.csv
A card with a dense table alone borrows the others from another card's of the same model and
ranks, times the ratio of memory bandwidths: of the data sheets, and in a second answer of what
both cards achieve in their dense tables. Without a dense table step times are fitted to the
run's own series, and only the queue is judged. A run without results is named and passed over;
one that cannot be used is an error, after the answers about the others.

Examples:
  sim validate runs
  sim validate runs --run rtx4090_llama8b_tp1 --format json

Missed targets are said in the text; the exit code is 7 for them with --strict only, and 3 where a
run cannot be used.")]
pub(super) struct Arguments {
    /// The folder of the runs and of the kernel tables.
    folder: PathBuf,
    /// Validate only this run; may be given several times.
    #[arg(long = "run", value_name = "NAME")]
    runs: Vec<String>,
    /// Which prompts begin alike: a table with the columns request, begins_as, tokens, or the workload file as JSON lines with
    /// input_tok_ids [default: what is known of the workload that the run names]
    #[arg(long, value_name = "FILE")]
    heads: Option<PathBuf>,
    /// Take prompts to share nothing.
    #[arg(long, conflicts_with = "heads")]
    no_heads: bool,
    /// Carry borrowed tables over by this ratio: memory bandwidth of the card that lends over that of the run's card.
    #[arg(long, value_name = "RATIO", value_parser = ratio)]
    bandwidth_ratio: Option<f64>,
    /// The config.json of the model that was served, where its shape is not built in.
    #[arg(long, value_name = "FILE")]
    model: Option<String>,
    /// End with exit code 7 if a target is missed, or if no run was compared.
    #[arg(long)]
    strict: bool,
    /// How the answer is written.
    #[arg(long, value_enum, default_value_t)]
    format: ValidateFormat,
}

/// `--format` of this command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum ValidateFormat {
    /// Tables for people.
    #[default]
    Text,
    /// One JSON document, every field documented in reports/SCHEMA.md.
    Json,
}

fn ratio(text: &str) -> Result<f64, String> {
    let ratio = text.parse::<f64>().ok().filter(|ratio| (0.001..=1000.0).contains(ratio));
    ratio.ok_or_else(|| "expected a number from 0.001 to 1000".to_owned())
}

/// The geometry of a model, of all ranks together.
fn geometry(name: &str) -> Result<ModelGeometry, FitError> {
    let request = ModelRequest { name, ranks: 1, shapes_only: true };
    Ok(ServedModel::find(&request)?.geometry)
}

pub(super) fn execute(arguments: &Arguments, out: &mut impl Write) -> Result<(), Failure> {
    let mut files = RunFiles::find(&arguments.folder)?;
    if let Some(unknown) = arguments.runs.iter().find(|&name| files.iter().all(|run| run.name != *name)) {
        let names: Vec<&str> = files.iter().map(|run| run.name.as_str()).collect();
        return Err(Failure::Usage {
            message: format!("{} has no run named `{unknown}`", arguments.folder.display()),
            help: Some(format!("its runs are {}", names.join(", "))),
        });
    }
    files.retain(|run| arguments.runs.is_empty() || arguments.runs.contains(&run.name));
    let heads = arguments.heads.as_deref().map(|path| SharedHeads::of_file(&Text::read(path)?)).transpose()?;
    let settings = Settings {
        heads,
        no_heads: arguments.no_heads,
        bandwidth_ratio: arguments.bandwidth_ratio,
        model: arguments.model.as_deref().map(geometry).transpose()?,
    };
    let (mut runs, mut failures) = (Vec::new(), Vec::new());
    for run in &files {
        // One run that cannot be used takes no answer of another away.
        match validate(&arguments.folder, run, &settings) {
            Ok(answers) => runs.extend(answers),
            Err(error) => failures.push(Failure::from(error)),
        }
    }
    let report = ValidateReport { runs };
    if !report.runs.is_empty() {
        match arguments.format {
            ValidateFormat::Text => reports::text::validate(&report, out),
            ValidateFormat::Json => reports::json::write(&report, out),
        }
        .map_err(Failure::Stdout)?;
    }
    if arguments.strict {
        failures.splice(..0, unmet(&report).map(Failure::Missed));
    }
    let last = failures.pop();
    for failure in failures {
        // The command ends with the code of the last.
        let _ = failure.report();
    }
    last.map_or(Ok(()), Err)
}

/// What a strict check fails for: the targets missed, by run, or that there was none to meet; `None` if all are met.
fn unmet(report: &ValidateReport) -> Option<String> {
    let of_run = |run: &RunValidation| {
        let by = run.carried_by.as_ref().map_or_else(String::new, |carry| format!(", carried over by {carry}"));
        let missed = run.missed();
        (!missed.is_empty()).then(|| format!("{}{by}: {}", run.run, missed.join(", ")))
    };
    let missed: Vec<String> = report.runs.iter().filter_map(of_run).collect();
    let is_judged = report.runs.iter().any(|run| run.targets() > 0);
    let nothing = (!is_judged).then(|| "no run was compared, so that no target is met".to_owned());
    if missed.is_empty() { nothing } else { Some(missed.join("; ")) }
}
