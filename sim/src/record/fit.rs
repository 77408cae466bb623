//! The result of `sim fit`, as a record.

use std::collections::BTreeSet;

use calibrate::fit::HeldOut;
use calibrate::measure::median;
use calibrate::profile::{Curve, Profile};
use reports::{FitError, FitFigure, FitHeldOut, FitLeftOut, FitOutlier, FitSource, ProfileReport};

use super::context::{group, sha256};
use crate::fit::onto::finding::Finding;
use crate::fit::onto::log::EngineLog;
use crate::fit::onto::steps::LoggedSteps;
use crate::fit::onto::{Fitted, StepErrors};
use crate::fit::tables::Table;
use crate::fit::tables::whole_steps::{Use, Uses};
use crate::fit::{self, Read};

/// The whole profile with the provenance of every group.
#[must_use]
pub fn fitted_profile(profile: &Profile, name: &str) -> ProfileReport {
    ProfileReport {
        name: name.to_owned(),
        sha256: sha256(profile.to_toml().as_bytes()),
        device: Some(profile.identity.device.clone()),
        model: Some(profile.identity.model_name.clone()),
        overlap: profile.overlap.as_str().into(),
        groups: profile.each_group().iter().map(group).collect(),
    }
}

/// What was read of a table, and what was left out.
#[must_use]
pub fn table_source(read: &Read) -> FitSource {
    let left_out = |count: u64, why: &str| FitLeftOut { count, why: why.to_owned() };
    let (what, rows, used, left_out) = match &read.table {
        Table::Linear(linear) => {
            let what = format!("linear operations of one layer, {}", linear.timing.words());
            let others = linear.rows - linear.used;
            (what, linear.rows, linear.used, vec![left_out(others, "rows of other tensor-parallel ranks")])
        }
        Table::Attention(times) => {
            let what = format!("attention of one layer, {}, {}", times.backend, times.timing.words());
            let left_out = vec![
                left_out(times.of_other_ranks, "rows of other tensor-parallel ranks"),
                left_out(
                    times.mixed,
                    "several prefills, or prefills and decodes at once: no table of two quantities holds them",
                ),
            ];
            (what, times.rows, times.used, left_out)
        }
        Table::Kernels(kind, sheet) => {
            (format!("LLMServingSim: {}", kind.words()), sheet.len() as u64, sheet.len() as u64, Vec::new())
        }
        Table::Steps(steps) => {
            let uses = Uses::of(steps);
            let of_use = |kind| steps.iter().filter(|step| uses.of_step(step) == kind).count() as u64;
            let used = of_use(Use::Parts) + of_use(Use::Launches);
            let left_out = vec![
                left_out(of_use(Use::Judge), "PIECEWISE steps beside FULL ones: they judge, no figure is made of them"),
                left_out(of_use(Use::Nothing), "steps without a graph of fewer or of more rows than any step with one"),
            ];
            ("measured steps".to_owned(), steps.len() as u64, used, left_out)
        }
    };
    FitSource {
        file: read.source.file.clone(),
        sha256: read.source.sha256.clone(),
        what,
        read: rows,
        used,
        left_out: left_out.into_iter().filter(|left_out| left_out.count > 0).collect(),
    }
}

/// How far readings of the dense table between its sizes may be off: each inner size read from its neighbours.
#[must_use]
pub fn dense_held_out(profile: &Profile) -> Option<FitHeldOut> {
    let Curve::Table(table) = &profile.machine.dense.figures else { return None };
    let points: Vec<(f64, f64)> = table.x().iter().copied().zip(table.y().iter().copied()).collect();
    let errors = HeldOut::of(&points)?;
    Some(FitHeldOut {
        group: "machine.dense".to_owned(),
        sizes: errors.points,
        median_percent: errors.median * 100.0,
        worst_percent: errors.max * 100.0,
        worst_at: errors.max_at,
    })
}

/// What was read of a log, and what was left out.
#[must_use]
pub fn log_source(log: &EngineLog, made: &LoggedSteps) -> FitSource {
    let kinds = [
        (!log.iterations.is_empty(), "iteration lines of vLLM"),
        (!log.batch_sizes.is_empty(), "batch sizes of vLLM"),
        (!log.decodes.is_empty(), "decode lines of SGLang"),
        (!log.captured.is_empty() || log.init_s.is_some() || log.graphs_gib.is_some(), "a start"),
    ];
    let lines: BTreeSet<u64> = made.steps.iter().map(|step| step.line).collect();
    let start = u64::from(log.graphs_gib.is_some()) + u64::from(log.init_s.is_some());
    let what: Vec<&str> = kinds.into_iter().filter(|(is_there, _)| *is_there).map(|(_, what)| what).collect();
    FitSource {
        file: log.file.clone(),
        sha256: log.sha256.clone(),
        what: what.join(", "),
        read: log.lines,
        used: (lines.len() + log.captured.len()) as u64 + start,
        left_out: made
            .left_out
            .iter()
            .map(|(count, why)| FitLeftOut { count: *count, why: (*why).to_owned() })
            .collect(),
    }
}

