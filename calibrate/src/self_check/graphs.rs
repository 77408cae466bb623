//! A tiny model: graphs against eager steps, the two modes against each other, padding, and the reference.

use std::rc::Rc;

use kernels::bf16::{self, Bf16};
use kernels::geometry::GeometryError;
use kernels::launch::{Address, DecodeSplits};
use kernels::reference::{Heads, PagedCache, Row, argmax};
use kernels::step::{AttentionShape, StepShape};
use kernels::units::{Requests, Rows};

use super::Stopped;
use super::finding::{Cause, Report};
use super::{reference, tiny};
use crate::device::{Blaslt, DeviceError, Session};
use crate::model::{Batch, Captured, Mode, Model, StepError};

/// Rungs of the decode ladder, largest first, as engines capture them.
const LADDER: [u32; 4] = [8, 4, 2, 1];
/// Rungs of the ladder of mixed steps, and the requests of each.
const MIXED_LADDER: [(u32, u32); 2] = [(tiny::ROWS, 4), (24, 4)];
/// How far the logits of a step may lie from the reference, relative to their norm. Kernels add in another order, so that
/// results near the middle of two bf16 numbers are rounded the other way, and what follows is rounded anew: some sixteen
/// independent roundings of 1.7e-3 each (the root mean square of 2^-9 at most) in two layers, 7e-3 in all; and as much again.
const REFERENCE_LIMIT: f64 = 1.4e-2;

/// Why a check of graphs failed.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Step(#[from] StepError),
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    #[error("{step}: {what} differ from byte {byte} on")]
    Differs { step: String, what: &'static str, byte: usize },
    #[error("{step}: two batches that differ leave the same logits: nothing was computed")]
    Idle { step: String },
    #[error("{step}: a replay left no logits: nothing was computed")]
    Untouched { step: String },
    #[error("{step}: token {place} is {got}: expected {want}, the place of its largest logit")]
    Token { step: String, place: usize, got: i32, want: i32 },
    #[error("{what}: {got}, expected {want}")]
    Count { what: String, got: usize, want: usize },
    #[error(
        "{step}: {what} differ from the reference by {off_by:.1e} of their norm: expected at most {REFERENCE_LIMIT:.1e}"
    )]
    Reference { step: String, what: &'static str, off_by: f64 },
    #[error("{step}: slot {slot} of layer {layer} was written by a padded row")]
    Padding { step: String, layer: usize, slot: usize },
}

impl Cause for Failed {
    fn device(&self) -> Option<&DeviceError> {
        match self {
            Self::Step(StepError::Device(error)) | Self::Device(error) => Some(error),
            _ => None,
        }
    }
}

/// What a step leaves behind.
#[derive(Debug, PartialEq, Eq)]
struct Traces {
    logits: Vec<u8>,
    tokens: Vec<i32>,
    caches: Vec<Vec<u8>>,
}

impl Traces {
    /// Bit for bit.
    fn compare(&self, other: &Self, step: &Step) -> Result<(), Failed> {
        let differ = |what, a: &[u8], b: &[u8]| {
            let byte = a.iter().zip(b).position(|(a, b)| a != b);
            byte.map_or(Ok(()), |byte| Err(Failed::Differs { step: step.name.clone(), what, byte }))
        };
        differ("the logits", &self.logits, &other.logits)?;
        for (a, b) in self.caches.iter().zip(&other.caches) {
            differ("keys and values of a layer", a, b)?;
        }
        if self.tokens != other.tokens {
            return Err(Failed::Differs { step: step.name.clone(), what: "the chosen tokens", byte: 0 });
        }
        Ok(())
    }
}

/// A shape, and two different batches for it.
struct Step {
    name: String,
    shape: StepShape,
    batches: [Batch; 2],
}

