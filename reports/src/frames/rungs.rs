//! `rungs.parquet`: what served the steps, one row a rung and a cause of running without a graph.

use std::io::{self, Write};

use super::column::{Column, Kind};
use super::figures::{figure_cells, figure_columns};
use super::points::PointColumns;
use super::row::Row;
use super::table::{About, Table};
use crate::{CandidateReport, Figure, SweepManifest, SweepPoint};

/// The figures of a rung, after what it is. Over several seeds all of them are numbers.
const FIGURES: [(&str, Kind); 5] = [
    ("steps", Kind::Count64),
    ("exact_steps", Kind::Count64),
    ("real_rows", Kind::Count64),
    ("padded_rows", Kind::Count64),
    ("saved_ms", Kind::Number),
];

/// Writes the rungs of every candidate and seed: the captured ones in ascending order, then each cause of running without a
/// graph. The steps of all rows of a candidate and seed add up to its `steps`.
///
/// # Errors
/// The I/O error of the sink, unchanged.
pub fn rungs<'a>(
    runs: impl IntoIterator<Item = (u64, &'a CandidateReport)>,
    about: &About<'_>,
    sink: &mut impl Write,
) -> io::Result<()> {
    let mut columns = vec![Column::new("candidate", Kind::Text), Column::new("seed", Kind::Count64)];
    columns.extend(rung_columns(false));
    let mut table = Table::new(sink, columns, about)?;
    for (seed, report) in runs {
        for rung in rungs_of(report) {
            table.row(|row| {
                row.text(&*report.name).count64(seed);
                rung.fill(row, false);
            })?;
        }
    }
    table.finish()
}

/// Writes the rungs of a sweep: for each point and candidate the rows of [`rungs`], over all seeds together. With several seeds
/// every figure takes three columns: `.mean`, `.low` and `.high`.
pub struct PointRungs<'a, W: Write> {
    table: Table<'a, W>,
    point: PointColumns,
}

impl<'a, W: Write> PointRungs<'a, W> {
    /// A table into `sink`.
    ///
    /// # Errors
    /// The I/O error of the sink, unchanged.
    pub fn new(manifest: &SweepManifest, about: &About<'_>, sink: &'a mut W) -> io::Result<Self> {
        let point = PointColumns::of(manifest);
        let columns = point.columns().chain(rung_columns(point.intervals())).collect();
        Ok(Self { table: Table::new(sink, columns, about)?, point })
    }

    /// Writes the rows of one point.
    ///
    /// # Errors
    /// The I/O error of the sink, unchanged.
    pub fn point(&mut self, point: &SweepPoint) -> io::Result<()> {
        for report in &point.report.candidates {
            for rung in rungs_of(report) {
                self.table.row(|row| {
                    self.point.fill(row, point, report);
                    rung.fill(row, self.point.intervals());
                })?;
            }
        }
        Ok(())
    }

    /// Writes what is left and the footer.
    ///
    /// # Errors
    /// The I/O error of the sink, unchanged.
    pub fn finish(self) -> io::Result<()> {
        self.table.finish()
    }
}

fn rung_columns(intervals: bool) -> Vec<Column> {
    let kinds = [("mode", Kind::Text), ("phase", Kind::Text), ("size", Kind::Count32), ("fallback", Kind::Text)];
    let mut columns: Vec<Column> = kinds.map(|(name, kind)| Column::new(name, kind)).into();
    columns.extend(FIGURES.iter().flat_map(|(name, kind)| figure_columns(name, *kind, intervals)));
    columns
}

/// What served steps: a rung, or no graph for one cause.
struct Served<'a> {
    mode: &'a str,
    phase: Option<&'a str>,
    size: Option<u32>,
    fallback: Option<&'a str>,
    figures: [Figure; FIGURES.len()],
}

impl Served<'_> {
    fn fill(&self, row: &mut Row<'_>, intervals: bool) {
        row.text(self.mode).text(self.phase).count32(self.size).text(self.fallback);
        for (figure, (_, kind)) in self.figures.iter().zip(FIGURES) {
            figure_cells(row, figure, kind, intervals);
        }
    }
}

fn rungs_of(report: &CandidateReport) -> impl Iterator<Item = Served<'_>> {
    let rungs = report.rungs.iter().map(|rung| Served {
        mode: &rung.mode,
        phase: rung.phase.as_deref(),
        size: Some(rung.size),
        fallback: None,
        figures: [rung.steps, rung.exact_steps, rung.real_rows, rung.padded_rows, rung.saved_ms],
    });
    let none = Figure::Undefined;
    let causes = report.fallbacks.named().into_iter().map(move |(cause, steps)| Served {
        mode: "NONE",
        phase: None,
        size: None,
        fallback: Some(cause),
        figures: [steps, none, none, none, none],
    });
    rungs.chain(causes)
}
