//! Reports as CSV: one header row, then one row a candidate (a descriptor for `ladder`, a phase or a capture for
//! `startup`, a choice for `explain` and for `propose`).
//!
//! Columns are the JSON names, nested ones as paths with dots; numbers are exact, undefined ones are empty cells.

use std::io::{self, Write};

use serde_json::Value;

use crate::{
    CandidateReport, CostTerms, DescriptorRecord, ExplainReport, FIGURES, Figure, LadderReport, PriceReport,
    ProposeReport, RunReport, STEP_MS_PER_REQUEST, StartupReport, SweepManifest, SweepPoint,
};

/// Writes the candidates of a run. With several seeds every figure takes three columns: `.mean`, `.low` and `.high`.
/// Rungs, artifacts and pairs are lists and stay in the JSON.
///
/// # Errors
/// The I/O error of the sink, unchanged.
pub fn run(report: &RunReport, sink: &mut impl Write) -> io::Result<()> {
    let intervals = report.seeds.is_some();
    let rows = report.candidates.iter().map(|candidate| run_row(candidate, intervals));
    table(sink, &run_columns(intervals), rows)
}

/// Writes single runs, a row for each candidate and seed: `candidate`, `seed`, then the columns of [`run`] after the name.
///
/// # Errors
/// The I/O error of the sink, unchanged.
pub fn seeds<'a>(runs: impl IntoIterator<Item = (u64, &'a CandidateReport)>, sink: &mut impl Write) -> io::Result<()> {
    let mut columns = run_columns(false);
    columns.splice(..1, ["candidate", "seed"].map(str::to_owned));
    let rows = runs.into_iter().map(|(seed, candidate)| {
        let mut row = run_row(candidate, false);
        row.insert(1, seed.to_string());
        row
    });
    table(sink, &columns, rows)
}

fn run_columns(intervals: bool) -> Vec<String> {
    let mut columns: Vec<String> = ["name", "capture_sizes", "cudagraph_mode"].map(str::to_owned).into();
    columns.extend(FIGURES.iter().flat_map(|spec| figure_columns(spec.name, intervals)));
    columns
}

fn figure_columns(name: &str, intervals: bool) -> Vec<String> {
    if intervals { ["mean", "low", "high"].map(|part| format!("{name}.{part}")).into() } else { vec![name.to_owned()] }
}

/// Writes the points of a sweep, a row for each point and candidate: `point`, a column for each key that is varied, then
/// the columns of [`run`].
pub struct SweepRows<W: Write> {
    writer: csv::Writer<W>,
    intervals: bool,
}

impl<W: Write> SweepRows<W> {
    /// A table into `sink`; writes the header row.
    ///
    /// # Errors
    /// The I/O error of the sink, unchanged.
    pub fn new(manifest: &SweepManifest, sink: W) -> io::Result<Self> {
        let intervals = manifest.seeds.len() > 1;
        let mut writer = csv::Writer::from_writer(sink);
        let keys = manifest.axes.iter().map(|axis| axis.key.clone());
        let columns = std::iter::once("point".to_owned()).chain(keys).chain(run_columns(intervals));
        writer.write_record(columns.map(String::into_bytes)).map_err(io_error)?;
        Ok(Self { writer, intervals })
    }

    /// Writes the rows of one point.
    ///
    /// # Errors
    /// The I/O error of the sink, unchanged.
    pub fn point(&mut self, point: &SweepPoint) -> io::Result<()> {
        for candidate in &point.report.candidates {
            let settings = point.settings.iter().map(|setting| value_cell(&setting.value));
            let row =
                std::iter::once(point.point.to_string()).chain(settings).chain(run_row(candidate, self.intervals));
            self.writer.write_record(row.map(String::into_bytes)).map_err(io_error)?;
        }
        Ok(())
    }

