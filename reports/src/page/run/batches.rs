//! Batch sizes over the padding staircase, with the rungs.

use std::io;

use super::{RunPage, drawn, named, others};
use crate::page::Staircase;
use crate::page::chart::{BatchBar, Batches};
use crate::page::document::{Block, Figure, Section, Table};
use crate::text::number;
use crate::{CandidateHistory, CandidateReport};

/// The near view shows at least so many rows.
const NEAR_LEAST: u32 = 32;
/// And no more than this: beyond, single rows are narrower than a pixel.
const NEAR_MOST: u32 = 512;

/// The section.
pub(super) fn section(page: &RunPage<'_>) -> io::Result<Section> {
    let mut blocks = Vec::new();
    let staircase = match &page.staircase {
        Ok(Some(staircase)) => staircase.clone(),
        Ok(None) => {
            blocks.push(Block::Text("The profile has no table of dense work, so there is no staircase.".to_owned()));
            Staircase::default()
        }
        Err(missing) => {
            blocks.push(Block::Missing(format!("the padding staircase: {missing}")));
            Staircase::default()
        }
    };
    match &page.history {
        Err(missing) => blocks.push(Block::Missing(format!("batch sizes: {missing}"))),
        Ok(history) => {
            for (place, candidate) in drawn(page.report) {
                let found = history.candidates.iter().find(|history| history.candidate == candidate.name);
                if let Some(history) = found.filter(|history| !history.batches.is_empty()) {
                    let of_candidate = Charts { place, candidate, bars: bars(history), staircase: &staircase };
                    blocks.push(Block::Figure(Box::new(of_candidate.near()?)));
                    // Without rungs the view of all sizes says nothing that another candidate's does not.
                    if !candidate.capture_sizes.is_empty() {
                        blocks.push(Block::Figure(Box::new(of_candidate.whole()?)));
                    }
                }
            }
            blocks.extend(others(page.report));
        }
    }
    if !staircase.knots.is_empty() {
        blocks.push(Block::Folded("The staircase in figures".to_owned(), vec![Block::Table(knots(&staircase))]));
    }
    Ok(Section::new("Batch sizes over the padding staircase", blocks))
}

/// One candidate's charts.
struct Charts<'a> {
    place: usize,
    candidate: &'a CandidateReport,
    bars: Vec<BatchBar>,
    staircase: &'a Staircase,
}

impl Charts<'_> {
    fn batches<'b>(&'b self, knots: &'b [[f64; 2]], edges: &'b [f64], up_to: Option<u32>) -> Batches<'b> {
        Batches { bars: &self.bars, rungs: &self.candidate.capture_sizes, knots, edges, up_to }
    }

    /// The rows that decode steps have, row by row.
    fn near(&self) -> io::Result<Figure> {
        let decodes = self.candidate.max_decode_rows.mean().unwrap_or(0.0);
        let last = ((decodes * 1.15).ceil() as u32).clamp(NEAR_LEAST, NEAR_MOST);
        let edges = self.edges();
        let batches = self.batches(&self.staircase.knots, &edges, Some(last));
        Ok(Figure {
            caption: format!("Batches up to {last} rows of {}, row by row.", named(self.place, self.candidate)),
            description: format!(
                "Below, the steps by their rows before padding. {}{}",
                self.over(),
                if self.candidate.capture_sizes.is_empty() { "" } else { " A step pays for the rung above it." }
            ),
            svg: batches.draw()?,
            table: table(&batches, &format!("Steps of up to {last} rows of {}", named(self.place, self.candidate))),
        })
    }

    /// All rows, with as much room for each doubling.
    fn whole(&self) -> io::Result<Figure> {
        let edges = self.edges();
        let batches = self.batches(&self.staircase.knots, &edges, None);
        Ok(Figure {
            caption: format!("All batches of {}.", named(self.place, self.candidate)),
            description: format!(
                "The same up to the largest step, with as much room for each doubling: decodes to the left, chunks of \
                 prompts to the right. {}",
                self.over()
            ),
            svg: batches.draw()?,
            table: table(&batches, &format!("All steps of {}", named(self.place, self.candidate))),
        })
    }

    fn over(&self) -> &'static str {
        match (self.staircase.knots.is_empty(), self.candidate.capture_sizes.is_empty()) {
            (true, _) => "Marks under the axis are rungs.",
            (false, true) => "Above, what their rows cost on the device; dotted lines are edges.",
            (false, false) => {
                "Above, what their rows cost on the device: thin upright lines are rungs, dotted ones edges, after which one \
                 row more costs a jump."
            }
        }
    }

    fn edges(&self) -> Vec<f64> {
        self.staircase.edges.iter().map(|edge| edge.below).collect()
    }
}

fn table(batches: &Batches<'_>, caption: &str) -> Table {
    let mut table = Table::new(caption, &["rows before padding", "exact", "padded", "without a graph"]);
    for (rows, bar) in batches.figures() {
        table.row([rows].into_iter().chain([bar.exact, bar.padded, bar.eager].map(|steps| number::fixed(steps, 0))));
    }
    table
}

fn bars(history: &CandidateHistory) -> Vec<BatchBar> {
    let mut bars: Vec<BatchBar> = Vec::new();
    for batch in &history.batches {
        if bars.last().is_none_or(|bar| bar.rows != batch.rows) {
            bars.push(BatchBar { rows: batch.rows, exact: 0.0, padded: 0.0, eager: 0.0 });
        }
        let Some(bar) = bars.last_mut() else { continue };
        let steps = batch.steps as f64;
        match (batch.rung, batch.padded_rows) {
            (None, _) => bar.eager += steps,
            (Some(_), 0) => bar.exact += steps,
            (Some(_), _) => bar.padded += steps,
        }
    }
    bars
}

fn knots(staircase: &Staircase) -> Table {
    let mut table = Table::new("Dense work of a step on the device", &["rows", "ms", "edge after it, us", "edge, %"]);
    for [rows, us] in &staircase.knots {
        let edge = staircase.edges.iter().find(|edge| (edge.below - rows).abs() < 0.5);
        table.row([
            number::fixed(*rows, 0),
            number::fixed(us / 1e3, 3),
            edge.map_or_else(String::new, |edge| number::fixed(edge.jump_us, 1)),
            edge.map_or_else(String::new, |edge| number::fixed(edge.percent, 1)),
        ]);
    }
    table
}
