//! The proposal as flags to paste.

use std::io::{self, Write};

use crate::text::prose::{paragraph, plain};
use crate::{FlagsFile, FlagsReport};

/// Writes the flags of each target. A command is one line, however long: a wrapped one could not be pasted.
pub(super) fn flags(flags: &[FlagsReport], sink: &mut impl Write) -> io::Result<()> {
    for FlagsReport { target, shell, file, notes, exact, .. } in flags {
        writeln!(sink)?;
        let makes = match exact {
            Some(true) => "by its own rules, the engine makes exactly the graphs of the proposal from these",
            Some(false) => "the engine does not make exactly the graphs of the proposal from these",
            None => "that engine is not simulated",
        };
        paragraph(sink, &format!("Flags for {target}; {makes}:"), "", "  ")?;
        let line = plain(shell).replace(['\n', '\r'], " ");
        writeln!(
            sink,
            "  {}",
            if line.trim().is_empty() { "none: it does the same without any" } else { line.trim() }
        )?;
        if let Some(FlagsFile { name, text }) = file {
            writeln!(sink, "  {}:", plain(name))?;
            text.lines().try_for_each(|line| writeln!(sink, "    {}", plain(line).trim_end()))?;
        }
        notes.iter().try_for_each(|note| paragraph(sink, note, "  - ", "    "))?;
    }
    Ok(())
}
