//! `sim run` as text: figures down, candidates across.

use std::io::{self, Write};

use super::grid::{Align, GAP, Grid};
use super::prose::paragraph;
use super::provenance::provenance;
use super::{WIDTH, change, engine_line, number, rungs, slo_line};
use crate::figures::figure;
use crate::{
    CandidateReport, Difference, FIGURES, Figure, FigureGroup, FigureSpec, PairReport, RunReport, Scale, Verdict,
};

/// From this many candidates on, candidates go down and only the key figures across.
const MANY: usize = 9;

/// The columns for many candidates: a figure and its short heading.
pub(crate) const KEY_FIGURES: [(&str, &str); 10] = [
    ("request_goodput", "goodput, req/s"),
    ("request_throughput", "served, req/s"),
    ("output_throughput", "output, tok/s"),
    ("p99_ttft_ms", "TTFT p99, ms"),
    ("p99_tpot_ms", "TPOT p99, ms"),
    ("padding_ratio", "padded/real, %"),
    ("fallback_rate", "no graph, %"),
    ("graph_memory_bytes", "graphs, GiB"),
    ("kv_tokens", "KV, tokens"),
    ("startup_s", "start-up, s"),
];

/// The figures of which paired differences are shown.
pub(crate) const PAIR_FIGURES: [&str; 4] = ["request_goodput", "mean_tpot_ms", "p99_tpot_ms", "p99_ttft_ms"];

/// Longest candidate name on one line of a heading.
const NAME_WIDTH: usize = 16;

/// Writes the report of `sim run`, warnings left out.
///
/// # Errors
/// The I/O error of the sink, unchanged.
pub fn run(report: &RunReport, sink: &mut impl Write) -> io::Result<()> {
    head(report, sink)?;
    ladders(&report.candidates, sink)?;
    if let Some(pairs) = &report.pairs {
        differences(report, pairs, sink)?;
    }
    writeln!(sink)?;
    if report.candidates.len() < MANY {
        figures(&report.candidates, sink)?;
        rungs::rungs(&report.candidates, sink)?;
    } else {
        key_figures(&report.candidates, sink)?;
    }
    writeln!(sink)?;
    provenance(&report.profile, sink)?;
    writeln!(sink)?;
    notes(report, sink)
}

fn head(report: &RunReport, sink: &mut impl Write) -> io::Result<()> {
    let scenario = &report.scenario;
    writeln!(sink, "{}", scenario.name)?;
    paragraph(sink, &engine_line(&report.engine), "", "  ")?;
    let seeds = match &report.seeds {
        Some(seeds) => {
            let seeds: Vec<String> = seeds.iter().map(ToString::to_string).collect();
            format!("seeds {}", seeds.join(", "))
        }
        None => format!("seed {}", report.seed),
    };
    let mut parts = vec![seeds, slo_line(scenario)];
    if let Some(requests) = scenario.requests {
        parts.insert(0, number::requests(requests));
    }
    paragraph(sink, &parts.join("; "), "", "  ")?;
    writeln!(sink)
}

/// What each candidate captured, and how many of its artifacts ever served.
fn ladders(candidates: &[CandidateReport], sink: &mut impl Write) -> io::Result<()> {
    let columns = [
        ("candidate", Align::Left),
        ("cudagraph_mode", Align::Left),
        ("sizes", Align::Right),
        ("capture sizes", Align::Left),
        ("artifacts served", Align::Right),
    ];
    let mut grid = Grid::new(&columns).wrap(0, 30);
    for candidate in candidates {
        let served = candidate.artifacts.iter().filter(|artifact| artifact.steps.mean() > Some(0.0)).count();
        grid.row([
            candidate.name.clone(),
            candidate.cudagraph_mode.clone(),
            candidate.capture_sizes.len().to_string(),
            super::ladder::ladders(&candidate.ladders, &candidate.capture_sizes, 32),
            format!("{served} of {}", candidate.artifacts.len()),
        ]);
    }
    grid.write(sink)
}

