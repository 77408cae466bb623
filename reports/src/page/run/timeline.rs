//! Batch size over time.

use std::io;

use super::{RunPage, drawn, named, others};
use crate::page::chart;
use crate::page::document::{Block, Figure, Section, Table};
use crate::text::number;
use crate::{CandidateReport, Timeline, TimelineBin};

/// Bins of the chart, and lines of the table below it; each holds some bins of the history.
const DRAWN_MOST: usize = 256;
const LINES_MOST: usize = 64;

/// The section.
pub(super) fn section(page: &RunPage<'_>) -> io::Result<Section> {
    let mut blocks = Vec::new();
    match &page.history {
        Err(missing) => blocks.push(Block::Missing(missing.clone())),
        Ok(history) => {
            for (place, candidate) in drawn(page.report) {
                let found = history.candidates.iter().find(|history| history.candidate == candidate.name);
                if let Some(history) = found.filter(|history| !history.timeline.bins.is_empty()) {
                    blocks.push(Block::Figure(Box::new(figure(place, candidate, &history.timeline)?)));
                }
            }
            blocks.extend(others(page.report));
        }
    }
    Ok(Section::new("Batch size over time", blocks))
}

fn figure(place: usize, candidate: &CandidateReport, timeline: &Timeline) -> io::Result<Figure> {
    let timeline = &merged(timeline, DRAWN_MOST);
    let ceiling = candidate.capture_sizes.last().copied();
    let total = |of: fn(&TimelineBin) -> u64| timeline.bins.iter().map(of).fold(0, u64::saturating_add);
    let causes = match (total(|bin| bin.no_graph), total(|bin| bin.above_ceiling)) {
        (0, _) => "every step ran on a graph".to_owned(),
        (no_graph, 0) => format!(
            "{} of {} steps ran without a graph",
            number::count(no_graph),
            number::count(total(|bin| bin.steps))
        ),
        (no_graph, above) => format!(
            "{} of {} steps ran without a graph, {} of them above the ceiling",
            number::count(no_graph),
            number::count(total(|bin| bin.steps)),
            number::count(above)
        ),
    };
    Ok(Figure {
        caption: format!("Seed {} of {} over time.", timeline.seed, named(place, candidate)),
        description: format!(
            "Mean and most rows of the steps in each {} s, the share of steps without a graph, and the queue; {causes}.",
            number::fixed(timeline.bin_s, if timeline.bin_s < 1.0 { 3 } else { 1 })
        ),
        svg: chart::timeline(timeline, ceiling)?,
        table: table(place, candidate, timeline),
    })
}

fn table(place: usize, candidate: &CandidateReport, timeline: &Timeline) -> Table {
    let columns = [
        "from, s",
        "steps",
        "rows, mean",
        "rows, most",
        "without a graph",
        "above the ceiling",
        "running, most",
        "waiting, most",
        "KV in use, most, %",
        "preempted",
    ];
    let mut table = Table::new(format!("Seed {} of {}", timeline.seed, named(place, candidate)), &columns);
    for bin in merged(timeline, LINES_MOST).bins {
        table.row([
            number::fixed(bin.start_s, 2),
            number::count(bin.steps),
            number::option(bin.mean_rows, 1),
            number::count(bin.max_rows.into()),
            number::count(bin.no_graph),
            number::count(bin.above_ceiling),
            number::count(bin.max_running.into()),
            number::count(bin.max_waiting.into()),
            number::fixed(100.0 * bin.max_kv_share, 1),
            number::count(bin.preempted),
        ]);
    }
    table
}

/// The same run in at most so many bins.
fn merged(timeline: &Timeline, most: usize) -> Timeline {
    let share = timeline.bins.len().div_ceil(most).max(1);
    let bins = timeline.bins.chunks(share).map(together).collect();
    Timeline { bin_s: timeline.bin_s * share as f64, bins, ..*timeline }
}

fn together(bins: &[TimelineBin]) -> TimelineBin {
    let sum = |of: fn(&TimelineBin) -> u64| bins.iter().map(of).fold(0, u64::saturating_add);
    let most = |of: fn(&TimelineBin) -> u32| bins.iter().map(of).max().unwrap_or(0);
    let steps = sum(|bin| bin.steps);
    let rows = bins.iter().filter_map(|bin| Some(bin.mean_rows? * bin.steps as f64)).sum::<f64>();
    TimelineBin {
        start_s: bins[0].start_s,
        steps,
        mean_rows: (steps > 0).then(|| rows / steps as f64),
        max_rows: most(|bin| bin.max_rows),
        no_graph: sum(|bin| bin.no_graph),
        above_ceiling: sum(|bin| bin.above_ceiling),
        max_running: most(|bin| bin.max_running),
        max_waiting: most(|bin| bin.max_waiting),
        max_kv_share: bins.iter().map(|bin| bin.max_kv_share).fold(0.0, f64::max),
        preempted: sum(|bin| bin.preempted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_bins_hold_the_same_steps() {
        let bin = |at: u32| TimelineBin {
            start_s: f64::from(at),
            steps: u64::from(at % 3),
            mean_rows: (!at.is_multiple_of(3)).then(|| f64::from(at)),
            max_rows: at,
            no_graph: u64::from(at % 2),
            above_ceiling: 0,
            max_running: at,
            max_waiting: 0,
            max_kv_share: 0.5,
            preempted: 1,
        };
        let timeline = Timeline { seed: 1, bin_s: 1.0, bins: (0..10).map(bin).collect() };
        let merged = merged(&timeline, 4);
        assert_eq!((merged.bins.len(), merged.bin_s), (4, 3.0));
        assert_eq!(merged.bins.iter().map(|bin| bin.steps).sum::<u64>(), 9);
        assert_eq!(merged.bins[0].mean_rows, Some(5.0 / 3.0), "one step of 1 row, two of 2");
        assert_eq!(merged.bins[3].mean_rows, None, "no steps, no mean");
        assert_eq!((merged.bins[3].start_s, merged.bins[3].max_rows), (9.0, 9));
    }
}
