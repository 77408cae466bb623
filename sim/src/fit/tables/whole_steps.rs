//! Whole steps as the parts of a profile: what steps of the same rows cost more per KV token is attention, the rest is the
//! work over rows.
//!
//! A whole step does not say what of it is what: attention of a prompt over itself, LM head and sampler, and what of the host
//! does not hide behind the device stay in the work over rows, and the parts say so.

use std::collections::BTreeMap;

use calibrate::fit::median_slope;
use calibrate::measure::median;
use calibrate::profile::{Attention, Axis, Curve, Grid, Group, Kind, Provenance, Surface, Table as Knots};
use kernels::geometry::ModelGeometry;
use kernels::work::dense_work;

use super::grids::rounded;
use super::{Parts, soundness};
use crate::cost::Execution;
use crate::fit::measured_step::{Clock, MeasuredStep};
use crate::fit::{FitError, Source};

/// From the nearest to one graph to the farthest.
const NEAREST: [Execution; 4] = [Execution::Full, Execution::Piecewise, Execution::CompiledEager, Execution::Eager];
/// What a cost that is as good as nothing is written as: no cost of a table may be zero.
const LEAST_US: f64 = 0.001;

/// What a step of a table is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The parts of the profile are made of it.
    Parts,
    /// Beside those it says what launches take.
    Launches,
    /// It is predicted, and no figure is made of it: a PIECEWISE step beside FULL ones.
    Judge,
    /// Nothing: it ran without a graph, with prompt tokens or on fewer or more rows than all that had one, so how long the device
    /// takes is not known.
    Nothing,
}

/// What the steps of a table are for.
#[derive(Clone, Copy, Debug)]
pub struct Uses {
    nearest: Option<Execution>,
    /// Fewest and most rows of the steps that ran so.
    rows: [u32; 2],
}

impl Uses {
    /// Of a table: the steps that ran nearest to one graph decide.
    #[must_use]
    pub fn of(steps: &[MeasuredStep]) -> Self {
        let nearest = NEAREST.into_iter().find(|kind| steps.iter().any(|step| step.execution == *kind));
        let rows = steps.iter().filter(|step| Some(step.execution) == nearest).map(|step| step.rows);
        let rows = rows.fold([u32::MAX, 0], |[least, most], rows| [least.min(rows), most.max(rows)]);
        Self { nearest, rows }
    }

    /// What one step is for.
    #[must_use]
    pub fn of_step(&self, step: &MeasuredStep) -> Use {
        let [least, most] = self.rows;
        if Some(step.execution) == self.nearest {
            Use::Parts
        } else if step.execution.is_graph() {
            Use::Judge
        } else if (least..=most).contains(&step.rows) && step.work.chunk_tokens == 0 {
            Use::Launches
        } else {
            Use::Nothing
        }
    }
}

/// The parts that steps of a table give. Those with graphs decide, FULL ones before PIECEWISE ones; the others are for the
/// launches.
///
/// # Errors
/// No steps with graphs, steps of one size only, or attention that takes more than a step does.
pub fn parts(source: &Source, steps: &[MeasuredStep], model: &ModelGeometry) -> Result<Parts, FitError> {
    let uses = Uses::of(steps);
    let chosen: Vec<&MeasuredStep> = steps.iter().filter(|step| uses.of_step(step) == Use::Parts).collect();
    let Some(MeasuredStep { execution, clock, .. }) = chosen.first() else {
        return Err(FitError::file(&source.file, "no step", "give the table whole"));
    };
    if !execution.is_graph() {
        let problem = "no step with a graph (mode FULL or PIECEWISE)";
        let help = "steps without a graph do not say what of them the device takes and what the launches, so nothing they give \
                    says what a graph saves: measure a few sizes with graphs too, or fit these steps onto a profile with --onto";
        return Err(FitError::file(&source.file, problem, help));
    }
    let slope_us = slope_us(&chosen);
    // Faster than any memory: the host holds these steps up, or noise does, and what context costs does not show.
    let least_us = model.kv_bytes_per_token().0 as f64 / soundness::MOST_BYTES_PER_US;
    let hides = slope_us.is_some_and(|us| us < least_us);
    let kv_us = match slope_us {
        Some(us) => {
            if hides {
                0.0
            } else {
                us
            }
        }
        None => by_bytes_us(&chosen, model),
    };
    let mut by_rows: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for step in &chosen {
        let rest = step.us - kv_us * context_tokens(step);
        if rest <= 0.0 {
            let problem = format!("a step of {} us whose KV tokens alone take more", step.us);
            let help = "check the context of this step and the unit of its time";
            return Err(FitError::line(&source.file, step.line, problem, help));
        }
        by_rows.entry(step.rows).or_default().push(rest);
    }
    let (rows, us): (Vec<f64>, Vec<f64>) =
        by_rows.iter().map(|(&rows, rests)| (f64::from(rows), rounded(median(rests)))).unzip();
    let axis = Axis::new(rows).ok_or_else(|| {
        FitError::file(&source.file, "steps of one size only", "a table over rows needs two sizes at least")
    })?;
    let valid = format!("{} to {} rows, between neighbours on a straight line", axis.knots()[0], axis.last());
    let stays = match clock {
        Clock::Period => "LM head, sampler and what of the host is not hidden stay in it",
        Clock::Forward => "forward passes, waited for one by one: what launches are not hidden stays in it",
    };
    let curve = Curve::Table(Knots::new(axis, us).expect("a time for each size"));
    let mut doubts: Vec<String> = soundness::of_rows(&source.file, &curve, model)?.into_iter().collect();
    if hides {
        doubts.push(format!(
            "{}: steps with graphs take no longer with more context: something else than the device holds them up, so longer \
             contexts than the measured ones, and a device that is the slower part, are priced too low",
            source.file
        ));
    }
    let dense = Group {
        figures: curve,
        provenance: provenance(
            source,
            format!(
                "whole {execution} steps less their KV tokens, medians by rows; {stays}; attention of a prompt over itself too"
            ),
            valid,
        ),
        measured: None,
    };
    let head = (*clock == Clock::Period).then(|| Group {
        figures: Curve::Constant(0.0),
        provenance: provenance(
            source,
            "0: inside machine.dense, which is made of whole steps".to_owned(),
            "as machine.dense".to_owned(),
        ),
        measured: None,
    });
    let how = match slope_us {
        Some(_) if hides => "steps with graphs take no longer with more context",
        Some(_) => "the median slope over KV tokens of steps with the same rows",
        None => {
            "no rows with two contexts: KV bytes at the rate at which the smallest step streams its weights, or what leaves the \
             work over rows level"
        }
    };
    Ok(Parts {
        dense: Some(dense),
        head,
        attention: attention(source, &chosen, kv_us, how),
        launch_gap: None,
        of_whole_steps: *clock == Clock::Period,
        doubts,
    })
}

