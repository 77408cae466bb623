//! Law 10.

use std::collections::BTreeMap;

use calibrate::profile::Overlap;
use serde_json::Value;
use sim::cost::{CostModel, StepCost};
use sim::engine::shape::RuntimeMode;
use sim::observe::Event;
use sim::scenario::WarmUp;
use sim::server::Setup;
use sim::time::{SimDuration, SimTime};

use crate::house::{Law, Outcome, Watched, for_all, require};

/// Counts a run step by step, and keeps nothing but counts; the parts before and after the cut apart.
pub(crate) struct Count<'a> {
    cost: &'a CostModel,
    asynchronous: bool,
    warm_up: WarmUp,
    cut: Option<SimTime>,
    all_steps: u64,
    all_preemptions: u64,
    kept: Kept,
}

/// The steps after the cut.
#[derive(Default)]
struct Kept {
    steps: u64,
    rows: u64,
    device_ns: u64,
    host_ns: u64,
    relaxed: u64,
    preemptions: u64,
    /// Per mode and size: steps, exact steps, real rows, padded rows, nanoseconds saved.
    rungs: BTreeMap<(String, u64), [i64; 5]>,
    fallbacks: BTreeMap<String, u64>,
    /// Steps without a graph, and graph steps as if they ran without one: all of them, and those that launches at the
    /// low end of their planning range, as declared, and at its high end hold up.
    held_up: [[u64; 4]; 2],
}

impl<'a> Count<'a> {
    pub(crate) fn new(setup: &'a Setup, warm_up: WarmUp) -> Self {
        let cut = match warm_up {
            WarmUp::None => Some(SimTime::ZERO),
            WarmUp::Time(span) => Some(SimTime::ZERO + span),
            WarmUp::Requests(_) => None,
        };
        let asynchronous = setup.options.asynchronous();
        Self { cost: &setup.cost, asynchronous, warm_up, cut, all_steps: 0, all_preemptions: 0, kept: Kept::default() }
    }

    /// Holds the figures of the report, as JSON, against the counts and against each other.
    pub(crate) fn check(&self, outcome: &Outcome, setup: &Setup) -> Result<(), String> {
        let json = serde_json::to_value(&outcome.report).map_err(|error| error.to_string())?;
        let report = Report(&json);
        let kept = &self.kept;
        report.is("steps", kept.steps)?;
        report.is("relaxed_steps", kept.relaxed)?;
        report.is("preemptions", kept.preemptions)?;
        require(self.all_preemptions == outcome.end.preemptions, || {
            format!("{} preemptions told, {:?}", self.all_preemptions, outcome.end)
        })?;
        report.is("cold_start.steps", self.all_steps - kept.steps)?;
        require(self.all_steps == outcome.end.steps, || format!("{} steps, {:?}", self.all_steps, outcome.end))?;
        let rungs = &outcome.summary.rungs;
        let held_up = [rungs.held_up, rungs.held_up_without_graph]
            .map(|held| [held.steps, held.at_low, held.as_declared, held.at_high]);
        require(held_up == kept.held_up, || format!("held up: {held_up:?}, counted {:?}", kept.held_up))?;
        self.check_rungs(&report)?;
        self.check_artifacts(&report)?;
        let per_step = |total: u64| (kept.steps > 0).then(|| total as f64 / kept.steps as f64);
        let ms = |terms: &[&str]| report.total(&terms.iter().map(|term| format!("cost.{term}")).collect::<Vec<_>>());
        close(report.number("mean_batch_rows"), per_step(kept.rows))?;
        close(
            ms(&["dense_ms", "head_ms", "attention_ms", "drafting_ms", "gap_ms"]),
            per_step(kept.device_ns).map(|ns| ns / 1e6),
        )?;
        close(report.number("host_ms_per_step"), per_step(kept.host_ns).map(|ns| ns / 1e6))?;
        close(
            ms(&["step_overhead_ms", "request_overhead_ms", "launch_ms", "update_ms", "bookkeeping_ms"]),
            report.number("host_ms_per_step"),
        )?;
        close(
            report.total(
                &["memory_profiling_s", "compile_s", "warm_up_s", "capture_s"].map(|part| format!("startup.{part}")),
            ),
            report.number("startup_s"),
        )?;
        report.is("descriptors_captured", setup.graphs.capture_order().len() as u64)
    }

