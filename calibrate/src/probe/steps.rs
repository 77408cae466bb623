//! Recorded steps, run again: graphs replayed, everything else launched, with the requests that each step had.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use kernels::geometry::ModelGeometry;
use kernels::random::Random;
use kernels::step::{AttentionShape, StepShape};
use kernels::units::{Bytes, Requests, Rows};

use super::bench::{Bench, Campaigns, Point, Probed, Timed};
use super::error::ProbeError;
use super::step_shape::{GraphKey, ShapeKey};
use crate::device::Session;
use crate::graph_mode::Mode;
use crate::measure::Estimate;
use crate::model::{Batch, Fitted, Limits, Model, Planned, Request};

/// Tokens of a cache block.
const BLOCK_SIZE: u32 = 16;
/// Share of free memory that is used at most: graphs and their executables need some too.
const MEMORY_SHARE: f64 = 0.85;

/// Times of steps, in the order of their shapes.
#[derive(Clone, Debug)]
pub struct StepTimes {
    /// From the first kernel to the last, the head included, with all of it queued up.
    pub device_us: Vec<Estimate>,
    /// Of the calls that replay and launch, on an idle device. Of a step that runs graphs those before the head, of
    /// another one all.
    pub host_us: Vec<Estimate>,
    /// Device times added up, as often as was asked for.
    pub device_totals_us: Vec<Estimate>,
}

/// What fits into a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fit {
    /// What a model has to be loaded for.
    pub limits: Limits,
    /// Which shapes fit.
    pub fits: Vec<bool>,
    /// The most cache that a shape asked for.
    pub cache_asked: Bytes,
    /// The most cache that there is room for.
    pub cache_room: Bytes,
}

impl Fit {
    /// The shapes that a model of this geometry can run in so much free memory. `None` where nothing fits.
    pub fn of(shapes: &[ShapeKey], geometry: &ModelGeometry, free: Bytes) -> Option<Self> {
        let block_bytes = geometry.kv_bytes_per_token().0 * u64::from(BLOCK_SIZE);
        let usable = (free.0 as f64 * MEMORY_SHARE) as u64;
        let left = usable.checked_sub(geometry.weights_bytes().0)?;
        // The largest step decides what activations take, and a smaller one than the largest of the log may.
        let room = |shape: &ShapeKey| left.checked_sub(activation_bytes(shape, geometry));
        let fits: Vec<bool> =
            shapes.iter().map(|shape| room(shape).is_some_and(|room| blocks(shape) * block_bytes <= room)).collect();
        let kept = || shapes.iter().zip(&fits).filter(|(_, fits)| **fits).map(|(shape, _)| shape);
        let limits = Limits {
            rows: kept().map(|shape| shape.rows).max()?,
            requests: Requests(kept().map(requests).max()?),
            block_size: BLOCK_SIZE,
            blocks_per_request: kept().flat_map(request_blocks).max()? as u32,
            cache_blocks: kept().map(blocks).max()? as u32,
        };
        Some(Self {
            limits,
            cache_asked: Bytes(shapes.iter().map(blocks).max()?.saturating_mul(block_bytes)),
            cache_room: Bytes(shapes.iter().filter_map(room).max().unwrap_or(0)),
            fits,
        })
    }
}

/// What a step allocates beside the model, roughly: its widest activations, in the pool of the graphs and in that of what
/// is eager, and its logits.
fn activation_bytes(shape: &ShapeKey, geometry: &ModelGeometry) -> u64 {
    let qkv = geometry.query_width() + 2 * geometry.kv_width();
    let row = 4 * u64::from(geometry.hidden) + 3 * u64::from(geometry.intermediate) + qkv;
    let (rows, sampled) = (u64::from(shape.rows.0), u64::from(shape.sampled().0));
    2 * 2 * rows * row + 2 * sampled * (u64::from(geometry.vocabulary) + u64::from(geometry.hidden))
}

/// Cache blocks of each request of a shape.
fn request_blocks(shape: &ShapeKey) -> impl Iterator<Item = u64> {
    let blocks = |(new, before): (u32, u32)| (u64::from(new) + u64::from(before)).div_ceil(BLOCK_SIZE.into());
    shape.chunks().into_iter().map(blocks)
}

fn blocks(shape: &ShapeKey) -> u64 {
    request_blocks(shape).sum()
}

