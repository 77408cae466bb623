//! Milliseconds per step by the number of running requests, from what a server counts in a tick.
//!
//! A decode step gives every running request one token, so a tick of `output` tokens at a mean of `running` requests had
//! `output / running` steps. That holds where no prompt is computed: ticks in which a first token came, or more requests run
//! at the end than at the beginning, are left out, and the one after a first token too, whose prompts may reach into it. So
//! is the last tick, in which the run ended.
//!
//! Who runs beside whom differs between a measured and a predicted run, and a tick is a whole number of steps long on neither
//! side. What tells the error of the costs alone is the price of each measured tick's own batch: its running requests, and
//! the KV blocks that they held.

use super::outcome::{Outcome, percentile};

/// Ticks of one kind, together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepTime {
    /// Milliseconds per step of each tick.
    ms: Vec<f64>,
    /// Of the ticks whose batch could be priced: its price, and that over the tick's own time per step.
    priced: Vec<(f64, f64)>,
    /// Requests running, summed over ticks.
    running: f64,
}

/// A tick of pure decode.
#[derive(Clone, Copy, Debug)]
pub struct DecodeTick {
    place: usize,
    /// Milliseconds per step.
    ms: f64,
    /// Requests running in the mean of both ends.
    pub running: f64,
    /// The share of the KV pool in use in the mean of both ends, where both are known.
    pub kv_share: Option<f64>,
}

impl StepTime {
    /// How many ticks.
    #[must_use]
    pub fn ticks(&self) -> u32 {
        self.ms.len() as u32
    }

    /// Milliseconds per step: the median of the ticks, which a few do not move in which preempted requests were computed
    /// again; `None` without ticks.
    #[must_use]
    pub fn ms(&self) -> Option<f64> {
        percentile(&self.ms, 0.5)
    }

    /// The price of a decode step of each tick's own batch, and that over what was measured less one: medians of the ticks.
    /// `None` where no batch could be priced.
    #[must_use]
    pub fn priced(&self) -> Option<(f64, f64)> {
        let (prices, ratios): (Vec<f64>, Vec<f64>) = self.priced.iter().copied().unzip();
        Some((percentile(&prices, 0.5)?, percentile(&ratios, 0.5)? - 1.0))
    }

    /// Requests running in the mean; `None` without ticks.
    #[must_use]
    pub fn mean_running(&self) -> Option<f64> {
        (!self.ms.is_empty()).then(|| self.running / self.ms.len() as f64)
    }

    fn add(&mut self, tick: &DecodeTick, price: &Price<'_>) {
        self.ms.push(tick.ms);
        self.running += tick.running;
        self.priced.extend(price(tick).map(|ms| (ms, ms / tick.ms)));
    }
}

/// What a decode step of a tick's batch is priced at, in milliseconds.
pub type Price<'a> = dyn Fn(&DecodeTick) -> Option<f64> + 'a;

/// The price where there is none.
#[must_use]
pub fn unpriced(_: &DecodeTick) -> Option<f64> {
    None
}

/// The ticks of pure decode.
fn decode_ticks(outcome: &Outcome) -> impl Iterator<Item = DecodeTick> {
    let last = outcome.ticks.len().saturating_sub(1);
    (1..).zip(outcome.ticks[..last].windows(2)).filter_map(|(place, pair)| {
        let [before, tick] = pair else { return None };
        let quiet = before.prompt_tokens == 0.0 && tick.prompt_tokens == 0.0 && tick.running <= before.running;
        let running = f64::midpoint(before.running, tick.running);
        let kv_share = before.kv_share.zip(tick.kv_share).map(|(before, after)| f64::midpoint(before, after));
        let ms = tick.seconds * 1e3 * running / tick.output_tokens;
        (quiet && ms.is_finite() && ms > 0.0).then_some(DecodeTick { place, ms, running, kv_share })
    })
}

/// By bins of `width` running requests: the first holds 1 to `width`.
#[must_use]
pub fn by_running(outcome: &Outcome, width: u32, price: &Price<'_>) -> Vec<StepTime> {
    let mut bins: Vec<StepTime> = Vec::new();
    for tick in decode_ticks(outcome) {
        let bin = ((tick.running - 1.0).max(0.0) / f64::from(width)) as usize;
        if bin >= bins.len() {
            bins.resize(bin + 1, StepTime::default());
        }
        bins[bin].add(&tick, price);
    }
    bins
}

/// While the queue had not emptied for good, and afterwards.
#[must_use]
pub fn saturated_and_drain(outcome: &Outcome, price: &Price<'_>) -> [StepTime; 2] {
    let mut parts = [StepTime::default(), StepTime::default()];
    let queue_empty = outcome.ticks.iter().rposition(|tick| tick.waiting > 0.0);
    for tick in decode_ticks(outcome) {
        parts[usize::from(Some(tick.place) > queue_empty)].add(&tick, price);
    }
    parts
}
