//! What the rungs of one candidate did, and the steps that ran without one.

use std::collections::BTreeMap;

use reports::{Name, StepRecord};

/// Steps of one candidate, counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tallies {
    /// All steps.
    pub steps: u64,
    /// By the size that they were padded to, tokens.
    pub rungs: BTreeMap<u32, RungTally>,
    /// Those without a graph, by cause.
    pub fallbacks: BTreeMap<Name, u64>,
    /// Those that wanted a FULL graph and ran PIECEWISE.
    pub relaxed: u64,
}

/// What one rung did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RungTally {
    /// Steps that it served.
    pub steps: u64,
    /// Those of them that it did not pad.
    pub exact_steps: u64,
    /// Rows that requests asked for, rows.
    pub real_rows: u64,
    /// Rows that nobody asked for, rows.
    pub padded_rows: u64,
    /// What its steps won (negative: lost) against the eager kind, ns; as far as the log says so.
    pub saved_ns: i64,
    /// Steps of which the log does not say what they won.
    pub saved_unknown: u64,
    /// Steps by mode.
    pub modes: BTreeMap<Name, u64>,
    /// Steps by the rows that requests asked for.
    pub batches: BTreeMap<u32, u64>,
}

impl Tallies {
    /// Counts one step.
    pub fn add(&mut self, step: &StepRecord) {
        self.steps += 1;
        self.relaxed += u64::from(step.relaxed);
        if let Some(cause) = &step.fallback {
            count(&mut self.fallbacks, cause);
        }
        let Some(descriptor) = &step.descriptor else { return };
        let rung = self.rungs.entry(descriptor.tokens).or_default();
        rung.steps += 1;
        rung.exact_steps += u64::from(step.padded_rows == 0);
        rung.real_rows += u64::from(step.real_rows);
        rung.padded_rows += u64::from(step.padded_rows);
        match step.saved_ns {
            Some(ns) => rung.saved_ns = rung.saved_ns.saturating_add(ns),
            None => rung.saved_unknown += 1,
        }
        count(&mut rung.modes, &step.mode);
        *rung.batches.entry(step.real_rows).or_default() += 1;
    }

    /// Steps without a graph.
    #[must_use]
    pub fn fallback_steps(&self) -> u64 {
        self.fallbacks.values().sum()
    }
}

impl RungTally {
    /// What its steps won, ms; `None` where the log does not say so of all of them.
    #[must_use]
    pub fn saved_ms(&self) -> Option<f64> {
        (self.saved_unknown == 0).then_some(self.saved_ns as f64 / 1e6)
    }
}

/// Adds one; a name is copied only when it is new.
fn count(counts: &mut BTreeMap<Name, u64>, name: &Name) {
    match counts.get_mut(name) {
        Some(count) => *count += 1,
        None => drop(counts.insert(name.clone(), 1)),
    }
}