    /// Flushes.
    ///
    /// # Errors
    /// The I/O error of the sink, unchanged.
    pub fn finish(mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// A word as it is, anything else as JSON in one line.
pub(crate) fn value_cell(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn run_row(candidate: &CandidateReport, intervals: bool) -> Vec<String> {
    let mut row = vec![candidate.name.clone(), sizes(&candidate.capture_sizes), candidate.cudagraph_mode.clone()];
    row.extend(FIGURES.iter().flat_map(|spec| figure_cells((spec.get)(candidate), intervals)));
    row
}

fn figure_cells(figure: &Figure, intervals: bool) -> Vec<String> {
    match figure {
        Figure::Interval(interval) if intervals => [interval.mean, interval.low, interval.high].map(cell).into(),
        _ if intervals => vec![figure_cell(figure), String::new(), String::new()],
        _ => vec![figure_cell(figure)],
    }
}

/// Writes the choices of a proposal, a row each: `current`, `proposal`, `one_change` and `front_1` up, with what is given to
/// the engine, the step time of a request, then the columns of [`run`].
///
/// # Errors
/// The I/O error of the sink, unchanged.
pub fn propose(report: &ProposeReport, sink: &mut impl Write) -> io::Result<()> {
    let intervals = report.search.check_seeds.len() > 1;
    let mut columns: Vec<String> = ["choice", "lists", "settings"].map(str::to_owned).into();
    columns.extend(figure_columns(STEP_MS_PER_REQUEST, intervals));
    columns.extend(run_columns(intervals));
    let mut choices = vec![("current".to_owned(), &report.current), ("proposal".to_owned(), &report.proposal)];
    choices.extend(report.one_change.as_ref().map(|change| ("one_change".to_owned(), &change.choice)));
    choices.extend(report.front.iter().enumerate().map(|(place, choice)| (format!("front_{}", place + 1), choice)));
    let rows = choices.into_iter().map(|(name, choice)| {
        let lists = choice.lists.iter().map(|list| format!("{} {} {}", list.phase, list.unit, sizes(&list.sizes)));
        let mut row = vec![name, lists.collect::<Vec<_>>().join("; "), choice.settings.join("; ")];
        row.extend(figure_cells(&choice.step_ms_per_request, intervals));
        row.extend(run_row(&choice.figures, intervals));
        row
    });
    table(sink, &columns, rows)
}

/// Writes the candidates of a price; rungs, and the counts of encoder and replay graphs, stay in the JSON.
///
/// # Errors
/// The I/O error of the sink, unchanged.
pub fn price(report: &PriceReport, sink: &mut impl Write) -> io::Result<()> {
    let columns = [
        "name",
        "capture_sizes",
        "cudagraph_mode",
        "step_ms.eager",
        "step_ms.compiled_eager",
        "step_ms.graph",
        "step_ms.best_of_both",
        "saving_against",
        "saving_graph.ms",
        "saving_graph.percent",
        "saving_best_of_both.ms",
        "saving_best_of_both.percent",
        "mean_batch_rows",
        "mean_rung_rows",
        "mean_padded_rows",
        "padding_ratio",
        "waste_share",
        "mean_padding_over_batch",
        "mean_padding_over_rung",
        "exact_hit_rate",
        "fallback_rate",
        "break_even_padded_rows",
        "losing_share",
        "losing_batches",
        "outside_range_share",
    ];
    let rows = report.candidates.iter().map(|candidate| {
        let losing: Vec<String> = candidate.losing_batches.iter().map(|range| span(*range)).collect();
        vec![
            candidate.name.clone(),
            sizes(&candidate.capture_sizes),
            candidate.cudagraph_mode.clone(),
            option(candidate.step_ms.eager),
            option(candidate.step_ms.compiled_eager),
            cell(candidate.step_ms.graph),
            cell(candidate.step_ms.best_of_both),
            candidate.saving_against.to_string(),
            cell(candidate.saving_graph.ms),
            cell(candidate.saving_graph.percent),
            cell(candidate.saving_best_of_both.ms),
            cell(candidate.saving_best_of_both.percent),
            cell(candidate.mean_batch_rows),
            option(candidate.mean_rung_rows),
            cell(candidate.mean_padded_rows),
            option(candidate.padding_ratio),
            option(candidate.waste_share),
            option(candidate.mean_padding_over_batch),
            option(candidate.mean_padding_over_rung),
            option(candidate.exact_hit_rate),
            cell(candidate.fallback_rate),
            option(candidate.break_even_padded_rows),
            cell(candidate.losing_share),
            losing.join(" "),
            cell(candidate.outside_range_share),
        ]
    });
    table(sink, &columns, rows)
}

/// Writes the descriptors of a ladder in capture order, one row each.
///
/// # Errors
/// The I/O error of the sink, unchanged.
pub fn ladder(report: &LadderReport, sink: &mut impl Write) -> io::Result<()> {
    let columns = [
        "candidate",
        "order",
        "mode",
        "tokens",
        "requests",
        "uniform",
        "max_query",
        "loras",
        "ubatches",
        "prefix_chunks",
    ];
    let rows = report.candidates.iter().flat_map(|candidate| {
        candidate.descriptors.iter().enumerate().map(|(order, descriptor)| {
            let mut row = vec![candidate.name.clone(), order.to_string()];
            row.extend(descriptor_cells(descriptor));
            row
        })
    });
    table(sink, &columns, rows)
}

/// Writes the phases of each start in order, one row each, then its captures.
///
/// # Errors
/// The I/O error of the sink, unchanged.
pub fn startup(report: &StartupReport, sink: &mut impl Write) -> io::Result<()> {
    let columns = [
        "candidate",
        "phase",
        "at_s",
        "seconds",
        "count",
        "mode",
        "tokens",
        "requests",
        "uniform",
        "max_query",
        "loras",
        "ubatches",
        "prefix_chunks",
        "pool_bytes",
        "executables_bytes",
    ];
    let rows = report.candidates.iter().flat_map(|candidate| {
        let phases = candidate.phases.iter().map(|phase| {
            let mut row = vec![candidate.name.clone(), phase.phase.to_string(), cell(phase.at_s), cell(phase.seconds)];
            row.push(phase.count.to_string());
            row.extend(std::iter::repeat_n(String::new(), 10));
            row
        });
        let captures = candidate.captures.iter().map(|capture| {
            let mut row = vec![candidate.name.clone(), "graph".to_owned(), cell(capture.at_s), cell(capture.seconds)];
            row.push("1".to_owned());
            row.extend(descriptor_cells(&capture.descriptor));
            row.extend([capture.pool_bytes, capture.executables_bytes].map(|bytes| bytes.to_string()));
            row
        });
        phases.chain(captures).collect::<Vec<_>>()
    });
    table(sink, &columns, rows)
}

fn descriptor_cells(descriptor: &DescriptorRecord) -> [String; 8] {
    let count = |count: Option<u32>| count.map(|count| count.to_string()).unwrap_or_default();
    [
        descriptor.mode.to_string(),
        descriptor.tokens.to_string(),
        count(descriptor.requests),
        count(descriptor.uniform),
        count(descriptor.max_query),
        descriptor.loras.to_string(),
        descriptor.ubatches.to_string(),
        count(descriptor.prefix_chunks),
    ]
}

/// Writes what ran (`chosen`) and each alternative, one row each, with the cost terms in ns.
///
/// # Errors
/// The I/O error of the sink, unchanged.
pub fn explain(report: &ExplainReport, sink: &mut impl Write) -> io::Result<()> {
    let mut columns = vec!["choice", "mode", "rows", "padded_rows", "difference_ns"];
    columns.extend(CostTerms::default().named().map(|(name, _)| name));
    let chosen = &report.chosen;
    let row = |name: &str, mode: &str, rows: u32, padded: i64, difference: Option<i64>, cost: Option<CostTerms>| {
        let mut row = vec![name.to_owned(), mode.to_owned(), rows.to_string(), padded.to_string()];
        row.push(difference.map(|difference| difference.to_string()).unwrap_or_default());
        match cost {
            Some(cost) => row.extend(cost.named().map(|(_, ns)| ns.to_string())),
            None => row.extend(CostTerms::default().named().map(|_| String::new())),
        }
        row
    };
    let mut rows = vec![row(
        "chosen",
        &chosen.mode,
        chosen.real_rows + chosen.padded_rows,
        i64::from(chosen.padded_rows),
        chosen.cost.map(|_| 0),
        chosen.cost,
    )];
    rows.extend(
        report
            .alternatives
            .iter()
            .map(|other| row(&other.name, &other.mode, other.rows, other.padded_rows, other.difference_ns, other.cost)),
    );
    table(sink, &columns, rows)
}

fn table(
    sink: &mut impl Write,
    columns: &[impl AsRef<str>],
    rows: impl IntoIterator<Item = Vec<String>>,
) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(sink);
    writer.write_record(columns.iter().map(|column| column.as_ref().as_bytes())).map_err(io_error)?;
    for row in rows {
        writer.write_record(row).map_err(io_error)?;
    }
    writer.flush()
}

/// A number in its shortest exact form; empty if it is not finite.
pub(crate) fn cell(value: f64) -> String {
    figure_cell(&Figure::from(value))
}

fn option(value: Option<f64>) -> String {
    value.map(cell).unwrap_or_default()
}

fn figure_cell(figure: &Figure) -> String {
    match figure {
        Figure::Undefined => String::new(),
        Figure::Count(count) => count.to_string(),
        Figure::Value(value) if !value.is_finite() => String::new(),
        Figure::Value(value) => value.to_string(),
        Figure::Interval(interval) => interval.mean.to_string(),
    }
}

/// Sizes in one cell, separated by spaces.
fn sizes(sizes: &[u32]) -> String {
    let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
    sizes.join(" ")
}

/// An inclusive range: `9-12`, or `9` alone.
pub(crate) fn span([first, last]: [u32; 2]) -> String {
    if first == last { first.to_string() } else { format!("{first}-{last}") }
}

/// The I/O error inside a CSV error, unchanged: a closed pipe stays a closed pipe.
pub(crate) fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}
