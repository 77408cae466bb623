//! Graphs and prices of steps that only decode, remembered by their requests: the same batches come again and again. Of
//! steps that compute prompts, too, so much is remembered: where the attention of those that decode is read.

use calibrate::profile::SurfaceRow;

use super::RankCost;
use crate::cost::{BeatPrices, CostModel, StepCost, StepWork};
use crate::engine::plan::GraphPlan;
use crate::engine::shape::{Dispatch, StepShape};
use crate::engine::step::StepPlan;

/// Requests of the largest step that is remembered.
const REQUESTS_MOST: usize = 1 << 16;

/// What was dispatched and priced so far.
#[derive(Debug)]
pub(super) struct DecodePrices<'a> {
    graphs: &'a GraphPlan,
    cost: &'a CostModel,
    by_requests: Vec<Option<Box<DecodePrice<'a>>>>,
    /// By decoding requests.
    rows: Vec<Option<SurfaceRow<'a>>>,
}

/// Steps of one shape that differ in their contexts only.
#[derive(Debug)]
pub(super) struct DecodePrice<'a> {
    shape: StepShape,
    work: StepWork,
    pub(super) dispatch: Dispatch,
    /// The price of the first of them.
    pub(super) cost: StepCost,
    /// Their attention.
    pub(super) beats: BeatPrices<'a>,
}

impl<'a> DecodePrices<'a> {
    pub(super) fn new(graphs: &'a GraphPlan, cost: &'a CostModel) -> Self {
        Self { graphs, cost, by_requests: Vec::new(), rows: Vec::new() }
    }

    /// Dispatches and prices a step.
    #[inline]
    pub(super) fn price(&mut self, plan: &StepPlan) -> RankCost {
        let work = StepWork::of(plan);
        if let Some((known, attention_ns)) = self.of(plan, &work) {
            return RankCost { work, dispatch: known.dispatch, cost: StepCost { attention_ns, ..known.cost } };
        }
        let dispatch = self.graphs.dispatch_step(plan);
        let cost = self.cost.price_along(&work, &dispatch, self.row(work.decode_requests));
        RankCost { work, dispatch, cost }
    }

    /// The decode attention of so many requests; `None` in a profile without any.
    fn row(&mut self, requests: u32) -> Option<&mut SurfaceRow<'a>> {
        let place = requests as usize;
        if place >= self.rows.len() {
            let missing = self.rows.len() as u32..requests.saturating_add(1);
            self.rows.extend(missing.map(|requests| self.cost.decode_row(requests)));
        }
        self.rows[place].as_mut()
    }

    /// The price of steps that decode like this one, and the attention of this one in nanoseconds; `None` where more than
    /// the number of its requests decides about the graph. How far they reach decides about graphs for prompts only.
    #[inline]
    pub(super) fn of(&mut self, plan: &StepPlan, work: &StepWork) -> Option<(&mut DecodePrice<'a>, u64)> {
        let requests = work.requests as usize;
        // Batches of so many requests come with this number of adapters now and that one then.
        let varies = plan.shape.active_loras > 0;
        if work.chunk_tokens > 0 || requests > REQUESTS_MOST || varies {
            return None;
        }
        if requests >= self.by_requests.len() {
            self.by_requests.resize_with(requests + 1, || None);
        }
        let place = &mut self.by_requests[requests];
        let known = place.as_mut().filter(|known| known.is_of(plan, work));
        if let Some(attention_ns) = known.and_then(|known| known.beats.attention_ns(work.decode_context_tokens)) {
            return Some((place.as_deref_mut()?, attention_ns));
        }
        let known = place.insert(Box::new(DecodePrice::new(self.graphs, self.cost, plan, work)?));
        let attention_ns = known.cost.attention_ns;
        Some((known, attention_ns))
    }
}

impl<'a> DecodePrice<'a> {
    #[cold]
    fn new(graphs: &GraphPlan, cost: &'a CostModel, plan: &StepPlan, work: &StepWork) -> Option<Self> {
        let dispatch = graphs.dispatch_step(plan);
        let price = cost.price(work, &dispatch);
        let beats = cost.beats(work, &dispatch, &price)?;
        Some(Self { shape: plan.shape, work: *work, dispatch, cost: price, beats })
    }

    /// Whether a step differs from the first one in its context at most.
    #[inline]
    fn is_of(&self, plan: &StepPlan, work: &StepWork) -> bool {
        let alike = StepWork { decode_context_tokens: self.work.decode_context_tokens, ..*work };
        self.shape == plan.shape && self.work == alike
    }
}
