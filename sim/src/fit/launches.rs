//! What launches take, from a table of whole steps: of those that ran with a graph the parts of the profile are made, and
//! steps of the same rows without one take longer by what the host needs to launch each operation.
//!
//! A step takes the longer of device and launches. So launches show only in steps that take longer than the steps with a
//! graph say that the device does, by more than those are trusted to; where none does, they are bounded by the fastest.
//! A profile of whole steps has no preparation of its own (it is inside the steps), so nothing else can hold a step up.

use std::collections::BTreeMap;

use calibrate::measure::median;
use calibrate::profile::Profile;

use super::measured_step::MeasuredStep;
use super::onto::cells::{Cell, CellKey, device_us};
use super::onto::finding::Finding;
use super::onto::{StepErrors, applied, side_of};
use super::tables::whole_steps::{Use, Uses};
use super::{FitError, Source};
use crate::cost::{CostModel, Execution};

/// Steps without a graph may be faster than the device by this share, no more: then they are no such steps.
const FASTER: f64 = 0.95;

/// What a table of steps says of launches.
#[derive(Clone, Debug)]
pub struct Launches {
    /// `engine.dispatch.compiled_us`.
    pub compiled_us: Finding,
    /// `engine.dispatch.eager_us`.
    pub eager_us: Finding,
    /// Errors of steps that the profile was not made of: each size without a graph by what the other sizes say.
    pub errors: Vec<StepErrors>,
    /// Steps without a graph that are faster than with one.
    pub doubts: Vec<String>,
}

/// Reads the launches of steps beside the profile that those with graphs made, and puts them into it.
///
/// # Errors
/// If what comes out is no profile.
pub fn launches(profile: &mut Profile, source: &Source, steps: &[MeasuredStep]) -> Result<Launches, FitError> {
    let planned = profile.clone();
    let cells = cells(steps, &planned);
    let compiled_us = finding(&cells, Execution::CompiledEager, &planned);
    let eager_us = finding(&cells, Execution::Eager, &planned);
    applied::dispatch(profile, [&compiled_us, &eager_us], &source.cited());
    *profile = Profile::from_toml(&profile.to_toml(), "the fitted profile")?;
    let errors = [
        of_pieces(steps, &planned, profile),
        held_out(&cells, Execution::CompiledEager, &planned),
        held_out(&cells, Execution::Eager, &planned),
    ];
    Ok(Launches {
        compiled_us,
        eager_us,
        errors: errors.into_iter().filter(|errors| !errors.before.is_empty()).collect(),
        doubts: cells.iter().filter_map(|cell| faster(cell, &source.file)).collect(),
    })
}

/// Steps without a graph, by size.
fn cells(steps: &[MeasuredStep], profile: &Profile) -> Vec<Cell> {
    let model = CostModel::new(profile, &side_of(profile, &steps));
    let mut cells: BTreeMap<CellKey, Cell> = BTreeMap::new();
    let uses = Uses::of(steps);
    for step in steps.iter().filter(|step| uses.of_step(step) == Use::Launches) {
        let key = key(step);
        let cell = cells.entry(key).or_insert_with(|| Cell { key, us: Vec::new(), device_us: Vec::new(), samples: 0 });
        cell.us.push(step.us);
        cell.device_us.push(device_us(step, &model));
        cell.samples += step.count;
    }
    cells.into_values().collect()
}

fn key(step: &MeasuredStep) -> CellKey {
    CellKey { execution: step.execution, clock: step.clock, rows: step.rows, requests: step.work.requests }
}

