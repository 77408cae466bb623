//! The rungs of a ladder: what capturing each costs, what it takes of the shared pool, and what its replay saves.
//!
//! As vLLM does it (GPU specification section 4): PIECEWISE first, then FULL, the largest rung of each first, all in one
//! private pool, every rung run eagerly before it is captured. A step is a decode step in both modes, so that both are
//! compared on the same requests. For its times every row is a real request with the same context. What happens once (the
//! first capture, the first replay) is repeated on fresh graphs and executables; what is steady is timed in two campaigns
//! over all rungs, one of host times and one of device times.

use kernels::units::{Bytes, Requests, Rows};

use super::bench::{Bench, Campaigns, Looks, Point, Probed};
use super::error::ProbeError;
use super::inputs::Inputs;
use super::parts::NODE_BYTES_MOST;
use super::result::{AscendingControl, RungCosts, RungGrowth, Rungs};
use crate::counted::counted;
use crate::device::Session;
use crate::measure::Estimate;
use crate::model::{Captured, Mode, Model, Planned, Recorded};

/// What is captured.
#[derive(Clone, Debug, PartialEq)]
pub struct RungPlan {
    /// Captured rows, in any order.
    pub ladder: Vec<Rows>,
    /// Modes, in the order of capture.
    pub modes: Vec<Mode>,
    /// Tokens of context of each request, the new one included.
    pub context: u32,
    /// Whether the ladder is captured a second time, smallest rung first, in a pool of its own: a control that
    /// `calibrate probe rungs` prints beside the pool, and a calibration does without.
    pub ascending: bool,
    /// How often what happens once is repeated.
    pub repeats: u32,
}

/// A descriptor as far as it is known before the campaigns.
struct Descriptor {
    mode: Mode,
    rows: Rows,
    captured: Captured,
    once: Once,
}

/// What was found while it was captured; microseconds by repetition.
struct Once {
    first_capture_us: f64,
    capture_us: Vec<f64>,
    instantiate_us: Vec<f64>,
    upload_us: Vec<f64>,
    first_replay_host_us: Vec<f64>,
    first_replay_us: Vec<f64>,
    pool_growth: Bytes,
    driver_growth_bytes: i64,
    live_peak: Bytes,
}

