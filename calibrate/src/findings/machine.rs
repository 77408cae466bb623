//! The machine half of a profile from what the probes found.

use std::collections::BTreeMap;

use kernels::units::Bytes;

use super::error::Unusable;
use super::found::{Found, axis, curve};
use super::gap;
use super::stated::{Statement, figure, held_out, padding_cost, positive, protocol, rounded};
use crate::graph_mode::Mode;
use crate::measure::{Campaign, Estimate, median};
use crate::probe::result::{
    Bandwidth, DecodeTable, DenseTable, Executables, HeadTable, LaunchCosts, PrefillTable, RungCosts, Rungs,
    UpdateCosts,
};
use crate::profile::{
    self, Attention, Axis, Capture, Curve, Grid, Group, Interval, Launch, Machine, Measured, Memory, Pool, Profile,
    Replay, Surface, Update,
};

/// What all probes found. Where a probe could not run, a planning figure or nothing takes its place.
#[derive(Debug)]
pub struct Findings<'a> {
    /// All memory of the device, as its driver reports it.
    pub memory: Bytes,
    /// Attention layers of the model.
    pub attention_layers: u32,
    /// Launches and nodes.
    pub launch: Found<'a, LaunchCosts>,
    /// Captured sizes.
    pub rungs: Found<'a, Rungs>,
    /// Executables.
    pub executables: Option<Found<'a, Executables>>,
    /// Updates.
    pub update: Option<Found<'a, UpdateCosts>>,
    /// Dense work.
    pub dense: Found<'a, DenseTable>,
    /// LM head.
    pub head: Found<'a, HeadTable>,
    /// Attention: decode and prefill.
    pub attention: Option<(Found<'a, DecodeTable>, Found<'a, PrefillTable>)>,
    /// Copies.
    pub bandwidth: Option<Found<'a, Bandwidth>>,
}

/// The machine half.
///
/// # Errors
/// A table with fewer than two knots, knots that are no grid, or no rung.
pub fn machine(found: &Findings<'_>, statement: &Statement) -> Result<Machine, Unusable> {
    let planned = Profile::builtin("h200-llama-3.1-8b")
        .map_err(|error| Unusable { what: "planning figures", problem: error.to_string() })?;
    let memory = statement.group(Memory { total: found.memory }, "as the driver reports it", None, Measured::default());
    let bandwidth = found.bandwidth.as_ref().map(|found| {
        let (read_gb_per_s, interval) = positive(found.result.copy_gb_per_s);
        statement.group(
            profile::Bandwidth { read_gb_per_s },
            "copy within the device, bytes read plus bytes written",
            None,
            found.stated(vec![("read_gb_per_s", vec![interval])]),
        )
    });
    let attention = found.attention.as_ref().map(|(decode, prefill)| attention(decode, prefill, statement));
    let update = found.update.as_ref().and_then(|found| update(found, statement));
    Ok(Machine {
        memory: Group { measured: None, ..memory },
        dense: dense(&found.dense, statement)?,
        head: head(&found.head, statement)?,
        launch: launch(&found.launch, statement),
        replay: replay(&found.launch, statement),
        update: update.unwrap_or(planned.machine.update),
        pool: match &found.executables {
            Some(executables) => pool(&found.rungs, executables, statement)?,
            None => planned.machine.pool,
        },
        capture: capture(&found.rungs, statement)?,
        bandwidth,
        attention: attention.transpose()?,
        eager_gap: Some(gap::eager(&found.rungs, found.launch.result, statement)?),
        piecewise_gap: Some(gap::piecewise(
            &found.rungs,
            found.dense.result,
            found.launch.result,
            found.attention_layers,
            statement,
        )?),
    })
}

fn launch(found: &Found<'_, LaunchCosts>, statement: &Statement) -> Group<Launch> {
    let (launch_us, interval) = positive(found.result.eager_host.each_us);
    statement.group(
        Launch { launch_us },
        "host time of launches of an empty kernel, per launch: the slope over their number",
        None,
        found.stated(vec![("launch_us", vec![interval])]),
    )
}

fn replay(found: &Found<'_, LaunchCosts>, statement: &Statement) -> Group<Replay> {
    let (fixed_us, fixed) = positive(found.result.graph_host.fixed_us);
    let (node_us, node) = figure(found.result.graph_host.each_us);
    statement.group(
        Replay { fixed_us, node_us },
        "host time of replaying graphs of empty kernels: the line over their nodes",
        None,
        found.stated(vec![("fixed_us", vec![fixed]), ("node_us", vec![node])]),
    )
}

