//! Host costs from step times, as far as the device does not hide them.

use calibrate::fit::{interval_of_medians, median_slope};
use calibrate::measure::median;
use calibrate::profile::Profile;

use super::cells::{Cell, DEVICE_TRUST};
use super::finding::Finding;
use crate::cost::Execution;
use crate::fit::measured_step::Clock;

/// With fewer steps a median has no interval worth the name.
const SAMPLES_LEAST: u64 = 3;

/// What steps say of the host.
#[derive(Clone, Debug)]
pub struct HostFindings {
    /// `engine.host.step_overhead_us`.
    pub step_overhead_us: Finding,
    /// `engine.host.per_request_us`.
    pub per_request_us: Finding,
    /// `engine.dispatch.compiled_us`.
    pub compiled_us: Finding,
    /// `engine.dispatch.eager_us`.
    pub eager_us: Finding,
}

/// The host figures of a profile that steps are read with.
#[derive(Clone, Copy, Debug)]
struct Known {
    launch_us: f64,
    full_us: f64,
    /// PIECEWISE without what the framework spends on the launches between the pieces.
    pieces_us: f64,
    between_pieces: f64,
    compiled_ops: f64,
    eager_ops: f64,
    bookkeeping_us: f64,
    step_overhead_us: f64,
    per_request_us: f64,
    /// The most that a compiled operation is planned to take: decides only whether the device hides PIECEWISE launches.
    compiled_most_us: f64,
}

impl Known {
    fn of(profile: &Profile, pieces: u32) -> Self {
        let (ops, replay) = (&profile.engine.ops.figures, &profile.machine.replay.figures);
        let (dispatch, host) = (&profile.engine.dispatch.figures, &profile.engine.host.figures);
        let nodes_us = f64::from(ops.graph_nodes) * replay.node_us;
        let launch_us = profile.machine.launch.figures.launch_us;
        let between_pieces = f64::from(ops.attention_launches);
        Self {
            launch_us,
            full_us: replay.fixed_us + nodes_us,
            pieces_us: f64::from(pieces) * replay.fixed_us + nodes_us + between_pieces * launch_us,
            between_pieces,
            compiled_ops: f64::from(ops.compiled),
            eager_ops: f64::from(ops.eager),
            bookkeeping_us: host.padding_bookkeeping_us,
            step_overhead_us: host.step_overhead_us,
            per_request_us: host.per_request_us,
            compiled_most_us: dispatch.compiled_us_range.map_or(2.0 * dispatch.compiled_us, |range| range.high),
        }
    }

    /// The least and the most that launching a graph can take.
    fn graph_us(&self, execution: Execution) -> [f64; 2] {
        match execution {
            Execution::Piecewise => [self.pieces_us, self.pieces_us + self.between_pieces * self.compiled_most_us],
            _ => [self.full_us; 2],
        }
    }
}

/// Preparation of a step, as far as graph steps tell.
#[derive(Clone, Debug)]
enum Preparation {
    /// Known.
    Fitted(PreparationFit),
    /// Between nothing and this, all requests of a step together.
    Bounded { most_us: f64 },
    /// No graph step says anything.
    Silent,
}

/// What steps take beside device and launches, over their requests.
#[derive(Clone, Debug)]
struct PreparationFit {
    /// Requests of each cell.
    requests: Vec<f64>,
    /// Microseconds of each step, by cells.
    rests: Vec<Vec<f64>>,
    /// Whether the requests are apart enough for a slope; else it is this.
    slope_us: Option<f64>,
    /// What the device's time may be off by, which looks like preparation under synchronous scheduling.
    off_us: f64,
}

impl PreparationFit {
    /// Microseconds of a request, and of a step beside its requests, by the medians of the cells.
    fn costs_us(&self, medians: &[f64]) -> Option<[f64; 2]> {
        let points: Vec<(f64, f64)> = self.requests.iter().copied().zip(medians.iter().copied()).collect();
        let request_us = self.slope_us.or_else(|| median_slope([points.as_slice()]))?.max(0.0);
        let step_us = median(&points.iter().map(|(requests, rest)| rest - request_us * requests).collect::<Vec<_>>());
        step_us.is_finite().then_some([request_us, step_us])
    }

