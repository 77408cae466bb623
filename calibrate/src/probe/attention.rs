//! Attention of all layers: decodes over (requests, context), prefills over (chunk, context).
//!
//! A point is a graph of the cache writes and attention kernels of every layer, replayed on requests of its own, the device's
//! cache emptied before it: keys and values of a step are cold, for all weights were read since. The copy that does it is a
//! point of the same campaign, and its time is taken off. The fixed cost of a graph is taken off too, for a FULL step pays it
//! once and its dense part holds it. The kernels here are separate ones for decode steps and for steps with chunks, so that
//! no figure of mixed steps follows from these two: where an engine's backend has separate kernels too, the parts add, but for
//! the cache writes, which both hold and such a step makes once; a backend with one kernel for both needs a table of its own.
//!
//! A graph of more rows than requests pads with requests of no token and no context. What each of them costs is measured
//! with one real request, among sizes whose contexts are cut into ranges alike: another number of ranges would change the
//! real request's time.

use std::cell::RefCell;

use kernels::units::{Requests, Rows};

use super::bench::{Bench, Campaigns, Point, Probed};
use super::cold_cache::ColdCache;
use super::error::ProbeError;
use super::inputs::Inputs;
use super::parts::{NODE_BYTES_MOST, PartGraph, ReplayOn, StepPart, without};
use super::result::{DecodePoint, DecodeTable, PrefillPoint, PrefillTable};
use super::work::Launches;
use crate::counted::counted;
use crate::fit::Line;
use crate::measure::{Estimate, Measured};
use crate::model::Model;

/// Times decode attention on the grid of these requests and contexts (the new token included). `frame_us` is the device time
/// of a graph whatever its nodes.
///
/// # Errors
/// An empty grid, one beyond the model's limits, not enough memory, or the device fails.
pub fn decode(
    bench: &Bench<'_>,
    model: &mut Model,
    requests: &[Requests],
    contexts: &[u32],
    frame_us: Estimate,
) -> Result<Probed<DecodeTable>, ProbeError> {
    let rows: Vec<Rows> = requests.iter().map(|requests| Rows(requests.0)).collect();
    let grid = Grid { across: &rows, contexts };
    grid.check(bench, model)?;
    if let Some(context) = contexts.iter().find(|context| **context == 0) {
        return Err(ProbeError::plan("context", context, "at least 1: the new token is counted in"));
    }
    let mut graphs = Vec::new();
    for &rows in &rows {
        let shape = model.decode_shape(rows);
        graphs.push((rows, shape, PartGraph::of(bench, model, &shape, StepPart::Attention)?));
    }
    let smallest = graphs[0].1;
    let writes = PartGraph::of(bench, model, &smallest, StepPart::CacheWrites)?;
    let alone = Inputs::decodes(model, Requests(1), 1)?;
    let mut inputs = Vec::new();
    for (index, requests) in requests.iter().enumerate() {
        for &context in contexts {
            inputs.push((index, context, Inputs::decodes(model, *requests, context)?));
        }
    }
    // Where as many ranges are joined as in the largest graph, there are as many kernels too.
    let nodes = graphs.last().map_or(0, |graph| graph.2.nodes);
    let alike: Vec<usize> = (0..graphs.len()).filter(|&index| graphs[index].2.nodes == nodes).collect();
    let cold = bench.on(|session| ColdCache::new(session, 0))?;
    let model = RefCell::new(model);
    let on = |index: usize, inputs: Inputs, name: String| {
        let (_, shape, graph) = &graphs[index];
        Point::new(name, ReplayOn { graph, cold: &cold, model: &model, shape: *shape, inputs })
    };
    let filled = inputs.iter().map(|(index, context, inputs)| {
        on(*index, inputs.clone(), format!("{}, context {context}", counted(graphs[*index].0, "decode")))
    });
    let padded = alike.iter().map(|&index| on(index, alone.clone(), format!("1 decode padded to {}", graphs[index].0)));
    let written = ReplayOn { graph: &writes, cold: &cold, model: &model, shape: smallest, inputs: alone.clone() };
    let written = Point::new("cache writes", written);
    let mut campaigns = Campaigns::default();
    let points = filled.chain(padded).chain([written, emptying(&cold)]).collect();
    let measured = bench.device("decode attention, device", points, &mut campaigns)?;
    let times_us = behind_emptying(&measured);
    let cache_writes_us = without(times_us[inputs.len() + alike.len()], frame_us);
    let points = inputs.iter().zip(times_us).map(|((index, context, inputs), time_us)| DecodePoint {
        requests: requests[*index],
        context: *context,
        shares_blocks: inputs.shares_blocks,
        device_us: without(time_us, frame_us),
    });
    let points = points.collect();
    // One size alone has no slope: then padding is what its request-by-request share would be at most, and that is nothing.
    let padded_request_us = measured.derive(|medians_us| {
        let times = alike.iter().zip(&medians_us[inputs.len()..]);
        let times: Vec<(f64, f64)> = times.map(|(&index, &us)| (f64::from(graphs[index].0.0), us)).collect();
        Line::theil_sen(&times).map_or(0.0, |line| line.slope)
    });
    Ok(campaigns.with(DecodeTable { points, padded_request_us, cache_writes_us }))
}

