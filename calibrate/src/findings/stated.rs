//! What a profile states beside the figures that probes found.

use std::collections::BTreeMap;

use crate::fit::HeldOut;
use crate::measure::{Campaign, Estimate, StoppedBy};
use crate::probe::result::Padding;
use crate::profile::{
    self, Group, Interval, Kind, LEAST_FIGURE, Measured, NotMeasured, PaddingCost, Protocol, Provenance,
};

/// Whose figures they are.
#[derive(Clone, Debug)]
pub struct Statement {
    /// [`Kind::Measured`], or [`Kind::Double`] of the driver double, always.
    pub kind: Kind,
    /// Who measured them, on what, when: `calibrate 0.1.0 on NVIDIA H200, 2026-01-31T09:30:00Z`.
    pub source: String,
    /// Why figures that depend on the model's kernels are those of other kernels of the same shapes, as for a quantised
    /// model: then they are declared, not measured.
    pub shapes_only: Option<String>,
}

/// Figures of a file keep so many digits: more than any measurement is good for.
const DIGITS: usize = 6;

/// An estimate as a profile holds it: of a cost, which is never below zero.
pub(super) fn figure(estimate: Estimate) -> (f64, Interval) {
    let value = rounded(estimate.value).max(0.0);
    let (low, high) = (rounded(estimate.low).max(0.0), rounded(estimate.high));
    (value, Interval { low: low.min(value), high: high.max(value), samples: estimate.samples.max(1) })
}

/// The same, the figure more than zero: [`LEAST_FIGURE`] where the estimate is not.
pub(super) fn positive(estimate: Estimate) -> (f64, Interval) {
    let (value, interval) = figure(estimate);
    if value >= LEAST_FIGURE {
        (value, interval)
    } else {
        (LEAST_FIGURE, Interval { high: interval.high.max(LEAST_FIGURE), ..interval })
    }
}

pub(super) fn rounded(value: f64) -> f64 {
    format!("{value:.*e}", DIGITS - 1).parse().unwrap_or(value)
}

impl Statement {
    /// Figures that do not depend on the model's kernels.
    pub(super) fn group<T>(&self, figures: T, method: &str, valid: Option<String>, measured: Measured) -> Group<T> {
        let provenance = Provenance {
            kind: self.kind,
            source: self.source.clone(),
            licence: None,
            method: Some(method.to_owned()),
            valid,
            range: None,
        };
        Group { figures, provenance, measured: Some(measured) }
    }

    /// Figures of the model's own kernels; declared, where other kernels stood in for them.
    pub(super) fn kernels<T>(&self, figures: T, method: &str, valid: Option<String>, measured: Measured) -> Group<T> {
        let group = self.group(figures, method, valid, measured);
        let Some(reason) = &self.shapes_only else { return group };
        // Of the double the figures stay its own: they are never anything else.
        if self.kind == Kind::Double {
            return group;
        }
        let provenance = Provenance {
            kind: Kind::Declared,
            source: format!("{}; bf16 kernels of the model's shapes stand in for its own: {reason}", self.source),
            range: Some("not known: the model's own kernels were not run".to_owned()),
            ..group.provenance
        };
        Group { provenance, measured: None, ..group }
    }
}

/// How several campaigns went together; `None` of none.
pub(super) fn protocol(campaigns: &BTreeMap<String, Campaign>) -> Option<Protocol> {
    let farther = |a: f64, b: f64| if (b - 1.0).abs() > (a - 1.0).abs() { b } else { a };
    let all = |count: fn(&Campaign) -> u32| campaigns.values().map(count).fold(0, u32::saturating_add);
    let drifts = campaigns.values().flat_map(|campaign| [campaign.drift.repeated, campaign.drift.halves]);
    let mut stopped_by: Vec<&str> = campaigns.values().map(|campaign| words(campaign.stopped_by)).collect();
    stopped_by.sort_unstable();
    stopped_by.dedup();
    Some(Protocol {
        rounds: campaigns.values().map(|campaign| campaign.rounds).min()?,
        warm_up_visits: all(|campaign| campaign.warm_up_visits),
        outliers: all(|campaign| campaign.outliers),
        drift_ratio: rounded(drifts.filter(|drift| drift.is_finite() && *drift > 0.0).fold(1.0, farther)),
        stopped_by: stopped_by.join(", "),
    })
}

fn words(stopped_by: StoppedBy) -> &'static str {
    match stopped_by {
        StoppedBy::Target => "every interval as narrow as asked for",
        StoppedBy::TimeLimit => "no time for another round",
        StoppedBy::RoundLimit => "all rounds run",
    }
}

/// The error of reading between the knots of a table, as a profile states it.
pub(super) fn held_out(points: &[(f64, f64)]) -> Option<profile::HeldOut> {
    let held_out = HeldOut::of(points)?;
    Some(profile::HeldOut {
        sizes: held_out.points,
        median_percent: rounded(100.0 * held_out.median),
        worst_percent: rounded(100.0 * held_out.max),
        worst_at: held_out.max_at,
    })
}

/// What a padded row costs, as a profile states it; below zero where larger steps were faster.
pub(super) fn padding_cost(padding: &Padding) -> PaddingCost {
    let Padding { row_us, to_rows } = padding;
    let us_per_row = rounded(row_us.value);
    PaddingCost {
        us_per_row,
        low: rounded(row_us.low).min(us_per_row),
        high: rounded(row_us.high).max(us_per_row),
        samples: row_us.samples.max(1),
        to_rows: f64::from(to_rows.0),
    }
}

/// The lowest and the highest clock of all campaigns, MHz, where it could be read.
pub fn clock_range_mhz<'a>(campaigns: impl IntoIterator<Item = &'a Campaign>) -> Option<[f64; 2]> {
    let ranges = campaigns.into_iter().filter_map(|campaign| campaign.sm_clock_mhz);
    ranges.map(|range| [range.low, range.high]).reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])])
}

/// What no calibration measures, for a profile's list: on one rank of `tensor_parallel`, with kernels of prefill and decode
/// apart or not.
pub fn left_out(tensor_parallel: u32, separate_kernels: bool) -> Vec<NotMeasured> {
    let left_out = |what: &str, why: &str| NotMeasured { what: what.to_owned(), why: why.to_owned() };
    let mixed = if separate_kernels {
        "the kernels of prefill and decode are separate: the cost of a mixed step is their sum, less the cache writes that both hold"
    } else {
        "the sum of prefill and decode stands in for a mixed step, and is flagged"
    };
    let mut list = vec![
        left_out("mixed steps", mixed),
        left_out(
            "the dispatch cost of a Python engine",
            "calibrate sees no engine: [engine] holds planning figures with their ranges, to be fitted to the engine's own \
             logs (`sim fit`, not built yet)",
        ),
        left_out(
            "an engine's own part of a capture",
            "the seconds are those of the driver and of launching: warm-up steps and Python come on top of each capture",
        ),
    ];
    if tensor_parallel > 1 {
        let why = format!("one rank of {tensor_parallel} was measured alone: steps of the whole group take longer");
        list.push(left_out("collectives", &why));
    }
    list
}
