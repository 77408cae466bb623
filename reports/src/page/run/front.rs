//! What candidates give against what they take.

use std::io;

use super::named;
use crate::figures::figure;
use crate::page::chart::{Alternative, front, is_on_front};
use crate::page::document::{Block, Figure, Section, Table};
use crate::page::letter;
use crate::text::number;
use crate::{CandidateReport, Figure as Value, RunReport};

const BYTES_PER_GIB: f64 = (1_u64 << 30) as f64;

/// The section.
pub(super) fn section(report: &RunReport) -> io::Result<Section> {
    Ok(Section::new("Pareto front: service against memory and start-up", charts(&report.candidates)?))
}

/// A chart for memory and one for start-up, or why there is none.
pub(in crate::page) fn charts(candidates: &[CandidateReport]) -> io::Result<Vec<Block>> {
    let goodput = candidates.iter().all(|candidate| candidate.request_goodput.mean().is_some());
    let (name, what) = if goodput { ("request_goodput", "goodput") } else { ("request_throughput", "throughput") };
    let gain = figure(name);
    let prices: [(&str, &str, f64); 2] =
        [("graph_memory_bytes", "graph memory, GiB", BYTES_PER_GIB), ("startup_s", "start-up, s", 1.0)];
    let mut blocks = Vec::new();
    for (price_name, axis, unit) in prices {
        let price = figure(price_name);
        let alternatives: Vec<Alternative> = candidates
            .iter()
            .enumerate()
            .filter_map(|(place, candidate)| {
                Some(Alternative {
                    letter: letter(place),
                    name: candidate.name.clone(),
                    place,
                    price: (price.get)(candidate).mean()? / unit,
                    gain: (gain.get)(candidate).mean()?,
                    interval: match (gain.get)(candidate) {
                        Value::Interval(interval) => Some([interval.low, interval.high]),
                        _ => None,
                    },
                })
            })
            .collect();
        if alternatives.is_empty() {
            blocks.push(Block::Text(format!("No candidate has both {what} and {axis}.")));
            continue;
        }
        let columns = ["candidate", axis, gain.label, "on the front"];
        let mut table = Table::new(format!("{what} by {axis}"), &columns);
        for one in &alternatives {
            let on = if is_on_front(&alternatives, one) { "yes" } else { "no" };
            table.row([
                named(one.place, &candidates[one.place]),
                number::fixed(one.price, 2),
                number::row(&[*(gain.get)(&candidates[one.place])], gain.scale).concat(),
                on.to_owned(),
            ]);
        }
        let best = alternatives.iter().filter(|one| is_on_front(&alternatives, one));
        let best: Vec<String> = best.map(|one| format!("{} {}", one.letter, one.name)).collect();
        blocks.push(Block::Figure(Box::new(Figure {
            caption: format!("{}{} against {axis}.", what[..1].to_uppercase(), &what[1..]),
            description: format!(
                "Up and to the left is better. On the front, by the means alone: {}. Upright lines are 95 % intervals, where \
                 there are several seeds.",
                best.join(", ")
            ),
            svg: front(axis, gain.label, &alternatives)?,
            table,
        })));
    }
    Ok(blocks)
}