fn provenance(source: &Source, method: String, valid: String) -> Provenance {
    Provenance {
        kind: Kind::Derived,
        source: source.cited(),
        licence: None,
        method: Some(method),
        valid: Some(valid),
        range: None,
    }
}

/// KV tokens that a step reads besides those of its own prompt tokens.
fn context_tokens(step: &MeasuredStep) -> f64 {
    step.work.decode_context_tokens as f64 + step.work.equivalent_chunk_context()
}

/// Microseconds that a KV token more costs, where steps tell: zero or less where it does not show.
fn slope_us(steps: &[&MeasuredStep]) -> Option<f64> {
    /// Contexts of one size whose pairs are looked at.
    const CONTEXTS: usize = 64;
    let mut by_rows: BTreeMap<u32, BTreeMap<u64, Vec<f64>>> = BTreeMap::new();
    for step in steps.iter().filter(|step| step.work.chunk_tokens == 0) {
        by_rows.entry(step.rows).or_default().entry(step.work.decode_context_tokens).or_default().push(step.us);
    }
    let points: Vec<Vec<(f64, f64)>> = by_rows
        .values()
        .map(|contexts| {
            let each = contexts.iter().map(|(&tokens, us)| (tokens as f64, median(us)));
            each.step_by(contexts.len().div_ceil(CONTEXTS)).collect()
        })
        .collect();
    median_slope(points.iter().map(Vec::as_slice))
}

/// The same by the bytes of a token, at the rate at which the smallest step would stream its weights and nothing else; and no
/// more than leaves the work over rows level in the median.
fn by_bytes_us(steps: &[&MeasuredStep], model: &ModelGeometry) -> f64 {
    let Some(smallest) = steps.iter().min_by_key(|step| step.rows) else { return 0.0 };
    let bytes_per_us = dense_work(model, smallest.rows).bytes / smallest.us;
    let by_bytes_us = model.kv_bytes_per_token().0 as f64 / bytes_per_us;
    let more = steps.iter().filter(|step| context_tokens(step) > 2.0 * context_tokens(smallest).max(1.0));
    let level = more.map(|step| (step.us - smallest.us) / (context_tokens(step) - context_tokens(smallest)));
    let level_us = median(&level.collect::<Vec<_>>());
    if level_us.is_finite() { by_bytes_us.min(level_us.max(0.0)) } else { by_bytes_us }
}

fn attention(source: &Source, steps: &[&MeasuredStep], kv_us: f64, how: &str) -> Option<Group<Attention>> {
    let most = |of: fn(&MeasuredStep) -> f64, least: f64| steps.iter().map(|step| of(step)).fold(least, f64::max);
    let requests = most(|step| step.work.decode_requests.into(), 2.0);
    let contexts = most(|step| step.work.mean_decode_context(), 1.0);
    let chunks = most(|step| step.work.chunk_tokens as f64, 2.0);
    let before = most(|step| step.work.equivalent_chunk_context(), contexts).ceil();
    // A product of two quantities is read exactly between the corners of its range.
    let corners = |x: f64, y: f64, us: &dyn Fn(f64, f64) -> f64| {
        let at = [(1.0, 0.0), (1.0, y), (x, 0.0), (x, y)];
        let values = at.map(|(x, y)| us(x, y).max(LEAST_US)).to_vec();
        Some(Surface::Grid(Grid::new(Axis::new(vec![1.0, x])?, Axis::new(vec![0.0, y])?, values)?))
    };
    let figures = Attention {
        decode: corners(requests, contexts.ceil(), &|requests, context| kv_us * requests * context)?,
        prefill: corners(chunks, before, &|_, context| kv_us * context)?,
        mixed: None,
        separate_kernels: true,
        padded_request_us: 0.0,
        shared_us: 0.0,
    };
    let method = format!("{kv_us:.5} us for each KV token that decodes or chunks read: {how}");
    let valid = format!("decode of 1 to {requests} requests with 0 to {} tokens of context", contexts.ceil());
    Some(Group { figures, provenance: provenance(source, method, valid), measured: None })
}