/// One figure, before and after.
fn figure(name: &str, unit: &'static str, finding: &Finding, before: Option<f64>, after: Option<f64>) -> FitFigure {
    let kept = FitFigure {
        figure: name.to_owned(),
        unit: unit.into(),
        before,
        after,
        verdict: "kept".into(),
        low: None,
        high: None,
        samples: 0,
        why: String::new(),
    };
    match finding {
        Finding::Fitted { interval: [low, high], samples, why, .. } => FitFigure {
            verdict: "fitted".into(),
            low: Some(*low),
            high: Some(*high),
            samples: *samples,
            why: why.clone(),
            ..kept
        },
        Finding::Read { range: [least, most], samples, why, .. } => FitFigure {
            verdict: "fitted".into(),
            samples: *samples,
            why: if least < most {
                format!("{why}; {least:.3} to {most:.3} over sizes, too few for an interval")
            } else {
                format!("{why}; one size, which no other confirms")
            },
            ..kept
        },
        Finding::Bounded { most, samples, why } => {
            FitFigure { verdict: "upper_bound".into(), high: Some(*most), samples: *samples, why: why.clone(), ..kept }
        }
        Finding::Silent { why } => FitFigure { why: why.clone(), ..kept },
    }
}

/// The figures that logs decide or bound, before and after.
#[must_use]
pub fn figures(given: &Profile, fitted: &Fitted<'_>) -> Vec<FitFigure> {
    let (host, start) = (&fitted.host, &fitted.start);
    let figure = |name: &str, unit: &'static str, finding: &Finding, of: &dyn Fn(&Profile) -> Option<f64>| {
        figure(name, unit, finding, of(given), of(&fitted.profile))
    };
    vec![
        figure("engine.host.step_overhead_us", "us", &host.step_overhead_us, &|profile| {
            Some(profile.engine.host.figures.step_overhead_us)
        }),
        figure("engine.host.per_request_us", "us", &host.per_request_us, &|profile| {
            Some(profile.engine.host.figures.per_request_us)
        }),
        figure("engine.dispatch.compiled_us", "us", &host.compiled_us, &|profile| {
            Some(profile.engine.dispatch.figures.compiled_us)
        }),
        figure("engine.dispatch.eager_us", "us", &host.eager_us, &|profile| {
            Some(profile.engine.dispatch.figures.eager_us)
        }),
        figure("machine.capture.full_s", "s", &start.full_s, &|profile| Some(profile.machine.capture.figures.full_s)),
        figure("machine.capture.piecewise_s", "s", &start.piecewise_s, &|profile| {
            Some(profile.machine.capture.figures.piecewise_s)
        }),
        figure("engine.startup.per_capture_s", "s", &start.per_capture_s, &|profile| {
            profile.engine.startup.figures.per_capture_s
        }),
        figure("machine.pool.full_executable_bytes", "bytes", &start.executable_bytes, &|profile| {
            Some(profile.machine.pool.figures.full_executable.0 as f64)
        }),
    ]
}

/// The launches that steps without a graph tell or bound, beside the planned ones.
#[must_use]
pub fn launch_figures(fitted: &fit::Fitted) -> Vec<FitFigure> {
    let Some(launches) = &fitted.launches else { return Vec::new() };
    let [before, after] = [&fitted.planned, &fitted.profile].map(|profile| &profile.engine.dispatch.figures);
    let of = |name: &str, finding: &Finding, before: f64, after: f64| {
        let is_told = !matches!(finding, Finding::Silent { .. });
        is_told.then(|| figure(name, "us", finding, Some(before), Some(after)))
    };
    [
        of("engine.dispatch.compiled_us", &launches.compiled_us, before.compiled_us, after.compiled_us),
        of("engine.dispatch.eager_us", &launches.eager_us, before.eager_us, after.eager_us),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Errors of step times before and after, of steps that no figure was fitted to.
#[must_use]
pub fn step_errors(errors: &[StepErrors]) -> Vec<FitError> {
    let of = |StepErrors { execution, before, after }: &StepErrors| FitError {
        steps: execution.map_or("all", |execution| execution.name()).to_owned(),
        count: before.len() as u64,
        before_median_percent: median(before) * 100.0,
        before_p95_percent: p95(before) * 100.0,
        after_median_percent: median(after) * 100.0,
        after_p95_percent: p95(after) * 100.0,
    };
    errors.iter().map(of).collect()
}

/// The 95th percentile: the smallest value that 95 % are not above.
fn p95(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = (sorted.len() * 95).div_ceil(100).saturating_sub(1);
    sorted.get(place).copied().unwrap_or(f64::NAN)
}

/// Steps far from the others of their kind.
#[must_use]
pub fn outliers(fitted: &Fitted<'_>) -> Vec<FitOutlier> {
    let of = |outlier: &fit::onto::cells::Outlier<'_>| {
        let step = outlier.logged.step;
        FitOutlier {
            place: format!("{}:{}", outlier.logged.file, step.line),
            execution: step.execution.name().into(),
            rows: step.rows,
            ms: step.us / 1e3,
            others_ms: outlier.others_us / 1e3,
        }
    };
    fitted.outliers.iter().map(of).collect()
}
