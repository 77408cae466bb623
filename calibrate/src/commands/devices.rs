//! `calibrate --list`: the GPUs of this machine.

use std::io::Write;

use super::{Failure, not_built_yet};
use crate::exit::Exit;

#[expect(clippy::unnecessary_wraps, reason = "the list will be written, and can fail")]
pub(super) fn run(_: &mut impl Write) -> Result<Exit, Failure> {
    Ok(not_built_yet("--list"))
}