    fn check_rungs(&self, report: &Report<'_>) -> Result<(), String> {
        let mut expected: BTreeMap<(String, u64), [f64; 5]> = BTreeMap::new();
        for (key, tally) in &self.kept.rungs {
            let [steps, exact, real, padded, saved_ns] = tally.map(|count| count as f64);
            expected.insert(key.clone(), [steps, exact, real, padded, saved_ns / 1e6]);
        }
        let fields = ["steps", "exact_steps", "real_rows", "padded_rows", "saved_ms"];
        let mut sums = [0.0; 5];
        for rung in report.list("rungs") {
            let rung = Report(rung);
            let figures = fields.map(|field| rung.number(field).unwrap_or(f64::NAN));
            let key = (rung.text("mode"), rung.number("size").unwrap_or(f64::NAN) as u64);
            let counted = expected.remove(&key).unwrap_or_default();
            for (sum, (figure, counted)) in sums.iter_mut().zip(figures.iter().zip(counted)) {
                close(Some(*figure), Some(counted)).map_err(|fault| format!("rung {key:?}: {fault}"))?;
                *sum += figure;
            }
        }
        require(expected.is_empty(), || format!("rungs that ran are not reported: {expected:?}"))?;
        let [steps, exact, real, padded, saved_ms] = sums;
        close(report.number("saved_ms"), Some(saved_ms))?;
        let ratio = |part: f64, whole: f64| (whole > 0.0).then(|| part / whole);
        close(report.number("exact_hit_rate"), ratio(exact, steps))?;
        close(report.number("padding_ratio"), ratio(padded, real))?;
        close(report.number("waste_share"), ratio(padded, padded + real))?;
        let mut fallbacks = 0.0;
        for cause in ["above_ceiling", "no_key", "mode_excluded", "encoder_inputs", "other_rank", "graphs_off"] {
            let counted = self.kept.fallbacks.get(cause).copied().unwrap_or_default();
            report.is(&format!("fallbacks.{cause}"), counted)?;
            fallbacks += counted as f64;
        }
        close(report.number("steps"), Some(steps + fallbacks))?;
        close(report.number("fallback_rate"), ratio(fallbacks, steps + fallbacks))
    }

    fn check_artifacts(&self, report: &Report<'_>) -> Result<(), String> {
        let artifacts: Vec<Report<'_>> = report.list("artifacts").iter().map(Report).collect();
        let steps = artifacts.iter().filter_map(|artifact| artifact.number("steps")).sum();
        close(Some(steps), report.number("steps"))?;
        let captured = artifacts.iter().filter(|artifact| !artifact.0["descriptor"].is_null()).count();
        close(Some(captured as f64), report.number("descriptors_captured"))?;
        for artifact in &artifacts {
            let used = artifact.number("steps").is_some_and(|steps| steps > 0.0);
            require(used == artifact.number("first_use_s").is_some(), || format!("{}", artifact.0))?;
        }
        let without = artifacts.last().ok_or("no artifacts")?;
        let fallbacks: u64 = self.kept.fallbacks.values().sum();
        require(without.0["descriptor"].is_null(), || format!("{}", without.0))?;
        without.is("steps", fallbacks)
    }
}

impl Kept {
    /// Counts the launches of a step's eager kind that make the step longer than no launches at all would.
    fn count_held_up(&mut self, graph: bool, eager: &StepCost, cost: &CostModel, asynchronous: bool) {
        let Some(planned) = &cost.planned_launch else { return };
        let period = |launch_ns| period_ns(cost.overlap, asynchronous, &StepCost { launch_ns, ..*eager });
        let holds_up = |launch: SimDuration| u64::from(period(launch.0) > period(0));
        let counts = [1, holds_up(planned.low), holds_up(planned.declared), holds_up(planned.high)];
        for (sum, count) in self.held_up[usize::from(graph)].iter_mut().zip(counts) {
            *sum += count;
        }
    }
}