    fn medians(&self) -> Vec<f64> {
        self.rests.iter().map(|rests| median(rests)).collect()
    }
}

/// Reads the host's figures from steps that are alike by cells.
#[must_use]
pub fn findings(cells: &[Cell], profile: &Profile, pieces: u32, asynchronous: bool) -> HostFindings {
    let known = Known::of(profile, pieces);
    let (step_overhead_us, per_request_us, preparation) = preparation(cells, &known, asynchronous);
    let launches = Launches { cells, known: &known, preparation: &preparation, asynchronous };
    HostFindings {
        step_overhead_us,
        per_request_us,
        compiled_us: launches.per_operation_us(
            Execution::CompiledEager,
            known.compiled_ops,
            "the compiled model without a graph",
        ),
        eager_us: launches.per_operation_us(Execution::Eager, known.eager_ops, "a model without compilation"),
    }
}

fn samples(cells: &[&Cell]) -> u64 {
    cells.iter().map(|cell| cell.samples).sum()
}

/// Cells with enough steps for a median, if there are any; else all.
fn steady(cells: Vec<&Cell>) -> Vec<&Cell> {
    const STEADY_LEAST: usize = 3;
    let many: Vec<&Cell> = cells.iter().copied().filter(|cell| cell.us.len() >= STEADY_LEAST).collect();
    if many.is_empty() { cells } else { many }
}

fn preparation(cells: &[Cell], known: &Known, asynchronous: bool) -> (Finding, Finding, Preparation) {
    let graph_cells: Vec<&Cell> =
        cells.iter().filter(|cell| cell.key.execution.is_graph() && cell.key.clock == Clock::Period).collect();
    let graph_cells = steady(graph_cells);
    if graph_cells.is_empty() {
        let why = "no step with a graph whose time spans its preparation".to_owned();
        return (Finding::Silent { why: why.clone() }, Finding::Silent { why }, Preparation::Silent);
    }
    // Where PIECEWISE launches show, what the framework takes between the pieces is in them.
    let revealed: Vec<&Cell> = graph_cells
        .iter()
        .copied()
        .filter(|cell| {
            let [_, most_us] = known.graph_us(cell.key.execution);
            let is_full = cell.key.execution == Execution::Full;
            if asynchronous { is_full && cell.reveals_host(0.0) } else { is_full || cell.middle_device_us() > most_us }
        })
        .collect();
    if samples(&revealed) < SAMPLES_LEAST {
        return bounded_preparation(&graph_cells, known);
    }
    let rests = |cell: &Cell| -> Vec<f64> {
        let [launch_us, _] = known.graph_us(cell.key.execution);
        let longer = |device_us: f64| if asynchronous { launch_us } else { device_us.max(launch_us) };
        let rest = |(us, device_us): (&f64, &f64)| us - longer(*device_us) - known.bookkeeping_us;
        cell.us.iter().zip(&cell.device_us).map(rest).collect()
    };
    let requests: Vec<f64> = revealed.iter().map(|cell| f64::from(cell.key.requests)).collect();
    let device_us = median(&revealed.iter().map(|cell| cell.middle_device_us()).collect::<Vec<_>>());
    let mut fit = PreparationFit {
        slope_us: (!is_spread(&requests)).then_some(known.per_request_us),
        requests,
        rests: revealed.iter().map(|cell| rests(cell)).collect(),
        off_us: if asynchronous { 0.0 } else { DEVICE_TRUST * device_us },
    };
    let how = if asynchronous {
        "FULL steps that take longer than the device: the host holds them up"
    } else {
        "graph steps less the device's time, behind which synchronous scheduling hides nothing of it"
    };
    let samples = samples(&revealed);
    let costs = |fit: &PreparationFit| fit.costs_us(&fit.medians()).unwrap_or([known.per_request_us, 0.0]);
    let interval = |fit: &PreparationFit, place: usize, off_us: f64| {
        let of = |medians: &[f64]| fit.costs_us(medians).map(|costs| costs[place]);
        let [low, high] = interval_of_medians(&fit.rests, costs(fit)[place], of);
        [low - off_us, high + off_us]
    };
    let request_finding = if fit.slope_us.is_none() {
        let [request_us, _] = costs(&fit);
        let finding = Finding::of(request_us, interval(&fit, 0, 0.0), samples, format!("{how}; over their requests"));
        // What is kept or cut down is what the step's share has to go with.
        if !matches!(finding, Finding::Fitted { .. }) {
            fit.slope_us = Some(finding.decided(known.per_request_us));
        }
        finding
    } else {
        let why = "the steps have too few different numbers of requests for a slope".to_owned();
        Finding::Silent { why }
    };
    let [_, step_us] = costs(&fit);
    let step_finding = Finding::of(step_us, interval(&fit, 1, fit.off_us), samples, how.to_owned());
    (step_finding, request_finding, Preparation::Fitted(fit))
}

