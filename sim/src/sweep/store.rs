//! The folder of a sweep: its manifest, each finished point while it runs, all of them when it is done.
//!
//! ```text
//! manifest.json        what the sweep is; written first, so that another one is not taken for it
//! points/000012.json   a finished point, until all are
//! figures.csv          every figure, a row for each point and candidate
//! reports.jsonl        the full report of each point, a line each; written last: with it the sweep is finished
//! figures.parquet      if asked for, and made of reports.jsonl: every figure, a row for each point and candidate
//! rungs.parquet        with it: what served the steps, a row for each rung of a point and candidate
//! ```
//!
//! Every file appears whole or not at all, so a process that is killed loses the points that it was at, and no other.

use std::fs::{self, File, TryLockError};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use reports::rows::SweepRows;
use reports::{AtomicFile, OutputError, SweepManifest, SweepPoint};
use serde_json::Value;

use super::error::{FolderError, StoreError};
use super::shard::Shard;
use crate::parquet::Parquet;

const MANIFEST: &str = "manifest.json";
const POINTS: &str = "points";
const FIGURES: &str = "figures.csv";
const REPORTS: &str = "reports.jsonl";
const FIGURES_TABLE: &str = "figures.parquet";
const RUNGS_TABLE: &str = "rungs.parquet";
const LOCK: &str = ".lock";

/// A folder that this process alone works in.
#[derive(Debug)]
pub struct SweepFolder {
    path: PathBuf,
    manifest: SweepManifest,
    /// Held as long as this process works here; the system frees it however the process ends.
    _lock: File,
}

/// The reports of a finished sweep or shard.
#[derive(Debug)]
pub struct FinishedSweep {
    path: PathBuf,
    /// What it is.
    pub manifest: SweepManifest,
    points: u64,
}

/// The two files of a finished sweep on their way.
#[derive(Debug)]
struct Results {
    figures: AtomicFile,
    reports: AtomicFile,
}

impl SweepFolder {
    /// Takes the folder, made if missing, for a sweep: a new one, or one to go on with.
    ///
    /// # Errors
    /// It holds another sweep, files of which no manifest says what they are, or another process works in it; or it cannot
    /// be written.
    pub fn open(path: &Path, manifest: SweepManifest) -> Result<Self, StoreError> {
        let uncreatable = |path: &Path| {
            let path = path.to_owned();
            move |error| OutputError::Create { path, error }
        };
        match read_manifest(path)? {
            Some(there) => same_sweep(path, &there, &manifest)?,
            None => refuse_strangers(path)?,
        }
        let points = path.join(POINTS);
        fs::create_dir_all(path).map_err(uncreatable(path))?;
        let lock = lock(path)?;
        // Nobody else may have begun meanwhile.
        match read_manifest(path)? {
            Some(there) => same_sweep(path, &there, &manifest)?,
            None => AtomicFile::write(path.join(MANIFEST), |file| reports::json::write(&manifest, file))?,
        }
        fs::create_dir_all(&points).map_err(uncreatable(&points))?;
        for folder in [path, &points] {
            remove_unfinished(folder).map_err(uncreatable(folder))?;
        }
        Ok(Self { path: path.to_owned(), manifest, _lock: lock })
    }