impl Law for Count<'_> {
    fn see(&mut self, event: &Event<'_>) -> Result<(), String> {
        match event {
            Event::RequestArrived { at, id, .. } | Event::RequestRefused { at, id, .. } => {
                if self.warm_up == WarmUp::Requests(id.0.into()) {
                    self.cut = Some(*at);
                }
            }
            Event::StepScheduled(step) => {
                self.all_steps += 1;
                if self.cut.is_none_or(|cut| step.span.scheduled < cut) {
                    return Ok(());
                }
                let (kept, real) = (&mut self.kept, step.plan.shape.tokens);
                kept.steps += 1;
                kept.rows += u64::from(real);
                kept.device_ns += step.cost.device().0;
                kept.host_ns += step.cost.host().0;
                kept.relaxed += u64::from(step.dispatch.relaxed);
                let eager = self.cost.price_eager(step.work);
                kept.count_held_up(step.dispatch.cause.is_none(), &eager, self.cost, self.asynchronous);
                if let Some(cause) = step.dispatch.cause {
                    *kept.fallbacks.entry(cause.to_string()).or_default() += 1;
                    return Ok(());
                }
                let key = &step.dispatch.descriptor;
                require(key.mode != RuntimeMode::None, || format!("step {}: a graph of mode NONE", step.step))?;
                let saved = period_ns(self.cost.overlap, self.asynchronous, &eager)
                    - period_ns(self.cost.overlap, self.asynchronous, step.cost);
                let tally = kept.rungs.entry((key.mode.to_string(), key.tokens.into())).or_default();
                let exact = key.tokens == real;
                let counts = [1, i64::from(exact), real.into(), (key.tokens - real).into(), saved];
                for (sum, count) in tally.iter_mut().zip(counts) {
                    *sum += count;
                }
            }
            Event::RequestPreempted { at, .. } => {
                self.all_preemptions += 1;
                self.kept.preemptions += u64::from(self.cut.is_some_and(|cut| *at >= cut));
            }
            Event::DummyStepRun { .. } | Event::StepApplied { .. } => {}
        }
        Ok(())
    }
}

/// How long a step holds up the next one.
fn period_ns(overlap: Overlap, asynchronous: bool, cost: &StepCost) -> i64 {
    let times = cost.times();
    let [preparation, launch, device] =
        [times.preparation, times.launch, times.device].map(|part| part.0.cast_signed());
    match (overlap, asynchronous) {
        (Overlap::Additive, _) => preparation + launch + device,
        (Overlap::Pipelined, true) => device.max(preparation + launch),
        (Overlap::Pipelined, false) => preparation + device.max(launch),
    }
}

/// A report's JSON.
struct Report<'a>(&'a Value);

impl Report<'_> {
    fn at(&self, path: &str) -> &Value {
        path.split('.').fold(self.0, |value, key| &value[key])
    }

    fn number(&self, path: &str) -> Option<f64> {
        self.at(path).as_f64()
    }

    fn text(&self, path: &str) -> String {
        self.at(path).as_str().unwrap_or_default().to_owned()
    }

    fn list(&self, path: &str) -> &[Value] {
        self.at(path).as_array().map(Vec::as_slice).unwrap_or_default()
    }

    fn total(&self, paths: &[String]) -> Option<f64> {
        paths.iter().map(|path| self.number(path)).sum()
    }

    fn is(&self, path: &str, expected: u64) -> Result<(), String> {
        let found = self.at(path);
        require(found.as_u64() == Some(expected), || format!("{path}: {found}, expected {expected}"))
    }
}

/// Equal up to the rounding of floats.
pub(crate) fn close(found: Option<f64>, expected: Option<f64>) -> Result<(), String> {
    let same = match (found, expected) {
        (Some(found), Some(expected)) => (found - expected).abs() <= 1e-9 * expected.abs().max(1.0),
        (None, None) => true,
        _ => false,
    };
    require(same, || format!("{found:?}, expected {expected:?}"))
}

/// Rungs, fallbacks, artifacts, cost terms and start-up parts add up to the totals, in the JSON that users read; and
/// the totals are those of a count of the steps.
#[test]
fn law_10_parts_add_up_to_the_totals() {
    let needed = [
        "graph steps",
        "fallbacks",
        "relaxed steps",
        "steps before a cut",
        "steps held up at the high end only",
        "graph steps held up without",
    ];
    for_all("law 10", 192, &needed, |case, seen| {
        let house = case.open()?;
        for (candidate, setup) in house.setups.iter().enumerate() {
            let mut count = Watched(Count::new(setup, house.scenario.warm_up));
            let outcome = house.serve(candidate, &mut count)?;
            count.0.check(&outcome, setup)?;
            seen.add_run(&outcome);
            seen.add("graph steps", outcome.summary.rungs.total().steps);
            seen.add("fallbacks", outcome.summary.rungs.fallback_steps());
            seen.add("relaxed steps", outcome.summary.rungs.relaxed_steps);
            let rungs = &outcome.summary.rungs;
            seen.add("steps held up at the high end only", rungs.held_up.at_high - rungs.held_up.as_declared);
            seen.add("graph steps held up without", rungs.held_up_without_graph.at_high);
            seen.add("steps before a cut", outcome.summary.steps_before_cut.steps);
        }
        Ok(())
    });
}
