//! How many padded rows use up what a replay saves.

use calibrate::profile::{Curve, Overlap, Profile};
use kernels::units::{Requests, Rows};

use crate::cost::{CostModel, Execution, StepWork};

/// The padded rows at which a replay stops paying: its saving on the host over the price of one padded row.
///
/// Only a profile in which a row has one price (a straight line) and host and device time add up has such a number;
/// `None` otherwise, and where a padded row costs nothing.
#[must_use]
pub fn break_even_padded_rows(profile: &Profile, cost: &CostModel, replay: Execution) -> Option<f64> {
    let Curve::Line(line) = &profile.machine.dense.figures else { return None };
    if profile.overlap != Overlap::Additive || line.slope <= 0.0 {
        return None;
    }
    let host_ns = |execution| cost.price_as(&StepWork::default(), execution, Rows(0), Requests(0)).host().0 as f64;
    let saved_us = (host_ns(cost.eager()) - host_ns(replay)) / 1e3;
    Some(saved_us / line.slope)
}