    /// Whether the sweep was finished before.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.path.join(REPORTS).exists()
    }

    /// The reports of a sweep that was finished before.
    ///
    /// # Errors
    /// They are not those of the manifest.
    pub fn finished(&self) -> Result<FinishedSweep, FolderError> {
        FinishedSweep::open(&self.path)
    }

    /// Whether the point was kept.
    ///
    /// # Errors
    /// What was kept is not this point.
    pub fn has(&self, point: u64) -> Result<bool, FolderError> {
        Ok(self.point_path(point).exists() && self.point(point).map(|_| true)?)
    }

    /// A point that was kept.
    ///
    /// # Errors
    /// It was not, or is not this point.
    pub fn point(&self, point: u64) -> Result<SweepPoint, FolderError> {
        let path = self.point_path(point);
        let help = "remove the file and run the sweep again: that point is run anew";
        let unusable = |problem: String| FolderError::new(format!("{}: {problem}", path.display()), help);
        let text = fs::read_to_string(&path).map_err(|error| unusable(error.to_string()))?;
        let kept: SweepPoint = serde_json::from_str(&text).map_err(|error| unusable(error.to_string()))?;
        if kept.point == point { Ok(kept) } else { Err(unusable(format!("it holds point {}", kept.point))) }
    }

    /// Keeps a finished point; when this returns, it is on the disk.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep(&self, point: &SweepPoint) -> Result<(), OutputError> {
        AtomicFile::write(self.point_path(point.point), |file| write_line(point, file))
    }

    fn point_path(&self, point: u64) -> PathBuf {
        self.path.join(POINTS).join(format!("{point:06}.json"))
    }

    /// Writes the results of all points, in their order.
    ///
    /// # Errors
    /// A point that cannot be had, or a file that cannot be written; the kept points stay then.
    pub fn finish(&self, points: impl Iterator<Item = Result<SweepPoint, FolderError>>) -> Result<(), StoreError> {
        let create = |name| AtomicFile::create(self.path.join(name));
        let mut results = Results { figures: create(FIGURES)?, reports: create(REPORTS)? };
        let reports = self.path.join(REPORTS);
        let unwritable = |error| OutputError::Write { path: reports.clone(), error };
        let mut rows = SweepRows::new(&self.manifest, &mut results.figures).map_err(unwritable)?;
        for point in points {
            let point = point?;
            rows.point(&point).and_then(|()| write_line(&point, &mut results.reports)).map_err(unwritable)?;
        }
        rows.finish().map_err(unwritable)?;
        results.reports.flush().map_err(unwritable)?;
        results.figures.finish()?;
        results.reports.finish()?;
        Ok(())
    }

    /// Writes the Parquet tables of a finished sweep.
    ///
    /// # Errors
    /// The sweep is not finished, or a file cannot be written.
    pub fn write_tables(&self, parquet: Parquet) -> Result<(), StoreError> {
        let create = |name| AtomicFile::create(self.path.join(name));
        let (mut figures, mut rungs) = (create(FIGURES_TABLE)?, create(RUNGS_TABLE)?);
        let unwritable = |error| OutputError::Write { path: self.path.join(FIGURES_TABLE), error };
        let SweepManifest { version, scenario, .. } = &self.manifest;
        let about = [("version", &**version), ("scenario", &scenario.name), ("scenario_sha256", &scenario.sha256)];
        let mut tables = parquet.points(&self.manifest, &about, [&mut figures, &mut rungs]).map_err(unwritable)?;
        for point in self.finished()?.points()? {
            tables.point(&point?).map_err(unwritable)?;
        }
        tables.finish().map_err(unwritable)?;
        figures.finish()?;
        rungs.finish()?;
        Ok(())
    }
}

/// What is needed only while a sweep runs goes away when it is finished.
impl Drop for SweepFolder {
    fn drop(&mut self) {
        if self.is_finished() {
            // What cannot be removed harms nobody: the next process that works here tries again.
            let _ = fs::remove_dir_all(self.path.join(POINTS));
            let _ = fs::remove_file(self.path.join(LOCK));
        }
    }
}

impl FinishedSweep {
    /// Opens the folder of a finished sweep or shard and looks through its reports.
    ///
    /// # Errors
    /// It holds none, or is not finished, or its reports are not the points that its manifest names.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        let shown = path.display();
        let manifest = read_manifest(path)?.ok_or_else(|| {
            FolderError::new(
                format!("{shown} holds no sweep: it has no {MANIFEST}"),
                "give the folders that `sim sweep --shard … --out DIR` wrote",
            )
        })?;
        let numbers = shard_of(&manifest).points(manifest.points);
        if !path.join(REPORTS).exists() {
            let is_whole = |entry: &fs::DirEntry| !entry.file_name().to_string_lossy().starts_with('.');
            let kept = fs::read_dir(path.join(POINTS)).map_or(0, |entries| entries.flatten().filter(is_whole).count());
            return Err(FolderError::new(
                format!("{shown} is not finished: it has {kept} of {} points", numbers.len()),
                "run its sweep again with the same options: it goes on where it was ended",
            ));
        }
        let finished = Self { path: path.to_owned(), manifest, points: numbers.len() as u64 };
        let mut expected = numbers.iter();
        for point in finished.points()? {
            let point = point?.point;
            if expected.next() != Some(&point) {
                return Err(finished.unusable(&format!("point {point} is not where it should be")));
            }
        }
        match expected.next() {
            Some(missing) => Err(finished.unusable(&format!("point {missing} is missing"))),
            None => Ok(finished),
        }
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many points it holds.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.points
    }

    /// Its points, in order, one read at a time.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn points(&self) -> Result<impl Iterator<Item = Result<SweepPoint, FolderError>> + '_, FolderError> {
        let file = File::open(self.path.join(REPORTS)).map_err(|error| self.unusable(&error.to_string()))?;
        Ok(BufReader::new(file).lines().map(|line| {
            let line = line.map_err(|error| self.unusable(&error.to_string()))?;
            serde_json::from_str(&line).map_err(|error| self.unusable(&error.to_string()))
        }))
    }

    fn unusable(&self, problem: &str) -> FolderError {
        let path = self.path.join(REPORTS);
        FolderError::new(
            format!("{}: {problem}", path.display()),
            "the file was changed or cut short: remove its folder and run that sweep again",
        )
    }
}

