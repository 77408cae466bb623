//! One module a command: what it is asked, the work, what it prints.

#[cfg(feature = "gpu")]
mod devices;
#[cfg(feature = "gpu")]
mod found;
#[cfg(feature = "gpu")]
mod measure;
#[cfg(feature = "gpu")]
mod probe_rules;
mod profiles;
#[cfg(feature = "gpu")]
mod self_check;

use std::io::{self, Write};

use crate::command_line::{Action, GpuOptions};
#[cfg(feature = "gpu")]
use crate::device::{self, DeviceError, NvrtcError};
#[cfg(feature = "gpu")]
use crate::device_name::DeviceNotFound;
use crate::exit::Exit;
use crate::profile::ProfileError;
use crate::stderr;

/// What a command can fail with.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A bad profile.
    #[error(transparent)]
    Profile(#[from] ProfileError),
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
    /// Standard output could not be written.
    #[error(transparent)]
    Output(#[from] io::Error),
}

/// Runs what was asked of profiles.
pub(crate) fn profiles(action: Action, out: &mut impl Write) -> Result<Exit, Failure> {
    profiles::run(action, out)
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
pub(crate) fn gpu(_: &GpuOptions, _: &mut impl Write) -> Result<Exit, Failure> {
    stderr::line(format_args!(
        "error: this build holds no GPU code\n  \
         help: build calibrate with its feature `gpu` (it is on by default), or use a built-in profile (`calibrate list`)"
    ));
    Ok(Exit::NoGpu)
}

/// Refuses an option that is parsed already, but not built.
#[cfg(feature = "gpu")]
fn not_built_yet(option: &str) -> Exit {
    stderr::line(format_args!("error: {option} is not built yet"));
    Exit::NoGpu
}