/// One row of the big table before it is cut into blocks.
pub(super) struct Line {
    pub(super) label: String,
    pub(super) cells: Vec<String>,
}

fn figures(candidates: &[CandidateReport], sink: &mut impl Write) -> io::Result<()> {
    let mut lines: Vec<Line> = Vec::new();
    let mut group = None;
    for spec in FIGURES {
        let row: Vec<Figure> = candidates.iter().map(|candidate| *(spec.get)(candidate)).collect();
        if !worth_a_row(spec, &row) {
            continue;
        }
        if group != Some(spec.group) {
            group = Some(spec.group);
            lines.push(Line { label: spec.group.title().to_owned(), cells: vec![String::new(); row.len()] });
        }
        lines.push(Line { label: format!("  {}", spec.label), cells: number::row(&row, spec.scale) });
    }
    let names: Vec<&str> = candidates.iter().map(|candidate| candidate.name.as_str()).collect();
    blocks(&names, &lines, sink)
}

/// A row that is undefined everywhere says nothing; a detail row that is zero everywhere says no more than its absence.
pub(crate) fn worth_a_row(spec: &FigureSpec, row: &[Figure]) -> bool {
    let detail = spec.label.starts_with(' ') || spec.group == FigureGroup::ColdStart;
    row.iter().any(|figure| figure.mean().is_some_and(|mean| !detail || mean != 0.0))
}

/// Writes the lines in as many blocks of candidates as the width needs.
pub(super) fn blocks(names: &[&str], lines: &[Line], sink: &mut impl Write) -> io::Result<()> {
    let length = |text: &str| text.chars().count();
    let label_width = lines.iter().map(|line| length(&line.label)).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = lines.iter().map(|line| length(&line.cells[column])).max().unwrap_or(0);
        cells.max(length(names[column]).min(NAME_WIDTH))
    };
    let mut start = 0;
    while start < names.len() {
        let mut end = start + 1;
        let mut total = label_width + GAP + width(start);
        while end < names.len() && total + GAP + width(end) <= WIDTH {
            total += GAP + width(end);
            end += 1;
        }
        if start > 0 {
            writeln!(sink)?;
        }
        let mut columns = vec![("", Align::Left)];
        columns.extend(names[start..end].iter().map(|name| (*name, Align::Right)));
        let mut grid = Grid::new(&columns);
        for column in start..end {
            grid = grid.wrap(1 + column - start, width(column));
        }
        for line in lines {
            grid.row(std::iter::once(line.label.clone()).chain(line.cells[start..end].iter().cloned()));
        }
        grid.write(sink)?;
        start = end;
    }
    Ok(())
}

fn key_figures(candidates: &[CandidateReport], sink: &mut impl Write) -> io::Result<()> {
    let mut columns = vec![("candidate", Align::Left)];
    let mut cells: Vec<Vec<String>> = Vec::new();
    for (name, heading) in KEY_FIGURES {
        let spec = figure(name);
        let column: Vec<Figure> =
            candidates.iter().map(|candidate| number::without_interval((spec.get)(candidate))).collect();
        if column.iter().any(|figure| *figure != Figure::Undefined) {
            columns.push((heading, Align::Right));
            cells.push(number::row(&column, spec.scale));
        }
    }
    let mut grid = Grid::new(&columns).wrap(0, 20);
    for (index, (heading, _)) in columns.iter().enumerate().skip(1) {
        let words = heading.split(' ').chain(cells[index - 1].iter().map(String::as_str));
        grid = grid.wrap(index, words.map(|word| word.chars().count()).max().unwrap_or(0));
    }
    for (index, candidate) in candidates.iter().enumerate() {
        grid.row(std::iter::once(candidate.name.clone()).chain(cells.iter().map(|column| column[index].clone())));
    }
    grid.write(sink)?;
    writeln!(sink, "All figures of the {} candidates, with their rungs and intervals: --format json.", candidates.len())
}

