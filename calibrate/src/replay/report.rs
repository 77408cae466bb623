//! What a replay says: predictions beside measurements, as tables for people and as one JSON document.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use super::agreement::{Agreement, Pair, kendall_tau};
use super::log::StepLog;
use super::sample::{Sample, Use};
use crate::counted::counted;
use crate::measure::{Campaign, Estimate};
use crate::probe::steps::StepTimes;
use crate::stderr::printable;

/// Version of the document.
const SCHEMA: u32 = 1;
/// Shapes that are shown as the worst.
const WORST: usize = 5;
/// The order of the modes in tables.
const MODES: [&str; 3] = ["FULL", "PIECEWISE", "NONE"];

/// What is compared with what; what a replay cannot tell.
const COMPARED: [&str; 4] = [
    "Device: predicted dense_ns + head_ns + attention_ns + gap_ns against the time from a step's first kernel to its\n  \
     last, queued up before it starts. Drafting is not replayed.",
    "Launch: predicted launch_ns against the host time of replays and launches, under FULL of the graph alone.\n  \
     PIECEWISE and NONE predict a Python engine's dispatch too, which no replay has: there the difference is\n  \
     that dispatch, and no error of the profile's machine half.",
    "Not compared: the engine's overhead per step and request, bookkeeping, updates of shared executables.",
    "The log has the context of all decoding requests together: each was given the same share of it. Kernels,\n  \
     and how many they are, are calibrate's and not the engine's.",
];

/// Where a log was replayed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReplayedOn {
    /// Name and place of the device.
    pub device: String,
    /// CUDA version of the driver.
    pub driver: String,
    /// Whether that was the tests' double: then nothing here was measured.
    pub double: bool,
    /// The model.
    pub model: String,
    /// What multiplied.
    pub gemm_backend: String,
}

/// Everything that a replay found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    schema: u32,
    log: String,
    scenario: String,
    profile: String,
    #[serde(flatten)]
    on: ReplayedOn,
    /// Of the log.
    steps: u64,
    /// Different shapes in the log.
    shapes: usize,
    /// Of these run.
    shapes_run: usize,
    not_replayed: Vec<NotReplayed>,
    compared: [&'static str; 4],
    /// Device time. Not `device`, which names the GPU in the same document.
    #[serde(rename = "device_time")]
    device: Compared,
    /// Host time by mode: their sum would mix graphs with a Python engine's dispatch.
    launch: BTreeMap<&'static str, Agreement>,
    candidates: Vec<CandidateAgreement>,
    /// Of the candidates' device times, predicted and measured; null with fewer than two.
    kendall_tau: Option<f64>,
    runs: Vec<Run>,
    warnings: Vec<String>,
    campaigns: BTreeMap<String, Campaign>,
}

/// Steps that were not run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NotReplayed {
    /// Whose.
    pub candidate: String,
    /// How many.
    pub steps: f64,
    /// Why.
    pub reason: String,
}

/// One term, over all steps and by mode.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Compared {
    all: Agreement,
    by_mode: BTreeMap<&'static str, Agreement>,
}

/// Device time of one candidate.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct CandidateAgreement {
    name: String,
    seeds: Vec<u64>,
    device: Agreement,
    /// The measured total with its interval.
    measured_ms: Estimate,
}

/// One shape of one candidate.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Run {
    candidate: String,
    first_step: u64,
    steps: f64,
    total_steps: f64,
    mode: &'static str,
    shape: String,
    predicted_device_us: f64,
    measured_device_us: Estimate,
    predicted_launch_us: f64,
    measured_launch_us: Estimate,
}

impl Run {
    fn device(&self) -> Pair {
        let (predicted_us, measured_us) = (self.predicted_device_us, self.measured_device_us.value);
        Pair { steps: self.steps, total_steps: self.total_steps, predicted_us, measured_us }
    }

    fn launch(&self) -> Pair {
        let (predicted_us, measured_us) = (self.predicted_launch_us, self.measured_launch_us.value);
        Pair { steps: self.steps, total_steps: self.total_steps, predicted_us, measured_us }
    }
}

/// Agreement of the runs of each mode.
fn by_mode(runs: &[Run], pair: impl Fn(&Run) -> Pair) -> BTreeMap<&'static str, Agreement> {
    let of_mode = |mode: &&'static str| {
        let own: Vec<Pair> = runs.iter().filter(|run| run.mode == *mode).map(&pair).collect();
        (!own.is_empty()).then(|| (*mode, Agreement::of(own)))
    };
    MODES.iter().filter_map(of_mode).collect()
}

/// How often each shape counts in each candidate's total.
pub(super) fn totals(log: &StepLog, sample: &Sample) -> Vec<Vec<f64>> {
    let mut totals = vec![vec![0.0; sample.shapes.len()]; log.candidates.len()];
    for used in &sample.uses {
        totals[used.candidate][used.shape] += used.total_steps;
    }
    totals
}

