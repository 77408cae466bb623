//! Steps that are alike, and the split into those that are fitted and those that judge.

use std::collections::BTreeMap;

use calibrate::measure::{mad, median};

use crate::cost::{CostModel, Execution};
use crate::fit::measured_step::{Clock, MeasuredStep};

/// Device figures of a profile are trusted to this share: a step is held up by the host only if it takes longer by more.
pub const DEVICE_TRUST: f64 = 0.05;
/// What lines round away, and more: differences below it say nothing.
const LEAST_US: f64 = 20.0;
/// Deviations from the median, in median deviations, beyond which a step is far from the others of its kind.
const FAR: f64 = 10.0;
/// And by this share of the median.
const FAR_SHARE: f64 = 0.25;
/// Fewer steps have no kind.
const KIND_LEAST: usize = 5;

/// A step and the file it is from.
#[derive(Clone, Copy, Debug)]
pub struct Logged<'a> {
    /// The file.
    pub file: &'a str,
    /// The step.
    pub step: &'a MeasuredStep,
}

/// What makes steps alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CellKey {
    /// How they ran.
    pub execution: Execution,
    /// What their times span.
    pub clock: Clock,
    /// Rows that ran.
    pub rows: u32,
    /// Requests.
    pub requests: u32,
}

/// Steps that are alike but for their context.
#[derive(Clone, Debug)]
pub struct Cell {
    /// What they have in common.
    pub key: CellKey,
    /// Microseconds that each took.
    pub us: Vec<f64>,
    /// Microseconds that the device works on each, by the profile.
    pub device_us: Vec<f64>,
    /// How many steps these are.
    pub samples: u64,
}

impl Cell {
    /// What the steps take in the median.
    #[must_use]
    pub fn middle_us(&self) -> f64 {
        median(&self.us)
    }

    /// How long the device works on them in the median.
    #[must_use]
    pub fn middle_device_us(&self) -> f64 {
        median(&self.device_us)
    }

    /// What the device may take of a step, if a part of it does not hide behind the device: more than this holds it up.
    fn device_limit_us(&self) -> f64 {
        let beyond: Vec<f64> = self.us.iter().zip(&self.device_us).map(|(us, device_us)| us - device_us).collect();
        let error_us = 3.0 * 1.2533 * mad(&beyond) / (self.us.len() as f64).sqrt();
        self.middle_device_us() * (1.0 + DEVICE_TRUST) + error_us + LEAST_US
    }

    /// Whether the steps take longer, less `before_us`, than the device does: the host then shows.
    #[must_use]
    pub fn reveals_host(&self, before_us: f64) -> bool {
        self.middle_us() - before_us > self.device_limit_us()
    }
}

/// A step far from the others of its kind.
#[derive(Clone, Copy, Debug)]
pub struct Outlier<'a> {
    /// The step.
    pub logged: Logged<'a>,
    /// The median of the others, us.
    pub others_us: f64,
}

/// Steps in two halves.
#[derive(Clone, Debug)]
pub struct Halves<'a> {
    /// Those that figures are fitted to, by what they have in common.
    pub cells: Vec<Cell>,
    /// Those that judge.
    pub judges: Vec<Logged<'a>>,
    /// Far from the others of their kind, of either half.
    pub outliers: Vec<Outlier<'a>>,
}

/// Deals the steps of each kind out in turn, one to be fitted, one to judge; kinds with a single step go to either half in
/// turn.
#[must_use]
pub fn halves<'a>(logged: &[Logged<'a>], model: &CostModel) -> Halves<'a> {
    let mut kinds: BTreeMap<CellKey, Vec<Logged<'a>>> = BTreeMap::new();
    for &step in logged {
        let MeasuredStep { execution, clock, rows, work, .. } = *step.step;
        kinds.entry(CellKey { execution, clock, rows, requests: work.requests }).or_default().push(step);
    }
    let mut halves = Halves { cells: Vec::new(), judges: Vec::new(), outliers: Vec::new() };
    let mut turn: BTreeMap<(Execution, Clock), usize> = BTreeMap::new();
    for (key, steps) in kinds {
        let times: Vec<f64> = steps.iter().map(|logged| logged.step.us).collect();
        let (middle, spread) = (median(&times), mad(&times));
        if steps.len() >= KIND_LEAST {
            let far = (FAR * spread).max(FAR_SHARE * middle);
            let outliers = steps.iter().filter(|logged| (logged.step.us - middle).abs() > far);
            halves.outliers.extend(outliers.map(|&logged| Outlier { logged, others_us: middle }));
        }
        let turn = turn.entry((key.execution, key.clock)).or_default();
        let mut cell = Cell { key, us: Vec::new(), device_us: Vec::new(), samples: 0 };
        for logged in steps {
            if turn.is_multiple_of(2) {
                cell.us.push(logged.step.us);
                cell.device_us.push(device_us(logged.step, model));
                cell.samples += logged.step.count;
            } else {
                halves.judges.push(logged);
            }
            *turn += 1;
        }
        if !cell.us.is_empty() {
            halves.cells.push(cell);
        }
    }
    halves
}

/// How long the device works on what the time of a step spans.
#[must_use]
pub fn device_us(step: &MeasuredStep, model: &CostModel) -> f64 {
    let cost = step.price(model);
    let head_ns = if step.clock == Clock::Forward { cost.head_ns + cost.drafting_ns } else { 0 };
    (cost.device().0 - head_ns) as f64 / 1e3
}
