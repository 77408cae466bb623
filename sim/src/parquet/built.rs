//! A build with the tables.

use std::io::{self, Write};

pub use reports::frames::RowLog;
use reports::frames::{Column, PointFigures, PointRungs, Table, figures, request_columns, rungs, step_columns};
use reports::{CandidateReport, SweepManifest, SweepPoint};

use super::{About, TakeRows};

/// That tables can be written.
#[derive(Clone, Copy, Debug)]
pub struct Parquet;

impl Parquet {
    /// That tables can be written in this build.
    pub fn of_this_build() -> Option<Self> {
        Some(Self)
    }

    /// A log of one candidate and seed, for [`Parquet::steps`] or [`Parquet::requests`].
    pub fn log<W: Write>(self, sink: W, candidate: &str, seed: u64) -> RowLog<W> {
        RowLog::new(sink, candidate, seed)
    }

    /// Writes `steps.parquet`; `give` gives whole rows of the logs, in order.
    ///
    /// # Errors
    /// The I/O error of the sink or of `give`.
    pub fn steps<W: Write>(
        self,
        about: &About<'_>,
        sink: &mut W,
        give: impl FnOnce(&mut TakeRows<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        rows(step_columns(), about, sink, give)
    }

    /// Writes `requests.parquet`, as [`Parquet::steps`].
    ///
    /// # Errors
    /// The I/O error of the sink or of `give`.
    pub fn requests<W: Write>(
        self,
        about: &About<'_>,
        sink: &mut W,
        give: impl FnOnce(&mut TakeRows<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        rows(request_columns(), about, sink, give)
    }

    /// Writes `rungs.parquet` of a run, by candidate and seed.
    ///
    /// # Errors
    /// The I/O error of the sink.
    pub fn rungs<'r>(
        self,
        about: &About<'_>,
        sink: &mut impl Write,
        runs: impl Iterator<Item = (u64, &'r CandidateReport)>,
    ) -> io::Result<()> {
        rungs(runs, about, sink)
    }

    /// Writes `figures.parquet` of a run, by candidate and seed.
    ///
    /// # Errors
    /// The I/O error of the sink.
    pub fn figures<'r>(
        self,
        about: &About<'_>,
        sink: &mut impl Write,
        runs: impl Iterator<Item = (u64, &'r CandidateReport)>,
    ) -> io::Result<()> {
        figures(runs, about, sink)
    }

    /// Begins `figures.parquet` and `rungs.parquet` of a sweep.
    ///
    /// # Errors
    /// The I/O error of a sink.
    pub fn points<'a, W: Write>(
        self,
        manifest: &SweepManifest,
        about: &About<'_>,
        [figures, rungs]: [&'a mut W; 2],
    ) -> io::Result<PointTables<'a, W>> {
        let figures = PointFigures::new(manifest, about, figures)?;
        Ok(PointTables { figures, rungs: PointRungs::new(manifest, about, rungs)? })
    }
}

/// The tables of a sweep, point by point.
pub struct PointTables<'a, W: Write> {
    figures: PointFigures<'a, W>,
    rungs: PointRungs<'a, W>,
}

impl<W: Write> PointTables<'_, W> {
    /// Writes the rows of the next point.
    ///
    /// # Errors
    /// The I/O error of a sink.
    pub fn point(&mut self, point: &SweepPoint) -> io::Result<()> {
        self.figures.point(point)?;
        self.rungs.point(point)
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// The I/O error of a sink.
    pub fn finish(self) -> io::Result<()> {
        self.figures.finish()?;
        self.rungs.finish()
    }
}

fn rows<W: Write>(
    columns: Vec<Column>,
    about: &About<'_>,
    sink: &mut W,
    give: impl FnOnce(&mut TakeRows<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let mut table = Table::new(sink, columns, about)?;
    give(&mut |rows| table.append(rows))?;
    table.finish()
}