/// What the framework spends on each operation that such steps launch one by one, beside the launch itself.
fn finding<'a>(cells: impl IntoIterator<Item = &'a Cell>, execution: Execution, profile: &Profile) -> Finding {
    let own: Vec<&Cell> = cells.into_iter().filter(|cell| cell.key.execution == execution).collect();
    let each =
        |cell: &&Cell| cell.middle_us() / operations(execution, profile) - profile.machine.launch.figures.launch_us;
    let samples = |cells: &[&Cell]| cells.iter().map(|cell| cell.samples).sum();
    let least = |costs: &[f64]| costs.iter().copied().fold(f64::INFINITY, f64::min);
    let revealed: Vec<&Cell> = own.iter().copied().filter(|cell| cell.reveals_host(0.0)).collect();
    if own.is_empty() {
        return Finding::Silent { why: format!("no {execution} step of as many rows as one with a graph") };
    }
    if revealed.is_empty() {
        let why =
            format!("{execution} steps take no longer than those with graphs: their launches hide behind the device");
        return Finding::bound(least(&own.iter().map(each).collect::<Vec<_>>()), samples(&own), why);
    }
    let costs: Vec<f64> = revealed.iter().map(each).collect();
    let range = [least(&costs), costs.iter().copied().fold(0.0, f64::max)];
    let unfused = if execution == Execution::Eager { ", or kernels that are not fused" } else { "" };
    let why = format!("{execution} steps take longer than those with graphs: their launches hold them up{unfused}");
    Finding::read(median(&costs), range, samples(&revealed), why)
}

fn error(step: &MeasuredStep, model: &CostModel) -> f64 {
    (step.predicted_us(model, true) / step.us - 1.0).abs()
}

/// Errors of PIECEWISE steps where the parts are made of FULL ones.
fn of_pieces(steps: &[MeasuredStep], planned: &Profile, fitted: &Profile) -> StepErrors {
    let uses = Uses::of(steps);
    let judges: Vec<&MeasuredStep> = steps.iter().filter(|step| uses.of_step(step) == Use::Judge).collect();
    let [before, after] = [planned, fitted].map(|profile| {
        let model = CostModel::new(profile, &side_of(profile, &steps));
        judges.iter().map(|step| error(step, &model)).collect()
    });
    StepErrors { execution: Some(Execution::Piecewise), before, after }
}

/// Errors of the steps of each size, by what the steps of the other sizes say; of evenly chosen sizes where there are many.
fn held_out(cells: &[Cell], execution: Execution, planned: &Profile) -> StepErrors {
    const JUDGED: usize = 64;
    let own: Vec<&Cell> = cells.iter().filter(|cell| cell.key.execution == execution).collect();
    let figures = &planned.engine.dispatch.figures;
    let before_us = if execution == Execution::Eager { figures.eager_us } else { figures.compiled_us };
    let mut errors = StepErrors { execution: Some(execution), before: Vec::new(), after: Vec::new() };
    for cell in own.iter().step_by(own.len().div_ceil(JUDGED).max(1)).filter(|_| own.len() > 1) {
        let others = own.iter().copied().filter(|other| other.key != cell.key);
        let after_us = finding(others, execution, planned).decided(before_us);
        let of = |per_operation_us: f64| {
            let launches_us =
                operations(execution, planned) * (planned.machine.launch.figures.launch_us + per_operation_us);
            cell.us
                .iter()
                .zip(&cell.device_us)
                .map(move |(us, device_us)| (device_us.max(launches_us) / us - 1.0).abs())
        };
        errors.before.extend(of(before_us));
        errors.after.extend(of(after_us));
    }
    errors
}

/// Operations that a step launches one by one.
fn operations(execution: Execution, profile: &Profile) -> f64 {
    let ops = &profile.engine.ops.figures;
    f64::from(if execution == Execution::Eager { ops.eager } else { ops.compiled })
}

/// Says so where steps of a size are faster without a graph than with one.
fn faster(cell: &Cell, file: &str) -> Option<String> {
    let (ms, graph_ms) = (cell.middle_us() / 1e3, cell.middle_device_us() / 1e3);
    (ms < FASTER * graph_ms).then(|| {
        format!(
            "{file}: {} rows take {ms:.2} ms in mode {} and {graph_ms:.2} ms by the steps with graphs: a graph costs no time, so look \
             whether modes or times are interchanged",
            cell.key.rows, cell.key.execution
        )
    })
}
