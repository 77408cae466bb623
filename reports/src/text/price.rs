//! `sim price` as text: expectations down, candidates across, then the rungs.

use std::io::{self, Write};

use super::grid::{Align, Grid};
use super::prose::paragraph;
use super::provenance::provenance;
use super::rungs::mode_and_phase;
use super::{engine_line, number};
use crate::rows::span;
use crate::{EncoderCounts, PriceCandidate, PriceReport, PriceRung, ReplayCounts};

/// Expectations follow exactly from the costs, so they are shown to a millionth.
const DECIMALS: usize = 6;

/// Rungs shown per candidate, those with most steps.
const SHOWN: usize = 12;

/// Candidates side by side in one block.
const ACROSS: usize = 5;

/// Writes the report of `sim price`, warnings left out.
///
/// # Errors
/// The I/O error of the sink, unchanged.
pub fn price(report: &PriceReport, sink: &mut impl Write) -> io::Result<()> {
    writeln!(sink, "{}", report.scenario.name)?;
    paragraph(sink, &engine_line(&report.engine), "", "  ")?;
    for block in report.candidates.chunks(ACROSS) {
        writeln!(sink)?;
        expectations(block, sink)?;
    }
    if report.candidates.iter().any(|candidate| !candidate.losing_batches.is_empty()) {
        writeln!(sink)?;
    }
    for candidate in &report.candidates {
        losing(candidate, sink)?;
    }
    for candidate in report.candidates.iter().filter(|candidate| !candidate.rungs.is_empty()) {
        writeln!(sink)?;
        rungs(candidate, sink)?;
    }
    other_graphs(&report.candidates, sink)?;
    writeln!(sink)?;
    provenance(&report.profile, sink)?;
    writeln!(sink)?;
    paragraph(
        sink,
        "E[x] is a mean over steps, weighted by how often each shape occurs. Four padding figures, four weightings: the \
         first two divide expectations, the last two average a ratio over graph steps.",
        "- ",
        "  ",
    )?;
    paragraph(
        sink,
        "Of a rung, to E[padded] and to E[real] are its parts of the means over all steps; mean padded, exact inside and \
         saving are means over its own steps.",
        "- ",
        "  ",
    )?;
    paragraph(
        sink,
        "Best of both runs eager wherever replay would lose: a bound, not what the engine does.",
        "- ",
        "  ",
    )
}

fn expectations(candidates: &[PriceCandidate], sink: &mut impl Write) -> io::Result<()> {
    let mut columns = vec![("", Align::Left)];
    columns.extend(candidates.iter().map(|candidate| (candidate.name.as_str(), Align::Right)));
    let mut grid = Grid::new(&columns);
    for column in 1..columns.len() {
        grid = grid.wrap(column, 16);
    }
    let mut row = |label: &str, get: &dyn Fn(&PriceCandidate) -> String| {
        grid.row(std::iter::once(label.to_owned()).chain(candidates.iter().map(get)));
    };
    let ms = |value: f64| number::fixed(value, DECIMALS);
    let option = |value: Option<f64>| number::option(value, DECIMALS);
    row("Expected step, ms", &|_| String::new());
    row("  eager", &|c| option(c.step_ms.eager));
    if candidates.iter().any(|candidate| candidate.step_ms.compiled_eager.is_some()) {
        row("  compiled eager", &|c| option(c.step_ms.compiled_eager));
    }
    row("  graphs as dispatched", &|c| ms(c.step_ms.graph));
    row("  best of both", &|c| ms(c.step_ms.best_of_both));
    row("Saving", &|_| String::new());
    row("  against", &|c| c.saving_against.to_string());
    row("  graphs as dispatched, ms", &|c| ms(c.saving_graph.ms));
    row("  graphs as dispatched, %", &|c| ms(c.saving_graph.percent));
    row("  best of both, ms", &|c| ms(c.saving_best_of_both.ms));
    row("  best of both, %", &|c| ms(c.saving_best_of_both.percent));
    row("Rows per step", &|_| String::new());
    row("  E[batch], all steps", &|c| ms(c.mean_batch_rows));
    row("  E[rung], graph steps", &|c| option(c.mean_rung_rows));
    row("  E[padded rows], all steps", &|c| ms(c.mean_padded_rows));
    row("Padding", &|_| String::new());
    row("  E[padded] / E[real]", &|c| option(c.padding_ratio));
    row("  E[padded] / E[rows run]", &|c| option(c.waste_share));
    row("  E[padded / batch]", &|c| option(c.mean_padding_over_batch));
    row("  E[padded / rung]", &|c| option(c.mean_padding_over_rung));
    row("  break-even, padded rows", &|c| option(c.break_even_padded_rows));
    row("Shares", &|_| String::new());
    row("  exact hits, of graph steps", &|c| option(c.exact_hit_rate));
    row("  no graph, of steps", &|c| ms(c.fallback_rate));
    row("  replay loses, of steps", &|c| ms(c.losing_share));
    row("  outside the range, of steps", &|c| ms(c.outside_range_share));
    grid.write(sink)
}

