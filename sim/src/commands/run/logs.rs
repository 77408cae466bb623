//! The logs of all runs until the last has finished.

use std::io;
use std::path::{Path, PathBuf};

use reports::OutputError;

use super::super::failure::Failure;
use super::spool::{Extent, Spool, SpoolWriter};
use crate::parquet::{Parquet, RowLog};

/// The logs of all runs until the last has finished.
#[derive(Debug)]
pub(in crate::commands) struct Logs {
    folder: PathBuf,
    /// Rows of requests.csv.
    pub(super) requests: Spool,
    /// Lines of steps.jsonl, if steps are logged.
    pub(super) steps: Option<Spool>,
    /// The same as rows of Parquet tables, if asked for.
    pub(super) tables: Option<TableLogs>,
}

/// The logs that Parquet tables are made of.
#[derive(Debug)]
pub(super) struct TableLogs {
    /// What makes them tables.
    pub(super) parquet: Parquet,
    /// Rows of requests.parquet.
    pub(super) requests: Spool,
    /// Rows of steps.parquet, if steps are logged.
    pub(super) steps: Option<Spool>,
}

/// Where the log of one run lies.
#[derive(Debug, Default)]
pub(super) struct Logged {
    /// As text.
    pub(super) text: Vec<Extent>,
    /// As rows of a table; empty if not asked for.
    pub(super) rows: Vec<Extent>,
}

impl Logs {
    /// Opens the spools in a folder that can be written.
    ///
    /// # Errors
    /// If it cannot.
    pub(super) fn create(folder: &Path, steps: bool, parquet: Option<Parquet>) -> Result<Self, Failure> {
        let spool = || Spool::create(folder).map_err(|error| OutputError::Create { path: folder.to_owned(), error });
        let tables = match parquet {
            Some(parquet) => Some(TableLogs { parquet, requests: spool()?, steps: steps.then(spool).transpose()? }),
            None => None,
        };
        Ok(Self { folder: folder.to_owned(), requests: spool()?, steps: steps.then(spool).transpose()?, tables })
    }

    /// The failure of a log that could not be written.
    pub(super) fn unwritable(&self, error: io::Error) -> Failure {
        OutputError::Write { path: self.folder.clone(), error }.into()
    }
}

impl Logged {
    /// Where the two logs of a run lie.
    ///
    /// # Errors
    /// If one of them cannot be written to its end.
    pub(super) fn finish(text: SpoolWriter<'_>, rows: Option<RowLog<SpoolWriter<'_>>>) -> io::Result<Self> {
        let rows = rows.map(|rows| rows.finish()?.finish()).transpose()?;
        Ok(Self { text: text.finish()?, rows: rows.unwrap_or_default() })
    }
}
