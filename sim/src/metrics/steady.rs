//! The steady states of open traffic: one with graphs, and perhaps another above the largest captured batch.
//!
//! Little's law with the step time of each regime: tokens asked for per second, times the seconds between a request's
//! tokens, is the number of requests that decode at once. A graph step is short, so few are enough; a step without a
//! graph is long, so more pile up, perhaps so many that they stay above the ceiling and keep the steps long. Both
//! states are then stable, and the load decides by chance which one it is in.

use crate::cost::StepWork;
use crate::engine::shape::FallbackCause;
use crate::time::SimDuration;

/// Steps of one regime. A step with prefill belongs to the regime of the decode step before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Regime {
    /// Steps in which requests decoded.
    pub decode_steps: u64,
    /// Durations of all steps, those that only prefill included.
    pub duration: SimDuration,
}

/// What the steps of a run say about steady states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SteadyStates {
    /// While batches fit a graph.
    pub with_graphs: Regime,
    /// While batches of decoding requests were larger than every graph.
    pub above_ceiling: Regime,
    /// Decode steps that ran a graph, and what they would have taken without.
    pub as_if_eager: Regime,
    /// The last decode step was larger than every graph.
    pub is_above_ceiling: bool,
    /// The same when the last request was sent: afterwards every run comes down.
    pub above_ceiling_at_last_sent: bool,
}

impl SteadyStates {
    /// Takes note of `count` steps of the same work, why they ran without a graph, if they did, and how long all of them
    /// took; `eager` is what graph steps would have taken without their graph.
    #[inline]
    pub fn record(
        &mut self,
        work: &StepWork,
        cause: Option<FallbackCause>,
        count: u64,
        durations: SimDuration,
        eager: Option<SimDuration>,
    ) {
        let decode_steps = if work.decode_requests > 0 { count } else { 0 };
        if decode_steps > 0 && work.chunk_tokens == 0 {
            let above = cause == Some(FallbackCause::AboveCeiling);
            if !above && cause.is_some() {
                return;
            }
            self.is_above_ceiling = above;
            if let Some(eager) = eager {
                self.as_if_eager.add(count, eager);
            }
        }
        let regime = if self.is_above_ceiling { &mut self.above_ceiling } else { &mut self.with_graphs };
        regime.add(decode_steps, durations);
    }

    /// Takes note of a request that is sent.
    pub fn record_sent(&mut self) {
        self.above_ceiling_at_last_sent = self.is_above_ceiling;
    }

    /// Seconds between a request's tokens above the ceiling: as seen, else as the graph steps would have run.
    #[must_use]
    pub fn eager_interval_s(&self) -> Option<f64> {
        self.above_ceiling.interval_s().or_else(|| self.as_if_eager.interval_s())
    }
}

/// Decode steps from which on a regime's mean says something.
const STEPS_OF_NOTE: u64 = 100;

impl Regime {
    fn add(&mut self, decode_steps: u64, durations: SimDuration) {
        self.decode_steps += decode_steps;
        self.duration += durations;
    }

    /// Seconds between the tokens of a decoding request; `None` from too few steps.
    #[must_use]
    pub fn interval_s(&self) -> Option<f64> {
        (self.decode_steps >= STEPS_OF_NOTE).then(|| self.duration.as_s() / self.decode_steps as f64)
    }
}