/// A check of the tiny model, with its graphs of both modes.
type Check = fn(&mut Bench<'_>, &Graphs) -> Result<String, Failed>;

/// Graphs of the steps, in their order.
struct Graphs {
    full: Vec<Rc<Captured>>,
    piecewise: Vec<Rc<Captured>>,
}

/// What only the own products allow: cuBLASLt may take several nodes for one.
const COUNTS: [(&str, Check); 2] = [
    ("FULL graphs hold every launch", |bench, graphs| bench.counts(&graphs.full)),
    ("PIECEWISE graphs hold every launch", |bench, graphs| bench.counts(&graphs.piecewise)),
];

const CHECKS: [(&str, Check); 6] = [
    ("FULL replay = eager, bit for bit", |bench, graphs| bench.replays_equal_eager(&graphs.full)),
    ("PIECEWISE replay = eager, bit for bit", |bench, graphs| bench.replays_equal_eager(&graphs.piecewise)),
    ("FULL = PIECEWISE, bit for bit", |bench, graphs| bench.modes_agree(&graphs.full, &graphs.piecewise)),
    ("fitted graphs = eager, bit for bit", |bench, graphs| bench.fitted_graphs_equal_eager(graphs)),
    ("padded rows change nothing", |bench, graphs| bench.padding(&graphs.full)),
    ("eager steps against f64", |bench, _| bench.reference()),
];

/// Runs the checks; true if the context is lost.
pub(super) fn run(session: &mut Session, report: &mut Report<'_>) -> Result<bool, Stopped> {
    let is_lost = check("tiny model", None, &[&COUNTS[..], &CHECKS].concat(), session, report)?;
    match Blaslt::open(session) {
        Ok(library) if !is_lost => check("by cuBLASLt", Some(library), &CHECKS, session, report),
        // That there is none is said where products are compared.
        _ => Ok(is_lost),
    }
}

fn check(
    what: &str,
    library: Option<Blaslt>,
    checks: &[(&str, Check)],
    session: &mut Session,
    report: &mut Report<'_>,
) -> Result<bool, Stopped> {
    let loaded =
        tiny::geometry().map_err(Failed::from).and_then(|geometry| Ok(tiny::load(session, geometry, library)?));
    let mut model = match loaded {
        Ok(model) => model,
        Err(error) => return report.conclude(&format!("{what}: load"), Err(error)),
    };
    let steps = steps(&model);
    let mut bench = Bench { session, model: &mut model, steps: &steps };
    let full = match bench.capture(Mode::Full) {
        Ok(full) => full,
        Err(error) => return report.conclude(&format!("{what}: capture FULL"), Err(error)),
    };
    let graphs = match bench.capture(Mode::Piecewise) {
        Ok(piecewise) => Graphs { full, piecewise },
        Err(error) => return report.conclude(&format!("{what}: capture PIECEWISE"), Err(error)),
    };
    for (name, check) in checks {
        if report.conclude(&format!("{what}: {name}"), check(&mut bench, &graphs))? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn steps(model: &Model) -> Vec<Step> {
    let decodes = LADDER.map(|rows| {
        // Contexts on both sides of a block's edge; the last row is padded where there are several.
        let real = if rows > 1 { rows - 1 } else { 1 };
        let chunks = |contexts: [u32; 4]| -> Vec<(u32, u32)> {
            contexts.into_iter().cycle().take(real as usize).map(|context| (1, context)).collect()
        };
        let batches = [chunks([15, 0, 33, 47]), chunks([16, 40, 1, 5])];
        let mut shape = model.decode_shape(Rows(rows));
        if rows == LADDER[0] {
            shape.attention = AttentionShape::Decode { splits: DecodeSplits::WHOLE };
        }
        step(format!("{rows} decodes"), model, shape, &batches)
    });
    let mixed = MIXED_LADDER.map(|(rows, requests)| {
        let batches = [vec![(7, 0), (1, 20), (9, 14)], vec![(17, 30), (1, 1), (1, 15), (3, 0)]];
        step(format!("{rows} mixed rows"), model, model.mixed_shape(Rows(rows), Requests(requests)), &batches)
    });
    let batches = [vec![(1, 20), (1, 33), (7, 0), (9, 14)], vec![(1, 1), (1, 47), (17, 30)]];
    let shape = model.separate_shape(Rows(tiny::ROWS), Requests(2), Requests(3), Rows(17));
    let apart = step("decodes and chunks apart".to_owned(), model, shape, &batches);
    mixed.into_iter().chain([apart]).chain(decodes).collect()
}

fn step(name: String, model: &Model, shape: StepShape, batches: &[Vec<(u32, u32)>; 2]) -> Step {
    let batch = |which: usize| tiny::batch(&format!("{name} {which}"), &batches[which], model);
    Step { batches: [batch(0), batch(1)], name, shape }
}

/// The model with everything that is checked on it.
struct Bench<'a> {
    session: &'a mut Session,
    model: &'a mut Model,
    steps: &'a [Step],
}

impl Bench<'_> {
    /// Captures every step, one after the other into the same pool.
    fn capture(&mut self, mode: Mode) -> Result<Vec<Rc<Captured>>, Failed> {
        let capture = |step: &Step| self.model.capture(self.session, &step.shape, mode).map(Rc::new);
        Ok(self.steps.iter().map(capture).collect::<Result<_, _>>()?)
    }

    /// One graph, or one more than layers; in them every launch before the head but the eager ones.
    fn counts(&mut self, captured: &[Rc<Captured>]) -> Result<String, Failed> {
        let layers = self.model.geometry().layers as usize;
        let mut all = (0, 0);
        for (step, captured) in self.steps.iter().zip(captured) {
            // Behind the graphs: the choice of rows, the LM head, the choice of tokens.
            let before_head = self.model.step_launches(&step.shape)? as usize - 3;
            // Cache write, attention of one kind or both, and the join of its ranges.
            let joins = |splits: DecodeSplits| usize::from(splits.count() > 1);
            let eager = layers
                * match step.shape.attention {
                    AttentionShape::Mixed { .. } => 2,
                    AttentionShape::Decode { splits } => 2 + joins(splits),
                    AttentionShape::Separate { splits, .. } => 3 + joins(splits),
                };
            let (graphs, nodes) = captured.graphs_and_nodes();
            let want = match captured.mode {
                Mode::Full => (1, before_head),
                Mode::Piecewise => (layers + 1, before_head - eager),
            };
            for (what, got, want) in [("graphs", graphs, want.0), ("kernels", nodes, want.1)] {
                if got != want {
                    return Err(Failed::Count { what: format!("{}: {what}", step.name), got, want });
                }
            }
            all = (all.0 + graphs, all.1 + nodes);
        }
        Ok(format!("{} graphs of {} kernels in {} steps", all.0, all.1, self.steps.len()))
    }

    /// Both batches through every graph: the second shows that a replay reads what is there now.
    fn replays_equal_eager(&mut self, captured: &[Rc<Captured>]) -> Result<String, Failed> {
        for (step, captured) in self.steps.iter().zip(captured) {
            let mut eager = Vec::new();
            for batch in &step.batches {
                eager.push(self.eager(step, batch)?);
            }
            if eager[0].logits == eager[1].logits {
                return Err(Failed::Idle { step: step.name.clone() });
            }
            for (batch, eager) in step.batches.iter().zip(&eager) {
                self.replay(step, batch, captured)?.compare(eager, step)?;
            }
        }
        Ok(format!("{} steps, inputs changed between replays", self.steps.len()))
    }

    /// Graphs with eager parts of other steps: a rung of mixed rows whose attention has a kernel for each kind, and one that
    /// samples fewer rows than it was captured for.
    fn fitted_graphs_equal_eager(&mut self, graphs: &Graphs) -> Result<String, Failed> {
        let apart = self.steps.iter().find(|step| matches!(step.shape.attention, AttentionShape::Separate { .. }));
        let mixed = self.steps.iter().position(|step| step.shape.rows == Rows(tiny::ROWS));
        let (Some(apart), Some(mixed)) = (apart, mixed) else { return Ok("no such steps".to_owned()) };
        let few = &self.steps[mixed];
        let fewer = StepShape { sampled: Rows(few.batches[0].requests.len() as u32), ..few.shape };
        let fewer = Step { name: format!("{}, fewer sampled", few.name), shape: fewer, batches: few.batches.clone() };
        for (step, captured) in [(apart, &graphs.piecewise[mixed]), (&fewer, &graphs.full[mixed])] {
            let fitted = self.model.fit(captured, &step.shape)?;
            for batch in &step.batches[..1] {
                let eager = self.eager(step, batch)?;
                self.prepare(step, batch)?;
                self.session.fill(fitted.outputs.logits, 0xff, self.logits_bytes(step) as u64)?;
                fitted.make(self.session, 0..fitted.calls())?;
                self.traces(step, fitted.outputs.logits)?.compare(&eager, step)?;
            }
        }
        Ok("a FULL and a PIECEWISE graph".to_owned())
    }

    fn modes_agree(&mut self, full: &[Rc<Captured>], piecewise: &[Rc<Captured>]) -> Result<String, Failed> {
        for ((step, full), piecewise) in self.steps.iter().zip(full).zip(piecewise) {
            let batch = &step.batches[1];
            self.replay(step, batch, full)?.compare(&self.replay(step, batch, piecewise)?, step)?;
        }
        Ok(format!("{} steps", self.steps.len()))
    }

    /// A batch with padding, and the same one with a request more instead of the padding: the common requests' logits are
    /// the same bits; and nothing but the slots of real rows is written.
    fn padding(&mut self, captured: &[Rc<Captured>]) -> Result<String, Failed> {
        let mut checked = 0;
        for (step, captured) in self.steps.iter().zip(captured) {
            let padded = &step.batches[0];
            let padded_traces = self.replay(step, padded, captured)?;
            self.only_own_slots(step, padded, &padded_traces)?;
            let mut filled = padded.clone();
            let another = tiny::batch(&format!("{} another", step.name), &[(1, 10)], self.model);
            filled.requests.extend(another.requests);
            let rows: usize = filled.requests.iter().map(|request| request.tokens.len()).sum();
            if rows > step.shape.rows.0 as usize || filled.requests.len() > step.shape.sampled.0 as usize {
                continue;
            }
            self.keep_apart(&mut filled);
            let filled_traces = self.replay(step, &filled, captured)?;
            let common = padded.requests.len() * self.model.geometry().vocabulary as usize * 2;
            let [padded_logits, filled_logits] =
                [&padded_traces, &filled_traces].map(|traces| &traces.logits[..common]);
            if let Some(byte) = padded_logits.iter().zip(filled_logits).position(|(a, b)| a != b) {
                return Err(Failed::Differs { step: step.name.clone(), what: "the logits of real rows", byte });
            }
            checked += 1;
        }
        Ok(format!("{} steps, {checked} of them with a request instead of padding", self.steps.len()))
    }

    /// Gives the last request blocks that no other one has.
    fn keep_apart(&self, batch: &mut Batch) {
        let Some((last, others)) = batch.requests.split_last_mut() else { return };
        let taken: Vec<i32> = others.iter().flat_map(|request| request.blocks.clone()).collect();
        let blocks = 0..self.model.limits().cache_blocks.cast_signed();
        let mut free = blocks.filter(|block| !taken.contains(block));
        last.blocks = last.blocks.iter().filter_map(|_| free.next()).collect();
    }

    /// Compares the caches with what they were, everywhere but in the slots of the batch's tokens.
    fn only_own_slots(&self, step: &Step, batch: &Batch, traces: &Traces) -> Result<(), Failed> {
        let size = self.model.limits().block_size;
        let own: Vec<usize> = reference::rows(batch, size).iter().map(|row| row.slot.unsigned_abs() as usize).collect();
        for (layer, content) in traces.caches.iter().enumerate() {
            let before = self.paged(tiny::cache(self.model, layer));
            let after = self.paged(bf16::from_bytes(content));
            let slots = (self.model.limits().cache_blocks * size) as usize;
            let is_written =
                |slot: &usize| before.keys(*slot) != after.keys(*slot) || before.values(*slot) != after.values(*slot);
            if let Some(slot) = (0..slots).filter(|slot| !own.contains(slot)).find(is_written) {
                return Err(Failed::Padding { step: step.name.clone(), layer, slot });
            }
        }
        Ok(())
    }

    /// Logits, the tokens chosen by them, and the keys and values that were written, of every step.
    fn reference(&mut self) -> Result<String, Failed> {
        let values = reference::values(self.model);
        let mut worst: f64 = 0.0;
        for step in self.steps {
            for batch in &step.batches {
                let traces = self.eager(step, batch)?;
                self.tokens_are_chosen(step, &traces)?;
                let before = (0..traces.caches.len()).map(|layer| self.paged(tiny::cache(self.model, layer)).to_f64());
                let mut caches: Vec<PagedCache<f64>> = before.collect();
                let rows = reference::rows(batch, self.model.limits().block_size);
                let want = reference::logits(&values, batch, &rows, &mut caches);
                let mut compare = |what, got: &[f64], want: &[f64]| {
                    let off_by = off_by(got, want);
                    worst = worst.max(off_by);
                    // NaN is within no limit.
                    let is_close = off_by <= REFERENCE_LIMIT;
                    is_close.then_some(()).ok_or_else(|| Failed::Reference { step: step.name.clone(), what, off_by })
                };
                compare("logits", &bf16::to_f64s(&bf16::from_bytes(&traces.logits))[..want.len()], &want)?;
                for (got, want) in traces.caches.iter().zip(&caches) {
                    let got = self.paged(bf16::from_bytes(got)).to_f64();
                    compare("keys and values", &written(&got, &rows), &written(want, &rows))?;
                }
            }
        }
        Ok(format!("off by {worst:.1e} of the norm (limit {REFERENCE_LIMIT:.1e})"))
    }

    /// Each token is the place of the largest of its logits, as they were left.
    fn tokens_are_chosen(&self, step: &Step, traces: &Traces) -> Result<(), Failed> {
        let logits = bf16::to_f64s(&bf16::from_bytes(&traces.logits));
        let chosen = argmax(&logits, self.model.geometry().vocabulary as usize);
        let differs = |(_, (got, want)): &(usize, (&i32, &i32))| got != want;
        match traces.tokens.iter().zip(&chosen).enumerate().find(differs) {
            None => Ok(()),
            Some((place, (&got, &want))) => Err(Failed::Token { step: step.name.clone(), place, got, want }),
        }
    }

    fn paged(&self, elements: Vec<Bf16>) -> PagedCache<Bf16> {
        let geometry = self.model.geometry();
        let [query, kv, size] = [geometry.query_heads, geometry.kv_heads, geometry.head_size].map(|it| it as usize);
        PagedCache { elements, heads: Heads { query, kv, size }, block_size: self.model.limits().block_size as usize }
    }

    fn eager(&mut self, step: &Step, batch: &Batch) -> Result<Traces, Failed> {
        self.prepare(step, batch)?;
        let outputs = self.model.run(self.session, &step.shape)?;
        self.traces(step, outputs.logits)
    }

    fn replay(&mut self, step: &Step, batch: &Batch, captured: &Captured) -> Result<Traces, Failed> {
        self.prepare(step, batch)?;
        // What an earlier step left there must not be taken for this one's.
        let bytes = self.logits_bytes(step);
        self.session.fill(captured.outputs.logits, 0xff, bytes as u64)?;
        captured.replay(self.session)?;
        let traces = self.traces(step, captured.outputs.logits)?;
        // Two replays that leave nothing would be equal.
        let is_touched = traces.logits.iter().any(|byte| *byte != 0xff);
        is_touched.then_some(traces).ok_or_else(|| Failed::Untouched { step: step.name.clone() })
    }

    fn logits_bytes(&self, step: &Step) -> usize {
        step.shape.sampled.0 as usize * self.model.geometry().vocabulary as usize * 2
    }

    fn prepare(&mut self, step: &Step, batch: &Batch) -> Result<(), Failed> {
        tiny::fill_caches(self.model, self.session)?;
        Ok(self.model.set_inputs(self.session, batch, &step.shape)?)
    }

    fn traces(&mut self, step: &Step, logits: Address) -> Result<Traces, Failed> {
        let sampled = step.shape.sampled;
        let mut bytes = vec![0; self.logits_bytes(step)];
        self.session.read(logits, &mut bytes)?;
        let layers = 0..self.model.geometry().layers as usize;
        let caches = layers.map(|layer| self.model.cache(self.session, layer)).collect::<Result<_, _>>()?;
        Ok(Traces { logits: bytes, tokens: self.model.tokens(self.session, sampled)?, caches })
    }
}

/// The norm of the differences, relative to that of what is wanted.
fn off_by(got: &[f64], want: &[f64]) -> f64 {
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>().sqrt();
    norm(&mut got.iter().zip(want).map(|(got, want)| got - want)) / norm(&mut want.iter().copied())
}

/// Keys and values of a step's new tokens.
fn written(cache: &PagedCache<f64>, rows: &[Row]) -> Vec<f64> {
    let slots = rows.iter().map(|row| row.slot.unsigned_abs() as usize);
    slots.flat_map(|slot| [cache.keys(slot), cache.values(slot)].concat()).collect()
}