/// Paired differences from the first candidate.
fn differences(report: &RunReport, pairs: &[PairReport], sink: &mut impl Write) -> io::Result<()> {
    let Some(baseline) = report.candidates.first() else { return Ok(()) };
    let pairs: Vec<&PairReport> = pairs.iter().filter(|pair| pair.baseline == baseline.name).collect();
    if pairs.is_empty() {
        return Ok(());
    }
    writeln!(sink)?;
    let heading = format!("minus {}, same traffic", baseline.name);
    let mut columns = vec![(heading.as_str(), Align::Left)];
    let shown: Vec<&FigureSpec> = PAIR_FIGURES
        .iter()
        .map(|name| figure(name))
        .filter(|spec| pairs.iter().any(|pair| pair.differences.contains_key(spec.name)))
        .collect();
    columns.extend(shown.iter().map(|spec| (spec.label, Align::Right)));
    let mut grid = Grid::new(&columns).wrap(0, 24);
    for (index, _) in shown.iter().enumerate() {
        grid = grid.wrap(index + 1, 19);
    }
    for pair in pairs {
        let cells = shown
            .iter()
            .map(|spec| difference_cell(pair.differences.get(spec.name), spec, (spec.get)(baseline).mean()));
        grid.row(std::iter::once(pair.candidate.clone()).chain(cells));
    }
    grid.write(sink)
}

fn difference_cell(difference: Option<&Difference>, spec: &FigureSpec, baseline: Option<f64>) -> String {
    difference.map_or_else(
        || number::UNDEFINED.to_owned(),
        |difference| interval_and_verdict(difference, spec.scale, baseline),
    )
}

/// The difference with its interval; below it the verdict and, where there is one, the share of the baseline's figure.
pub(crate) fn interval_and_verdict(difference: &Difference, scale: Scale, baseline: Option<f64>) -> String {
    let Difference { mean, low, high, verdict } = *difference;
    let interval = Figure::Interval(crate::Interval { mean, low, high });
    let sign = |value: f64| if value > 0.0 { "+" } else { "" };
    let share = baseline.and_then(|baseline| change(mean, baseline));
    let share = share.map(|share| format!(" {share}")).unwrap_or_default();
    let verdict = match verdict {
        Verdict::Better => format!("better{share}"),
        Verdict::Worse => format!("worse{share}"),
        Verdict::Equal => "equal".to_owned(),
        Verdict::NotDistinguishable => "not distinguishable".to_owned(),
    };
    format!("{}{}\n{verdict}", sign(mean), number::row(&[interval], scale).concat())
}

fn notes(report: &RunReport, sink: &mut impl Write) -> io::Result<()> {
    let mut notes = vec![
        "Exact hits are a share of graph steps; padded / real and padded / rows run are sums of rows over graph steps; \
         no graph is a share of all steps with tokens."
            .to_owned(),
        "Saved compares each replay with the eager kind that this engine would have run instead; negative is a loss."
            .to_owned(),
        "TTFT, TPOT, ITL, E2EL and goodput are defined as in vllm bench serve; percentiles are interpolated linearly."
            .to_owned(),
    ];
    if let Some(seeds) = &report.seeds {
        notes.push(format!(
            "± is half of the 95 % interval of the mean over {} seeds (Student); it covers the traffic, not the costs.",
            seeds.len()
        ));
        notes.push(
            "Better and worse speak of these seeds and these costs; where one candidate runs graphs and the other does \
             not, the launch costs decide: see how they were come by."
                .to_owned(),
        );
    }
    notes.iter().try_for_each(|note| paragraph(sink, note, "- ", "  "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_named_here_exists() {
        for name in KEY_FIGURES.map(|(name, _)| name).iter().chain(&PAIR_FIGURES) {
            assert_eq!(figure(name).name, *name);
        }
    }
}