/// What a switch costs: the update, and what the replay behind it takes longer; a line over the nodes of the graph.
fn update(found: &Found<'_, UpdateCosts>, statement: &Statement) -> Option<Group<Update>> {
    let nodes = found.result.switches.iter().map(|switch| switch.nodes);
    let (fewest, most) = (nodes.clone().min()?, nodes.max()?);
    let [first, second] = found.result.switches.first()?.rows;
    let (update_us, fixed) = figure(found.result.switch_host.fixed_us);
    let (node_us, node) = figure(found.result.switch_host.each_us);
    let method = format!(
        "host time of switching executables between {first} and {second} rows, and what the replay behind it takes longer: the \
         line over their nodes"
    );
    let measured = found.stated(vec![("update_us", vec![fixed]), ("node_us", vec![node])]);
    let valid = Some(format!("graphs of {fewest} to {most} nodes"));
    Some(statement.group(Update { update_us, node_us }, &method, valid, measured))
}

fn pool(
    rungs: &Found<'_, Rungs>,
    executables: &Found<'_, Executables>,
    statement: &Statement,
) -> Result<Group<Pool>, Unusable> {
    const WHAT: &str = "memory of rungs";
    let all = &rungs.result.rungs;
    let top = all
        .iter()
        .map(|rung| rung.rows.0)
        .max()
        .ok_or_else(|| Unusable { what: WHAT, problem: "no rung was captured: expected one at least".to_owned() })?;
    let peaks: Vec<(f64, f64)> = all.iter().map(|rung| (f64::from(rung.rows.0), rung.live_peak.0 as f64)).collect();
    let whole = rungs.result.pool.0 as f64;
    // The line goes through the whole pool at the largest rung, with the slope of what rungs had alive at a time.
    let per_row = slope(&peaks).unwrap_or(0.0).clamp(0.0, whole / f64::from(top.max(1)));
    let base = whole - per_row * f64::from(top);
    let [full, piecewise] = [Mode::Full, Mode::Piecewise].map(|mode| executable(mode, all, executables.result));
    let bytes = |estimate: Estimate| {
        let (value, interval) = figure(estimate);
        (Bytes(value.round() as u64), interval)
    };
    let ((full, of_full), (piecewise, of_piecewise)) = (bytes(full), bytes(piecewise));
    let around = |bytes: Bytes, interval: Interval| {
        let value = bytes.0 as f64;
        vec![Interval { low: interval.low.min(value), high: interval.high.max(value), ..interval }]
    };
    let pool = Pool {
        base: Bytes(base.round() as u64),
        per_row: Bytes(per_row.round() as u64),
        full_executable: full,
        piecewise_executable: piecewise,
    };
    let captured = |mode: Mode| all.iter().any(|rung| rung.mode == mode);
    let stated = [
        ("full_executable_bytes", Mode::Full, full, of_full),
        ("piecewise_executable_bytes", Mode::Piecewise, piecewise, of_piecewise),
    ];
    // A mode of which nothing was captured states no interval: its figure is made of another mode's graphs.
    let intervals = stated.into_iter().filter(|(_, mode, ..)| captured(*mode));
    let intervals = intervals.map(|(name, _, bytes, interval)| (name, around(bytes, interval))).collect();
    let missing = match (captured(Mode::Full), captured(Mode::Piecewise)) {
        (true, false) => "; none of PIECEWISE was captured, whose figure counts one graph and is too small",
        (false, true) => "; none of FULL was captured, whose figure counts one graph of PIECEWISE's nodes",
        _ => "",
    };
    Ok(statement.group(
        pool,
        &format!(
            "one pool for all rungs, captured largest first, through its whole size at the largest rung with the slope of what \
             rungs have alive at a time; executables by instantiating the same graph again and again: per descriptor, all \
             pieces of a PIECEWISE one together{missing}"
        ),
        Some(format!("largest rung up to {top} rows")),
        Measured { protocol: None, ..executables.stated(intervals) },
    ))
}