/// Captures the ladder and times it.
///
/// # Errors
/// An empty ladder or one beyond the model's limits, a context that the cache does not hold, not enough memory, or the
/// device fails.
pub fn run(bench: &Bench<'_>, model: &mut Model, plan: &RungPlan) -> Result<Probed<Rungs>, ProbeError> {
    let ladder = ladder(model, plan)?;
    require(bench, model, plan, &ladder)?;
    let mut campaigns = Campaigns::default();
    let mut looks = Looks::begin(bench, "captures")?;
    let mut descriptors = Vec::new();
    for &mode in &plan.modes {
        for &rows in &ladder {
            let once_inputs = Inputs::decodes(model, Requests(rows.0), plan.context)?;
            descriptors.push(capture(bench, model, mode, rows, &once_inputs, plan.repeats)?);
            looks.again(&mut campaigns)?;
        }
    }
    let pool = Bytes(model.pool_reserved_bytes());
    let eager: Vec<Planned> =
        ladder.iter().map(|&rows| planned(bench, model, rows)).collect::<Result<_, ProbeError>>()?;
    // Set once: smaller steps read the beginning of the same buffers.
    let largest = ladder[0];
    let inputs = Inputs::decodes(model, Requests(largest.0), plan.context)?;
    let shape = model.decode_shape(largest);
    bench.on(|session| model.set_inputs(session, &inputs.batch, &shape))?;

    let points = || {
        let replays = descriptors.iter().map(|descriptor| {
            Point::new(
                format!("{} replay of {}", descriptor.mode, counted(descriptor.rows, "row")),
                &descriptor.captured,
            )
        });
        let steps = ladder
            .iter()
            .zip(&eager)
            .map(|(rows, planned)| Point::new(format!("eager step of {}", counted(rows, "row")), planned));
        replays.chain(steps).collect::<Vec<_>>()
    };
    let host_us = bench.host("steps, host", points(), &mut campaigns)?.times_us();
    let device = bench.device("steps, device", points(), &mut campaigns)?;
    let device_us = device.times_us();
    let once = |what, of: fn(&Once) -> Vec<f64>| {
        let readings: Vec<_> = descriptors.iter().map(|descriptor| of(&descriptor.once)).collect();
        bench.of_readings(what, &readings)
    };
    let first_capture_us = once("first captures", |once| vec![once.first_capture_us])?;
    let capture_us = once("captures", |once| once.capture_us.clone())?;
    let instantiate_us = once("instantiations", |once| once.instantiate_us.clone())?;
    let upload_us = once("uploads", |once| once.upload_us.clone())?;
    let of_each = |what: &'static str, estimates: &[Estimate]| {
        let named = descriptors.iter().zip(estimates.to_vec());
        named
            .map(move |(of, estimate)| (format!("{what} a {} graph of {}", of.mode, counted(of.rows, "row")), estimate))
    };
    let once_figures: Vec<_> = of_each("capturing", &capture_us)
        .chain(of_each("instantiating", &instantiate_us))
        .chain(of_each("uploading", &upload_us))
        .collect();
    campaigns.note_widest(bench, "captures", once_figures.iter().map(|(figure, estimate)| (figure.clone(), estimate)));
    let first_replay_host_us = once("first replays on the host", |once| once.first_replay_host_us.clone())?;
    let first_replay_us = once("first replays", |once| once.first_replay_us.clone())?;
    let costs = descriptors.iter().enumerate().map(|(replay, descriptor)| {
        let rung = ladder.iter().position(|rows| *rows == descriptor.rows).unwrap_or_default();
        let step = descriptors.len() + rung;
        let is_full = |other: &Descriptor| other.mode == Mode::Full && other.rows == descriptor.rows;
        let full = descriptors.iter().position(is_full).filter(|_| descriptor.mode == Mode::Piecewise);
        let (graphs, nodes) = descriptor.captured.graphs_and_nodes();
        let once = &descriptor.once;
        RungCosts {
            mode: descriptor.mode,
            rows: descriptor.rows,
            graphs: graphs as u32,
            nodes: nodes as u32,
            launches: eager[rung].calls() as u32,
            first_capture_us: first_capture_us[replay],
            capture_us: capture_us[replay],
            instantiate_us: instantiate_us[replay],
            upload_us: upload_us[replay],
            first_replay_host_us: first_replay_host_us[replay],
            first_replay_us: first_replay_us[replay],
            replay_host_us: host_us[replay],
            replay_device_us: device_us[replay],
            eager_host_us: host_us[step],
            eager_device_us: device_us[step],
            gap_us: device.derive(|medians_us| medians_us[step] - medians_us[replay]),
            beyond_full_us: full.map(|full| device.derive(|medians_us| medians_us[replay] - medians_us[full])),
            pool_growth: once.pool_growth,
            driver_growth_bytes: once.driver_growth_bytes,
            live_peak: once.live_peak,
        }
    });
    let rungs = costs.collect();
    let ascending = plan.ascending.then(|| ascending(bench, model, plan, &ladder)).transpose()?;
    Ok(campaigns.with(Rungs { context: plan.context, rungs, pool, ascending }))
}

/// The ladder, largest rung first.
fn ladder(model: &Model, plan: &RungPlan) -> Result<Vec<Rows>, ProbeError> {
    let mut ladder = plan.ladder.clone();
    ladder.sort_unstable_by(|one, other| other.cmp(one));
    ladder.dedup();
    let limits = model.limits();
    let most = limits.rows.0.min(limits.requests.0);
    if ladder.is_empty() || plan.modes.is_empty() {
        return Err(ProbeError::plan("rungs", 0, "at least one, in one mode or both"));
    }
    if let Some(rows) = ladder.iter().find(|rows| rows.0 == 0 || rows.0 > most) {
        return Err(ProbeError::plan("rows of a rung", rows, format!("1 to {most}, for which the model was loaded")));
    }
    if plan.repeats == 0 || plan.context == 0 {
        return Err(ProbeError::plan("repeats and context", 0, "at least 1"));
    }
    Ok(ladder)
}

/// Memory for the pools, for the executables of every descriptor, and for those of one that are made again and again.
fn require(bench: &Bench<'_>, model: &Model, plan: &RungPlan, ladder: &[Rows]) -> Result<(), ProbeError> {
    let largest = model.decode_shape(ladder[0]);
    let pools = 2 + u64::from(plan.ascending);
    let descriptors = (ladder.len() * plan.modes.len() + 2) as u64;
    let nodes = descriptors * u64::from(model.step_launches(&largest)?);
    bench.require("capturing the ladder", pools * model.pool_bytes(&largest)? + nodes * NODE_BYTES_MOST)
}

