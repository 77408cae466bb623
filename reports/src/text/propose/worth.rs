//! What each rung of the proposal is worth: the proposal with it minus the proposal without it.

use std::io::{self, Write};

use super::choices::same;
use super::measure::{Measure, column, first_verdict};
use super::{deciding, number};
use crate::text::WIDTH;
use crate::text::grid::{Align, GAP, Grid};
use crate::text::prose::paragraph;
use crate::{ProposeReport, RungWorth, Verdict, rows};

/// Rungs shown, those with most steps.
const SHOWN: usize = 32;

/// Columns of a difference: on one line whatever its decimals, or where there is no room wrapped before its interval.
const WORTH_WIDTHS: [usize; 2] = [15, 19];

/// Columns of the headings that wrap at each word: of steps, of those that decode, of memory.
const SHARE_WIDTH: usize = 6;
const DECODE_WIDTH: usize = 7;
const MEMORY_WIDTH: usize = 7;

/// Characters of sizes in a sentence.
const SIZES_ROOM: usize = 80;

/// Writes the rungs of the proposal, if it has any.
pub(super) fn rungs(report: &ProposeReport, sink: &mut impl Write) -> io::Result<()> {
    if report.rungs.is_empty() {
        return Ok(());
    }
    writeln!(sink)?;
    let (whose, whole) = if same(&report.current, &report.proposal) {
        ("current ladders", "the ladders")
    } else {
        ("proposal", "the proposal")
    };
    let line = format!("Rungs of the {whose}, by what they are worth: {whole} with the rung minus {whole} without it.");
    paragraph(sink, &line, "", "  ")?;
    let mut shown: Vec<&RungWorth> = report.rungs.iter().collect();
    shown.sort_by(|a, b| b.share_of_steps.total_cmp(&a.share_of_steps));
    shown.truncate(SHOWN);
    let is_shown = |rung: &&RungWorth| shown.iter().any(|other| std::ptr::eq(*other, *rung));
    let shown: Vec<&RungWorth> = report.rungs.iter().filter(is_shown).collect();
    let is_known = |measure: &Measure| report.rungs.iter().any(|rung| measure.worth(rung).is_some());
    let measures: Vec<Measure> = deciding(report).into_iter().filter(is_known).collect();
    table(&shown, &measures, sink)?;
    if shown.len() < report.rungs.len() {
        writeln!(sink, "The {SHOWN} rungs with most steps of {}; all are in --format json.", report.rungs.len())?;
    }
    if measures.is_empty() {
        let line = "What a rung is worth is not known here.";
        return paragraph(sink, line, "", "  ");
    }
    verdicts(&report.rungs, &measures, sink)
}

fn table(rungs: &[&RungWorth], measures: &[Measure], sink: &mut impl Write) -> io::Result<()> {
    let mut columns = vec![
        ("rung", Align::Left),
        ("size", Align::Right),
        ("% of steps", Align::Right),
        ("rows", Align::Right),
        ("decode, % of them", Align::Right),
    ];
    columns.extend(measures.iter().map(|measure| (measure.label(), Align::Right)));
    columns.push(("graphs, MiB", Align::Right));
    let width = worth_width(rungs, measures.len());
    let mut grid = Grid::new(&columns).wrap(2, SHARE_WIDTH).wrap(4, DECODE_WIDTH);
    for index in 0..measures.len() {
        grid = grid.wrap(5 + index, width);
    }
    grid = grid.wrap(5 + measures.len(), MEMORY_WIDTH);
    let worth: Vec<Vec<String>> = measures
        .iter()
        .map(|measure| {
            let differences: Vec<_> = rungs.iter().map(|rung| measure.worth(rung)).collect();
            column(&differences, measure.scale())
        })
        .collect();
    let percent = |share: f64| number::fixed(100.0 * share, 2);
    for (index, rung) in rungs.iter().enumerate() {
        let mut row = vec![
            rung.phase.to_string(),
            rung.size.to_string(),
            percent(rung.share_of_steps),
            rows_of(rung),
            rung.decode_share.map_or_else(|| number::UNDEFINED.to_owned(), percent),
        ];
        row.extend(worth.iter().map(|column| column[index].clone()));
        row.push(number::fixed(rung.memory_bytes as f64 / f64::from(1 << 20), 1));
        grid.row(row);
    }
    grid.write(sink)
}

/// What the other columns leave for each difference.
fn worth_width(rungs: &[&RungWorth], measures: usize) -> usize {
    let longest = |cell: fn(&RungWorth) -> String| rungs.iter().map(|rung| cell(rung).len()).max().unwrap_or(0).max(4);
    let words = longest(|rung| rung.phase.to_string()) + longest(|rung| rung.size.to_string()) + longest(rows_of);
    let others = words + SHARE_WIDTH + DECODE_WIDTH + MEMORY_WIDTH + 5 * GAP;
    let [least, most] = WORTH_WIDTHS;
    // A grid wraps only what is longer than its width by more than the gap.
    (WIDTH.saturating_sub(others) / measures.max(1)).saturating_sub(2 * GAP).clamp(least, most)
}

fn rows_of(rung: &RungWorth) -> String {
    rung.rows.map_or_else(|| number::UNDEFINED.to_owned(), rows::span)
}

/// Rungs that the proposal would not miss, by name.
fn verdicts(rungs: &[RungWorth], measures: &[Measure], sink: &mut impl Write) -> io::Result<()> {
    let sayings = [
        (Verdict::NotDistinguishable, "Worth not distinguishable from zero"),
        (Verdict::Equal, "Worth nothing, all is the same without"),
        (Verdict::Worse, "Better without"),
    ];
    for (verdict, saying) in sayings {
        let said =
            |rung: &&RungWorth| first_verdict(measures.iter().map(|measure| measure.worth(rung))) == Some(verdict);
        let found: Vec<&RungWorth> = rungs.iter().filter(said).collect();
        if !found.is_empty() {
            paragraph(sink, &format!("{saying}: {}.", by_phase(&found)), "", "  ")?;
        }
    }
    Ok(())
}

/// `decode 8 16, prefill 512`; the sizes alone where every step pads to the same ones.
fn by_phase(rungs: &[&RungWorth]) -> String {
    let each = |group: &[&RungWorth]| {
        let sizes: Vec<u32> = group.iter().map(|rung| rung.size).collect();
        let sizes = number::sizes(&sizes, SIZES_ROOM);
        if group[0].phase == "all" { sizes } else { format!("{} {sizes}", group[0].phase) }
    };
    let groups: Vec<String> = rungs.chunk_by(|a, b| a.phase == b.phase).map(each).collect();
    groups.join(", ")
}
