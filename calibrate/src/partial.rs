//! What a calibration run has measured so far, kept in a file after every probe, so that a run that was ended at any
//! moment goes on from there and loses at most the probe it was in.
//!
//! The file is TOML below a first line with a checksum: one that is cut short or changed is refused, not half believed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use miette::Diagnostic;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::measure::Pace;
use crate::profile::KeptWarning;
use crate::stderr::printable;
use crate::whole_file;

const TITLE: &str = "# rungwise: partial results of calibrate, checksum ";

/// Results by the name of their probe, and the run they belong to.
#[derive(Debug)]
pub struct PartialResults {
    path: PathBuf,
    file: ResultsFile,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ResultsFile {
    run: BTreeMap<String, String>,
    /// The first began the run, each other one went on with it.
    #[serde(default)]
    pieces: Vec<Piece>,
    #[serde(default)]
    probes: BTreeMap<String, toml::Value>,
}

/// A part of a run that was not ended in between: what is true of its results beside the facts that hold for all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Piece {
    /// When it began, UTC.
    pub date: String,
    /// Its options, as typed.
    pub options: String,
    /// Seconds from its beginning to its last result.
    pub took_s: f64,
    /// What made its results suspect.
    #[serde(default)]
    pub warnings: Vec<KeptWarning>,
    /// How fast the machine was when it began.
    pub pace: Option<Pace>,
}

/// What a run is about: facts that must be the same for results to belong together, by name. Device, driver, geometry, and
/// every option that decides what is measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFacts(BTreeMap<String, String>);

impl RunFacts {
    /// With one more fact.
    #[must_use]
    pub fn with(mut self, name: &str, fact: impl Into<String>) -> Self {
        self.0.insert(name.to_owned(), fact.into());
        self
    }

    /// Where both differ, in words: one sentence a fact.
    fn differences(&self, kept: &BTreeMap<String, String>) -> Vec<String> {
        let names: BTreeSet<_> = self.0.keys().chain(kept.keys()).collect();
        let stated = |facts: &BTreeMap<String, String>, name: &String| {
            facts.get(name).map_or_else(|| "nothing".to_owned(), |fact| format!("`{}`", printable(fact)))
        };
        let differing = names.into_iter().filter(|&name| self.0.get(name) != kept.get(name));
        differing
            .map(|name| format!("{}: {} there, {} now", printable(name), stated(kept, name), stated(&self.0, name)))
            .collect()
    }
}

/// Why partial results could not be read or kept.
#[derive(Debug, thiserror::Error)]
pub enum PartialError {
    /// There is nothing to go on from.
    #[error("cannot read the partial results {path}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The file is cut short, changed, or no file of partial results.
    #[error("{path} holds no usable partial results: {problem}", path = path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The results are those of another run.
    #[error("{path} holds partial results of another run:\n  {}", differences.join("\n  "), path = path.display())]
    OtherRun {
        /// The file.
        path: PathBuf,
        /// What differs, one sentence a fact.
        differences: Vec<String>,
    },
    /// The file could not be written; the path holds what it held before.
    #[error("cannot keep partial results in {path}", path = path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

impl Diagnostic for PartialError {
    fn help<'a>(&'a self) -> Option<Box<dyn std::fmt::Display + 'a>> {
        let help = match self {
            Self::Read { .. } => "run without --resume: there is nothing to go on from",
            Self::Corrupt { .. } => "remove the file and run without --resume: everything is measured anew",
            Self::OtherRun { .. } => {
                "give the options of that run on the machine of that run to go on with it; without --resume everything is \
                 measured anew, and the first result replaces the file"
            }
            Self::Write { .. } => "check that the folder exists and can be written, or choose another one with --out",
        };
        Some(Box::new(help))
    }
}

impl PartialResults {
    /// Of a new run. Nothing is written before the first result; then what the path held is replaced.
    pub fn new(path: &Path, run: RunFacts) -> Self {
        let file = ResultsFile { run: run.0, pieces: Vec::new(), probes: BTreeMap::new() };
        Self { path: path.to_owned(), file }
    }

    /// Of a run that was ended before its time.
    ///
    /// # Errors
    /// [`PartialError::Read`], [`PartialError::Corrupt`] or, where a fact differs, [`PartialError::OtherRun`].
    pub fn resume(path: &Path, run: &RunFacts) -> Result<Self, PartialError> {
        let text = fs::read_to_string(path).map_err(|source| match source.kind() {
            ErrorKind::InvalidData => corrupt(path, "it is no text"),
            _ => PartialError::Read { path: path.to_owned(), source },
        })?;
        let (checksum, body) = text
            .strip_prefix(TITLE)
            .and_then(|rest| rest.split_once('\n'))
            .ok_or_else(|| corrupt(path, "its first line is not that of partial results"))?;
        if checksum != checksum_of(body) {
            return Err(corrupt(path, "it was cut short or changed: its checksum is another"));
        }
        let file: ResultsFile = toml::from_str(body).map_err(|error| corrupt(path, error.message()))?;
        let differences = run.differences(&file.run);
        if !differences.is_empty() {
            return Err(PartialError::OtherRun { path: path.to_owned(), differences });
        }
        Ok(Self { path: path.to_owned(), file })
    }

