//! `figures.parquet`: one row a candidate with all its figures.

use std::io::{self, Write};

use super::column::{Column, Kind};
use super::points::PointColumns;
use super::row::Row;
use super::table::{About, Table};
use crate::{CandidateReport, FIGURES, Figure, SweepManifest, SweepPoint};

/// Writes the figures of every candidate and seed.
///
/// # Errors
/// The I/O error of the sink, unchanged.
pub fn figures<'a>(
    runs: impl IntoIterator<Item = (u64, &'a CandidateReport)>,
    about: &About<'_>,
    sink: &mut impl Write,
) -> io::Result<()> {
    let mut columns = vec![Column::new("candidate", Kind::Text), Column::new("seed", Kind::Count64)];
    columns.extend(candidate_columns(false));
    let mut table = Table::new(sink, columns, about)?;
    for (seed, report) in runs {
        table.row(|row| {
            row.text(&*report.name).count64(seed);
            fill(row, report, false);
        })?;
    }
    table.finish()
}

/// Writes the figures of a sweep: a row a point and candidate, over all seeds together. With several seeds every figure takes
/// three columns: `.mean`, `.low` and `.high`.
pub struct PointFigures<'a, W: Write> {
    table: Table<'a, W>,
    point: PointColumns,
}

impl<'a, W: Write> PointFigures<'a, W> {
    /// A table into `sink`.
    ///
    /// # Errors
    /// The I/O error of the sink, unchanged.
    pub fn new(manifest: &SweepManifest, about: &About<'_>, sink: &'a mut W) -> io::Result<Self> {
        let point = PointColumns::of(manifest);
        let columns = point.columns().chain(candidate_columns(point.intervals())).collect();
        Ok(Self { table: Table::new(sink, columns, about)?, point })
    }

    /// Writes the rows of one point.
    ///
    /// # Errors
    /// The I/O error of the sink, unchanged.
    pub fn point(&mut self, point: &SweepPoint) -> io::Result<()> {
        for report in &point.report.candidates {
            self.table.row(|row| {
                self.point.fill(row, point, report);
                fill(row, report, self.point.intervals());
            })?;
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

fn candidate_columns(intervals: bool) -> Vec<Column> {
    let mut columns = vec![Column::new("capture_sizes", Kind::Counts32), Column::new("cudagraph_mode", Kind::Text)];
    columns.extend(FIGURES.iter().flat_map(|spec| figure_columns(spec.name, Kind::Number, intervals)));
    columns
}

fn fill(row: &mut Row<'_>, report: &CandidateReport, intervals: bool) {
    row.counts32(report.capture_sizes.iter().copied()).text(&*report.cudagraph_mode);
    for spec in FIGURES {
        figure_cells(row, (spec.get)(report), Kind::Number, intervals);
    }
}

/// The columns of one figure: of that kind for one seed, three numbers for several.
pub(super) fn figure_columns(name: &'static str, kind: Kind, intervals: bool) -> Vec<Column> {
    if intervals {
        ["mean", "low", "high"].map(|part| Column::new(format!("{name}.{part}"), Kind::Number)).into()
    } else {
        vec![Column::new(name, kind)]
    }
}

/// The cells of one figure.
pub(super) fn figure_cells(row: &mut Row<'_>, figure: &Figure, kind: Kind, intervals: bool) {
    if intervals {
        let ends = if let Figure::Interval(interval) = figure { Some((interval.low, interval.high)) } else { None };
        row.number(figure.mean()).number(ends.map(|(low, _)| low)).number(ends.map(|(_, high)| high));
    } else if kind == Kind::Count64 {
        row.count64(if let Figure::Count(count) = figure { Some(*count) } else { None });
    } else {
        row.number(figure.mean());
    }
}
