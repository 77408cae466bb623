//! What a report is made of: told apart by what it is, not by what it is called.

use std::path::{Path, PathBuf};

use calibrate::profile::Profile;
use reports::ProposeReport;
use reports::page::{Part, proposal};

use super::error::ResultError;
use super::folder::RunFolder;
use super::profile;
use crate::commands::failure::Failure;

/// One input.
#[derive(Debug)]
pub(super) enum Input {
    /// A folder of `sim run --out`.
    Run(Box<RunFolder>),
    /// A cost profile.
    Profile(PathBuf, Box<Profile>),
    /// An answer of `sim propose --format json`.
    Proposal(PathBuf, Box<ProposeReport>),
}

impl Input {
    /// Reads an input.
    ///
    /// # Errors
    /// It is none of those, or cannot be read.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        if path.is_dir() {
            return Ok(Self::Run(Box::new(RunFolder::open(path)?)));
        }
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("toml") => Ok(Self::Profile(path.to_owned(), Box::new(Profile::load(path)?))),
            Some("json") => Ok(Self::Proposal(path.to_owned(), Box::new(propose_report(path)?))),
            _ if path.exists() => Err(ResultError::new(
                format!("{} is no result that a report can be made of", path.display()),
                "expected a folder that `sim run --out` wrote, a profile (.toml), or a proposal (.json)",
            )
            .into()),
            _ => match path.to_str().and_then(|name| Profile::builtin(name).ok()) {
                Some(profile) => Ok(Self::Profile(path.to_owned(), Box::new(profile))),
                None => Err(ResultError::unreadable(path, &std::io::ErrorKind::NotFound.into()).into()),
            },
        }
    }

    /// The input as a part of a page.
    ///
    /// # Errors
    /// A file of the folder is broken.
    pub(super) fn part(&self) -> Result<Part, Failure> {
        match self {
            Self::Run(folder) => folder.part(),
            Self::Profile(path, profile) => profile::part(path, profile),
            Self::Proposal(path, report) => proposal(&path.display().to_string(), report).map_err(Failure::Stdout),
        }
    }
}

fn propose_report(path: &Path) -> Result<ProposeReport, ResultError> {
    let text = super::read(path)?;
    serde_json::from_str(&text).map_err(|error| {
        ResultError::new(
            format!("{}:{}: not a proposal: {error}", path.display(), error.line()),
            "expected what `sim propose --format json` writes; of a run give the folder, not its run.json",
        )
    })
}