impl Report {
    /// Puts predictions and times together.
    pub(super) fn new(
        log: (&str, &StepLog),
        sample: &Sample,
        times: &StepTimes,
        campaigns: BTreeMap<String, Campaign>,
        not_replayed: Vec<NotReplayed>,
        warnings: Vec<String>,
        on: ReplayedOn,
    ) -> Self {
        let (path, log) = log;
        let run = |used: &Use| {
            let shape = &sample.shapes[used.shape];
            Run {
                candidate: log.candidates[used.candidate].name.clone(),
                first_step: used.first_step,
                steps: used.steps,
                total_steps: used.total_steps,
                mode: shape.mode_name(),
                shape: shape.to_string(),
                predicted_device_us: used.predicted_device_us,
                measured_device_us: times.device_us[used.shape],
                predicted_launch_us: used.predicted_launch_us,
                measured_launch_us: times.host_us[used.shape],
            }
        };
        let runs: Vec<Run> = sample.uses.iter().map(run).collect();
        let candidates: Vec<CandidateAgreement> = log
            .candidates
            .iter()
            .zip(&times.device_totals_us)
            .map(|(candidate, total_us)| CandidateAgreement {
                name: candidate.name.clone(),
                seeds: candidate.seeds.clone(),
                device: Agreement::of(runs.iter().filter(|run| run.candidate == candidate.name).map(Run::device)),
                measured_ms: total_us.scaled(1e-3),
            })
            .collect();
        let side = |total: fn(&Agreement) -> f64| -> Vec<f64> {
            candidates.iter().map(|candidate| total(&candidate.device)).collect()
        };
        let kendall_tau = kendall_tau(&side(|device| device.predicted_ms), &side(|device| device.measured_ms));
        Self {
            schema: SCHEMA,
            log: path.to_owned(),
            scenario: log.scenario.clone(),
            profile: log.profile.clone(),
            on,
            steps: log.steps(),
            shapes: sample.shapes_in_log,
            shapes_run: sample.shapes.len(),
            not_replayed,
            compared: COMPARED,
            device: Compared { all: Agreement::of(runs.iter().map(Run::device)), by_mode: by_mode(&runs, Run::device) },
            launch: by_mode(&runs, Run::launch),
            candidates,
            kendall_tau,
            runs,
            warnings,
            campaigns,
        }
    }

    /// Writes the JSON document.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn json(&self, out: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }

    /// Writes the tables.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn text(&self, out: &mut impl Write) -> io::Result<()> {
        let ReplayedOn { model, gemm_backend, .. } = &self.on;
        writeln!(out, "model    {model}, matrix products by {gemm_backend}")?;
        let (scenario, profile) = (printable(&self.scenario), printable(&self.profile));
        writeln!(out, "log      {}: {scenario}, priced with {profile}", printable(&self.log))?;
        let sampled = if self.shapes_run < self.shapes { ", a sample" } else { "" };
        writeln!(
            out,
            "replay   {} of {}{sampled}, for {}",
            self.shapes_run,
            counted(self.shapes, "shape"),
            counted(self.steps, "step")
        )?;
        for NotReplayed { candidate, steps, reason } in &self.not_replayed {
            writeln!(out, "         not replayed: {steps:.0} of {}, {reason}", printable(candidate))?;
        }
        writeln!(out, "\n{:<24}{HEADINGS}", "device time")?;
        lines(&self.device.by_mode, out)?;
        line("all", &self.device.all, out)?;
        writeln!(out, "\n{:<24}{HEADINGS}", "launch time, host")?;
        lines(&self.launch, out)?;
        writeln!(out, "\n{:<24}{HEADINGS}", "candidate, device time")?;
        for CandidateAgreement { name, device, .. } in &self.candidates {
            line(&printable(name), device, out)?;
        }
        if let Some(tau) = self.kendall_tau {
            let count = self.candidates.len();
            writeln!(out, "\nrank agreement of {count} candidates by device time (Kendall's tau): {tau:.2}")?;
        }
        self.worst(out)?;
        writeln!(
            out,
            "\nerror = predicted / measured - 1; MAPE and bias count every step once, `total` every millisecond."
        )?;
        for sentence in COMPARED {
            writeln!(out, "{sentence}")?;
        }
        if self.on.double {
            writeln!(out, "The tests' driver double answered: nothing here comes from a GPU.")?;
        }
        Ok(())
    }

    fn worst(&self, out: &mut impl Write) -> io::Result<()> {
        let mut runs: Vec<&Run> = self.runs.iter().filter(|run| run.measured_device_us.value > 0.0).collect();
        runs.sort_by(|one, other| other.device().error().abs().total_cmp(&one.device().error().abs()));
        writeln!(out, "\nworst steps, device time    predicted us  measured us  error %  step")?;
        for run in runs.into_iter().take(WORST) {
            let Pair { predicted_us, measured_us, .. } = run.device();
            let error = percent(Some(run.device().error()));
            let candidate = printable(&run.candidate);
            let from = format!("{candidate}, step {}", run.first_step);
            writeln!(out, "  {from:<24}  {predicted_us:>12.1}  {measured_us:>11.1}  {error:>7}  {}", run.shape)?;
        }
        Ok(())
    }
}

