//! The current ladders, the proposal, the best single change and the front: what each captures, and what it comes to.

use std::io::{self, Write};

use super::measure::Measure;
use super::{STEP_MEAN, deciding, is_of_steps, number};
use crate::text::grid::{Align, Grid};
use crate::text::prose::paragraph;
use crate::text::run::{Line, blocks};
use crate::{Figure, LadderChoice, LadderSizes, ProposeReport};

/// What requests get of a choice; steps that are given without requests have their mean instead.
pub(super) const OF_REQUESTS: [Measure; 4] = [
    Measure::Figure("request_goodput"),
    Measure::Figure("p99_tpot_ms"),
    Measure::Figure("p99_ttft_ms"),
    Measure::StepTime,
];

/// How a choice runs its steps, and what it takes.
pub(super) const OF_GRAPHS: [Measure; 12] = [
    Measure::Figure("waste_share"),
    Measure::Figure("fallback_rate"),
    Measure::Figure("fallbacks.above_ceiling"),
    Measure::Figure("fallbacks.no_key"),
    Measure::Figure("fallbacks.mode_excluded"),
    Measure::Figure("fallbacks.encoder_inputs"),
    Measure::Figure("fallbacks.other_rank"),
    Measure::Figure("fallbacks.graphs_off"),
    Measure::Figure("descriptors_captured"),
    Measure::Figure("graph_memory_bytes"),
    Measure::Figure("kv_tokens"),
    Measure::Figure("startup_s"),
];

/// Ladders of the front that are shown, where it has more.
const FRONT_SHOWN: usize = 6;

/// Characters of a list that is to be read whole; only a list of hundreds of sizes is cut.
const WHOLE_LIST: usize = 900;

/// Columns for the sizes of a list.
const LIST_WIDTH: usize = 56;

/// A difference with its interval, and its verdict below.
const DIFFERENCE_WIDTH: usize = 19;

/// One choice under the name that tables give it.
struct Named<'a> {
    name: String,
    choice: &'a LadderChoice,
    /// The name of a choice before it with the same ladders, which stands for both.
    same_as: Option<String>,
}

/// Writes the ladders of all choices, the proposal beside the current ladders, then the others.
pub(super) fn choices(report: &ProposeReport, sink: &mut impl Write) -> io::Result<()> {
    let named = named(report);
    writeln!(sink)?;
    ladders(&named, sink)?;
    if !report.front.is_empty() {
        front_in_words(report.front.len(), sink)?;
    }
    writeln!(sink)?;
    comparison(report, sink)?;
    let others: Vec<&Named<'_>> = named.iter().skip(2).filter(|named| named.same_as.is_none()).collect();
    if others.is_empty() {
        return Ok(());
    }
    writeln!(sink)?;
    beside(report, &others, sink)?;
    differences(report, &others, sink)
}

fn front_in_words(ladders: usize, sink: &mut impl Write) -> io::Result<()> {
    let more = match ladders.saturating_sub(FRONT_SHOWN) {
        0 => String::new(),
        more => format!("; --format json has {more} more"),
    };
    let line = "Front: no other ladders beat these in objective, memory and start-up alike";
    paragraph(sink, &format!("{line}{more}."), "", "  ")
}

/// The choices in the order of the tables: current, proposal, one change, front.
fn named(report: &ProposeReport) -> Vec<Named<'_>> {
    let mut all = vec![("current".to_owned(), &report.current), ("proposal".to_owned(), &report.proposal)];
    all.extend(report.one_change.as_ref().map(|change| ("one change".to_owned(), &change.choice)));
    all.extend(shown(&report.front).into_iter().map(|(place, choice)| (format!("front {}", place + 1), choice)));
    let mut named: Vec<Named<'_>> = Vec::new();
    for (name, choice) in all {
        let alike = |other: &&Named<'_>| other.same_as.is_none() && same(other.choice, choice);
        let same_as = named.iter().find(alike).map(|other| other.name.clone());
        named.push(Named { name, choice, same_as });
    }
    named
}

pub(super) fn same(a: &LadderChoice, b: &LadderChoice) -> bool {
    a.lists == b.lists && a.settings == b.settings
}

/// The front with the place of each in it; of a long one both ends, and others at equal distances.
fn shown(front: &[LadderChoice]) -> Vec<(usize, &LadderChoice)> {
    let count = front.len().min(FRONT_SHOWN);
    let place = |index: usize| if count > 1 { index * (front.len() - 1) / (count - 1) } else { 0 };
    (0..count).map(|index| (place(index), &front[place(index)])).collect()
}