fn losing(candidate: &PriceCandidate, sink: &mut impl Write) -> io::Result<()> {
    if candidate.losing_batches.is_empty() {
        return Ok(());
    }
    let batches: Vec<String> = candidate.losing_batches.iter().map(|range| span(*range)).collect();
    let one = matches!(candidate.losing_batches[..], [[first, last]] if first == last);
    let noun = if one { "batch" } else { "batches" };
    paragraph(sink, &format!("{}: replay loses at {noun} {}", candidate.name, batches.join(", ")), "", "  ")
}

fn rungs(candidate: &PriceCandidate, sink: &mut impl Write) -> io::Result<()> {
    let columns = [
        (candidate.name.as_str(), Align::Left),
        ("rung", Align::Right),
        ("of steps", Align::Right),
        ("mean padded", Align::Right),
        ("exact inside", Align::Right),
        ("to E[padded]", Align::Right),
        ("to E[real]", Align::Right),
        ("saving, ms", Align::Right),
    ];
    let mut shown: Vec<&PriceRung> = candidate.rungs.iter().collect();
    shown.sort_by(|a, b| b.share_of_steps.total_cmp(&a.share_of_steps));
    shown.truncate(SHOWN);
    let mut grid = Grid::new(&columns).wrap(0, 24);
    for rung in candidate.rungs.iter().filter(|rung| shown.iter().any(|other| std::ptr::eq(*other, *rung))) {
        grid.row([
            mode_and_phase(&rung.mode, rung.phase.as_deref()),
            rung.size.to_string(),
            number::fixed(rung.share_of_steps, DECIMALS),
            number::option(rung.mean_padded_rows, DECIMALS),
            number::option(rung.exact_share, DECIMALS),
            number::fixed(rung.padded_rows, DECIMALS),
            number::fixed(rung.real_rows, DECIMALS),
            number::option(rung.mean_saving_ms, DECIMALS),
        ]);
    }
    grid.write(sink)?;
    if candidate.rungs.len() > SHOWN {
        writeln!(sink, "The {SHOWN} rungs with most steps of {}; all are in --format json.", candidate.rungs.len())?;
    }
    Ok(())
}

/// Graphs of the encoder and of replay layers, of the candidates whose steps concern them.
fn other_graphs(candidates: &[PriceCandidate], sink: &mut impl Write) -> io::Result<()> {
    if candidates.iter().all(|candidate| candidate.encoder.is_none() && candidate.decoder_replay.is_none()) {
        return Ok(());
    }
    writeln!(sink)?;
    let caveat =
        "Encoder and decoder-replay graphs are counted over all steps, not priced: no profile has figures for them.";
    paragraph(sink, caveat, "", "  ")?;
    for candidate in candidates {
        if let Some(counts) = &candidate.encoder {
            writeln!(sink)?;
            encoder(&candidate.name, counts, sink)?;
        }
        if let Some(counts) = &candidate.decoder_replay {
            writeln!(sink)?;
            replay(&candidate.name, counts, sink)?;
        }
    }
    Ok(())
}

