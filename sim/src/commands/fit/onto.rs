//! `sim fit --onto`: the engine half of a profile from the engine's own logs.

use std::path::Path;

use calibrate::profile::{Overlap, Profile};
use reports::{FitReport, FitSource, Warning};

use super::super::failure::Failure;
use super::super::inputs::named_profile;
use super::Arguments;
use crate::fit::onto::agreement::{Described, refuse_faster, refuse_twice, slower};
use crate::fit::onto::log::EngineLog;
use crate::fit::onto::steps::{Server, of_log};
use crate::fit::onto::{Fitted, Onto, StepFile, fit};
use crate::fit::tables::{Table, TableKind};
use crate::fit::{FitError, Read, Source};
use crate::import::input::Input;
use crate::record;
use crate::scenario::Scenario;
use crate::server::Setup;

/// The profile fitted, its name and what is said of it.
pub(super) fn fitted(arguments: &Arguments, onto: &str) -> Result<(Profile, FitReport), Failure> {
    let given = named_profile(onto)?;
    if given.overlap == Overlap::Additive {
        let problem = format!("{onto}: host and device time add up in this profile, as in an exercise");
        return Err(FitError::together(problem, "fit the log of a server onto a profile that is pipelined").into());
    }
    let named =
        arguments.server.as_deref().map(|path| server(path, arguments.candidate.as_deref(), &given)).transpose()?;
    let (server, model) = named.unzip();
    let model = model.flatten();
    let described = Described { profile: &given, server: server.as_ref(), model: model.as_deref() };
    described.check_server()?;
    let asynchronous = match &server {
        Some(server) => server.options.asynchronous(),
        None => !arguments.synchronous,
    };
    let (mut files, mut logs, mut sources) = (Vec::new(), Vec::new(), Vec::new());
    for path in &arguments.files {
        if is_steps(path) || arguments.from.map(TableKind::from) == Some(TableKind::Steps) {
            let read = Read::table(Source::read(path)?, Some(TableKind::Steps), None)?;
            sources.push(record::fit::table_source(&read));
            if let Table::Steps(steps) = read.table {
                files.push(StepFile { file: read.source.file, sha256: read.source.sha256, steps });
            }
            continue;
        }
        let log = EngineLog::read(path)?;
        described.check(&log)?;
        let made = of_log(&log, server.as_ref(), arguments.context)?;
        sources.push(record::fit::log_source(&log, &made));
        files.push(StepFile { file: log.file.clone(), sha256: log.sha256.clone(), steps: made.steps });
        logs.push(log);
    }
    refuse_twice(&files)?;
    let question = Onto { profile: &given, server: server.as_ref(), asynchronous };
    let fast = refuse_faster(&question, &files)?;
    let mut fitted = fit(&question, &files, &logs)?;
    fitted.profile.name = super::name(arguments);
    let mut report = report(arguments, onto, &given, &fitted, sources, asynchronous);
    let doubts = logs.iter().flat_map(|log| described.doubts(log)).map(|message| ("other_server", message));
    let fast = fast.into_iter().map(|message| ("faster_than_device", message));
    let slow = slower(&given, &fitted).map(|message| ("slower_than_planned", message));
    report.warnings.extend(doubts.chain(fast).chain(slow).map(|(code, message)| warning(code, message)));
    Ok((fitted.profile, report))
}

/// The server that a scenario describes, with the flags of one candidate, and the model that it names.
fn server(path: &Path, candidate: Option<&str>, profile: &Profile) -> Result<(Server, Option<String>), Failure> {
    let scenario = Scenario::load_on(path, Some(profile))?;
    let model = scenario.model.as_ref().map(|model| model.name.clone());
    let found = match candidate {
        None => scenario.candidates.first(),
        Some(name) => scenario.candidates.iter().find(|candidate| candidate.name == name),
    };
    let Some(candidate) = found else {
        let names: Vec<String> = scenario.candidates.iter().map(|candidate| format!("`{}`", candidate.name)).collect();
        return Err(Failure::Usage {
            message: format!("{} has no candidate named `{}`", scenario.file, candidate.unwrap_or_default()),
            help: Some(format!("its candidates are {}", names.join(", "))),
        });
    };
    let plan = Setup::plan(&candidate.options, profile).map_err(|error| {
        let message = format!("candidate `{}`: {error}", candidate.name);
        scenario.reject(candidate.span.clone(), message, error.help())
    })?;
    Ok((Server { options: candidate.options.clone(), plan }, model))
}

