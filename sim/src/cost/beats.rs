//! Prices of decode steps that differ in their contexts only.

use calibrate::profile::SurfaceRow;

use super::model::{CostModel, nanoseconds, padded_requests};
use super::step::{CostGroup, StepCost, StepWork};
use crate::engine::shape::Dispatch;

/// Reads the attention of decode steps of the same requests on the same graph. All else in their prices is that of the
/// step that it was made from.
#[derive(Clone, Debug)]
pub struct BeatPrices<'a> {
    requests: f64,
    padded_requests_ns: u64,
    /// `None` in a profile without attention.
    row: Option<SurfaceRow<'a>>,
    /// The attention of the step was read outside the range of the profile.
    is_outside: bool,
}

impl CostModel {
    /// The prices of decode steps like this one, whose price is `cost`; `None` unless its attention is that of decoding
    /// requests alone.
    #[must_use]
    pub fn beats(&self, work: &StepWork, dispatch: &Dispatch, cost: &StepCost) -> Option<BeatPrices<'_>> {
        if work.chunk_tokens > 0 || work.decode_requests == 0 {
            return None;
        }
        let requests = f64::from(work.decode_requests);
        let attention = self.attention();
        Some(BeatPrices {
            requests,
            padded_requests_ns: attention
                .map_or(0, |_| self.padded_requests_ns(padded_requests(work, &dispatch.descriptor))),
            row: self.decode_row(work.decode_requests),
            is_outside: cost.outside.contains(CostGroup::DecodeAttention),
        })
    }
}

impl BeatPrices<'_> {
    /// The attention of a step whose requests attend to so many tokens together, in nanoseconds; `None` where it would be
    /// read inside the range of the profile and that of the first step was not, or the other way round.
    #[expect(clippy::inline_always, reason = "the body of the loop over quiet steps")]
    #[inline(always)]
    pub fn attention_ns(&mut self, context_tokens: u64) -> Option<u64> {
        let Some(row) = &mut self.row else { return Some(0) };
        let reading = row.at(context_tokens as f64 / self.requests);
        let is_alike = reading.outside.is_some() == self.is_outside;
        is_alike.then(|| nanoseconds(reading.value) + self.padded_requests_ns)
    }
}

#[cfg(test)]
mod tests {
    use calibrate::profile::Profile;

    use super::*;
    use crate::cost::Execution;
    use crate::cost::model::EngineSide;
    use crate::engine::shape::{Descriptor, RuntimeMode};

    #[test]
    fn beats_cost_what_their_steps_cost() {
        for name in ["a100-llama-3-8b", "h100-llama-2-7b", "rtx4090-llama-3.1-8b", "textbook"] {
            let profile = Profile::builtin(name).expect("built in");
            let side = EngineSide {
                eager: Execution::CompiledEager,
                attention_layers: 32,
                pieces: 33,
                rows_max: 512,
                head_rows_max: 256,
                drafting: Vec::new(),
            };
            let model = CostModel::new(&profile, &side);
            let mut read = 0;
            for requests in [1, 3, 8, 17, 64, 100, 700, 5_000] {
                let work = |context_tokens| StepWork {
                    tokens: requests,
                    requests,
                    sampled: requests,
                    decode_requests: requests,
                    decode_context_tokens: context_tokens,
                    ..StepWork::default()
                };
                let descriptor = Descriptor {
                    mode: RuntimeMode::Full,
                    tokens: requests + 3,
                    requests: Some(requests + 3),
                    uniform: None,
                    max_query: None,
                    loras: 0,
                    ubatches: 1,
                    prefix_chunks: None,
                };
                let dispatch = Dispatch { descriptor, cause: None, relaxed: false };
                let first = work(u64::from(requests) * 700);
                let cost = model.price(&first, &dispatch);
                let Some(mut beats) = model.beats(&first, &dispatch, &cost) else { continue };
                for context_tokens in (1..2_000_000).step_by(997) {
                    let price = model.price(&work(context_tokens), &dispatch);
                    if let Some(attention_ns) = beats.attention_ns(context_tokens) {
                        assert_eq!(attention_ns, price.attention_ns, "{name} {requests} {context_tokens}");
                        assert_eq!((price.outside, price.derived), (cost.outside, cost.derived));
                        read += 1;
                    }
                }
            }
            assert!(read > 100, "{name}: {read}");
        }
    }
}
