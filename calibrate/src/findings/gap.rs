//! What a step takes longer on the device than as one graph: launched one by one, and in pieces.
//!
//! `dense(rows)` is the time of one graph, and so is what a FULL step takes. Launches leave longer gaps between kernels than
//! the nodes of a graph do, and each graph of a PIECEWISE step begins anew (GPU specification section 4, "gap"). Both are
//! differences between whole steps of calibrate's own launches, which are those that the other device times hold too: an
//! engine that launches more kernels has more gaps.

use super::error::Unusable;
use super::found::{Found, curve};
use super::stated::{Statement, positive};
use crate::graph_mode::Mode;
use crate::measure::Estimate;
use crate::probe::result::{DenseTable, LaunchCosts, LinearCost, RungCosts, Rungs};
use crate::profile::{Curve, Group, Measured};

/// Launches of the head, which stays eager behind either mode: choice of the rows, LM head, argmax.
const HEAD_LAUNCHES: u32 = 3;
/// What a method says of a mode that was not captured.
const COUNTED: &str = "by the lines over empty kernels and the number of launches, for ";

/// Steps launched one by one, by their rows.
///
/// # Errors
/// No rung.
pub(super) fn eager(
    rungs: &Found<'_, Rungs>,
    launch: &LaunchCosts,
    statement: &Statement,
) -> Result<Group<Curve>, Unusable> {
    const WHAT: &str = "gaps of launches";
    let full = of_mode(rungs.result, Mode::Full);
    if !full.is_empty() {
        let method =
            "device time of whole steps launched one by one, the host far ahead, less that of their FULL graph";
        let points = full.iter().map(|rung| (rung.rows.0, rung.gap_us)).collect();
        return group(WHAT, points, rungs, method, statement);
    }
    let by_line = |rung: &&RungCosts| {
        let launches = f64::from(rung.launches.saturating_sub(HEAD_LAUNCHES));
        let LinearCost { fixed_us, each_us } = launch.eager_device;
        let graph = launch.graph_device;
        let terms = [(1.0, fixed_us), (launches, each_us), (-1.0, graph.fixed_us), (-launches, graph.each_us)];
        (rung.rows.0, added(&terms))
    };
    let points = of_mode(rungs.result, Mode::Piecewise).iter().map(by_line).collect();
    group(WHAT, points, rungs, &format!("{COUNTED}FULL was not captured"), statement)
}

/// PIECEWISE steps, by the rows of their graphs; of a model of so many attention layers.
///
/// # Errors
/// No rung.
pub(super) fn piecewise(
    rungs: &Found<'_, Rungs>,
    dense: &DenseTable,
    launch: &LaunchCosts,
    layers: u32,
    statement: &Statement,
) -> Result<Group<Curve>, Unusable> {
    const WHAT: &str = "gaps of pieces";
    let pieces = of_mode(rungs.result, Mode::Piecewise);
    let both: Vec<(u32, Estimate)> =
        pieces.iter().filter_map(|rung| Some((rung.rows.0, rung.beyond_full_us?))).collect();
    if !both.is_empty() {
        let method = "device time of whole PIECEWISE steps, less that of their FULL graph";
        return group(WHAT, both, rungs, method, statement);
    }
    let (graph, eager) = (launch.graph_device, launch.eager_device);
    let by_line = |rows: u32, between: u32| {
        let (graphs, between) = (f64::from(layers), f64::from(between));
        (rows, added(&[(graphs, graph.fixed_us), (between, eager.each_us), (-between, graph.each_us)]))
    };
    let (points, missing) = if pieces.is_empty() {
        // What a graph of the whole step has more than one of its pieces lies between them.
        let inside = dense.points.first().map_or(0, |point| point.nodes);
        let full = of_mode(rungs.result, Mode::Full);
        let points = full.iter().map(|rung| by_line(rung.rows.0, rung.nodes.saturating_sub(inside))).collect();
        (points, "PIECEWISE")
    } else {
        let between = |rung: &RungCosts| rung.launches.saturating_sub(HEAD_LAUNCHES + rung.nodes);
        (pieces.iter().map(|rung| by_line(rung.rows.0, between(rung))).collect(), "FULL")
    };
    group(WHAT, points, rungs, &format!("{COUNTED}{missing} was not captured"), statement)
}

fn of_mode(rungs: &Rungs, mode: Mode) -> Vec<&RungCosts> {
    rungs.rungs.iter().filter(|rung| rung.mode == mode).collect()
}

/// A sum of estimates, each so many times; the ends are added too, so the interval is wider than it needs to be.
fn added(terms: &[(f64, Estimate)]) -> Estimate {
    let sum = |end: fn(&Estimate, bool) -> f64| terms.iter().map(|(times, term)| times * end(term, *times < 0.0)).sum();
    Estimate {
        value: sum(|term, _| term.value),
        low: sum(|term, is_taken_off| if is_taken_off { term.high } else { term.low }),
        high: sum(|term, is_taken_off| if is_taken_off { term.low } else { term.high }),
        samples: terms.iter().map(|(_, term)| term.samples).min().unwrap_or(0),
    }
}

fn group(
    what: &'static str,
    mut points: Vec<(u32, Estimate)>,
    rungs: &Found<'_, Rungs>,
    method: &str,
    statement: &Statement,
) -> Result<Group<Curve>, Unusable> {
    points.sort_by_key(|(rows, _)| *rows);
    points.dedup_by_key(|(rows, _)| *rows);
    let method = format!("{method}; calibrate's own launches, an engine with more of them has more gaps");
    if let [(rows, us)] = points[..] {
        let (us, interval) = positive(us);
        let measured: Measured = rungs.stated(vec![("us", vec![interval])]);
        return Ok(statement.kernels(Curve::Constant(us), &method, Some(format!("{rows} rows")), measured));
    }
    let points: Vec<(f64, Estimate)> = points.into_iter().map(|(rows, us)| (f64::from(rows), us)).collect();
    let (curve, measured, valid) = curve(what, "rows; beyond, as at the nearest", &points, rungs)?;
    Ok(statement.kernels(curve, &method, Some(valid), measured))
}