/// The most requests that buffers must hold for a shape: a decode kernel has one for each row.
fn requests(shape: &ShapeKey) -> u32 {
    let of_graph = shape.graph.and_then(|graph| graph.requests).unwrap_or(0);
    shape.rows.0.max(of_graph).max(shape.requests())
}

/// Times steps. `totals` says how often each shape counts in each sum.
///
/// # Errors
/// The device fails, or a shape is none that the model was loaded for.
pub fn run(
    bench: &Bench<'_>,
    model: &mut Model,
    shapes: &[ShapeKey],
    totals: &[Vec<f64>],
) -> Result<Probed<StepTimes>, ProbeError> {
    let works = bench.on(|session| works(session, model, shapes))?;
    let model = RefCell::new(model);
    let points = |only_launches| {
        let point = |(shape, work)| {
            let step = TimedStep { work, model: &model, only_launches };
            Point::new(ShapeKey::to_string(shape), step)
        };
        shapes.iter().zip(&works).map(point).collect()
    };
    let mut campaigns = Campaigns::default();
    let device = bench.device("device time of steps", points(false), &mut campaigns)?;
    let host = bench.host("host time of steps", points(true), &mut campaigns)?;
    let total = |counts: &Vec<f64>| {
        device.derive(|times_us| times_us.iter().zip(counts).map(|(time_us, count)| time_us * count).sum())
    };
    let times = StepTimes {
        device_us: device.times_us(),
        host_us: host.times_us(),
        device_totals_us: totals.iter().map(total).collect(),
    };
    Ok(campaigns.with(times))
}

/// A step, ready to run.
struct Work {
    runs: Runs,
    shape: StepShape,
    batch: Batch,
}

enum Runs {
    Graphs(Fitted),
    Eagerly(Planned),
}

/// Captures every graph that is needed, in the order of an engine, and fits the steps to them.
fn works(session: &mut Session, model: &mut Model, shapes: &[ShapeKey]) -> Result<Vec<Work>, ProbeError> {
    let mut keys: Vec<GraphKey> = shapes.iter().filter_map(|shape| shape.graph).collect();
    // PIECEWISE before FULL, the largest first: GPU specification section 4.
    keys.sort_unstable_by_key(|key| (key.mode == Mode::Full, std::cmp::Reverse(key.rows), *key));
    keys.dedup();
    let mut graphs = BTreeMap::new();
    for key in keys {
        let shape = captured_shape(model, &key);
        graphs.insert(key, (Rc::new(model.capture(session, &shape, key.mode)?), shape));
    }
    let mut works = Vec::new();
    for (number, shape) in shapes.iter().enumerate() {
        let batch = batch(number, shape, model);
        let graph = shape.graph.and_then(|key| Some((key.mode, graphs.get(&key)?)));
        let work = if let Some((mode, (captured, captured_shape))) = graph {
            let attention = match mode {
                Mode::Full => captured_shape.attention,
                Mode::Piecewise => eager_shape(model, shape).attention,
            };
            let shape = StepShape { attention, sampled: shape.sampled(), ..*captured_shape };
            Work { runs: Runs::Graphs(model.fit(captured, &shape)?), shape, batch }
        } else {
            let shape = eager_shape(model, shape);
            Work { runs: Runs::Eagerly(model.plan(session, &shape)?), shape, batch }
        };
        works.push(work);
    }
    session.synchronize()?;
    Ok(works)
}

/// The shape under which a graph is captured.
fn captured_shape(model: &Model, key: &GraphKey) -> StepShape {
    let most = model.limits().requests.0.min(key.rows.0);
    match key.uniform {
        Some(1) => model.decode_shape(key.rows),
        Some(tokens) => {
            let requests = Requests(key.requests.unwrap_or(key.rows.0.div_ceil(tokens.max(1))).clamp(1, most));
            let attention = AttentionShape::Mixed { requests, longest_chunk: Rows(tokens.clamp(1, key.rows.0)) };
            StepShape { attention, ..model.mixed_shape(key.rows, requests) }
        }
        None => model.mixed_shape(key.rows, Requests(key.requests.unwrap_or(most).clamp(1, most))),
    }
}

