//! Device memory of executable graphs, by making the same graph executable again and again.
//!
//! Free memory moves in granules of 2 MiB or more, and drivers take some beforehand, so that one reading says nothing: so
//! many executables are made, none given back, that the growth is many granules, and a line is laid through the readings
//! (GPU specification section 4).

use std::time::Duration;

use kernels::step::Place;
use kernels::units::{Bytes, Rows};

use super::bench::{Bench, Campaigns, Probed};
use super::error::ProbeError;
use super::parts::NODE_BYTES_MOST;
use super::result::{DescriptorBytes, Executables};
use crate::device::{Executable, Graph};
use crate::fit::{FREE_MEMORY_GRANULE, each_bytes};
use crate::measure::{Estimate, still_memory};
use crate::model::{Mode, Model};

/// Readings of free memory beforehand, and the time between two of them.
const STILL_READINGS: usize = 5;
const STILL_PAUSE: Duration = Duration::from_millis(20);
/// Executables of each graph, at least and at most; and how many are enough where memory or time is short.
const LEAST: u32 = 64;
const MOST: u32 = 2_048;
const LEAST_OF_SHORT: u32 = 16;
/// Growth in granules that is enough: a reading is off by half a granule.
const GRANULES: u64 = 128;
/// The short one of the two graphs that tell a node's share from a graph's, as a part of the long one.
const SHORT_PART: usize = 16;

/// Makes the descriptors of `rows` in these modes executable, and two graphs of different length for the share of a node.
///
/// # Errors
/// Free memory does not stand still, there is not enough, or the device fails.
pub fn run(
    bench: &Bench<'_>,
    model: &mut Model,
    rows: Rows,
    modes: &[Mode],
) -> Result<Probed<Executables>, ProbeError> {
    let shape = model.decode_shape(rows);
    let nodes = u64::from(model.step_launches(&shape)?);
    let series = modes.len() as u64 + 2;
    let needs = series * u64::from(LEAST_OF_SHORT) * nodes * NODE_BYTES_MOST;
    bench.require("making executables by the dozen", needs)?;
    let allowed = bench.free()?.0 / (2 * series);
    stands_still(bench)?;
    let mut kept = Kept { executables: Vec::new(), granule: 0, allowed };
    let mut descriptors = Vec::new();
    for &mode in modes {
        let recorded = bench.on(|session| model.record(session, &shape, mode))?;
        let graphs: Vec<&Graph> = recorded.graphs().collect();
        let nodes = graphs.iter().map(|graph| graph.nodes() as u32).sum();
        let bytes = each(bench, &graphs, &mut kept)?;
        descriptors.push(DescriptorBytes { mode, rows, graphs: graphs.len() as u32, nodes, bytes });
    }
    let planned = bench.on(|session| model.plan(session, &shape))?.only(|place| place != Place::Head);
    let mut both = Vec::new();
    for calls in [planned.calls().div_ceil(SHORT_PART), planned.calls()] {
        let graph = bench.on(|session| planned.first(calls).capture(session))?;
        both.push((graph.nodes() as f64, each(bench, &[&graph], &mut kept)?));
    }
    let (node_bytes, graph_bytes) = shares(both[0], both[1]);
    let granule = Bytes(kept.granule);
    let mut campaigns = Campaigns::default();
    let figures = descriptors.iter().map(|descriptor| {
        (format!("memory of the executables of a {} descriptor", descriptor.mode), &descriptor.bytes)
    });
    campaigns.note_widest(bench, "executables", figures);
    Ok(campaigns.with(Executables { granule, graph_bytes, node_bytes, descriptors }))
}

/// Executables so far.
struct Kept {
    executables: Vec<Executable>,
    /// What all steps of free memory are multiples of; 0 before the first.
    granule: u64,
    /// Bytes that each series may take.
    allowed: u64,
}

fn greatest_common_divisor(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { greatest_common_divisor(other, one % other) }
}

/// That nobody else moves memory now.
fn stands_still(bench: &Bench<'_>) -> Result<(), ProbeError> {
    let mut free = Vec::new();
    for _ in 0..STILL_READINGS {
        free.push(bench.free()?);
        std::thread::sleep(STILL_PAUSE);
    }
    Ok(still_memory(&free, Bytes(0))?)
}

