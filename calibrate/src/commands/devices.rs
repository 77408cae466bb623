//! `calibrate --list`: the GPUs of this machine.

use std::io::Write;

use super::Failure;
use super::found::Found;
use crate::exit::Exit;
use crate::list;

pub(super) fn run(out: &mut impl Write) -> Result<Exit, Failure> {
    let found = Found::look()?;
    found.introduce(out)?;
    write!(out, "\n{}", list::table(&found.visible, &found.cards, &found.variables))?;
    Ok(Exit::Ok)
}