/// Bytes of one descriptor's executables: as measured, else of its graphs and nodes, else of another mode's.
fn executable(mode: Mode, rungs: &[RungCosts], executables: &Executables) -> Estimate {
    let measured = executables.descriptors.iter().filter(|descriptor| descriptor.mode == mode);
    let measured: Vec<Estimate> = measured.map(|descriptor| descriptor.bytes).collect();
    if let Some(measured) = middle(&measured) {
        return measured;
    }
    let like = rungs.iter().find(|rung| rung.mode == mode).or(rungs.first());
    let graphs = like.filter(|rung| rung.mode == mode).map_or(1.0, |rung| f64::from(rung.graphs));
    let nodes = like.map_or(0.0, |rung| f64::from(rung.nodes));
    let (graph, node) = (executables.graph_bytes, executables.node_bytes);
    let of = |end: fn(&Estimate) -> f64| graphs * end(&graph) + nodes * end(&node);
    Estimate {
        value: of(|estimate| estimate.value),
        low: of(|estimate| estimate.low),
        high: of(|estimate| estimate.high),
        samples: graph.samples.min(node.samples),
    }
}

fn capture(found: &Found<'_, Rungs>, statement: &Statement) -> Result<Group<Capture>, Unusable> {
    let rungs = &found.result.rungs;
    let seconds = |mode: Mode| {
        let of_mode = rungs.iter().filter(|rung| rung.mode == mode);
        let captures: Vec<Estimate> =
            of_mode.map(|rung| sum(&[rung.capture_us, rung.instantiate_us, rung.upload_us]).scaled(1e-6)).collect();
        middle(&captures)
    };
    let (full, piecewise) = (seconds(Mode::Full), seconds(Mode::Piecewise));
    let either = full.or(piecewise).ok_or_else(|| Unusable {
        what: "seconds of captures",
        problem: "no rung was captured: expected one at least".to_owned(),
    })?;
    // The rung that is captured first has the pool to fill.
    let first_extra = rungs.first().map_or(0.0, |rung| (rung.first_capture_us.value - rung.capture_us.value).max(0.0));
    let ((full_s, of_full), (piecewise_s, of_piecewise)) =
        (positive(full.unwrap_or(either)), positive(piecewise.unwrap_or(either)));
    let stated = [("full_s", full, of_full), ("piecewise_s", piecewise, of_piecewise)];
    let intervals = stated.into_iter().filter(|(_, measured, _)| measured.is_some());
    let intervals = intervals.map(|(name, _, interval)| (name, vec![interval])).collect();
    let method = match (full, piecewise) {
        (Some(_), Some(_)) => "capture, instantiation and upload of a descriptor: the median of all rungs",
        _ => "capture, instantiation and upload of a descriptor: the median of all rungs, of one mode for both",
    };
    Ok(statement.group(
        Capture { full_s, piecewise_s, first_extra_s: rounded(first_extra * 1e-6) },
        method,
        Some("driver and launches only: an engine's warm-up steps and Python come on top".to_owned()),
        found.stated(intervals),
    ))
}

fn dense(found: &Found<'_, DenseTable>, statement: &Statement) -> Result<Group<Curve>, Unusable> {
    let points: Vec<_> = found.result.points.iter().map(|point| (f64::from(point.rows.0), point.device_us)).collect();
    let (curve, mut measured, valid) = curve("dense work over rows", "rows", &points, found)?;
    measured.held_out = held_out(&points.iter().map(|(rows, us)| (*rows, us.value)).collect::<Vec<_>>());
    measured.padding = found.result.padding.map(|padding| padding_cost(&padding));
    let method = format!(
        "device time of graphs of all layers without attention, {} real rows in each and the others padding",
        found.result.real_rows
    );
    Ok(statement.kernels(curve, &method, Some(valid), measured))
}

fn head(found: &Found<'_, HeadTable>, statement: &Statement) -> Result<Group<Curve>, Unusable> {
    let points = found.result.points.iter().map(|point| (f64::from(point.sequences.0), point.device_us));
    let (curve, measured, valid) = curve("LM head over sequences", "sequences", &points.collect::<Vec<_>>(), found)?;
    let method = "device time of a graph of row choice, LM head and argmax, the fixed cost of a graph left out";
    Ok(statement.kernels(curve, method, Some(valid), measured))
}