/// Device memory of one executable of each of these graphs together. They are kept: what a driver takes back it may give
/// again without asking the device.
fn each(bench: &Bench<'_>, graphs: &[&Graph], kept: &mut Kept) -> Result<Estimate, ProbeError> {
    let before = bench.free()?;
    let mut last = before.0;
    let ends_ns = bench.series_ends_ns();
    let mut readings = vec![(0, 0.0)];
    for count in 1..=MOST {
        bench.on(|session| {
            for graph in graphs {
                let executable = session.instantiate(graph)?;
                session.upload(&executable)?;
                kept.executables.push(executable);
            }
            Ok::<_, ProbeError>(session.synchronize()?)
        })?;
        let free = bench.free()?;
        let gone = before.0.saturating_sub(free.0);
        kept.granule = greatest_common_divisor(kept.granule, last.abs_diff(free.0));
        last = free.0;
        readings.push((count, gone as f64));
        let is_enough = count >= LEAST && gone >= GRANULES * FREE_MEMORY_GRANULE.0;
        // Wider intervals are better than a device without memory, which fails elsewhere, and than a limit that is not kept.
        let is_short = gone >= kept.allowed || bench.is_past(ends_ns);
        if is_enough || (has_grown(&readings) && is_short) {
            break;
        }
    }
    if !has_grown(&readings) {
        return Err(ProbeError::Unseen { count: MOST });
    }
    let each = each_bytes(grown(&readings), FREE_MEMORY_GRANULE.max(Bytes(kept.granule)));
    each.ok_or_else(|| ProbeError::plan("executables", readings.len(), "two at least"))
}

/// The readings from the last one before free memory shrank: what earlier executables gave back to the driver is filled first.
fn grown(readings: &[(u32, f64)]) -> &[(u32, f64)] {
    match readings.iter().rposition(|&(_, gone)| gone <= 0.0) {
        Some(last) if last + 1 < readings.len() => &readings[last..],
        _ => readings,
    }
}

/// What a node takes, and what a graph takes beside its nodes, of a short graph and a long one: (nodes, bytes). The ends of
/// the intervals are those that both graphs' intervals allow.
fn shares(short: (f64, Estimate), long: (f64, Estimate)) -> (Estimate, Estimate) {
    let nodes = long.0 - short.0;
    let node = |long: f64, short: f64| (long - short) / nodes;
    let samples = long.1.samples.min(short.1.samples);
    let node_bytes = Estimate {
        value: node(long.1.value, short.1.value),
        low: node(long.1.low, short.1.high),
        high: node(long.1.high, short.1.low),
        samples,
    };
    let rest = |long_bytes: f64, short_bytes: f64| short_bytes - short.0 * node(long_bytes, short_bytes);
    let graph_bytes = Estimate {
        value: rest(long.1.value, short.1.value),
        low: rest(long.1.high, short.1.low),
        high: rest(long.1.low, short.1.high),
        samples,
    };
    (node_bytes, graph_bytes)
}

/// Whether a line can be laid through these readings: what fits into memory that earlier executables gave back to the driver
/// takes nothing, and is not what an executable takes.
fn has_grown(readings: &[(u32, f64)]) -> bool {
    let is_more = readings.last().is_some_and(|&(_, gone)| gone > 0.0);
    is_more && grown(readings).len() > LEAST_OF_SHORT as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executables_that_take_nothing_are_no_answer() {
        let series = |first: u32, last: u32| -> Vec<(u32, f64)> {
            (0..=last).map(|count| (count, f64::from(count.saturating_sub(first)))).collect()
        };
        assert!(has_grown(&series(0, 16)) && !has_grown(&series(0, 15)));
        assert!(!has_grown(&series(100, 100)), "nothing was taken");
        assert!(!has_grown(&series(100, 115)) && has_grown(&series(100, 116)));
        assert!(!has_grown(&[]));
    }

    #[test]
    fn a_granule_is_what_all_steps_are_multiples_of() {
        let granule = |steps: &[u64]| steps.iter().fold(0, |granule, step| greatest_common_divisor(granule, *step));
        assert_eq!((granule(&[]), granule(&[0, 4, 0, 6, 4]), granule(&[32, 64])), (0, 2, 32));
    }

    #[test]
    fn what_fits_into_memory_that_was_given_back_does_not_count() {
        let readings = [(0, 0.0), (1, 0.0), (2, 0.0), (3, 2.0), (4, 4.0)];
        assert_eq!(grown(&readings), &readings[2..]);
        assert_eq!(grown(&readings[..3]), &readings[..3]);
    }

    #[test]
    fn shares_of_nodes_and_graphs_by_hand() {
        let about = |value: f64| Estimate { value, low: value - 1.0, high: value + 1.0, samples: 65 };
        // 100 a graph and 10 a node.
        let (node, graph) = shares((5.0, about(150.0)), (25.0, about(350.0)));
        assert_eq!((node.value, node.low, node.high), (10.0, 9.9, 10.1));
        assert_eq!((graph.value, graph.low, graph.high), (100.0, 98.5, 101.5));
    }
}
