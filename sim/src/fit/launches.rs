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
use super::onto::agreement::IMPOSSIBLE;
use super::onto::cells::{Cell, CellKey, device_us};
use super::onto::finding::Finding;
use super::onto::{StepErrors, applied, side_of};
use super::tables::whole_steps::{Use, Uses};
use super::{FitError, Source};
use crate::cost::{CostModel, Execution};

/// Steps without a graph may be faster than the device by this share, no more: then they are no such steps.
const FASTER: f64 = 0.95;
/// Launches take the same at every size: what the largest figure may have more than the smallest.
const ALIKE: f64 = 1.1;
/// What one operation takes of the slowest hosts, and far more: then the unit is another one.
const MOST_US_PER_OPERATION: f64 = 1_000.0;

/// What a table of steps says of launches.
#[derive(Clone, Debug)]
pub struct Launches {
    /// `engine.dispatch.compiled_us`.
    pub compiled_us: Finding,
    /// `engine.dispatch.eager_us`.
    pub eager_us: Finding,
    /// Errors of steps that the profile was not made of: each size without a graph by what the other sizes say.
    pub errors: Vec<StepErrors>,
    /// What is not likely of these steps.
    pub doubts: Vec<String>,
}

/// Reads the launches of steps beside the profile that those with graphs made, and puts them into it.
///
/// # Errors
/// Steps that cannot be of one device and one unit, or what comes out is no profile.
pub fn launches(profile: &mut Profile, source: &Source, steps: &[MeasuredStep]) -> Result<Launches, FitError> {
    let planned = profile.clone();
    let cells = cells(steps, &planned, Use::Launches);
    let judges = self::cells(steps, &planned, Use::Judge);
    for kind in [Execution::Piecewise, Execution::CompiledEager, Execution::Eager] {
        let own: Vec<&Cell> = cells.iter().chain(&judges).filter(|cell| cell.key.execution == kind).collect();
        possible(&own, &planned, source)?;
    }
    let compiled_us = finding(&cells, Execution::CompiledEager, &planned);
    let eager_us = finding(&cells, Execution::Eager, &planned);
    applied::dispatch(profile, [&compiled_us, &eager_us], &source.cited());
    *profile = Profile::from_toml(&profile.to_toml(), "the fitted profile")?;
    let errors = [
        of_pieces(steps, &planned, profile),
        held_out(&cells, Execution::CompiledEager, &planned),
        held_out(&cells, Execution::Eager, &planned),
    ];
    let uneven =
        [Execution::CompiledEager, Execution::Eager].into_iter().filter_map(|kind| uneven(&cells, kind, &planned));
    let doubts = faster(&cells).into_iter().chain(uneven).map(|doubt| format!("{}: {doubt}", source.file)).collect();
    Ok(Launches {
        compiled_us,
        eager_us,
        errors: errors.into_iter().filter(|errors| !errors.before.is_empty()).collect(),
        doubts,
    })
}

/// Steps of a use, by size.
fn cells(steps: &[MeasuredStep], profile: &Profile, used: Use) -> Vec<Cell> {
    let model = CostModel::new(profile, &side_of(profile, &steps));
    let mut cells: BTreeMap<CellKey, Cell> = BTreeMap::new();
    let uses = Uses::of(steps);
    for step in steps.iter().filter(|step| uses.of_step(step) == used) {
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
    let samples = |cells: &[&Cell]| cells.iter().map(|cell| cell.samples).sum();
    let revealed: Vec<&Cell> = own.iter().copied().filter(|cell| cell.reveals_host(0.0)).collect();
    // No step is faster than its launches.
    let Some(fastest) = fastest(&own).map(|cell| per_operation_us(cell, profile)) else {
        return Finding::Silent { why: format!("no {execution} decode step of as many rows as one with a graph") };
    };
    if revealed.is_empty() {
        let why =
            format!("{execution} steps take no longer than those with graphs: their launches hide behind the device");
        return Finding::bound(fastest, samples(&own), why);
    }
    let costs: Vec<f64> = revealed.iter().map(|cell| per_operation_us(cell, profile)).collect();
    let most = costs.iter().copied().fold(0.0, f64::max);
    let middle = median(&costs);
    let value = if middle > ALIKE * fastest { fastest } else { middle };
    let unfused = if execution == Execution::Eager { ", or kernels that are not fused" } else { "" };
    let why = format!("{execution} steps take longer than those with graphs: their launches hold them up{unfused}");
    Finding::read(value, [fastest.min(value), most], samples(&revealed), why)
}

/// The fastest size; of many, the one at a tenth: the least of hundreds of single steps is noise.
fn fastest<'a>(own: &[&'a Cell]) -> Option<&'a Cell> {
    const DISREGARDED: usize = 10;
    let mut by_time = own.to_vec();
    by_time.sort_by(|one, other| one.middle_us().total_cmp(&other.middle_us()));
    by_time.get(by_time.len() / DISREGARDED).copied()
}

