//! `calibrate --device GPU`: measuring, which is not built yet.

use std::io::Write;

use super::Failure;
use crate::command_line::GpuOptions;
use crate::device_name::DeviceName;
use crate::exit::Exit;
use crate::stderr;

#[expect(clippy::unnecessary_wraps, reason = "what is found will be written, and can fail")]
pub(super) fn run(options: &GpuOptions, _: &mut impl Write) -> Result<Exit, Failure> {
    let device = options.device.as_ref().unwrap_or(&DeviceName::FIRST);
    stderr::line(format_args!(
        "error: this build cannot measure device {device} yet\n  \
         help: use a built-in profile (`calibrate list`), or one that somebody measured (`calibrate check FILE`)"
    ));
    Ok(Exit::NoGpu)
}