/// Whether the first line names the columns of a table of steps. What cannot be read is found out later; standard input can
/// be read only once.
fn is_steps(path: &Path) -> bool {
    if path == Path::new("-") {
        return false;
    }
    let Ok(input) = Input::open(path) else { return false };
    let head = String::from_utf8_lossy(input.head()).into_owned();
    let first = head.trim_start_matches('\u{feff}').lines().next().unwrap_or_default();
    ["mode", "milliseconds"].iter().all(|name| first.split(',').any(|column| column.trim() == *name))
}

fn report(
    arguments: &Arguments,
    onto: &str,
    given: &Profile,
    fitted: &Fitted<'_>,
    sources: Vec<FitSource>,
    asynchronous: bool,
) -> FitReport {
    let written = arguments.out.as_ref().map(|path| path.display().to_string());
    FitReport {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        profile: record::fit::fitted_profile(&fitted.profile, written.as_ref().unwrap_or(&fitted.profile.name)),
        written,
        onto: Some(onto.to_owned()),
        sources,
        held_out: Vec::new(),
        figures: record::fit::figures(given, fitted),
        errors: record::fit::step_errors(&fitted.errors),
        outliers: record::fit::outliers(fitted),
        notes: notes(given, fitted, asynchronous),
        warnings: warnings(arguments, fitted),
    }
}

fn notes(given: &Profile, fitted: &Fitted<'_>, asynchronous: bool) -> Vec<String> {
    let mut notes = vec![
        if asynchronous {
            "Scheduled ahead: a step takes the longer of device and host, so only steps that take longer than the device show what \
             the host takes."
        } else {
            "Not scheduled ahead: a step takes its preparation and then the longer of device and launches."
        }
        .to_owned(),
    ];
    if !fitted.errors.is_empty() {
        notes.push(
            "Errors are those of steps that no figure was fitted to: every second one of its kind. The time of an iteration line \
             leaves out the scheduler and the handling of outputs."
                .to_owned(),
        );
    }
    let kept: Vec<&str> = given
        .groups()
        .into_iter()
        .filter(|(name, from)| name.starts_with("machine.") && from.kind.is_measured())
        .map(|(name, _)| name)
        .collect();
    if !kept.is_empty() {
        notes.push(format!("Measured and kept as they are: {}.", kept.join(", ")));
    }
    if let Some(rest_s) = fitted.start.without_captures_s {
        let parts = &given.engine.startup.figures;
        let planned_s = parts.trace_s
            + parts.compile_cold_s
            + parts.memory_profiling_s
            + parts.kernel_warm_up_s
            + parts.sampler_warm_up_s;
        notes.push(format!(
            "The start takes {rest_s:.1} s beside its captures; the profile has {planned_s:.1} s for tracing, one cold compilation, \
             memory profiling and warm-ups. The log does not part them, so they stay."
        ));
    }
    notes
}

fn warnings(arguments: &Arguments, fitted: &Fitted<'_>) -> Vec<Warning> {
    let is_assumed = arguments.server.is_none() && !arguments.synchronous && !fitted.errors.is_empty();
    let assumed = is_assumed.then(|| {
        let message = "asynchronous scheduling is assumed, which vLLM and SGLang have by default; say --synchronous, or name the \
                       server with --server";
        warning("scheduling_assumed", message.to_owned())
    });
    assumed.into_iter().collect()
}

fn warning(code: &'static str, message: String) -> Warning {
    Warning { code: code.into(), message, candidate: None }
}
