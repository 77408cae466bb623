//! `calibrate completions` and `manual`: what a shell and `man` know of the command line.

use std::fs;
use std::io::Write;
use std::path::Path;

use clap::CommandFactory;

use super::Failure;
use crate::command_line::CommandLine;
use crate::completions::{self, Shell};
use crate::exit::Exit;
use crate::{manual, whole_file};

pub(super) fn completions(shell: Shell, out: &mut impl Write) -> Result<Exit, Failure> {
    out.write_all(&completions::script("calibrate", &CommandLine::command(), shell))?;
    Ok(Exit::Ok)
}

pub(super) fn manual(folder: &Path, out: &mut impl Write) -> Result<Exit, Failure> {
    fs::create_dir_all(folder).map_err(|source| Failure::File { path: folder.to_owned(), source })?;
    let pages = manual::pages(CommandLine::command());
    for page in &pages {
        let path = folder.join(&page.file);
        whole_file::write(&path, &page.text).map_err(|source| Failure::File { path, source })?;
    }
    writeln!(out, "{} pages in {}", pages.len(), crate::stderr::printable(&folder.to_string_lossy()))?;
    Ok(Exit::Ok)
}
