//! The proposal as flags to paste.

use std::io::{self, Write};

use crate::FlagsReport;
use crate::text::prose::{paragraph, plain};

/// Writes the flags of each target. A command is one line, however long: a wrapped one could not be pasted.
pub(super) fn flags(flags: &[FlagsReport], sink: &mut impl Write) -> io::Result<()> {
    for FlagsReport { target, shell, json: _, notes, exact } in flags {
        writeln!(sink)?;
        let makes = if *exact {
            "by its own rules, the engine makes exactly the graphs of the proposal from these"
        } else {
            "the engine does not make exactly the graphs of the proposal from these"
        };
        paragraph(sink, &format!("Flags for {target}; {makes}:"), "", "  ")?;
        writeln!(sink, "  {}", plain(shell).trim().replace(['\n', '\r'], " "))?;
        notes.iter().try_for_each(|note| paragraph(sink, note, "  - ", "    "))?;
    }
    Ok(())
}