/// Whether numbers of requests are apart enough for a slope over them: four of them, the largest twice the smallest.
fn is_spread(requests: &[f64]) -> bool {
    const DIFFERENT_LEAST: usize = 4;
    let mut sorted = requests.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.dedup();
    sorted.len() >= DIFFERENT_LEAST && sorted[sorted.len() - 1] >= 2.0 * sorted[0]
}

/// What a step takes at least, where the time of a line may leave parts out: its own time, and the device's.
fn period_us(cell: &Cell) -> f64 {
    cell.middle_us().max(cell.middle_device_us())
}

fn bounded_preparation(graph_cells: &[&Cell], known: &Known) -> (Finding, Finding, Preparation) {
    let sum_us = |cell: &Cell| {
        let [launch_us, _] = known.graph_us(cell.key.execution);
        (period_us(cell) - launch_us - known.bookkeeping_us).max(0.0)
    };
    let each_us = |cell: &Cell| sum_us(cell) / f64::from(cell.key.requests.max(1));
    let least = |of: &dyn Fn(&Cell) -> f64| graph_cells.iter().map(|cell| of(cell)).fold(f64::INFINITY, f64::min);
    let (most_us, most_each_us) = (least(&sum_us), least(&each_us));
    let samples = samples(graph_cells);
    let why = "the preparation hides behind the device in every graph step, or in all but too few".to_owned();
    (
        Finding::bound(most_us, samples, why.clone()),
        Finding::bound(most_each_us, samples, why),
        Preparation::Bounded { most_us },
    )
}

/// Why launches have a bound and no figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hidden {
    /// The device takes as long as the step.
    ByDevice,
    /// A few steps take longer.
    TooFew,
    /// The preparation takes as long as the step, or longer.
    NothingLeft,
}

/// Steps without a graph, and what their launches are read with.
struct Launches<'a> {
    cells: &'a [Cell],
    known: &'a Known,
    preparation: &'a Preparation,
    asynchronous: bool,
}

