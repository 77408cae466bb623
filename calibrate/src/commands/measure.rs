//! `calibrate --device GPU`: measuring, which is not built yet; until then it says what it found.

use std::io::Write;

use super::Failure;
use super::found::Found;
use crate::command_line::GpuOptions;
use crate::exit::Exit;
use crate::stderr;

pub(super) fn run(options: &GpuOptions, out: &mut impl Write) -> Result<Exit, Failure> {
    let found = Found::look()?;
    let device = found.choose(options.device.as_ref())?;
    found.introduce(out)?;
    let (major, minor) = device.compute_capability;
    writeln!(out, "device   {device}, compute capability {major}.{minor}, {}", device.memory)?;
    writeln!(out, "kernels  {}", found.images(device, options)?)?;
    write!(out, "{}", found.state(device))?;
    stderr::line(format_args!(
        "error: measuring is not built yet\n  \
         help: use a built-in profile (`calibrate list`), or one that somebody measured (`calibrate check FILE`)"
    ));
    Ok(Exit::NoGpu)
}
