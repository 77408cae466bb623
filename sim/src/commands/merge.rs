//! `sim merge`: the shards of a sweep as one.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use super::failure::Failure;
use super::format::Format;
use super::sweep::answer;
use crate::sweep::SweepFolder;
use crate::sweep::merge::Shards;

/// Put the shards of a sweep together.
///
/// Takes the folders that `sim sweep --shard` wrote, in any order, and writes what the sweep would have written in one
/// piece, byte for byte. Shards that are missing, unfinished or there twice are refused, and so are shards of different
/// scenarios, profiles, traces, grids, seeds or versions of sim.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sim merge part0 part1 part2 --out results
  sim merge shards/* --out results --format csv")]
pub(super) struct Arguments {
    /// The folders of all shards.
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// Also write manifest.json, figures.csv and reports.jsonl into this folder, made if missing.
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
    let shards = Shards::open(&arguments.folders)?;
    if let Some(path) = &arguments.out {
        let folder = SweepFolder::open(path, shards.manifest.clone())?;
        folder.finish(shards.points()?)?;
        if let Some(parquet) = parquet {
            folder.write_tables(parquet)?;
        }
    }
    answer::write(&shards.manifest, shards.points()?, arguments.format, out)
}
