//! Weighted sums over the steps of a histogram.

use kernels::units::{Requests, Rows};
use std::collections::{BTreeMap, BTreeSet};

use super::other_graphs::{EncoderSum, ReplaySum};
use crate::cost::{Execution, StepCost, StepWork};
use crate::engine::options::EngineOptions;
use crate::engine::plan::Rung;
use crate::engine::shape::{Dispatch, RuntimeMode, StepShape};
use crate::server::Setup;
use crate::traffic::{StepHistogram, StepRow};

/// Sums over all steps of a histogram, each row weighted by its count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expectation {
    /// Steps.
    pub steps: u128,
    /// Steps that run a graph.
    pub graph_steps: u128,
    /// Nanoseconds if every step ran eager, without compilation.
    pub eager_ns: u128,
    /// Nanoseconds if every step ran compiled, without a graph.
    pub compiled_ns: u128,
    /// Nanoseconds as dispatched.
    pub dispatched_ns: u128,
    /// Nanoseconds if every graph step in which replay loses ran without a graph.
    pub best_ns: u128,
    /// Real rows of all steps.
    pub real_rows: u128,
    /// Steps in which replay costs more.
    pub losing_steps: u128,
    /// The batches of those steps, in rows.
    pub losing_batches: BTreeSet<u32>,
    /// Steps with a price from outside some range.
    pub outside_steps: u128,
    /// Sum over graph steps of padded rows / batch.
    pub padding_over_batch: f64,
    /// Sum over graph steps of padded rows / rung.
    pub padding_over_rung: f64,
    /// Per rung, those that never fire included.
    pub rungs: BTreeMap<Rung, RungSum>,
    /// Images and the encoder's graphs; `None` if no step holds an image.
    pub encoder: Option<EncoderSum>,
    /// The replay layers; `None` for a model without such layers.
    pub replay: Option<ReplaySum>,
}

/// Sums over the steps of one rung.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RungSum {
    /// Steps.
    pub steps: u128,
    /// Steps without padding.
    pub exact_steps: u128,
    /// Real rows.
    pub real_rows: u128,
    /// Padded rows.
    pub padded_rows: u128,
    /// Nanoseconds saved against the engine's eager kind; negative for a loss.
    pub saved_ns: i128,
}

/// Dispatches and prices every shape of the histogram once.
#[must_use]
pub fn expect(histogram: &StepHistogram, setup: &Setup) -> Expectation {
    let mut sums = Expectation::default();
    for key in setup.graphs.capture_order() {
        sums.rungs.entry(setup.graphs.rung(key)).or_default();
    }
    let other = setup.graphs.other_graphs();
    let has_images = histogram.rows.iter().any(|row| !row.images.is_empty());
    sums.encoder = has_images.then(|| EncoderSum::new(other.and_then(|other| other.encoder.as_ref())));
    sums.replay = other.and_then(|other| other.replay.as_ref()).map(ReplaySum::new);
    for row in &histogram.rows {
        sums.add(row, setup);
    }
    sums
}