/// Times prefill attention on the grid of these chunks and contexts before them. `frame_us` is the device time of a graph
/// whatever its nodes.
///
/// # Errors
/// An empty grid, one beyond the model's limits, not enough memory, or the device fails.
pub fn prefill(
    bench: &Bench<'_>,
    model: &mut Model,
    chunks: &[Rows],
    contexts: &[u32],
    frame_us: Estimate,
) -> Result<Probed<PrefillTable>, ProbeError> {
    let grid = Grid { across: chunks, contexts };
    grid.check(bench, model)?;
    let mut graphs = Vec::new();
    for &chunk in chunks {
        let shape = model.mixed_shape(chunk, Requests(1));
        graphs.push((shape, PartGraph::of(bench, model, &shape, StepPart::Attention)?));
    }
    let mut inputs = Vec::new();
    for (index, &chunk) in chunks.iter().enumerate() {
        for &context in contexts {
            inputs.push((index, context, Inputs::chunk(model, chunk, context)?));
        }
    }
    let cold = bench.on(|session| ColdCache::new(session, 0))?;
    let model = RefCell::new(model);
    let points = inputs.iter().map(|(index, context, inputs)| {
        let (shape, graph) = &graphs[*index];
        let name = format!("chunk of {} behind {context}", chunks[*index]);
        Point::new(name, ReplayOn { graph, cold: &cold, model: &model, shape: *shape, inputs: inputs.clone() })
    });
    let points = points.chain([emptying(&cold)]).collect();
    let mut campaigns = Campaigns::default();
    let measured = bench.device("prefill attention, device", points, &mut campaigns)?;
    let points = inputs.iter().zip(behind_emptying(&measured)).map(|((index, context, _), time_us)| PrefillPoint {
        chunk: chunks[*index],
        context: *context,
        device_us: without(time_us, frame_us),
    });
    Ok(campaigns.with(PrefillTable { points: points.collect(), separate_kernels: true }))
}

/// The last point of every campaign here: what comes before each of the others.
fn emptying<'w>(cold: &ColdCache) -> Point<'w> {
    Point::new("emptying the cache", Launches { launch: cold.launch.clone(), count: 1 })
}

/// The times of all points but the last, without that of the last.
fn behind_emptying(measured: &Measured<Point<'_>>) -> Vec<Estimate> {
    let last = measured.points.len().saturating_sub(1);
    (0..last).map(|point| measured.derive(|medians_us| medians_us[point] - medians_us[last])).collect()
}

/// A grid of sizes and contexts.
struct Grid<'a> {
    across: &'a [Rows],
    contexts: &'a [u32],
}

impl Grid<'_> {
    /// Refuses a grid without points or out of order, and one that there is no memory for.
    fn check(&self, bench: &Bench<'_>, model: &Model) -> Result<(), ProbeError> {
        let is_rising = |pair: &[u32]| pair[0] < pair[1];
        let across: Vec<u32> = self.across.iter().map(|rows| rows.0).collect();
        for (what, knots) in [("sizes of attention", &across[..]), ("contexts of attention", self.contexts)] {
            if knots.is_empty() || !knots.windows(2).all(is_rising) {
                return Err(ProbeError::plan(what, format!("{knots:?}"), "one at least, rising"));
            }
        }
        let largest = model.decode_shape(self.across[self.across.len() - 1]);
        let nodes = self.across.len() as u64 * u64::from(model.step_launches(&largest)?);
        bench.require("capturing attention", model.pool_bytes(&largest)? + nodes * NODE_BYTES_MOST)
    }
}
