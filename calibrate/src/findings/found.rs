//! A probe's result with how it was timed, and a curve made of it.

use std::collections::BTreeMap;

use super::error::Unusable;
use super::stated::{positive, protocol};
use crate::measure::{Campaign, Estimate};
use crate::profile::{Axis, Curve, Interval, Measured, Table};

/// What a probe found, and how its times were measured.
#[derive(Debug)]
pub struct Found<'a, R> {
    /// What it found.
    pub result: &'a R,
    /// How, by what was timed.
    pub campaigns: &'a BTreeMap<String, Campaign>,
}

impl<R> Found<'_, R> {
    /// What is stated of figures with these intervals.
    pub(super) fn stated(&self, intervals: Vec<(&'static str, Vec<Interval>)>) -> Measured {
        Measured { protocol: protocol(self.campaigns), intervals, ..Measured::default() }
    }
}

/// A table of figures in microseconds over places, what is stated of it, and where it holds, in words.
///
/// # Errors
/// As of [`axis`].
pub(super) fn curve<R>(
    what: &'static str,
    quantity: &str,
    points: &[(f64, Estimate)],
    found: &Found<'_, R>,
) -> Result<(Curve, Measured, String), Unusable> {
    let x: Vec<f64> = points.iter().map(|(x, _)| *x).collect();
    let axis = axis(what, x)?;
    let (y, intervals) = points.iter().map(|(_, us)| positive(*us)).unzip();
    let valid = format!("{} to {} {quantity}", axis.knots()[0], axis.last());
    let measured = found.stated(vec![("us", intervals)]);
    Ok((Curve::Table(Table { axis, y, measured_to: None }), measured, valid))
}

/// The places of a table.
///
/// # Errors
/// Fewer than two, or places that do not rise.
pub(super) fn axis(what: &'static str, knots: Vec<f64>) -> Result<Axis, Unusable> {
    let shown = format!("{knots:?}");
    Axis::new(knots).ok_or_else(|| Unusable {
        what,
        problem: format!("measured at {shown}: expected two or more different places, rising"),
    })
}