fn encoder(name: &str, counts: &EncoderCounts, sink: &mut impl Write) -> io::Result<()> {
    let columns = [
        (name, Align::Left),
        ("batches", Align::Right),
        ("images", Align::Right),
        ("tokens", Align::Right),
        ("padded", Align::Right),
        ("of tokens run", Align::Right),
    ];
    let mut grid = Grid::new(&columns).wrap(0, 24);
    for budget in counts.budgets.iter().filter(|budget| budget.batches > 0) {
        let figures = [budget.batches, budget.images, budget.real_tokens, budget.padded_tokens].map(number::count);
        let share = waste(budget.real_tokens, budget.padded_tokens);
        grid.row([format!("encoder budget {}", budget.budget)].into_iter().chain(figures).chain([share]));
    }
    let with_graph = counts.images - counts.images_without_graph;
    let figures = [counts.batches, with_graph, counts.real_tokens, counts.padded_tokens].map(number::count);
    let all = ["all budgets".to_owned()].into_iter().chain(figures);
    grid.row(all.chain([number::option(counts.waste_share, DECIMALS)]));
    let without = number::count(counts.images_without_graph);
    let dash = || number::UNDEFINED.to_owned();
    grid.row(["no graph".to_owned(), dash(), without, dash(), dash(), dash()]);
    grid.write(sink)
}

fn replay(name: &str, counts: &ReplayCounts, sink: &mut impl Write) -> io::Result<()> {
    let columns = [
        (name, Align::Left),
        ("batches", Align::Right),
        ("tokens", Align::Right),
        ("padded", Align::Right),
        ("of tokens run", Align::Right),
    ];
    let mut grid = Grid::new(&columns).wrap(0, 24);
    for size in counts.sizes.iter().filter(|size| size.batches > 0) {
        let figures = [size.batches, size.real_tokens, size.padded_tokens].map(number::count);
        let share = waste(size.real_tokens, size.padded_tokens);
        grid.row([format!("replay size {}", size.size)].into_iter().chain(figures).chain([share]));
    }
    let figures = [counts.batches, counts.real_tokens, counts.padded_tokens].map(number::count);
    let all = ["all sizes".to_owned()].into_iter().chain(figures);
    grid.row(all.chain([number::option(counts.waste_share, DECIMALS)]));
    let dash = || number::UNDEFINED.to_owned();
    let without = match &counts.off {
        Some(reason) => format!("no graph ({reason})"),
        None => "no graph".to_owned(),
    };
    grid.row([without, number::count(counts.batches_without_graph), dash(), dash(), dash()]);
    grid.row(["inside the FULL graph".to_owned(), number::count(counts.full_graph_steps), dash(), dash(), dash()]);
    grid.write(sink)?;
    let trimmed = format!(
        "{} steps are trimmed, by {} tokens in all.",
        number::count(counts.trimmed_steps),
        number::count(counts.trimmed_tokens)
    );
    paragraph(sink, &trimmed, "", "  ")?;
    if counts.unsettled_steps > 0 {
        let unsettled = format!(
            "{} steps are in none of these: their rows leave open how long the queries beside the longest are, and so \
             what trimming keeps. Give rows with one long query each.",
            number::count(counts.unsettled_steps)
        );
        paragraph(sink, &unsettled, "", "  ")?;
    }
    Ok(())
}

/// Padded tokens over tokens run.
fn waste(real_tokens: u64, padded_tokens: u64) -> String {
    number::fixed(padded_tokens as f64 / (real_tokens as f64 + padded_tokens as f64), DECIMALS)
}