    /// Another piece of the run; the results that follow are its.
    pub fn begin(&mut self, piece: Piece) {
        self.file.pieces.push(piece);
    }

    /// The pieces so far, in the order of time; the last is the present one.
    pub fn pieces(&self) -> &[Piece] {
        &self.file.pieces
    }

    /// The piece that was begun last; what is changed is kept with the next result.
    pub fn piece(&mut self) -> Option<&mut Piece> {
        self.file.pieces.last_mut()
    }

    /// The probes with a result, by name.
    pub fn probes(&self) -> impl Iterator<Item = &str> {
        self.file.probes.keys().map(String::as_str)
    }

    /// The result of a probe; `None` if it is still to be run.
    ///
    /// # Errors
    /// [`PartialError::Corrupt`] if the result is not of this kind, as one of another version of calibrate may be.
    pub fn result<T: DeserializeOwned>(&self, probe: &str) -> Result<Option<T>, PartialError> {
        let read = |value: &toml::Value| T::deserialize(value.clone());
        let result = self.file.probes.get(probe).map(read).transpose();
        result.map_err(|error| corrupt(&self.path, &format!("{probe}: {}", error.message())))
    }

    /// Keeps the result of a probe; when this returns, it is on the disk, and all earlier ones with it.
    ///
    /// # Errors
    /// [`PartialError::Write`]; the path holds what it held before.
    pub fn keep(&mut self, probe: &str, result: &impl Serialize) -> Result<(), PartialError> {
        let path = self.path.clone();
        let unwritable = move |source| PartialError::Write { path, source };
        let unspeakable = |error: toml::ser::Error| io::Error::new(ErrorKind::InvalidInput, error);
        let value = toml::Value::try_from(result).map_err(unspeakable).map_err(unwritable.clone())?;
        self.file.probes.insert(probe.to_owned(), value);
        let body = toml::to_string(&self.file).map_err(unspeakable).map_err(unwritable.clone())?;
        let text = format!("{TITLE}{}\n{body}", checksum_of(&body));
        whole_file::write(&self.path, &text).map_err(|source| {
            // It is not on the disk: nobody is to be told that it is kept.
            self.file.probes.remove(probe);
            unwritable(source)
        })
    }

    /// Removes the file, when the profile that it was for is written. One that is not there is no failure.
    ///
    /// # Errors
    /// [`PartialError::Write`] if the system refuses.
    pub fn remove(self) -> Result<(), PartialError> {
        match fs::remove_file(&self.path) {
            Err(source) if source.kind() != ErrorKind::NotFound => Err(PartialError::Write { path: self.path, source }),
            _ => Ok(()),
        }
    }
}

fn corrupt(path: &Path, problem: &str) -> PartialError {
    PartialError::Corrupt { path: path.to_owned(), problem: printable(problem.trim_end()).replace('\n', "; ") }
}

