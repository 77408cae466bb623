//! `calibrate show`, `check`, `diff`, `report` and `list`: profiles of files and built-in ones.

use std::io::Write;

use super::Failure;
use crate::command_line::ProfileAction;
use crate::diff;
use crate::exit::Exit;
use crate::profile::{BUILTIN, Profile};
use crate::report;
use crate::show;
use crate::stderr::printable;

pub(super) fn run(action: ProfileAction, out: &mut impl Write) -> Result<Exit, Failure> {
    match action {
        ProfileAction::Show { profile, toml: true } => out.write_all(Profile::open(&profile)?.to_toml().as_bytes())?,
        ProfileAction::Show { profile, toml: false } => show::profile(&Profile::open(&profile)?, out)?,
        ProfileAction::Check { profile: named } => {
            let profile = Profile::open(&named)?;
            let (named, name) = (printable(&named.to_string_lossy()), printable(&profile.name));
            writeln!(out, "{named}: ok: profile {name}, {} groups", profile.groups().len())?;
        }
        ProfileAction::Diff { a, b } => {
            let difference = diff::of(&Profile::open(&a)?, &Profile::open(&b)?);
            diff::write(&difference, [&a.to_string_lossy(), &b.to_string_lossy()], out)?;
        }
        ProfileAction::Report { profile } => report::write(&Profile::open(&profile)?, &profile.to_string_lossy(), out)?,
        ProfileAction::List => {
            show::line_heads(out)?;
            for name in BUILTIN {
                show::line(&Profile::builtin(name)?, out)?;
            }
        }
    }
    Ok(Exit::Ok)
}
