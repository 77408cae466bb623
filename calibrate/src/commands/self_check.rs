//! `calibrate --self-check`: does everything work on this GPU, before anything is measured there?

use std::io::Write;

use super::Failure;
use super::found::Found;
use crate::command_line::GpuOptions;
use crate::device::Card;
use crate::exit::Exit;
use crate::self_check::{self, Stopped};

pub(super) fn run(options: &GpuOptions, out: &mut impl Write) -> Result<Exit, Failure> {
    let found = Found::look()?;
    let device = found.choose(options.device.as_ref())?;
    found.introduce(out)?;
    writeln!(out, "device   {device}")?;
    let images = found.images(device, options)?;
    writeln!(out, "kernels  {images}\n")?;
    let card = Card::at(found.library, device.index)?;
    let verdict = self_check::run(card, |module| images.of(module), out);
    match verdict {
        Ok(verdict) => Ok(verdict.exit()),
        Err(Stopped::Device(error)) => Err(error.into()),
        Err(Stopped::Output(error)) => Err(error.into()),
    }
}
