//! Rows of steps over the time of a run, with the ceiling, and where steps ran without a graph.

use std::io;

use super::axis::Axis;
use super::legend::{self, Entry};
use super::palette::{BAND, EAGER, EAGER_OTHER, LIMIT, series};
use super::panel::{Anchor, Panel};
use super::{Svg, canvas};
use crate::Timeline;

/// Units of the rows, of the steps without a graph, and of the queue.
const PARTS: [i32; 3] = [230, 110, 130];

/// Draws the timeline of one candidate; `ceiling` is its largest captured size.
///
/// # Errors
/// That of the drawing.
pub(in crate::page) fn timeline(timeline: &Timeline, ceiling: Option<u32>) -> io::Result<Svg> {
    let bins = &timeline.bins;
    let end = bins.last().map_or(1.0, |bin| bin.start_s + timeline.bin_s);
    let most_rows = bins.iter().map(|bin| bin.max_rows).max().unwrap_or(1).max(ceiling.unwrap_or(1));
    let entries = {
        let mut entries = vec![Entry::line(series(0), "mean rows of a step"), Entry::fill(BAND, "up to the most rows")];
        entries.extend(ceiling.map(|_| Entry::line(LIMIT, "ceiling")));
        entries.push(Entry::fill(EAGER, "no graph: above the ceiling"));
        if bins.iter().any(|bin| bin.no_graph > bin.above_ceiling) {
            entries.push(Entry::fill(EAGER_OTHER, "no graph: other causes"));
        }
        entries.push(Entry::line(series(2), "running, most"));
        entries.push(Entry::line(series(1), "waiting, most"));
        entries
    };
    let above = legend::height(&entries);
    let x = Axis::linear("simulated time, s", [0.0, end], 10).cut(end);
    canvas(above + PARTS.iter().sum::<i32>(), |area| {
        legend::draw(area, &entries)?;
        let (_, rest) = area.split_vertically(above);
        let (rows, rest) = rest.split_vertically(PARTS[0]);
        let (eager, queue) = rest.split_vertically(PARTS[1]);
        let y = Axis::doublings("rows of a step (equal room for each doubling)", f64::from(most_rows) * 1.3).thinned(8);
        let mut panel = Panel::new(&rows, x.bare(), y)?;
        for stretch in bins.split(|bin| bin.steps == 0) {
            let middle = |start: f64| start + timeline.bin_s / 2.0;
            let band: Vec<(f64, f64, f64)> = stretch
                .iter()
                .filter_map(|bin| Some((middle(bin.start_s), bin.mean_rows?, f64::from(bin.max_rows))))
                .collect();
            if band.len() > 1 {
                panel.band(&band, BAND)?;
                panel.line(&band.iter().map(|&(x, mean, _)| (x, mean)).collect::<Vec<_>>(), series(0), 2)?;
            }
            if let [(x, mean, most)] = band[..] {
                let half = timeline.bin_s / 2.0;
                panel.bar([x - half, x + half], [mean, most], BAND)?;
                panel.line(&[(x - half, mean), (x + half, mean)], series(0), 2)?;
            }
        }
        if let Some(ceiling) = ceiling {
            panel.level(f64::from(ceiling), LIMIT, 2)?;
            panel.text((end, f64::from(ceiling)), (-4, -8), &format!("ceiling {ceiling}"), LIMIT, Anchor::Left)?;
        }
        let share = |part: u64, whole: u64| if whole > 0 { 100.0 * part as f64 / whole as f64 } else { 0.0 };
        let mut panel = Panel::new(&eager, x.bare(), Axis::from_zero("steps without a graph, %", 100.0, 2))?;
        for bin in bins {
            let across = [bin.start_s, (bin.start_s + timeline.bin_s).min(end)];
            let (above, all) = (share(bin.above_ceiling, bin.steps), share(bin.no_graph, bin.steps));
            panel.bar(across, [0.0, above], EAGER)?;
            panel.bar(across, [above, all], EAGER_OTHER)?;
        }
        let most = bins.iter().map(|bin| bin.max_running.max(bin.max_waiting)).max().unwrap_or(1);
        let mut panel = Panel::new(&queue, x.clone(), Axis::from_zero("requests", f64::from(most), 3))?;
        let line = |of: &dyn Fn(&crate::TimelineBin) -> u32| -> Vec<(f64, f64)> {
            // Without a step nothing was counted.
            let counted = bins.iter().filter(|bin| bin.steps > 0);
            counted.map(|bin| (bin.start_s + timeline.bin_s / 2.0, f64::from(of(bin)))).collect()
        };
        panel.line(&line(&|bin| bin.max_running), series(2), 2)?;
        panel.line(&line(&|bin| bin.max_waiting), series(1), 2)
    })
}
