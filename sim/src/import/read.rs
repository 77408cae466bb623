//! Reads one source to its end, whatever it is.

use super::error::ImportError;
use super::found::{Found, Source};
use super::input::{Input, RawLine};
use super::kind::Kind;
use super::settings::Place;

/// Reads a source, and adds what it says to what was found before.
///
/// # Errors
/// If it is nothing that is known, or cannot be read.
pub fn source(mut input: Input, kind: Option<Kind>, found: &mut Found) -> Result<(), ImportError> {
    let kind = match kind {
        Some(kind) => kind,
        None => Kind::of(input.head()).map_err(|foreign| foreign.error(&input.name))?,
    };
    let mut lines = Lines::default();
    let before = found.log.recognised();
    match kind {
        Kind::Log => log(&mut input, &mut lines, found),
    }
    if kind == Kind::Log && found.log.recognised() == before {
        return Err(Kind::foreign(input.head(), "").error(&input.name));
    }
    let Lines { count, replaced, cut, broken } = lines;
    let name = input.name.clone();
    let origin = input.finish().map_err(|error| ImportError::Unreadable { name, problem: error.to_string() })?;
    found.sources.push(Source { origin, kind, lines: count, replaced_lines: replaced, cut_lines: cut, broken });
    Ok(())
}

/// Lines as they went by.
#[derive(Debug, Default)]
struct Lines {
    count: u64,
    replaced: u64,
    cut: u64,
    broken: Option<String>,
}

fn log(input: &mut Input, lines: &mut Lines, found: &mut Found) {
    let mut raw = RawLine::default();
    let mut place = Place { file: input.name.clone(), line: 0 };
    loop {
        match input.next_line(&mut raw) {
            Ok(Some(line)) => {
                place.line = line.number;
                lines.count = line.number;
                lines.cut += u64::from(line.is_cut);
                let text = String::from_utf8_lossy(line.bytes());
                lines.replaced += u64::from(matches!(text, std::borrow::Cow::Owned(_)));
                found.log.take(&text, &place);
            }
            Ok(None) => break,
            Err(error) => {
                lines.broken = Some(format!("behind line {}: {error}", lines.count));
                break;
            }
        }
    }
    found.log.end_of_source(&place);
}
