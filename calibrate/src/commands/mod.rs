//! One module a command: what it is asked, the work, what it prints.

#[cfg(feature = "gpu")]
mod aloud;
#[cfg(feature = "gpu")]
mod devices;
#[cfg(feature = "gpu")]
mod found;
mod installing;
#[cfg(feature = "gpu")]
mod measure;
#[cfg(feature = "gpu")]
mod probe;
#[cfg(feature = "gpu")]
mod probe_rules;
mod profiles;
#[cfg(feature = "gpu")]
mod replay;
#[cfg(feature = "gpu")]
mod self_check;
#[cfg(feature = "gpu")]
mod unfinished;

use std::io::{self, Write};
use std::path::PathBuf;

use miette::Diagnostic;

#[cfg(feature = "gpu")]
use crate::calibration::Ended;
use crate::command_line::{Action, GpuOptions};
#[cfg(feature = "gpu")]
use crate::device::{self, DeviceError, NvrtcError};
#[cfg(feature = "gpu")]
use crate::device_name::DeviceNotFound;
use crate::exit::Exit;
#[cfg(feature = "gpu")]
use crate::probe::ProbeError;
#[cfg(feature = "gpu")]
use crate::profile::ClockNotSet;
use crate::profile::ProfileError;
#[cfg(feature = "gpu")]
use crate::replay::LogError;
#[cfg(feature = "gpu")]
use crate::rule_probe::Shared;
#[cfg(feature = "gpu")]
use crate::served_model::ModelError;
use crate::stderr;
#[cfg(feature = "gpu")]
use unfinished::Unfinished;

/// What a command can fail with.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A bad profile.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A clock that was never set.
    #[cfg(feature = "gpu")]
    #[error(transparent)]
    Clock(#[from] ClockNotSet),
    /// A GPU that could not be used.
    #[cfg(feature = "gpu")]
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A name that no GPU has.
    #[cfg(feature = "gpu")]
    #[error(transparent)]
    Name(#[from] DeviceNotFound),
    /// The kernels could not be compiled for the GPU.
    #[cfg(feature = "gpu")]
    #[error(transparent)]
    Nvrtc(#[from] NvrtcError),
    /// Others could be hit by what was to be tried.
    #[cfg(feature = "gpu")]
    #[error(transparent)]
    Shared(#[from] Shared),
    /// A probe gave nothing.
    #[cfg(feature = "gpu")]
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// A model that cannot be measured.
    #[cfg(feature = "gpu")]
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A calibration ended before its profile was there.
    #[cfg(feature = "gpu")]
    #[error(transparent)]
    Ended(#[from] Ended),
    /// A step log that cannot be replayed.
    #[cfg(feature = "gpu")]
    #[error(transparent)]
    Log(#[from] LogError),
    /// A file of results could not be written.
    #[error("cannot write {path}: {source}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A calibration failed when parts of it were measured, which are kept.
    #[cfg(feature = "gpu")]
    #[error(transparent)]
    Unfinished(#[from] Unfinished),
    /// Standard output could not be written.
    #[error(transparent)]
    Output(#[from] io::Error),
}

impl Failure {
    /// Says on standard error what is wrong.
    pub(crate) fn report(&self) {
        match self.diagnostic() {
            Some(diagnostic) => stderr::report(diagnostic),
            None => stderr::line(format_args!("error: {self}")),
        }
    }

    /// How the program ends with it.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Profile(ProfileError::Write { .. } | ProfileError::Unreadable { .. })
            | Self::File { .. }
            | Self::Output(_) => Exit::Unexpected,
            Self::Profile(_) => Exit::BadInput,
            #[cfg(feature = "gpu")]
            Self::Device(error) => error.exit(),
            #[cfg(feature = "gpu")]
            Self::Name(_) => Exit::NoGpu,
            #[cfg(feature = "gpu")]
            Self::Nvrtc(error) => error.exit(),
            #[cfg(feature = "gpu")]
            Self::Shared(_) => Exit::TooNoisy,
            #[cfg(feature = "gpu")]
            Self::Probe(error) => error.exit(),
            #[cfg(feature = "gpu")]
            Self::Model(_) | Self::Log(_) => Exit::BadInput,
            #[cfg(feature = "gpu")]
            Self::Ended(error) => error.exit(),
            #[cfg(feature = "gpu")]
            Self::Clock(_) => Exit::Unexpected,
            #[cfg(feature = "gpu")]
            Self::Unfinished(unfinished) => unfinished.why.exit(),
        }
    }

    /// With its way out; a file or standard output that cannot be written has none.
    fn diagnostic(&self) -> Option<&dyn Diagnostic> {
        match self {
            Self::Profile(error) => Some(error),
            #[cfg(feature = "gpu")]
            Self::Clock(error) => Some(error),
            #[cfg(feature = "gpu")]
            Self::Device(error) => Some(error),
            #[cfg(feature = "gpu")]
            Self::Name(error) => Some(error),
            #[cfg(feature = "gpu")]
            Self::Nvrtc(error) => Some(error),
            #[cfg(feature = "gpu")]
            Self::Shared(error) => Some(error),
            #[cfg(feature = "gpu")]
            Self::Probe(error) => Some(error),
            #[cfg(feature = "gpu")]
            Self::Model(error) => Some(error),
            #[cfg(feature = "gpu")]
            Self::Ended(error) => Some(error),
            #[cfg(feature = "gpu")]
            Self::Log(error) => Some(error),
            #[cfg(feature = "gpu")]
            Self::Unfinished(error) => Some(error),
            Self::File { .. } | Self::Output(_) => None,
        }
    }
}

/// Runs a command that has a name.
pub(crate) fn named(action: Action, out: &mut impl Write) -> Result<Exit, Failure> {
    match action {
        #[cfg(feature = "gpu")]
        Action::PerformMisuse { name, device } => probe_rules::perform(&name, device, out),
        #[cfg(feature = "gpu")]
        Action::Probe(options) => probe::run(&options, out),
        #[cfg(feature = "gpu")]
        Action::Replay(options) => replay::run(&options, out),
        Action::Profiles(action) => profiles::run(action, out),
        Action::Completions { shell } => installing::completions(shell, out),
        Action::Manual { out: folder } => installing::manual(&folder, out),
    }
}

/// Runs what was asked of a GPU.
#[cfg(feature = "gpu")]
pub(crate) fn gpu(options: &GpuOptions, out: &mut impl Write) -> Result<Exit, Failure> {
    device::load_modules_eagerly();
    match options {
        GpuOptions { list: true, .. } => devices::run(out),
        GpuOptions { self_check: true, .. } => self_check::run(options, out),
        GpuOptions { probe_rules: Some(rules), .. } => probe_rules::run(*rules, options, out),
        _ => measure::run(options, out),
    }
}

/// A build without the device layer says so.
#[cfg(not(feature = "gpu"))]
#[expect(clippy::unnecessary_wraps, reason = "the same signature as with the feature")]
pub(crate) fn gpu(_: &GpuOptions, _: &mut impl Write) -> Result<Exit, Failure> {
    stderr::line(format_args!(
        "error: this build holds no GPU code\n  \
         help: build calibrate with its feature `gpu` (it is on by default), or use a built-in profile (`calibrate list`)"
    ));
    Ok(Exit::NoGpu)
}
