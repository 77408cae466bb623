//! Graphs and prices of steps that only decode, remembered by their requests: the same batches come again and again.

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
        Self { graphs, cost, by_requests: Vec::new() }
    }

    /// Dispatches and prices a step.
    #[inline]
    pub(super) fn price(&mut self, plan: &StepPlan) -> RankCost {
        let work = StepWork::of(plan);
        if let Some(known) = self.of(plan, &work)
            && let Some(attention_ns) = known.beats.attention_ns(work.decode_context_tokens)
        {
            return RankCost { work, dispatch: known.dispatch, cost: StepCost { attention_ns, ..known.cost } };
        }
        let dispatch = self.graphs.dispatch_step(plan);
        RankCost { work, dispatch, cost: self.cost.price(&work, &dispatch) }
    }

    /// The price of steps that decode like this one; `None` where more than their number decides about the
    /// graph, or the attention lies outside the profile.
    #[inline]
    pub(super) fn of(&mut self, plan: &StepPlan, work: &StepWork) -> Option<&mut DecodePrice<'a>> {
        let requests = work.requests as usize;
        // Batches of so many requests come with this number of adapters now and that one then.
        let varies = plan.shape.active_loras > 0 || self.graphs.asks_for_extent();
        if work.chunk_tokens > 0 || requests > REQUESTS_MOST || varies {
            return None;
        }
        if requests >= self.by_requests.len() {
            self.by_requests.resize_with(requests + 1, || None);
        }
        let known = &mut self.by_requests[requests];
        if known.as_ref().is_none_or(|known| !known.is_of(plan, work)) {
            *known = DecodePrice::new(self.graphs, self.cost, plan, work).map(Box::new);
        }
        known.as_deref_mut()
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

    fn is_of(&self, plan: &StepPlan, work: &StepWork) -> bool {
        self.shape == plan.shape
            && self.work == StepWork { decode_context_tokens: self.work.decode_context_tokens, ..*work }
    }
}
