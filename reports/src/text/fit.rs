//! `sim fit` as text: the files, what came of them, how far it may be off.

use std::io::{self, Write};

use super::grid::{Align, Grid};
use super::number;
use super::prose::paragraph;
use super::provenance::provenance;
use crate::{FitError, FitFigure, FitHeldOut, FitOutlier, FitReport, FitSource};

const BYTES_PER_MIB: f64 = (1_u64 << 20) as f64;

/// Outliers that are listed; the JSON has all.
const OUTLIERS_SHOWN: usize = 10;

/// Writes the report of `sim fit`, warnings left out.
///
/// # Errors
/// The I/O error of the sink, unchanged.
pub fn fit(report: &FitReport, sink: &mut impl Write) -> io::Result<()> {
    sources(&report.sources, sink)?;
    if !report.figures.is_empty() {
        writeln!(sink)?;
        figures(&report.figures, sink)?;
    }
    if !report.errors.is_empty() {
        writeln!(sink)?;
        errors(&report.errors, sink)?;
    }
    if !report.held_out.is_empty() {
        writeln!(sink)?;
        report.held_out.iter().try_for_each(|held_out| left_out_sizes(held_out, sink))?;
    }
    outliers(&report.outliers, sink)?;
    writeln!(sink)?;
    provenance(&report.profile, sink)?;
    if !report.notes.is_empty() {
        writeln!(sink)?;
        report.notes.iter().try_for_each(|note| paragraph(sink, note, "- ", "  "))?;
    }
    writeln!(sink)?;
    match &report.written {
        Some(file) => paragraph(sink, &format!("written: {file}; use it with --profile {file}"), "", "  "),
        None => paragraph(sink, "nothing written: name a file with --out", "", "  "),
    }
}

fn sources(sources: &[FitSource], sink: &mut impl Write) -> io::Result<()> {
    for source in sources {
        let (read, used) = (number::count(source.read), number::count(source.used));
        paragraph(sink, &format!("{}: {}; {used} of {read} used", source.file, source.what), "", "  ")?;
        for left_out in &source.left_out {
            let line = format!("{} left out: {}", number::count(left_out.count), left_out.why);
            paragraph(sink, &line, "  ", "    ")?;
        }
    }
    Ok(())
}

/// A figure of a few digits, whatever its size.
fn figure(value: Option<f64>) -> String {
    value.map_or_else(
        || number::UNDEFINED.to_owned(),
        |value| number::fixed(value, if value.abs() >= 100.0 { 0 } else { 3 }),
    )
}

fn figures(figures: &[FitFigure], sink: &mut impl Write) -> io::Result<()> {
    let columns = [
        ("figure", Align::Left),
        ("unit", Align::Left),
        ("before", Align::Right),
        ("after", Align::Right),
        ("95 % interval", Align::Right),
        ("from", Align::Right),
        ("verdict", Align::Left),
    ];
    let mut grid = Grid::new(&columns);
    for line in figures {
        let (unit, scale) = if line.unit == "bytes" { ("MiB", 1.0 / BYTES_PER_MIB) } else { (&*line.unit, 1.0) };
        let shown = |value: Option<f64>| figure(value.map(|value| value * scale));
        let interval = match (line.low, line.high) {
            (Some(_), Some(_)) => format!("{} to {}", shown(line.low), shown(line.high)),
            (None, Some(_)) => format!("at most {}", shown(line.high)),
            _ => number::UNDEFINED.to_owned(),
        };
        let (before, after) = (shown(line.before), shown(line.after));
        let samples = number::count(line.samples);
        grid.row([
            line.figure.clone(),
            unit.to_owned(),
            before,
            after,
            interval,
            samples,
            line.verdict.replace('_', " "),
        ]);
    }
    grid.write(sink)?;
    for line in figures {
        let hidden = if line.verdict == "upper_bound" { "not identifiable, an upper bound: " } else { "" };
        paragraph(sink, &format!("{}: {hidden}{}", line.figure, line.why), "  ", "    ")?;
    }
    Ok(())
}

fn errors(errors: &[FitError], sink: &mut impl Write) -> io::Result<()> {
    let columns = [
        ("predicted step time, held out", Align::Left),
        ("steps", Align::Right),
        ("median error before, %", Align::Right),
        ("after, %", Align::Right),
        ("p95 before, %", Align::Right),
        ("after, %", Align::Right),
    ];
    let mut grid = Grid::new(&columns);
    for error in errors {
        let percent = |percent: f64| number::fixed(percent, 2);
        grid.row([
            error.steps.clone(),
            number::count(error.count),
            percent(error.before_median_percent),
            percent(error.after_median_percent),
            percent(error.before_p95_percent),
            percent(error.after_p95_percent),
        ]);
    }
    grid.write(sink)
}

fn left_out_sizes(held_out: &FitHeldOut, sink: &mut impl Write) -> io::Result<()> {
    let line = format!(
        "{}: {} left out one by one and read from their neighbours: {} % off in the median, {} % at most, at {} rows",
        held_out.group,
        if held_out.sizes == 1 { "one size".to_owned() } else { format!("{} sizes", held_out.sizes) },
        number::fixed(held_out.median_percent, 1),
        number::fixed(held_out.worst_percent, 1),
        held_out.worst_at
    );
    paragraph(sink, &line, "", "  ")
}

fn outliers(outliers: &[FitOutlier], sink: &mut impl Write) -> io::Result<()> {
    if outliers.is_empty() {
        return Ok(());
    }
    let all = number::count(outliers.len() as u64);
    writeln!(sink)?;
    paragraph(sink, &format!("far from the other steps of their kind, which they do not move: {all}"), "", "  ")?;
    for outlier in outliers.iter().take(OUTLIERS_SHOWN) {
        let (ms, others_ms) = (number::fixed(outlier.ms, 2), number::fixed(outlier.others_ms, 2));
        let line = format!(
            "{}: {} of {} rows took {ms} ms, the others {others_ms} ms",
            outlier.place, outlier.execution, outlier.rows
        );
        paragraph(sink, &line, "  ", "    ")?;
    }
    if outliers.len() > OUTLIERS_SHOWN {
        paragraph(sink, "all of them with --format json", "  ", "    ")?;
    }
    Ok(())
}
