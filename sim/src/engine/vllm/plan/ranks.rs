//! One step of all data-parallel ranks: each rank's own choice, the agreement, and what follows for each.

use super::{Dispatcher, GraphPlan, WITHOUT_FULL, answer_v1, query_v2, rounded_up, wants_ubatches};
use crate::engine::shape::{Descriptor, Dispatch, FallbackCause, RankStep, RuntimeMode, StepShape};
use crate::engine::vllm::dispatch::agreement;
use crate::engine::vllm::dispatch::explain::NoTrace;
use crate::engine::vllm::dispatch::v1;

impl GraphPlan {
    /// The graphs of one step that all data-parallel ranks take together, in their order (specification sections 4 and 6).
    /// A shape without tokens is an idle rank: it runs a dummy decode of one request. Empty if no rank has work.
    #[must_use]
    pub fn dispatch_ranks(&self, shapes: &[StepShape]) -> Vec<RankStep> {
        if shapes.iter().all(|shape| shape.tokens == 0) {
            return Vec::new();
        }
        let dummy = self.dummy_shape();
        let filled: Vec<StepShape> =
            shapes.iter().map(|&shape| if shape.tokens == 0 { dummy } else { shape }).collect();
        let choice = self.dispatcher.agree(&filled);
        let step = |rank: usize| {
            let (shape, descriptor) = (filled[rank], choice.agreed[rank]);
            let cause = (descriptor.mode == RuntimeMode::None).then(|| match choice.local_modes[rank] {
                RuntimeMode::None => self.fallback_cause(&shape),
                RuntimeMode::Piecewise | RuntimeMode::Full => FallbackCause::OtherRank,
            });
            let relaxed = descriptor.mode == RuntimeMode::Piecewise && self.has_full_set_for(&shape);
            RankStep {
                shape,
                dispatch: Dispatch { descriptor, cause, relaxed },
                is_dummy: shapes[rank].tokens == 0,
                ubatches: choice.ubatches,
            }
        };
        (0..shapes.len()).map(step).collect()
    }

    /// The step of an idle rank: one request that decodes.
    fn dummy_shape(&self) -> StepShape {
        StepShape {
            requests: 1,
            tokens: self.query_len,
            max_query: self.query_len,
            uniform_v1: true,
            uniform_v2: Some(self.query_len),
            ..StepShape::default()
        }
    }
}

/// What the ranks chose, and what they agreed on, in their order.
struct RankChoice {
    local_modes: Vec<RuntimeMode>,
    agreed: Vec<Descriptor>,
    ubatches: u32,
}

impl Dispatcher {
    fn agree(&self, shapes: &[StepShape]) -> RankChoice {
        match self {
            Self::V1 { graphs, token_multiple, ubatch } => {
                let query = |shape: &StepShape, tokens, allowed| v1::Query {
                    tokens,
                    uniform: shape.uniform_v1,
                    has_lora: shape.active_loras > 0,
                    active_loras: shape.active_loras,
                    allowed,
                };
                let propose = |shape: &StepShape| {
                    let allowed = if shape.encoder_inputs { WITHOUT_FULL } else { v1::ModeSet::ALL };
                    let own = query(shape, rounded_up(shape.tokens, *token_multiple), allowed);
                    let (mode, key) = answer_v1(graphs, &own, &mut NoTrace);
                    agreement::v1::Proposal {
                        unpadded: shape.tokens,
                        padded: key.tokens,
                        mode,
                        wants_ubatches: ubatch.is_some_and(|ubatch| wants_ubatches(ubatch, shape)),
                    }
                };
                let proposals: Vec<_> = shapes.iter().map(propose).collect();
                let agreed = agreement::v1::agree(&proposals, ubatch.map_or(1, |ubatch| ubatch.num_ubatches));
                let rerun = |(shape, &tokens): (&StepShape, &u32)| {
                    let (mode, key) =
                        answer_v1(graphs, &query(shape, tokens, v1::ModeSet::of(agreed.mode)), &mut NoTrace);
                    graphs.descriptor(mode, &key)
                };
                RankChoice {
                    local_modes: proposals.iter().map(|proposal| proposal.mode).collect(),
                    agreed: shapes.iter().zip(&agreed.tokens).map(rerun).collect(),
                    ubatches: agreed.ubatches,
                }
            }
            Self::V2 { graphs, ubatch, .. } => {
                let split = ubatch.filter(|&ubatch| shapes.iter().all(|shape| wants_ubatches(ubatch, shape)));
                let ubatches = split.map_or(1, |ubatch| ubatch.num_ubatches);
                let queries: Vec<_> = shapes.iter().map(|shape| query_v2(shape, ubatches)).collect();
                let agreed = agreement::v2::agree(graphs, &queries);
                let eager = || queries.iter().map(|query| graphs.eager(query)).collect();
                let forced = shapes.iter().any(|shape| shape.encoder_inputs);
                let own_mode = |(shape, graph): (&StepShape, &Descriptor)| {
                    if shape.encoder_inputs { RuntimeMode::None } else { graph.mode }
                };
                RankChoice {
                    local_modes: shapes.iter().zip(&agreed.local).map(own_mode).collect(),
                    agreed: agreed.synced.filter(|_| !forced).unwrap_or_else(eager),
                    ubatches,
                }
            }
        }
    }
}
