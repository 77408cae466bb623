//! Candidates side by side.

use super::named;
use crate::figures::figure;
use crate::page::document::{Block, Row, Section, Table};
use crate::text::number;
use crate::text::run::{KEY_FIGURES, PAIR_FIGURES, interval_and_verdict, worth_a_row};
use crate::{CandidateReport, FIGURES, Figure, FigureGroup, FigureSpec, PairReport, RunReport};

/// Key figures that the text report has no room for.
const ALSO_KEY: [(&str, &str); 2] = [("p99_e2el_ms", "E2EL p99, ms"), ("saved_ms", "saved, ms")];

/// The section.
pub(super) fn section(report: &RunReport) -> Section {
    let mut blocks = vec![Block::Table(ladders(report)), Block::Table(key_figures(report))];
    if let Some(pairs) = report.pairs.as_deref() {
        blocks.extend(differences(report, pairs).map(Block::Table));
    }
    blocks.push(Block::Folded("All figures".to_owned(), vec![Block::Table(all_figures(&report.candidates))]));
    let intervals = match &report.seeds {
        Some(seeds) => format!(
            "\u{b1} is half of the 95 % interval of the mean over {} seeds (Student); it covers the traffic, not the costs.",
            seeds.len()
        ),
        None => "One seed: no figure has an interval, and small differences may be chance.".to_owned(),
    };
    let note = format!(
        "TTFT, TPOT, ITL, E2EL and goodput are defined as in vllm bench serve; percentiles are interpolated linearly. Saved \
         compares each replay with the eager kind that this engine would have run instead; negative is a loss. {intervals}"
    );
    blocks.push(Block::Text(note));
    Section::brief("Candidates side by side", blocks)
}

fn ladders(report: &RunReport) -> Table {
    let columns = ["candidate", "cudagraph_mode", "sizes", "capture sizes, tokens", "artifacts served"];
    let mut table = Table::of_words("What each candidate captured", &columns);
    for (place, candidate) in report.candidates.iter().enumerate() {
        let served = candidate.artifacts.iter().filter(|artifact| artifact.steps.mean() > Some(0.0)).count();
        table.row([
            named(place, candidate),
            candidate.cudagraph_mode.clone(),
            candidate.capture_sizes.len().to_string(),
            number::sizes(&candidate.capture_sizes, 48),
            format!("{served} of {}", candidate.artifacts.len()),
        ]);
    }
    table
}

fn key_figures(report: &RunReport) -> Table {
    let mut columns = vec!["candidate".to_owned()];
    let mut cells: Vec<Vec<String>> = Vec::new();
    for (name, heading) in KEY_FIGURES.iter().chain(&ALSO_KEY) {
        let spec = figure(name);
        let column: Vec<Figure> = report.candidates.iter().map(|candidate| *(spec.get)(candidate)).collect();
        if column.iter().any(|figure| *figure != Figure::Undefined) {
            columns.push((*heading).to_owned());
            cells.push(number::row(&column, spec.scale));
        }
    }
    let mut table = Table { caption: "Key figures".to_owned(), columns, ..Table::default() };
    for (place, candidate) in report.candidates.iter().enumerate() {
        table.row(std::iter::once(named(place, candidate)).chain(cells.iter().map(|column| column[place].clone())));
    }
    table
}

/// Paired differences from the first candidate.
fn differences(report: &RunReport, pairs: &[PairReport]) -> Option<Table> {
    let baseline = report.candidates.first()?;
    let pairs: Vec<&PairReport> = pairs.iter().filter(|pair| pair.baseline == baseline.name).collect();
    let shown: Vec<&FigureSpec> = PAIR_FIGURES
        .iter()
        .map(|name| figure(name))
        .filter(|spec| pairs.iter().any(|pair| pair.differences.contains_key(spec.name)))
        .collect();
    if shown.is_empty() {
        return None;
    }
    let mut columns = vec!["candidate"];
    columns.extend(shown.iter().map(|spec| spec.label));
    let caption = format!("Minus {}, seed by seed on the same traffic, with 95 % intervals", baseline.name);
    let mut table = Table::new(caption, &columns);
    for pair in pairs {
        let place = report.candidates.iter().position(|candidate| candidate.name == pair.candidate);
        let name = place.map_or_else(|| pair.candidate.clone(), |place| named(place, &report.candidates[place]));
        let cells = shown.iter().map(|spec| {
            pair.differences.get(spec.name).map_or_else(
                || number::UNDEFINED.to_owned(),
                |difference| interval_and_verdict(difference, spec.scale, (spec.get)(baseline).mean()),
            )
        });
        table.row(std::iter::once(name).chain(cells));
    }
    Some(table)
}

/// Every figure, candidates across.
pub(in crate::page) fn all_figures(candidates: &[CandidateReport]) -> Table {
    let mut table = Table::new("All figures of all candidates", &["figure"]);
    table.columns.extend(candidates.iter().enumerate().map(|(place, candidate)| named(place, candidate)));
    let mut group: Option<FigureGroup> = None;
    for spec in FIGURES {
        let row: Vec<Figure> = candidates.iter().map(|candidate| *(spec.get)(candidate)).collect();
        if !worth_a_row(spec, &row) {
            continue;
        }
        if group != Some(spec.group) {
            group = Some(spec.group);
            table.rows.push(Row::Group(spec.group.title().to_owned()));
        }
        table.row(std::iter::once(spec.label.to_owned()).chain(number::row(&row, spec.scale)));
    }
    table
}