impl Launches<'_> {
    /// The preparation that the time of a cell spans: at least, as fitted or planned, at most.
    fn prepared_us(&self, cell: &Cell) -> Option<[f64; 3]> {
        let requests = f64::from(cell.key.requests);
        match (cell.key.clock, self.preparation) {
            (Clock::Forward, _) => Some([0.0; 3]),
            (Clock::Period, Preparation::Fitted(fit)) => {
                let [request_us, step_us] = fit.costs_us(&fit.medians())?;
                Some([step_us + request_us * requests; 3])
            }
            (Clock::Period, Preparation::Bounded { most_us }) => {
                let planned_us = self.known.step_overhead_us + self.known.per_request_us * requests;
                Some([0.0, planned_us.min(*most_us), *most_us])
            }
            (Clock::Period, Preparation::Silent) => None,
        }
    }

    /// The part of it that lies beside the device and launches: all of it, unless it is scheduled ahead.
    fn beside_us(&self, cell: &Cell) -> f64 {
        match (cell.key.clock, self.asynchronous) {
            (Clock::Period, false) => self.prepared_us(cell).map_or(0.0, |[_, us, _]| us),
            _ => 0.0,
        }
    }

    /// What the framework spends on each of the operations that steps launch one by one.
    fn per_operation_us(&self, execution: Execution, ops: f64, what: &str) -> Finding {
        let own = steady(self.cells.iter().filter(|cell| cell.key.execution == execution).collect());
        if own.is_empty() {
            return Finding::Silent { why: format!("no decode step of {what}") };
        }
        let revealed: Vec<&Cell> = own
            .iter()
            .copied()
            .filter(|cell| self.prepared_us(cell).is_some() && cell.reveals_host(self.beside_us(cell)))
            .collect();
        if samples(&revealed) < SAMPLES_LEAST {
            let hidden = if revealed.is_empty() { Hidden::ByDevice } else { Hidden::TooFew };
            return self.bounded(&own, hidden, ops, what);
        }
        let per_op_us = |us: f64| us / ops - self.known.launch_us;
        let times: Vec<Vec<f64>> = revealed.iter().map(|cell| cell.us.clone()).collect();
        let middle_of = |medians: &[f64], prepared: &dyn Fn(&Cell) -> Option<f64>| {
            let launched = medians.iter().zip(&revealed).filter_map(|(us, cell)| Some(per_op_us(us - prepared(cell)?)));
            Some(median(&launched.collect::<Vec<_>>())).filter(|us| us.is_finite())
        };
        let medians: Vec<f64> = times.iter().map(|times| median(times)).collect();
        let value = middle_of(&medians, &|cell| Some(self.prepared_us(cell)?[1])).unwrap_or(0.0);
        let takes_longer = format!("{what} takes longer than the device: its launches hold it up");
        let (interval, why) = match self.preparation {
            Preparation::Fitted(fit) if revealed.iter().any(|cell| cell.key.clock == Clock::Period) => {
                // What is not known of the preparation is not known of the launches either: both are drawn together.
                let graphs = fit.rests.len();
                let groups: Vec<Vec<f64>> = fit.rests.iter().chain(&times).cloned().collect();
                let [low, high] = interval_of_medians(&groups, value, |medians| {
                    let [request_us, step_us] = fit.costs_us(&medians[..graphs])?;
                    middle_of(&medians[graphs..], &|cell| Some(step_us + request_us * f64::from(cell.key.requests)))
                });
                ([low - fit.off_us / ops, high + fit.off_us / ops], takes_longer)
            }
            _ => {
                let [low, high] = interval_of_medians(&times, value, |medians| {
                    middle_of(medians, &|cell| Some(self.prepared_us(cell)?[1]))
                });
                let widest = |of: fn([f64; 3]) -> f64| {
                    revealed.iter().filter_map(|cell| self.prepared_us(cell)).map(of).fold(0.0, f64::max) / ops
                };
                let (more, less) = (widest(|[least, us, _]| us - least), widest(|[_, us, most]| most - us));
                let hidden = "; the preparation is hidden: the figure is what is left beside the planned one, the interval what is \
                              left beside none and beside the most that it can be";
                let why = if more + less > 0.0 { format!("{takes_longer}{hidden}") } else { takes_longer };
                ([low - less, high + more], why)
            }
        };
        match Finding::of(value, interval, samples(&revealed), why) {
            // More than the whole step they cannot be.
            Finding::Silent { .. } => self.bounded(&own, Hidden::NothingLeft, ops, what),
            finding => finding,
        }
    }

    /// The most that operations can take whose launches hide.
    fn bounded(&self, own: &[&Cell], hidden: Hidden, ops: f64, what: &str) -> Finding {
        let most_us = |cell: &&Cell| (cell.middle_us() - self.beside_us(cell)).max(cell.middle_device_us());
        let most = own.iter().map(most_us).fold(f64::INFINITY, f64::min) / ops - self.known.launch_us;
        let why = match self.preparation {
            _ if hidden == Hidden::TooFew => format!("too few steps of {what} for a figure with an interval"),
            _ if hidden == Hidden::NothingLeft => {
                format!("{what} leaves nothing for launches beside the preparation that graph steps show")
            }
            Preparation::Silent => format!("no graph step parts preparation from launches in {what}"),
            _ => format!("launches of {what} hide behind the device"),
        };
        Finding::bound(most, samples(own), why)
    }
}
