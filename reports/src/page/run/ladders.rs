//! What each rung did.

use std::io;

use super::{DRAWN_MOST, named, others};
use crate::page::chart::{self, RungBar};
use crate::page::document::{Block, Figure, Section, Table};
use crate::text::{number, rungs};
use crate::{RunReport, RungReport, Scale};

/// The section.
pub(super) fn section(report: &RunReport) -> io::Result<Section> {
    let mut blocks = Vec::new();
    for (place, candidate) in report.candidates.iter().enumerate() {
        let (name, is_drawn) = (named(place, candidate), place < DRAWN_MOST);
        if candidate.rungs.is_empty() {
            blocks.push(Block::Text(format!("{name}: no graph was captured, so there is no ladder.")));
            continue;
        }
        blocks.push(Block::Text(format!("{name}: {}.", rungs::in_words(candidate))));
        // Each kind of rungs has a chart of its own: where one serves decodes, the other prompts, steps differ by far.
        let mut kinds: Vec<&[RungReport]> =
            candidate.rungs.chunk_by(|one, next| rungs::kind(one) == rungs::kind(next)).collect();
        kinds.sort_by(|one, other| steps(other).total_cmp(&steps(one)));
        for kind in kinds.into_iter().filter(|kind| steps(kind) > 0.0) {
            let figure = figure(&name, kind)?;
            blocks.push(if is_drawn { Block::Figure(Box::new(figure)) } else { Block::Table(figure.table) });
        }
    }
    blocks.extend(others(report));
    Ok(Section::new("Ladders: which rungs served, padded, won and lost", blocks))
}

fn steps(kind: &[RungReport]) -> f64 {
    kind.iter().filter_map(|rung| rung.steps.mean()).sum()
}

fn figure(name: &str, ladder: &[RungReport]) -> io::Result<Figure> {
    let bars: Vec<RungBar> = ladder.iter().map(bar).collect();
    let kind = rungs::kind(&ladder[0]);
    Ok(Figure {
        caption: format!("{kind} rungs of {name}."),
        description:
            "Steps on each rung, the share of padding among their rows, and the milliseconds that replay won or lost \
                      against the eager kind."
                .to_owned(),
        svg: chart::ladder(&bars)?,
        table: table(&format!("{kind} rungs of {name} that served"), ladder),
    })
}

fn bar(rung: &RungReport) -> RungBar {
    let mean = |figure: &crate::Figure| figure.mean().unwrap_or(0.0);
    let exact = mean(&rung.exact_steps);
    RungBar {
        size: rung.size,
        exact,
        padded: (mean(&rung.steps) - exact).max(0.0),
        real_rows: mean(&rung.real_rows),
        padded_rows: mean(&rung.padded_rows),
        saved_ms: mean(&rung.saved_ms),
    }
}

/// Rungs that served, one a line.
fn table(caption: &str, ladder: &[RungReport]) -> Table {
    let columns =
        ["rung, tokens", "steps", "exact steps", "real rows", "padded rows", "padded / real, %", "saved by replay, ms"];
    let mut table = Table::new(caption, &columns);
    for rung in ladder.iter().filter(|rung| rung.steps.mean() > Some(0.0)) {
        let figure = |figure: &crate::Figure| number::row(&[*figure], Scale::Plain).concat();
        let ratio = rung.padded_rows.mean().zip(rung.real_rows.mean()).map(|(padded, real)| 100.0 * padded / real);
        table.row([
            rung.size.to_string(),
            figure(&rung.steps),
            figure(&rung.exact_steps),
            figure(&rung.real_rows),
            figure(&rung.padded_rows),
            number::option(ratio, 2),
            figure(&rung.saved_ms),
        ]);
    }
    table
}
