//! `calibrate --probe-rules`: what the driver does where the double's rules are broken.

use std::io::Write;

use super::{Failure, not_built_yet};
use crate::command_line::{GpuOptions, ProbedRules};
use crate::exit::Exit;

#[expect(clippy::unnecessary_wraps, reason = "the outcomes will be written, and can fail")]
pub(super) fn run(_: ProbedRules, _: &GpuOptions, _: &mut impl Write) -> Result<Exit, Failure> {
    Ok(not_built_yet("--probe-rules"))
}
