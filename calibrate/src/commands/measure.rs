//! `calibrate --device GPU`: measuring, which is not built yet; until then it says what it found.

use std::io::Write;

use super::Failure;
use crate::command_line::GpuOptions;
use crate::device::{Card, Library};
use crate::exit::Exit;
use crate::stderr;

pub(super) fn run(_: &GpuOptions, out: &mut impl Write) -> Result<Exit, Failure> {
    let library = Library::open()?;
    if let Some(version) = library.double_version() {
        writeln!(out, "driver   the tests' driver double, version {version}: nothing here comes from a GPU")?;
    }
    writeln!(out, "driver   CUDA {}", library.version())?;
    for card in Card::all(library)? {
        let (major, minor) = card.capability()?;
        writeln!(
            out,
            "device   {}: {}, compute capability {major}.{minor}, {}",
            card.index(),
            card.name()?,
            card.memory()?
        )?;
    }
    stderr::line(format_args!(
        "error: measuring is not built yet\n  \
         help: use a built-in profile (`calibrate list`), or one that somebody measured (`calibrate check FILE`)"
    ));
    Ok(Exit::NoGpu)
}