/// The shape of a step whose attention is launched for the requests that it has.
fn eager_shape(model: &Model, shape: &ShapeKey) -> StepShape {
    let (decodes, prefills) = (Requests(shape.decode_requests), Requests(shape.prefills.len() as u32));
    let longest_chunk = Rows(shape.chunks().iter().map(|(new, _)| *new).max().unwrap_or(1));
    let fitted = if shape.is_plain_decode() {
        model.decode_shape(shape.rows)
    } else if shape.decode_requests > 0 && shape.drafts == 0 {
        model.separate_shape(shape.rows, decodes, prefills, longest_chunk)
    } else {
        let requests = Requests(shape.requests());
        let attention = AttentionShape::Mixed { requests, longest_chunk };
        StepShape { attention, ..model.mixed_shape(shape.rows, requests) }
    };
    StepShape { sampled: shape.sampled(), ..fitted }
}

/// Requests as the step had them, with tokens and cache blocks that are drawn; no two share a block.
fn batch(number: usize, shape: &ShapeKey, model: &Model) -> Batch {
    let mut random = Random::named("recorded step", number as u64);
    let vocabulary = model.geometry().vocabulary;
    let mut blocks = random.order(model.limits().cache_blocks).into_iter().map(u32::cast_signed);
    let request = |((new, before), count)| Request {
        tokens: (0..new).map(|_| random.below(vocabulary).cast_signed()).collect(),
        context: before,
        blocks: blocks.by_ref().take(count as usize).collect(),
    };
    Batch { requests: shape.chunks().into_iter().zip(request_blocks(shape)).map(request).collect() }
}

struct TimedStep<'w> {
    work: &'w Work,
    model: &'w RefCell<&'w mut Model>,
    /// Without the head, where graphs are run.
    only_launches: bool,
}

impl Timed for TimedStep<'_> {
    fn calls(&self) -> usize {
        match &self.work.runs {
            Runs::Graphs(fitted) if self.only_launches => fitted.calls_before_head(),
            Runs::Graphs(fitted) => fitted.calls(),
            Runs::Eagerly(planned) => planned.calls(),
        }
    }

    fn make(&self, session: &mut Session, calls: Range<usize>) -> Result<(), ProbeError> {
        Ok(match &self.work.runs {
            Runs::Graphs(fitted) => fitted.make(session, calls),
            Runs::Eagerly(planned) => planned.make(session, calls),
        }?)
    }

    fn prepare(&self, session: &mut Session) -> Result<(), ProbeError> {
        Ok(self.model.borrow_mut().set_inputs(session, &self.work.batch, &self.work.shape)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry() -> ModelGeometry {
        ModelGeometry::preset("llama-3.1-8b").unwrap()
    }

    fn decode(rows: u32, context: u64) -> ShapeKey {
        ShapeKey {
            graph: None,
            rows: Rows(rows),
            prefills: vec![],
            decode_requests: rows,
            decode_context: context,
            drafts: 0,
        }
    }

    #[test]
    fn the_model_is_loaded_for_the_largest_of_everything() {
        let chunk = ShapeKey { rows: Rows(600), prefills: vec![[500, 1_500]], decode_requests: 4, ..decode(4, 400) };
        let fit = Fit::of(&[decode(3, 48), decode(2, 33), chunk], &geometry(), Bytes(80 << 30)).unwrap();
        assert_eq!(fit.fits, [true; 3]);
        // 2,000 tokens are 125 blocks, and four requests of 100 tokens 7 each.
        let Limits { rows, requests, block_size, blocks_per_request, cache_blocks } = fit.limits;
        assert_eq!((rows, requests, block_size), (Rows(600), Requests(600), 16));
        assert_eq!((blocks_per_request, cache_blocks), (125, 125 + 28));
    }

    #[test]
    fn what_is_too_large_stays_outside() {
        // 64 GiB hold 54.4 usable, less 15.0 of weights: 39.4 GiB are 322,000 tokens of 128 KiB.
        let fit = Fit::of(&[decode(8, 300_000), decode(8, 350_000)], &geometry(), Bytes(64 << 30)).unwrap();
        assert_eq!(fit.fits, [true, false]);
        // Eight requests of 37,500 tokens: 2,344 blocks each.
        assert_eq!(fit.limits.cache_blocks, 8 * 2_344);
        assert!(fit.cache_asked > fit.cache_room);
        assert_eq!(Fit::of(&[decode(8, 100)], &geometry(), Bytes(16 << 30)), None);
        assert_eq!(Fit::of(&[], &geometry(), Bytes(80 << 30)), None);
    }
}
