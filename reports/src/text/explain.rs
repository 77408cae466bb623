//! `sim explain` as text: the shape, the rules in order, the price of what ran and of what else could have.

use std::io::{self, Write};

use super::grid::{Align, Grid};
use super::ladder::ladders;
use super::prose::paragraph;
use super::provenance::provenance;
use super::{engine_line, number};
use crate::{CostTerms, ExplainReport, StepShapeReport};

/// Writes the report of `sim explain`, warnings left out.
///
/// # Errors
/// The I/O error of the sink, unchanged.
pub fn explain(report: &ExplainReport, sink: &mut impl Write) -> io::Result<()> {
    paragraph(sink, &engine_line(&report.engine), "", "  ")?;
    let sizes = ladders(&report.ladders, &report.capture_sizes, 60);
    let ladder = format!("candidate {}: {}, capture sizes {sizes}", report.candidate, report.cudagraph_mode);
    paragraph(sink, &ladder, "", "  ")?;
    let step = report.step.map_or_else(|| "the step".to_owned(), |step| format!("step {step}"));
    paragraph(sink, &format!("{step}: {}", shape(&report.shape)), "", "  ")?;
    writeln!(sink)?;
    rules(report, sink)?;
    writeln!(sink)?;
    outcome(report, sink)?;
    writeln!(sink)?;
    prices(report, sink)?;
    for flag in &report.flags {
        paragraph(sink, flag, "- ", "  ")?;
    }
    if let Some(profile) = &report.profile {
        writeln!(sink)?;
        provenance(profile, sink)?;
    }
    Ok(())
}

fn shape(shape: &StepShapeReport) -> String {
    let mut parts = vec![format!(
        "{}, {}, longest query {}",
        counted(shape.requests, "request"),
        counted(shape.tokens, "token"),
        shape.max_query
    )];
    parts.push(shape.uniform.map_or_else(|| "not uniform".to_owned(), |query| format!("uniform query {query}")));
    if shape.active_loras > 0 {
        parts.push(counted(shape.active_loras, "LoRA adapter"));
    }
    if !shape.prefills.is_empty() {
        let chunks: Vec<String> =
            shape.prefills.iter().map(|[chunk, context]| format!("{chunk} after {context}")).collect();
        parts.push(format!("prefills (tokens after context): {}", chunks.join(", ")));
    }
    if shape.decode_requests > 0 {
        let context = number::count(shape.decode_context);
        parts.push(format!("{} decoding over {context} KV tokens in all", shape.decode_requests));
    }
    parts.join("; ")
}

fn counted(count: u32, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {what}{plural}", number::count(u64::from(count)))
}

fn rules(report: &ExplainReport, sink: &mut impl Write) -> io::Result<()> {
    let columns = [("", Align::Right), ("rule", Align::Left), ("detail", Align::Left), ("outcome", Align::Left)];
    let mut grid = Grid::new(&columns).wrap(1, 36).wrap(2, 62).wrap(3, 22);
    for (index, rule) in report.rules.iter().enumerate() {
        grid.row([(index + 1).to_string(), rule.rule.clone(), rule.detail.clone(), rule.outcome.clone()]);
    }
    grid.write(sink)
}

fn outcome(report: &ExplainReport, sink: &mut impl Write) -> io::Result<()> {
    let chosen = &report.chosen;
    let rows = |rows: u32| number::count(u64::from(rows));
    let mut parts = vec![format!("It ran {}: {} real rows", chosen.artifact, rows(chosen.real_rows))];
    parts.extend(chosen.descriptor.as_ref().map(|_| format!("{} padded", rows(chosen.padded_rows))));
    parts.extend(chosen.fallback.as_ref().map(|cause| format!("without a graph ({cause})")));
    parts.extend(chosen.relaxed.then(|| "relaxed from FULL to PIECEWISE".to_owned()));
    parts.extend(report.compiled_for.map(|rows| format!("compiled for {}", crate::rows::span(rows))));
    paragraph(sink, &parts.join(", "), "", "  ")
}

/// One column of the price table.
struct Column<'a> {
    name: &'a str,
    mode: &'a str,
    rows: u32,
    padded_rows: i64,
    cost: Option<CostTerms>,
    difference_ns: Option<i64>,
}

fn prices(report: &ExplainReport, sink: &mut impl Write) -> io::Result<()> {
    let chosen = &report.chosen;
    let mut columns = vec![Column {
        name: "as it ran",
        mode: &chosen.mode,
        rows: chosen.real_rows + chosen.padded_rows,
        padded_rows: i64::from(chosen.padded_rows),
        cost: chosen.cost,
        difference_ns: chosen.cost.map(|_| 0),
    }];
    columns.extend(report.alternatives.iter().map(|other| Column {
        name: &other.name,
        mode: &other.mode,
        rows: other.rows,
        padded_rows: other.padded_rows,
        cost: other.cost,
        difference_ns: other.difference_ns,
    }));
    let priced = report.profile.is_some();
    let mut heading = vec![(if priced { "cost, µs" } else { "" }, Align::Left)];
    heading.extend(columns.iter().map(|column| (column.name, Align::Right)));
    let mut grid = Grid::new(&heading);
    let mut row = |label: &str, get: &dyn Fn(&Column<'_>) -> String| {
        grid.row(std::iter::once(label.to_owned()).chain(columns.iter().map(get)));
    };
    row("mode", &|column| column.mode.to_owned());
    row("rows run", &|column| column.rows.to_string());
    row("padded rows", &|column| column.padded_rows.to_string());
    for (index, label) in TERMS.iter().enumerate() {
        let ns = |column: &Column<'_>| column.cost.map(|cost| cost.named()[index].1 as f64);
        if columns.iter().any(|column| ns(column).is_some_and(|ns| ns > 0.0)) {
            row(label, &|column| number::option(ns(column).map(|ns| ns / 1e3), 3));
        }
    }
    if priced {
        row("against as it ran", &|column| {
            if column.padded_rows < 0 {
                return "does not fit".to_owned();
            }
            let sign = if column.difference_ns > Some(0) { "+" } else { "" };
            format!("{sign}{}", number::option(column.difference_ns.map(|ns| ns as f64 / 1e3), 3))
        });
    }
    grid.write(sink)?;
    if !priced {
        paragraph(sink, "not priced: no profile was given", "- ", "  ")?;
    }
    for other in &report.alternatives {
        if let Some(note) = &other.note {
            paragraph(sink, &format!("{}: {note}", other.name), "- ", "  ")?;
        }
    }
    Ok(())
}

/// Labels of the cost terms, in the order of [`CostTerms::named`].
const TERMS: [&str; 13] = [
    "  dense",
    "  head",
    "  attention",
    "  drafting",
    "  gaps",
    "device",
    "  step overhead",
    "  request overhead",
    "  launch",
    "  updates",
    "  bookkeeping",
    "host",
    "step",
];
