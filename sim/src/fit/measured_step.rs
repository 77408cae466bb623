//! One step that somebody timed.

use calibrate::profile::Overlap;
use kernels::units::{Requests, Rows};

use crate::cost::{CostModel, Execution, StepCost, StepWork};

/// What the time of a step spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Clock {
    /// From one step to the next: preparation, launches and device, as far as they do not hide behind each other.
    Period,
    /// The forward pass alone, waited for: launches and device, without preparation, head and sampler.
    Forward,
}

/// A step, how it ran and how long it took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredStep {
    /// Its line in the file, from 1.
    pub line: u64,
    /// How the model ran.
    pub execution: Execution,
    /// Rows that ran, padding included.
    pub rows: u32,
    /// The work without padding.
    pub work: StepWork,
    /// Microseconds.
    pub us: f64,
    /// How many such steps the time is the median of; 1 for a step of its own.
    pub count: u64,
    /// What the time spans.
    pub clock: Clock,
}

impl MeasuredStep {
    /// What a profile says it costs. A FULL graph pads requests where it pads rows.
    #[must_use]
    pub fn price(&self, model: &CostModel) -> StepCost {
        let padded = if self.execution == Execution::Full { self.rows.saturating_sub(self.work.tokens) } else { 0 };
        model.price_as(&self.work, self.execution, Rows(self.rows), Requests(padded))
    }

    /// How long a profile says its time to be, us.
    #[must_use]
    pub fn predicted_us(&self, model: &CostModel, asynchronous: bool) -> f64 {
        let cost = self.price(model);
        let ns = match self.clock {
            Clock::Period => cost.period(model.overlap, asynchronous).0,
            Clock::Forward => {
                let (device_ns, launch_ns) = (cost.device().0 - cost.head_ns - cost.drafting_ns, cost.times().launch.0);
                if model.overlap == Overlap::Additive { device_ns + launch_ns } else { device_ns.max(launch_ns) }
            }
        };
        ns as f64 / 1e3
    }

    /// The work of `requests` that decode, with `context` KV tokens each, beside a prompt of `chunk` tokens, none where 0, after
    /// `chunk_context` tokens.
    #[must_use]
    pub fn work(requests: u32, context: f64, chunk: u32, chunk_context: u32) -> StepWork {
        let mut work = StepWork {
            tokens: requests + chunk,
            requests: requests + u32::from(chunk > 0),
            sampled: requests + u32::from(chunk > 0),
            decode_requests: requests,
            decode_context_tokens: (f64::from(requests) * context).round() as u64,
            ..StepWork::default()
        };
        if chunk > 0 {
            work.add_chunk(chunk, chunk_context);
        }
        work
    }
}