impl Expectation {
    fn add(&mut self, row: &StepRow, setup: &Setup) {
        let cost = &setup.cost;
        let asynchronous = setup.options.asynchronous();
        let period_ns = |price: &StepCost| u128::from(price.period(cost.overlap, asynchronous).0);
        let shape = shape(row, setup);
        let work = work(row, setup);
        let dispatch = setup.graphs.dispatch(&shape);
        let dispatched = cost.price(&work, &dispatch);
        let without_graph = cost.price_eager(&work);
        let count = u128::from(row.count);

        let other = setup.graphs.other_graphs();
        if let Some(sum) = &mut self.encoder {
            sum.add(row, other.and_then(|other| other.encoder.as_ref()));
        }
        if let (Some(sum), Some(replay)) = (&mut self.replay, other.and_then(|other| other.replay.as_ref())) {
            sum.add(row, &dispatch.descriptor, replay, setup.options.decode_tokens());
        }

        let (dispatched_ns, without_ns) = (period_ns(&dispatched), period_ns(&without_graph));
        self.steps += count;
        self.real_rows += count * u128::from(row.tokens);
        self.eager_ns += count * period_ns(&cost.price_as(&work, Execution::Eager, Rows(row.tokens), Requests(0)));
        self.compiled_ns +=
            count * period_ns(&cost.price_as(&work, Execution::CompiledEager, Rows(row.tokens), Requests(0)));
        self.dispatched_ns += count * dispatched_ns;
        self.best_ns += count * dispatched_ns.min(without_ns);
        if !dispatched.outside.is_empty() {
            self.outside_steps += count;
        }
        if dispatched_ns > without_ns {
            self.losing_steps += count;
            self.losing_batches.insert(row.tokens);
        }
        if dispatch.descriptor.mode != RuntimeMode::None {
            let rung = setup.graphs.rung(&dispatch.descriptor);
            let saved_ns = without_ns.cast_signed() - dispatched_ns.cast_signed();
            self.add_graph_step(rung, &shape, &dispatch, count, saved_ns);
        }
    }

    fn add_graph_step(&mut self, rung: Rung, shape: &StepShape, dispatch: &Dispatch, count: u128, saved_ns: i128) {
        let padded_rows = dispatch.padded_rows(shape);
        let rung_rows = dispatch.descriptor.tokens;
        self.graph_steps += count;
        self.padding_over_batch += count as f64 * f64::from(padded_rows) / f64::from(shape.tokens);
        self.padding_over_rung += count as f64 * f64::from(padded_rows) / f64::from(rung_rows);
        let rung = self.rungs.entry(rung).or_default();
        rung.steps += count;
        rung.exact_steps += if padded_rows == 0 { count } else { 0 };
        rung.real_rows += count * u128::from(shape.tokens);
        rung.padded_rows += count * u128::from(padded_rows);
        rung.saved_ns += count.cast_signed() * saved_ns;
    }

    /// All graph steps together.
    #[must_use]
    pub fn all_rungs(&self) -> RungSum {
        self.rungs.values().fold(RungSum::default(), |sum, rung| RungSum {
            steps: sum.steps + rung.steps,
            exact_steps: sum.exact_steps + rung.exact_steps,
            real_rows: sum.real_rows + rung.real_rows,
            padded_rows: sum.padded_rows + rung.padded_rows,
            saved_ns: sum.saved_ns + rung.saved_ns,
        })
    }
}

/// A row as the cost formulas see it, without context. In a decode step everybody samples, and has as many drafts as its
/// query says.
#[must_use]
pub fn work(row: &StepRow, setup: &Setup) -> StepWork {
    let decodes = !prefilling(row, setup) && row.query_len <= setup.options.decode_tokens();
    let (drafts, sampled) = if decodes { (row.tokens - row.requests, row.requests) } else { (0, 0) };
    StepWork { tokens: row.tokens, requests: row.requests, drafts, sampled, ..StepWork::default() }
}

/// Whether a row holds a prefill. A uniform row is a decode step past its prefill; any other holds a prefill, and so does
/// one with images. SGLang's decode steps have one length: a uniform row of another computes prompts.
#[must_use]
pub fn prefilling(row: &StepRow, setup: &Setup) -> bool {
    let decodes = match &setup.options {
        EngineOptions::Vllm(_) => true,
        EngineOptions::Sglang(options) => row.query_len == options.decode_width(),
    };
    !row.is_uniform() || !row.images.is_empty() || !decodes
}

/// A row as the dispatcher sees it.
#[must_use]
pub fn shape(row: &StepRow, setup: &Setup) -> StepShape {
    let uniform = row.is_uniform();
    let prefilling = prefilling(row, setup);
    let decode_query = setup.options.decode_tokens();
    StepShape {
        requests: row.requests,
        tokens: row.tokens,
        max_query: row.query_len,
        uniform_v1: uniform && row.query_len == decode_query,
        uniform_v2: (!prefilling).then_some(row.query_len),
        prefilling,
        active_loras: 0,
        encoder_inputs: false,
    }
}
