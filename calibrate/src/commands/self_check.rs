//! `calibrate --self-check`: does everything work on this GPU, before anything is measured there?

use std::io::Write;

use super::{Failure, not_built_yet};
use crate::command_line::GpuOptions;
use crate::exit::Exit;

#[expect(clippy::unnecessary_wraps, reason = "the checks will be written, and can fail")]
pub(super) fn run(_: &GpuOptions, _: &mut impl Write) -> Result<Exit, Failure> {
    Ok(not_built_yet("--self-check"))
}
