//! Shards put together: all of one sweep, each once.

use std::path::PathBuf;

use reports::{SweepManifest, SweepPoint};

use super::error::FolderError;
use super::store::{FinishedSweep, differences, shard_of};

/// All shards of one sweep, finished.
#[derive(Debug)]
pub struct Shards {
    /// In the order of their index.
    shards: Vec<FinishedSweep>,
    /// That of the sweep without shards.
    pub manifest: SweepManifest,
}

impl Shards {
    /// Opens the folders, in any order.
    ///
    /// # Errors
    /// A folder that holds no finished shard; shards of different sweeps, scenarios, profiles or versions; one twice; one
    /// missing.
    pub fn open(folders: &[PathBuf]) -> Result<Self, FolderError> {
        let mut shards: Vec<FinishedSweep> =
            folders.iter().map(|folder| FinishedSweep::open(folder)).collect::<Result<_, _>>()?;
        let whole = |manifest: &SweepManifest| SweepManifest { shard: None, ..manifest.clone() };
        let manifest = whole(&shards[0].manifest);
        for shard in &shards {
            if shard.manifest.shard.is_none() {
                return Err(FolderError::new(
                    format!("{} is a whole sweep, not a shard of one", shard.path().display()),
                    "its results are final as they are",
                ));
            }
            refuse_other_sweep(&shards[0], shard, &differences(&manifest, &whole(&shard.manifest)))?;
        }
        let of = shard_of(&shards[0].manifest).of;
        if let Some(other) = shards.iter().find(|shard| shard_of(&shard.manifest).of != of) {
            let there = shard_of(&other.manifest).of;
            let difference = ("number of shards".to_owned(), of.to_string(), there.to_string());
            refuse_other_sweep(&shards[0], other, &[difference])?;
        }
        shards.sort_by_key(|shard| shard_of(&shard.manifest).index);
        let index = |shard: &FinishedSweep| shard_of(&shard.manifest).index;
        if let Some(pair) = shards.windows(2).find(|pair| index(&pair[0]) == index(&pair[1])) {
            let (one, other) = (pair[0].path().display(), pair[1].path().display());
            return Err(FolderError::new(
                format!("shard {}/{of} is there twice: {one} and {other}", index(&pair[0])),
                "give each shard once",
            ));
        }
        let missing: Vec<String> = (0..of)
            .filter(|wanted| shards.iter().all(|shard| index(shard) != *wanted))
            .map(|index| format!("{index}/{of}"))
            .collect();
        if !missing.is_empty() {
            let (are, list) = (if missing.len() == 1 { "shard" } else { "shards" }, shortened(&missing));
            return Err(FolderError::new(
                format!("{are} {list} missing"),
                "run them with --shard and the same options, and give their folders too",
            ));
        }
        Ok(Self { shards, manifest })
    }

    /// All points, in the order of the whole sweep, one read at a time.
    ///
    /// # Errors
    /// A file that cannot be opened.
    pub fn points(&self) -> Result<impl Iterator<Item = Result<SweepPoint, FolderError>> + '_, FolderError> {
        let mut readers = self.shards.iter().map(FinishedSweep::points).collect::<Result<Vec<_>, _>>()?;
        let of = self.shards.len();
        // Shards were looked through when they were opened: each has its points, in order.
        Ok((0..self.manifest.points as usize).filter_map(move |point| readers[point % of].next()))
    }
}

/// Shards of two sweeps, with what tells them apart.
fn refuse_other_sweep(
    one: &FinishedSweep,
    other: &FinishedSweep,
    differences: &[(String, String, String)],
) -> Result<(), FolderError> {
    if differences.is_empty() {
        return Ok(());
    }
    let (one, other) = (one.path().display(), other.path().display());
    let lines: Vec<String> = differences
        .iter()
        .map(|(key, first, second)| format!("\n  {key}: {first} in {one}, {second} in {other}"))
        .collect();
    Err(FolderError::new(
        format!("{one} and {other} are of different sweeps:{}", lines.concat()),
        "merge shards of one sweep, run by one version with one scenario and the same profiles and traces",
    ))
}

/// A list that fits a message, with its verb.
fn shortened(missing: &[String]) -> String {
    const SHOWN: usize = 10;
    let more = missing.len().saturating_sub(SHOWN);
    let list = missing[..missing.len() - more].join(", ");
    match (more, missing.len()) {
        (0, 1) => format!("{list} is"),
        (0, _) => format!("{list} are"),
        _ => format!("{list} and {more} more are"),
    }
}
