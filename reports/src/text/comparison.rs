//! `sim report --compare` as text.

use std::io::{self, Write};

use super::change::factor;
use super::grid::{Align, Grid};
use super::number;
use super::prose::paragraph;
use super::run::interval_and_verdict;
use crate::figures::figure;
use crate::{ComparedFigure, ComparedPair, ComparisonReport, Figure, ThresholdReport};

/// The figures that are shown; the JSON has all.
pub(crate) const SHOWN: [&str; 16] = [
    "request_goodput",
    "request_throughput",
    "output_throughput",
    "mean_ttft_ms",
    "p99_ttft_ms",
    "mean_tpot_ms",
    "p99_tpot_ms",
    "p99_itl_ms",
    "p99_e2el_ms",
    "padding_ratio",
    "fallback_rate",
    "saved_ms",
    "mean_step_ms",
    "preemptions",
    "graph_memory_bytes",
    "startup_s",
];

/// Writes the comparison, warnings left out.
///
/// # Errors
/// The I/O error of the sink, unchanged.
pub fn comparison(report: &ComparisonReport, sink: &mut impl Write) -> io::Result<()> {
    paragraph(sink, &report.verdict(), "", "  ")?;
    writeln!(sink)?;
    for (name, run) in [("baseline", &report.baseline), ("candidate", &report.candidate)] {
        let text = format!("{name}: {}, {}, {}, profile {}", run.folder, run.scenario.name, run.engine, run.profile);
        paragraph(sink, &text, "", "  ")?;
    }
    paragraph(sink, &seeds(report), "", "  ")?;
    for pair in &report.pairs {
        writeln!(sink)?;
        figures(pair, sink)?;
    }
    for (names, run) in [(&report.only_in_baseline, &report.baseline), (&report.only_in_candidate, &report.candidate)] {
        if !names.is_empty() {
            paragraph(sink, &format!("Only in {}: {}", run.folder, names.join(", ")), "", "  ")?;
        }
    }
    if !report.thresholds.is_empty() {
        writeln!(sink)?;
        thresholds(&report.thresholds, sink)?;
    }
    Ok(())
}

/// The common seeds in words.
pub(crate) fn seeds(report: &ComparisonReport) -> String {
    let words: Vec<String> = report.seeds.iter().map(ToString::to_string).collect();
    match words.len() {
        1 => format!("seed {} alone: differences are exact, and speak of this traffic only", words[0]),
        count => format!("{count} common seeds ({}): differences are paired, with 95 % intervals", words.join(", ")),
    }
}

/// The figures of a pair that are shown.
pub(crate) fn shown(pair: &ComparedPair) -> impl Iterator<Item = &ComparedFigure> {
    pair.figures.iter().filter(|found| SHOWN.contains(&found.figure.as_ref()))
}

/// Baseline, candidate, and their difference with its verdict.
pub(crate) fn cells(found: &ComparedFigure) -> [String; 4] {
    let spec = figure(&found.figure);
    let means = number::row(&[Figure::from(found.baseline), Figure::from(found.candidate)], spec.scale);
    let difference = interval_and_verdict(&found.difference, spec.scale, Some(found.baseline));
    let (difference, verdict) = difference.split_once('\n').unwrap_or((&difference, ""));
    let difference = difference.split(" \u{b1}0").next().filter(|_| is_exact(found)).unwrap_or(difference);
    [means[0].clone(), means[1].clone(), difference.to_owned(), verdict.to_owned()]
}

fn is_exact(found: &ComparedFigure) -> bool {
    found.difference.low.to_bits() == found.difference.high.to_bits()
}

fn figures(pair: &ComparedPair, sink: &mut impl Write) -> io::Result<()> {
    let heading = heading(pair);
    let columns = [
        (heading.as_str(), Align::Left),
        ("baseline", Align::Right),
        ("candidate", Align::Right),
        ("difference", Align::Right),
        ("verdict", Align::Left),
    ];
    let mut grid = Grid::new(&columns).wrap(0, 36);
    for found in shown(pair) {
        grid.row(std::iter::once(figure(&found.figure).label.trim().to_owned()).chain(cells(found)));
    }
    grid.write(sink)
}

/// The candidates of a pair.
pub(crate) fn heading(pair: &ComparedPair) -> String {
    if pair.baseline == pair.candidate {
        pair.candidate.clone()
    } else {
        format!("{} minus {}", pair.candidate, pair.baseline)
    }
}

fn thresholds(thresholds: &[ThresholdReport], sink: &mut impl Write) -> io::Result<()> {
    let columns =
        [("threshold", Align::Left), ("candidate", Align::Left), ("worse by", Align::Right), ("", Align::Left)];
    let mut grid = Grid::new(&columns).wrap(1, 30);
    for threshold in thresholds {
        grid.row([threshold.threshold.clone(), threshold.candidate.clone(), worse_by(threshold), outcome(threshold)]);
    }
    grid.write(sink)
}

/// By how much a figure got worse, with its share of what it was where there is one.
pub(crate) fn worse_by(threshold: &ThresholdReport) -> String {
    let spec = figure(&threshold.figure);
    let absolute = number::row(&[Figure::from(threshold.worse_by)], spec.scale).concat();
    match threshold.worse_by_percent {
        Some(percent) => match factor(percent / 100.0) {
            Some(times) => format!("{absolute} ({times} what it was)"),
            None => format!("{absolute} ({} %)", number::fixed(percent, 2)),
        },
        None => absolute,
    }
}

/// The outcome in words.
pub(crate) fn outcome(threshold: &ThresholdReport) -> String {
    match threshold.outcome.as_ref() {
        "regressed" => "REGRESSED",
        "unproven" => "not proven: these seeds do not tell the two apart",
        _ => "kept",
    }
    .to_owned()
}