/// What the framework spends on each operation of such a step, if nothing but its launches holds it up.
fn per_operation_us(cell: &Cell, profile: &Profile) -> f64 {
    cell.middle_us() / operations(cell.key.execution, profile) - profile.machine.launch.figures.launch_us
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

/// Refuses a kind of steps that no device can run beside those with graphs. The kind decides, not a single size: one hiccup is
/// no reason to refuse a table.
///
/// # Errors
/// They take far less, or so long that their unit is another one.
fn possible(own: &[&Cell], profile: &Profile, source: &Source) -> Result<(), FitError> {
    let share = |cell: &Cell| cell.middle_us() / cell.middle_device_us();
    let Some(fastest) = own.iter().min_by(|one, other| share(one).total_cmp(&share(other))) else { return Ok(()) };
    let execution = fastest.key.execution;
    let steps =
        |cell: &Cell| format!("{execution} steps of {} rows take {:.3} ms", cell.key.rows, cell.middle_us() / 1e3);
    if median(&own.iter().map(|cell| share(cell)).collect::<Vec<_>>()) < IMPOSSIBLE {
        let graph_ms = fastest.middle_device_us() / 1e3;
        let problem =
            format!("{} and by the steps with {} graphs {graph_ms:.3} ms", steps(fastest), nearest(execution));
        let help = "no graph costs so much time: look whether modes or times are interchanged or of different units";
        return Err(FitError::file(&source.file, problem, help));
    }
    if execution.is_graph() {
        return Ok(());
    }
    let us = median(&own.iter().map(|cell| per_operation_us(cell, profile)).collect::<Vec<_>>());
    if us > MOST_US_PER_OPERATION {
        let problem = format!(
            "{}, {us:.0} us for each of {} operations: expected at most {MOST_US_PER_OPERATION}",
            steps(fastest),
            operations(execution, profile)
        );
        return Err(FitError::file(&source.file, problem, "check the unit of these times"));
    }
    Ok(())
}

/// The graphs beside which a kind of step is looked at.
fn nearest(execution: Execution) -> &'static str {
    if execution == Execution::Piecewise { "FULL" } else { "FULL or PIECEWISE" }
}

/// Says so where steps are faster without a graph than with one.
fn faster(cells: &[Cell]) -> Option<String> {
    let share = |cell: &&Cell| cell.middle_us() / cell.middle_device_us();
    let (faster, all): (Vec<&Cell>, usize) = (cells.iter().filter(|cell| share(cell) < FASTER).collect(), cells.len());
    let worst = faster.iter().copied().min_by(|one, other| share(one).total_cmp(&share(other)))?;
    let more =
        if faster.len() > 1 { format!(" ({} of {all} sizes are like that)", faster.len()) } else { String::new() };
    Some(format!(
        "{} rows take {:.2} ms in mode {} and {:.2} ms by the steps with graphs{more}: a graph costs no time, so look whether modes \
         or times are interchanged",
        worst.key.rows,
        worst.middle_us() / 1e3,
        worst.key.execution,
        worst.middle_device_us() / 1e3,
    ))
}

/// Says so where steps without a graph take longer than their launches and longer than the device.
fn uneven(cells: &[Cell], execution: Execution, profile: &Profile) -> Option<String> {
    let own: Vec<&Cell> = cells.iter().filter(|cell| cell.key.execution == execution).collect();
    let slowest = own.iter().copied().filter(|cell| cell.reveals_host(0.0));
    let by_time = |one: &&Cell, other: &&Cell| one.middle_us().total_cmp(&other.middle_us());
    let (slowest, fastest) = (slowest.max_by(by_time)?, fastest(&own)?);
    let costs = own.iter().filter(|cell| cell.reveals_host(0.0)).map(|cell| per_operation_us(cell, profile));
    let is_uneven = median(&costs.collect::<Vec<_>>()) > ALIKE * per_operation_us(fastest, profile);
    is_uneven.then(|| {
        format!(
            "{execution} steps of {} rows take {:.2} ms, of {} rows {:.2} ms: launches take the same at every size, so the fastest \
             counts; what the others take longer is not explained",
            slowest.key.rows,
            slowest.middle_us() / 1e3,
            fastest.key.rows,
            fastest.middle_us() / 1e3,
        )
    })
}