fn attention(
    decode: &Found<'_, DecodeTable>,
    prefill: &Found<'_, PrefillTable>,
    statement: &Statement,
) -> Result<Group<Attention>, Unusable> {
    let (padded_request_us, of_padded) = figure(decode.result.padded_request_us);
    let (shared_us, of_shared) = figure(decode.result.cache_writes_us);
    let points = decode.result.points.iter();
    let points = points.map(|point| ([f64::from(point.requests.0), f64::from(point.context)], point.device_us));
    let (of_decode, decode_us) = grid("decode attention over requests and context", &points.collect::<Vec<_>>())?;
    let points = prefill.result.points.iter();
    let points = points.map(|point| ([f64::from(point.chunk.0), f64::from(point.context)], point.device_us));
    let (of_prefill, prefill_us) = grid("prefill attention over chunk and context", &points.collect::<Vec<_>>())?;
    let range = |axis: &Axis| format!("{} to {}", axis.knots()[0], axis.last());
    let valid = format!(
        "decode {} requests of {} tokens of context; prefill chunks of {} tokens after {}",
        range(&of_decode.x),
        range(&of_decode.y),
        range(&of_prefill.x),
        range(&of_prefill.y)
    );
    let shared = decode.result.points.iter().any(|point| point.shares_blocks);
    let sharing = if shared {
        "; the largest batches share cache blocks, for the cache does not hold them all apart"
    } else {
        ""
    };
    let method = format!(
        "device time of all layers' own kernels on random keys and values, cache writes included, the fixed cost of a graph left out{sharing}"
    );
    let both: BTreeMap<String, Campaign> =
        [decode.campaigns, prefill.campaigns].into_iter().flatten().map(|(k, v)| (k.clone(), v.clone())).collect();
    let mut intervals =
        vec![("padded_request_us", vec![of_padded]), ("decode_us", decode_us), ("prefill_us", prefill_us)];
    if shared_us > 0.0 {
        intervals.insert(1, ("shared_us", vec![of_shared]));
    }
    let figures = Attention {
        decode: Surface::Grid(of_decode),
        prefill: Surface::Grid(of_prefill),
        mixed: None,
        separate_kernels: prefill.result.separate_kernels,
        padded_request_us,
        shared_us,
    };
    let measured = Measured { protocol: protocol(&both), intervals, ..Measured::default() };
    Ok(statement.kernels(figures, &method, Some(valid), measured))
}

/// Points on a rectilinear grid, in any order.
fn grid(what: &'static str, points: &[([f64; 2], Estimate)]) -> Result<(Grid, Vec<Interval>), Unusable> {
    let knots = |of: usize| {
        let mut knots: Vec<f64> = points.iter().map(|(at, _)| at[of]).collect();
        knots.sort_by(f64::total_cmp);
        knots.dedup();
        axis(what, knots)
    };
    let (x, y) = (knots(0)?, knots(1)?);
    let mut values = Vec::with_capacity(points.len());
    let mut intervals = Vec::with_capacity(points.len());
    for &a in x.knots() {
        for &b in y.knots() {
            let here = points.iter().find(|(at, _)| at.map(f64::to_bits) == [a, b].map(f64::to_bits));
            let (value, interval) = positive(here.map(|(_, us)| *us).ok_or_else(|| Unusable {
                what,
                problem: format!("nothing at ({a}, {b}): expected every pair of the knots"),
            })?);
            values.push(value);
            intervals.push(interval);
        }
    }
    Ok((Grid { x, y, values }, intervals))
}

/// The estimate in the middle, with the middle of all ends: of figures that should be the same.
fn middle(estimates: &[Estimate]) -> Option<Estimate> {
    let of = |end: fn(&Estimate) -> f64| median(&estimates.iter().map(end).collect::<Vec<_>>());
    let samples = estimates.iter().map(|estimate| estimate.samples).min()?;
    Some(Estimate { value: of(|e| e.value), low: of(|e| e.low), high: of(|e| e.high), samples })
}

/// One after the other; the ends are added too, so the interval is wider than it needs to be.
fn sum(estimates: &[Estimate]) -> Estimate {
    let of = |end: fn(&Estimate) -> f64| estimates.iter().map(end).sum();
    let samples = estimates.iter().map(|estimate| estimate.samples).min().unwrap_or(0);
    Estimate { value: of(|e| e.value), low: of(|e| e.low), high: of(|e| e.high), samples }
}

/// The slope that most pairs of points agree on.
fn slope(points: &[(f64, f64)]) -> Option<f64> {
    crate::fit::Line::theil_sen(points).map(|line| line.slope)
}