fn planned(bench: &Bench<'_>, model: &mut Model, rows: Rows) -> Result<Planned, ProbeError> {
    let shape = model.decode_shape(rows);
    Ok(bench.on(|session| model.plan(session, &shape))?)
}

fn capture(
    bench: &Bench<'_>,
    model: &mut Model,
    mode: Mode,
    rows: Rows,
    inputs: &Inputs,
    repeats: u32,
) -> Result<Descriptor, ProbeError> {
    let shape = model.decode_shape(rows);
    // The eager pool grows now, not while the private pool's growth is looked at.
    planned(bench, model, rows)?;
    let (free, reserved) = (bench.free()?, model.pool_reserved_bytes());
    model.take_pool_peak_bytes();
    let recorded = bench.on(|session| model.record(session, &shape, mode))?;
    let driver_growth_bytes = free.0.cast_signed() - bench.free()?.0.cast_signed();
    let pool_growth = Bytes(model.pool_reserved_bytes() - reserved);
    let live_peak = Bytes(model.take_pool_peak_bytes());
    let first_capture_us = capture_time_us(bench, &recorded);

    let [mut capture_us, mut instantiate_us, mut upload_us] = [(); 3].map(|()| Vec::new());
    let [mut first_replay_host_us, mut first_replay_us] = [(); 2].map(|()| Vec::new());
    for _ in 0..repeats {
        let again = bench.on(|session| model.record(session, &shape, mode))?;
        capture_us.push(capture_time_us(bench, &again));
    }
    bench.on(|session| model.set_inputs(session, &inputs.batch, &shape))?;
    for _ in 0..repeats {
        let (us, fresh) = bench.once_us(|session| recorded.instantiate(session))?;
        instantiate_us.push(us);
        let (us, ()) = bench.once_us(|session| {
            fresh.upload(session)?;
            Ok::<_, ProbeError>(session.synchronize()?)
        })?;
        upload_us.push(us);
        for waits in [false, true] {
            // Not uploaded: its first replay does that.
            let fresh = bench.on(|session| recorded.instantiate(session))?;
            let (us, ()) = bench.once_us(|session| {
                fresh.replay(session)?;
                if waits { Ok::<_, ProbeError>(session.synchronize()?) } else { Ok(()) }
            })?;
            let readings = if waits { &mut first_replay_us } else { &mut first_replay_host_us };
            readings.push(us);
            bench.on(Session::synchronize)?;
        }
    }
    let captured = bench.on(|session| {
        let captured = recorded.instantiate(session)?;
        captured.upload(session)?;
        Ok::<_, ProbeError>(captured)
    })?;
    let once = Once {
        first_capture_us,
        capture_us,
        instantiate_us,
        upload_us,
        first_replay_host_us,
        first_replay_us,
        pool_growth,
        driver_growth_bytes,
        live_peak,
    };
    Ok(Descriptor { mode, rows, captured, once })
}

/// Host time of the captures of a descriptor.
fn capture_time_us(bench: &Bench<'_>, recorded: &Recorded) -> f64 {
    bench.without_readings_us(recorded.capture_ns() as f64, recorded.graphs().count())
}

/// The same ladder from its other end. Graphs are not kept: what a pool has taken it keeps all the same.
fn ascending(
    bench: &Bench<'_>,
    model: &mut Model,
    plan: &RungPlan,
    ladder: &[Rows],
) -> Result<AscendingControl, ProbeError> {
    bench.on(|session| model.renew_graph_pool(session));
    let mut growth = Vec::new();
    for &mode in &plan.modes {
        for &rows in ladder.iter().rev() {
            let (shape, reserved) = (model.decode_shape(rows), model.pool_reserved_bytes());
            bench.on(|session| model.record(session, &shape, mode))?;
            growth.push(RungGrowth { mode, rows, pool_growth: Bytes(model.pool_reserved_bytes() - reserved) });
        }
    }
    let pool = Bytes(model.pool_reserved_bytes());
    bench.on(|session| model.renew_graph_pool(session));
    Ok(AscendingControl { pool, growth })
}
