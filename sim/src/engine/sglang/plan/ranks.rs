//! One step of all ranks of data-parallel attention: they replay graphs of one size together, or none does (SGLang
//! specification section 5).

use super::{GraphPlan, Refusal};
use crate::engine::sglang::dispatch::decode::DecodeBatch;
use crate::engine::shape::{Descriptor, Dispatch, FallbackCause, RankStep, StepShape};
use crate::engine::step::StepExtent;

impl GraphPlan {
    /// The graphs of one step that all ranks take together, in their order. A shape without tokens is an idle rank: it
    /// decodes nobody, on the same graph as the others. Empty if no rank has work.
    ///
    /// Ranks that decode are recast as ranks that compute prompts of one token each where another rank computes prompts,
    /// so that all can replay prefill graphs; where they cannot be, nobody replays. `extents` are those of the same ranks.
    #[must_use]
    pub fn dispatch_ranks(&self, shapes: &[StepShape], extents: &[StepExtent]) -> Vec<RankStep> {
        if shapes.iter().all(|shape| shape.tokens == 0) {
            return Vec::new();
        }
        let prefilling = shapes.iter().any(|shape| shape.prefilling);
        let answers: Vec<Result<Descriptor, FallbackCause>> = shapes
            .iter()
            .zip(extents)
            .map(
                |(shape, &extent)| {
                    if prefilling { self.prefill_vote(shape, extent) } else { self.decode_vote(shape, shapes) }
                },
            )
            .collect();
        let agreed = answers.iter().all(Result::is_ok);
        let tokens = answers.iter().flatten().map(|graph| graph.tokens).max().unwrap_or(0);
        let step = |(&shape, answer): (&StepShape, &Result<Descriptor, FallbackCause>)| {
            let dispatch = match answer {
                Ok(graph) if agreed => {
                    Dispatch { descriptor: Descriptor { tokens, ..*graph }, cause: None, relaxed: false }
                }
                Ok(_) => self.without_graph(&shape, FallbackCause::OtherRank),
                Err(cause) => self.without_graph(&shape, *cause),
            };
            RankStep { shape, dispatch, is_dummy: shape.tokens == 0, ubatches: 1 }
        };
        shapes.iter().zip(&answers).map(step).collect()
    }

    /// A rank's graph where all decode: its size holds the busiest rank.
    fn decode_vote(&self, shape: &StepShape, shapes: &[StepShape]) -> Result<Descriptor, FallbackCause> {
        let runner = self.decode.as_ref().ok_or(FallbackCause::ModeExcluded)?;
        let width = if shape.tokens == 0 { runner.width } else { shape.max_query };
        let batch = DecodeBatch {
            rank_requests_max: shapes.iter().map(|shape| shape.requests).max(),
            ..DecodeBatch::of(shape.requests, width)
        };
        let size = runner.can_run(&batch).map_err(|refusal| Refusal::Decode(refusal).cause())?;
        Ok(self.decode_graph(size, runner.width, self.loras_of(shape)))
    }

    /// A rank's graph where some rank computes prompts. An idle rank has none.
    fn prefill_vote(&self, shape: &StepShape, extent: StepExtent) -> Result<Descriptor, FallbackCause> {
        if shape.tokens == 0 || (!shape.prefilling && !self.recasts_decodes) {
            return Err(FallbackCause::ModeExcluded);
        }
        let key = self.ask_prefill(shape, extent).map_err(Refusal::cause)?;
        Ok(self.prefill_graph(key, self.loras_of(shape)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::options::{KvOptions, SglangOptions, Speculative, SpeculativeAlgorithm};
    use super::*;
    use crate::engine::shape::RuntimeMode;

    fn plan(options: SglangOptions) -> GraphPlan {
        let kv = KvOptions { gpu_mem_mib: Some(81_559), ..KvOptions::default() };
        GraphPlan::build(&SglangOptions { kv, ..options }, 2048).expect("the engine starts")
    }

    fn decode(requests: u32) -> StepShape {
        StepShape { requests, tokens: requests, max_query: u32::from(requests > 0), ..StepShape::default() }
    }

    fn prefill(tokens: u32) -> StepShape {
        StepShape { requests: 1, tokens, max_query: tokens, prefilling: true, ..StepShape::default() }
    }

    fn together(plan: &GraphPlan, shapes: &[StepShape]) -> Vec<RankStep> {
        plan.dispatch_ranks(shapes, &vec![StepExtent::default(); shapes.len()])
    }

    fn ran(plan: &GraphPlan, shapes: &[StepShape]) -> Vec<(RuntimeMode, u32, Option<FallbackCause>)> {
        let answer = |step: &RankStep| {
            let Dispatch { descriptor, cause, .. } = step.dispatch;
            (descriptor.mode, descriptor.tokens, cause)
        };
        together(plan, shapes).iter().map(answer).collect()
    }

    #[test]
    fn decoding_ranks_run_the_size_of_the_busiest_and_an_idle_one_joins() {
        let plan = plan(SglangOptions::default());
        assert_eq!(ran(&plan, &[decode(3), decode(9), decode(0)]), [(RuntimeMode::Full, 12, None); 3]);
        let steps = together(&plan, &[decode(3), decode(0)]);
        assert_eq!([steps[0].is_dummy, steps[1].is_dummy], [false, true]);
        assert_eq!(ran(&plan, &[decode(0), decode(0)]), []);
        let above = Some(FallbackCause::AboveCeiling);
        assert_eq!(
            ran(&plan, &[decode(3), decode(300)]),
            [(RuntimeMode::None, 3, above), (RuntimeMode::None, 300, above)]
        );
    }

    #[test]
    fn a_rank_that_computes_prompts_takes_decoding_ranks_along_but_no_idle_one() {
        let mut options = SglangOptions::default();
        let default = plan(options.clone());
        assert_eq!(ran(&default, &[prefill(100), decode(9)]), [(RuntimeMode::Piecewise, 112, None); 2]);
        let (other, excluded) = (Some(FallbackCause::OtherRank), Some(FallbackCause::ModeExcluded));
        assert_eq!(
            ran(&default, &[prefill(100), decode(0)]),
            [(RuntimeMode::None, 100, other), (RuntimeMode::None, 0, excluded)]
        );
        let no_key = Some(FallbackCause::NoKey);
        assert_eq!(
            ran(&default, &[prefill(100), decode(1)]),
            [(RuntimeMode::None, 100, other), (RuntimeMode::None, 1, no_key)],
            "one token would be padded to four"
        );
        options.speculative = Some(Speculative { algorithm: SpeculativeAlgorithm::Eagle, num_draft_tokens: 2 });
        let verify = StepShape { tokens: 16, max_query: 2, ..decode(8) };
        assert_eq!(
            ran(&plan(options), &[prefill(100), verify]),
            [(RuntimeMode::None, 100, other), (RuntimeMode::None, 16, excluded)]
        );
    }
}
