//! `calibrate replay STEPS`: the steps of a recorded run on a GPU, beside what was predicted for them.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use super::Failure;
use super::aloud::Aloud;
use super::found::Found;
use crate::command_line::{ReplayFormat, ReplayOptions};
use crate::device::{self, Blaslt, Card, Images, Session};
use crate::exit::Exit;
use crate::measure::{Limits, Progress, Protocol};
use crate::model::Model;
use crate::plan::PACE_WARM_UP;
use crate::probe::{Bench, PaceWork, ProbeError};
use crate::profile::Profile;
use crate::replay::{Replay, ReplayedOn, Report, StepLog};
use crate::served_model::{ModelRequest, ServedModel};
use crate::stderr;
use crate::visible::VisibleDevice;
use crate::whole_file::WholeFile;

/// Decides orders and resamples.
const SEED: u64 = 0;
/// Device times and host times are two campaigns, which share the time.
const CAMPAIGNS: u32 = 2;

pub(super) fn run(options: &ReplayOptions, out: &mut impl Write) -> Result<Exit, Failure> {
    match options.out {
        Some(_) => replay(options, &mut Aloud(out)),
        None => replay(options, out),
    }
}

fn replay(options: &ReplayOptions, out: &mut impl Write) -> Result<Exit, Failure> {
    device::load_modules_eagerly();
    let log = StepLog::load(&options.steps)?;
    let request = ModelRequest { name: &options.model, ranks: options.tp_shard.unwrap_or(1), shapes_only: false };
    let model = ServedModel::find(&request)?;
    warn_of_another_model(&log, &model);
    let found = Found::look()?;
    let device = found.choose(options.device.as_ref())?;
    let unwritable = |path: &Path, source| Failure::File { path: path.to_owned(), source };
    let file = options.out.as_deref().map(|path| WholeFile::begin(path).map_err(|error| unwritable(path, error)));
    let file = file.transpose()?;
    let text = options.format == ReplayFormat::Text;
    if text {
        found.introduce(out)?;
        writeln!(out, "device   {device}")?;
        out.flush()?;
    }
    let (report, exit) = perform(options, &log, &model, &found, device)?;
    if let (Some(file), Some(path)) = (file, &options.out) {
        let mut document = Vec::new();
        report.json(&mut document)?;
        file.finish(&String::from_utf8_lossy(&document)).map_err(|error| unwritable(path, error))?;
    }
    match options.format {
        ReplayFormat::Text => report.text(out)?,
        ReplayFormat::Json => report.json(out)?,
    }
    Ok(exit)
}

fn perform(
    options: &ReplayOptions,
    log: &StepLog,
    served: &ServedModel,
    found: &Found,
    device: &VisibleDevice,
) -> Result<(Report, Exit), Failure> {
    let card = Card::at(found.library, device.index)?;
    let mut session = Session::open(card, |module| Images::Embedded.of(module))?;
    let pace_work = PaceWork::new(&mut session)?;
    let free = session.memory()?.0;
    let replay = Replay::plan(&options.steps, log, options.limit as usize, &served.geometry, free)?;
    let library = Blaslt::open(&session).ok();
    let geometry = served.geometry.clone();
    let limits = replay.limits();
    let loaded = Model::load(&mut session, geometry, served.constants, limits, library);
    let mut model = loaded.map_err(ProbeError::from)?;
    let on = ReplayedOn {
        device: format!("{}, {}", device.name, device.uuid),
        driver: format!("CUDA {}", found.library.version()),
        double: found.library.double_version().is_some(),
        model: served.name.clone(),
        gemm_backend: model.gemm_backend().to_string(),
    };
    let protocol = protocol(options.time_limit / CAMPAIGNS);
    let mut heard = |_: &Progress| ControlFlow::Continue(());
    let bench = Bench::new(&mut session, protocol, Limits::default(), &mut heard)?;
    let now = bench.pace(&pace_work, PACE_WARM_UP)?;
    let bench = bench.paced_by(&pace_work, now);
    let (report, disturbances) = replay.run(&bench, &mut model, on)?;
    drop(bench);
    drop(pace_work);
    drop(model);
    session.close()?;
    for (what, disturbance) in &disturbances {
        stderr::line(format_args!("{what}: {disturbance}"));
    }
    Ok((report, if disturbances.is_empty() { Exit::Ok } else { Exit::TooNoisy }))
}

/// As a quick calibration, for the time there is: a shape's time matters less than that of all.
fn protocol(time_limit: Duration) -> Protocol {
    Protocol { time_limit, ..Protocol::quick(SEED) }
}

/// A log that was priced for another model would be compared with the wrong steps. Where the profile is a file, its name
/// alone is in the log, and nothing can be said.
fn warn_of_another_model(log: &StepLog, model: &ServedModel) {
    let Ok(profile) = Profile::builtin(&log.profile) else { return };
    if profile.identity.model != model.geometry {
        stderr::line(format_args!(
            "warning: the log was priced with {}, a profile of {}, and is replayed with the shapes of {}\n  \
             help: name the model that the profile is for (--model)",
            profile.name, profile.identity.model_name, model.name
        ));
    }
}