/// What each choice gives the engine, and what the engine makes of it where that differs.
fn ladders(named: &[Named<'_>], sink: &mut impl Write) -> io::Result<()> {
    let columns =
        [("choice", Align::Left), ("list", Align::Left), ("sizes", Align::Right), ("capture sizes", Align::Left)];
    let mut grid = Grid::new(&columns).wrap(1, 25).wrap(3, LIST_WIDTH);
    for (index, Named { name, choice, same_as }) in named.iter().enumerate() {
        let mut rows: Vec<[String; 3]> = Vec::new();
        if let Some(other) = same_as {
            rows.push([String::new(), String::new(), format!("as {other}")]);
        } else {
            let room = if index < 2 { WHOLE_LIST } else { LIST_WIDTH };
            let whose = |whose: &str, list: &LadderSizes| {
                let kind = format!("{whose}{} ({})", list.phase, list.unit);
                [kind, number::count(list.sizes.len() as u64), number::sizes(&list.sizes, room)]
            };
            rows.extend(choice.lists.iter().map(|list| whose("", list)));
            if rows.is_empty() {
                rows.push([number::UNDEFINED.to_owned(), "0".to_owned(), number::sizes(&[], room)]);
            }
            rows.extend(choice.settings.iter().map(|setting| [String::new(), String::new(), setting.clone()]));
            let made = choice.figures.ladders.iter().filter(|made| !choice.lists.contains(made));
            rows.extend(made.map(|list| whose("engine: ", list)));
        }
        for (index, row) in rows.into_iter().enumerate() {
            let name = if index == 0 { name.clone() } else { String::new() };
            grid.row(std::iter::once(name).chain(row));
        }
    }
    grid.write(sink)
}

/// The proposal beside the current ladders, figure by figure, with the paired difference.
fn comparison(report: &ProposeReport, sink: &mut impl Write) -> io::Result<()> {
    let (current, proposal) = (&report.current, &report.proposal);
    let compared: &[&LadderChoice] = if same(current, proposal) { &[current] } else { &[current, proposal] };
    let mut columns = vec![("", Align::Left), ("current", Align::Right), ("proposal", Align::Right)];
    columns.truncate(1 + compared.len());
    let is_paired =
        compared.len() > 1 && proposal.against_current.as_ref().is_some_and(|pair| !pair.differences.is_empty());
    if is_paired {
        columns.push(("proposal minus current", Align::Left));
    }
    let mut grid = Grid::new(&columns);
    let modes = compared.iter().map(|choice| choice.figures.cudagraph_mode.clone());
    grid.row(std::iter::once("cudagraph_mode".to_owned()).chain(modes));
    for measure in measures(report, compared) {
        let figures: Vec<Figure> = compared.iter().map(|choice| measure.of(choice)).collect();
        let mut row = vec![measure.label().to_owned()];
        row.extend(number::row(&figures, measure.scale()));
        if is_paired {
            let difference = measure.against_current(proposal, current);
            row.push(difference.map_or_else(|| number::UNDEFINED.to_owned(), |words| words.replace('\n', "  ")));
        }
        grid.row(row);
    }
    grid.write(sink)
}

/// The figures of these choices, in the order of the rows.
fn measures(report: &ProposeReport, choices: &[&LadderChoice]) -> Vec<Measure> {
    let first: &[Measure] = if is_of_steps(report) { &[STEP_MEAN] } else { &OF_REQUESTS };
    let worth_a_row = |measure: &&Measure| {
        let figures: Vec<Figure> = choices.iter().map(|choice| measure.of(choice)).collect();
        is_worth_a_row(**measure, &figures)
    };
    first.iter().chain(&OF_GRAPHS).filter(worth_a_row).copied().collect()
}

/// A cause that never occurred says no more than its absence.
fn is_worth_a_row(measure: Measure, figures: &[Figure]) -> bool {
    let is_detail = measure.label().starts_with(' ');
    !is_detail || figures.iter().any(|figure| figure.mean().is_some_and(|mean| mean != 0.0))
}

/// The other choices, figures down, in as many blocks as the width needs.
fn beside(report: &ProposeReport, others: &[&Named<'_>], sink: &mut impl Write) -> io::Result<()> {
    let choices: Vec<&LadderChoice> = others.iter().map(|named| named.choice).collect();
    let mut lines = Vec::new();
    for measure in measures(report, &choices) {
        let figures: Vec<Figure> = choices.iter().map(|choice| measure.of(choice)).collect();
        lines.push(Line { label: measure.label().to_owned(), cells: number::row(&figures, measure.scale()) });
    }
    let names: Vec<&str> = others.iter().map(|named| named.name.as_str()).collect();
    blocks(&names, &lines, sink)
}

/// Paired differences of the other choices from the current ladders.
fn differences(report: &ProposeReport, others: &[&Named<'_>], sink: &mut impl Write) -> io::Result<()> {
    let measures = deciding(report).into_iter().chain([Measure::Figure("p99_ttft_ms")]);
    let is_defined = |measure: &Measure| {
        let pairs = others.iter().filter_map(|named| named.choice.against_current.as_ref());
        pairs.into_iter().any(|pair| pair.differences.contains_key(measure.name()))
    };
    let measures: Vec<Measure> = measures.filter(is_defined).collect();
    if measures.is_empty() {
        return Ok(());
    }
    writeln!(sink)?;
    let mut columns = vec![("minus current, same traffic", Align::Left)];
    columns.extend(measures.iter().map(|measure| (measure.label(), Align::Right)));
    let mut grid = Grid::new(&columns).wrap(0, 14);
    for column in 1..columns.len() {
        grid = grid.wrap(column, DIFFERENCE_WIDTH);
    }
    for named in others {
        let cells = measures.iter().map(|measure| {
            measure.against_current(named.choice, &report.current).unwrap_or_else(|| number::UNDEFINED.to_owned())
        });
        grid.row(std::iter::once(named.name.clone()).chain(cells));
    }
    grid.write(sink)
}