const HEADINGS: &str = "     steps  predicted ms   measured ms  total %   MAPE %   bias %";

fn lines(by_mode: &BTreeMap<&'static str, Agreement>, out: &mut impl Write) -> io::Result<()> {
    for mode in MODES {
        if let Some(agreement) = by_mode.get(mode) {
            line(mode, agreement, out)?;
        }
    }
    Ok(())
}

fn line(name: &str, agreement: &Agreement, out: &mut impl Write) -> io::Result<()> {
    let Agreement { steps, mape, bias, predicted_ms, measured_ms, total_error } = agreement;
    let [total, mape, bias] = [*total_error, *mape, *bias].map(percent);
    writeln!(out, "  {name:<22}{steps:>10.0}{predicted_ms:>14.2}{measured_ms:>14.2}{total:>9}{mape:>9}{bias:>9}")
}

fn percent(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.2}", share * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph_mode::Mode;
    use crate::probe::step_shape::{GraphKey, ShapeKey};
    use crate::replay::log::{Candidate, Group, Predicted};
    use kernels::units::Rows;

    fn shape(rows: u32, mode: Option<Mode>) -> ShapeKey {
        let graph = mode.map(|mode| GraphKey { mode, rows: Rows(rows), requests: None, uniform: Some(1) });
        ShapeKey { graph, rows: Rows(rows), prefills: vec![], decode_requests: rows, decode_context: 100, drafts: 0 }
    }

    /// Two candidates, of which the second is predicted and measured to be slower.
    fn report() -> Report {
        let candidate = |name: &str, steps| Candidate {
            name: name.into(),
            seeds: vec![7],
            groups: vec![Group { shape: shape(1, None), steps, first_step: 0, predicted: Predicted::default() }],
            left_out: BTreeMap::new(),
        };
        let log = StepLog {
            scenario: "Two ladders".into(),
            profile: "mine".into(),
            candidates: vec![candidate("graphs", 30), candidate("none", 27)],
        };
        let used = |candidate, shape, steps, predicted_device_us| Use {
            candidate,
            shape,
            steps,
            total_steps: steps,
            first_step: 3,
            predicted_device_us,
            predicted_launch_us: 20.0,
        };
        let sample = Sample {
            shapes: vec![shape(8, Some(Mode::Full)), shape(5, None)],
            uses: vec![used(0, 0, 30.0, 1_010.0), used(1, 1, 25.0, 1_300.0)],
            shapes_in_log: 9,
        };
        let times = StepTimes {
            device_us: [1_000.0, 1_250.0].map(Estimate::exact).to_vec(),
            host_us: [16.0, 400.0].map(Estimate::exact).to_vec(),
            device_totals_us: [30_000.0, 31_250.0].map(Estimate::exact).to_vec(),
        };
        let not_replayed = vec![NotReplayed { candidate: "none".into(), steps: 2.0, reason: "too large".into() }];
        let on = ReplayedOn {
            device: "a GPU".into(),
            driver: "CUDA 12.9".into(),
            double: false,
            model: "tiny".into(),
            gemm_backend: "own kernels".into(),
        };
        assert_eq!(totals(&log, &sample), [[30.0, 0.0], [0.0, 25.0]]);
        Report::new(("steps.jsonl", &log), &sample, &times, BTreeMap::new(), not_replayed, vec![], on)
    }

    #[test]
    fn tables_say_what_is_compared_with_what() {
        let mut text = Vec::new();
        report().text(&mut text).unwrap();
        insta::assert_snapshot!(String::from_utf8(text).unwrap());
    }

    #[test]
    fn the_document_has_every_figure() {
        let mut json = Vec::new();
        report().json(&mut json).unwrap();
        let document: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(document["schema"], 1);
        assert_eq!(document["kendall_tau"], 1.0);
        assert_eq!(document["runs"][1]["shape"], "NONE 5, 5 decodes at 20");
        assert_eq!(document["candidates"][0]["measured_ms"]["value"], 30.0);
        let mape = document["device_time"]["by_mode"]["NONE"]["mape"].as_f64().unwrap();
        assert!((mape - 0.04).abs() < 1e-12, "{mape}");
        let lines: Vec<&str> = std::str::from_utf8(&json).unwrap().lines().collect();
        let keys: Vec<&str> = lines
            .iter()
            .filter_map(|line| line.strip_prefix("  \""))
            .filter_map(|line| line.split('"').next())
            .collect();
        let different: std::collections::BTreeSet<&str> = keys.iter().copied().collect();
        assert!(keys.len() > 10 && different.len() == keys.len(), "a key stands twice: {keys:?}");
    }
}