/// FNV-1a with 64 bits, in hexadecimal: against accidents, not against forgery.
fn checksum_of(text: &str) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in text.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let mut checksum = String::with_capacity(16);
    write!(checksum, "{hash:016x}").expect("writing to a string");
    checksum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Costs {
        fixed_us: f64,
        node_us: Option<f64>,
        rows: Vec<u32>,
        nested: Vec<Inner>,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Inner {
        Plain,
        Counted { count: u64 },
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Older {
        #[expect(dead_code, reason = "only to be missing")]
        launch_us: f64,
    }

    fn costs(fixed_us: f64) -> Costs {
        let nested = vec![Inner::Plain, Inner::Counted { count: 1 << 40 }];
        Costs { fixed_us, node_us: None, rows: vec![1, 2, 4], nested }
    }

    fn facts() -> RunFacts {
        RunFacts::default().with("device", "Driver double").with("driver", "575.57.08").with("options", "--quick")
    }

    #[test]
    fn results_come_back_bit_for_bit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("partial.toml");
        let values = [0.1 + 0.2, f64::MIN_POSITIVE, 1e300, -0.0];
        let mut partial = PartialResults::new(&path, facts());
        for (index, &value) in values.iter().enumerate() {
            partial.keep(&format!("probe {index}"), &costs(value)).unwrap();
        }
        let back = PartialResults::resume(&path, &facts()).unwrap();
        assert_eq!(back.probes().count(), values.len());
        for (index, &value) in values.iter().enumerate() {
            let result: Costs = back.result(&format!("probe {index}")).unwrap().unwrap();
            assert_eq!(result.fixed_us.to_bits(), value.to_bits());
            assert_eq!(result, costs(value));
        }
        assert!(back.result::<Costs>("another").unwrap().is_none());
        back.remove().unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "nothing is left behind");
    }

    #[test]
    fn what_each_piece_had_to_say_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("partial.toml");
        let warning = KeptWarning { code: "power_limit".into(), what: "400 W of 700".into(), advice: None };
        let pace = Pace { graph_us: 61.25, copy_us: 30.0, launches_us: 41.0, replay_us: 3.5, sm_clock_mhz: None };
        let pace = Some(pace);
        let piece =
            |date: &str, warnings| Piece { date: date.into(), options: "-x".into(), took_s: 0.0, warnings, pace };
        let mut first = PartialResults::new(&path, facts());
        first.begin(piece("2026-01-31T09:30:00Z", vec![warning]));
        first.piece().unwrap().took_s = 2.5;
        first.keep("launch", &costs(1.0)).unwrap();
        let mut second = PartialResults::resume(&path, &facts()).unwrap();
        second.begin(piece("2026-02-01T09:30:00Z", vec![]));
        second.keep("head", &costs(2.0)).unwrap();
        let third = PartialResults::resume(&path, &facts()).unwrap();
        assert_eq!(third.pieces(), second.pieces());
        assert_eq!((third.pieces()[0].took_s, third.pieces()[0].warnings.len()), (2.5, 1));
    }

    /// A run of five probes, ended while each of them runs, and gone on with: every probe is measured once, but for the one
    /// in flight.
    #[test]
    fn a_kill_loses_the_probe_in_flight_only() {
        const PROBES: [&str; 5] = ["launch", "bandwidth", "rungs", "dense", "head"];
        let folder = tempfile::tempdir().unwrap();
        for killed_in in 0..PROBES.len() {
            let path = folder.path().join(format!("{killed_in}.toml"));
            let mut begun = PartialResults::new(&path, facts());
            for probe in &PROBES[..killed_in] {
                begun.keep(probe, &costs(1.5)).unwrap();
            }
            drop(begun);
            let mut resumed = if killed_in == 0 {
                let missing = PartialResults::resume(&path, &facts()).unwrap_err();
                assert!(matches!(missing, PartialError::Read { .. }), "{missing}");
                PartialResults::new(&path, facts())
            } else {
                PartialResults::resume(&path, &facts()).unwrap()
            };
            let to_run: Vec<_> =
                PROBES.iter().filter(|probe| resumed.result::<Costs>(probe).unwrap().is_none()).collect();
            assert_eq!(to_run, PROBES[killed_in..].iter().collect::<Vec<_>>());
            for probe in to_run {
                resumed.keep(probe, &costs(2.5)).unwrap();
            }
            let done = PartialResults::resume(&path, &facts()).unwrap();
            assert_eq!(done.probes().count(), PROBES.len());
            assert!(killed_in == 0 || done.result::<Costs>("launch").unwrap().unwrap() == costs(1.5));
        }
    }

    /// Cut anywhere, or changed anywhere: refused with a reason, never believed in part.
    #[test]
    fn a_file_cut_or_changed_anywhere_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("partial.toml");
        let mut partial = PartialResults::new(&path, facts());
        partial.keep("launch", &costs(2.31)).unwrap();
        partial.keep("head", &costs(258.0)).unwrap();
        let whole = fs::read(&path).unwrap();
        let damaged = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            PartialResults::resume(&path, &facts()).map(|_| ())
        };
        assert!(damaged(&whole).is_ok());
        for end in 0..whole.len() {
            assert!(matches!(damaged(&whole[..end]), Err(PartialError::Corrupt { .. })), "cut at {end}");
        }
        for place in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[place] ^= 0x40;
            assert!(matches!(damaged(&bytes), Err(PartialError::Corrupt { .. })), "changed at {place}");
        }
    }

    #[test]
    fn a_failed_write_keeps_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("no/such/folder/partial.toml");
        let mut partial = PartialResults::new(&path, facts());
        let error = partial.keep("launch", &costs(1.0)).unwrap_err();
        assert_eq!(partial.probes().count(), 0, "nothing is kept");
        assert!(error.to_string().starts_with("cannot keep partial results in "), "{error}");
    }

    #[test]
    fn results_of_another_run_or_version_are_refused_with_the_difference() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("partial.toml");
        PartialResults::new(&path, facts()).keep("launch", &costs(1.0)).unwrap();
        let now = RunFacts::default().with("device", "Driver double").with("driver", "580.1").with("model", "tiny");
        let error = PartialResults::resume(&path, &now).unwrap_err();
        let PartialError::OtherRun { differences, .. } = &error else { panic!("{error}") };
        assert_eq!(
            differences[..],
            [
                "driver: `575.57.08` there, `580.1` now",
                "model: nothing there, `tiny` now",
                "options: `--quick` there, nothing now"
            ]
        );
        assert_eq!(
            error.help().unwrap().to_string(),
            "give the options of that run on the machine of that run to go on with it; without --resume everything is \
             measured anew, and the first result replaces the file"
        );
        let older = PartialResults::resume(&path, &facts()).unwrap().result::<Older>("launch").unwrap_err();
        assert!(older.to_string().contains("launch: unknown field `fixed_us`"), "{older}");
    }
}