/// The shard of a manifest; all of it is the only shard of one.
pub(super) fn shard_of(manifest: &SweepManifest) -> Shard {
    manifest.shard.map_or(Shard::WHOLE, |shard| Shard { index: shard.index, of: shard.of })
}

/// Where two manifests differ: the key, and each one's value in one line.
pub(super) fn differences(one: &SweepManifest, other: &SweepManifest) -> Vec<(String, String, String)> {
    let fields = |manifest| match serde_json::to_value(manifest) {
        Ok(Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let (one, other) = (fields(one), fields(other));
    one.iter()
        .filter(|(key, value)| other.get(*key) != Some(value))
        .map(|(key, value)| (key.clone(), brief(value), other.get(key).map_or_else(String::new, brief)))
        .collect()
}

/// A value in one line that fits a message.
fn brief(value: &Value) -> String {
    const CHARACTERS: usize = 160;
    let text = value.to_string();
    if text.chars().count() <= CHARACTERS {
        return text;
    }
    text.chars().take(CHARACTERS).chain("…".chars()).collect()
}

fn write_line(point: &SweepPoint, sink: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer(&mut *sink, point)?;
    sink.write_all(b"\n")
}

/// The manifest in a folder, if there is one.
fn read_manifest(folder: &Path) -> Result<Option<SweepManifest>, FolderError> {
    let path = folder.join(MANIFEST);
    let unusable = |problem: String| {
        let help = "it is not one that this version of sim wrote; choose another folder, or remove this one";
        FolderError::new(format!("{}: {problem}", path.display()), help)
    };
    match fs::read_to_string(&path) {
        Ok(text) => serde_json::from_str(&text).map(Some).map_err(|error| unusable(error.to_string())),
        // A folder that cannot be one says so when it is made.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(unusable(error.to_string())),
    }
}

/// Whether the folder's sweep is this one.
fn same_sweep(folder: &Path, there: &SweepManifest, now: &SweepManifest) -> Result<(), FolderError> {
    let found = differences(there, now);
    if found.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> =
        found.iter().map(|(key, there, now)| format!("\n  {key}: {there} there, {now} now")).collect();
    Err(FolderError::new(
        format!("{} holds another sweep:{}", folder.display(), lines.concat()),
        "choose another --out, or remove that folder",
    ))
}

/// Results of which no manifest says what they are would be taken for this sweep's.
fn refuse_strangers(folder: &Path) -> Result<(), FolderError> {
    match [POINTS, FIGURES, REPORTS, FIGURES_TABLE, RUNGS_TABLE].into_iter().find(|name| folder.join(name).exists()) {
        Some(name) => Err(FolderError::new(
            format!("{} holds {name}, but no {MANIFEST} that says what it belongs to", folder.display()),
            "choose another --out, or remove that folder",
        )),
        None => Ok(()),
    }
}

fn lock(folder: &Path) -> Result<File, StoreError> {
    let path = folder.join(LOCK);
    let file = File::create(&path).map_err(|error| OutputError::Create { path, error })?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(FolderError::new(
            format!("another process is working in {}", folder.display()),
            "wait until it has ended, or choose another --out; each shard needs a folder of its own",
        )
        .into()),
        // Some file systems of clusters have no locks; a process that is alone there works all the same.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}

/// Removes what a killed process had begun to write.
fn remove_unfinished(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let files = [MANIFEST, FIGURES, REPORTS, FIGURES_TABLE, RUNGS_TABLE];
        let is_ours = files.iter().any(|file| name.starts_with(&format!(".{file}.")));
        let is_point = name.starts_with('.') && folder.file_name().is_some_and(|folder| folder == POINTS);
        if is_ours || is_point {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
