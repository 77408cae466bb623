//! `sim report`: results as one HTML page, as Markdown for a pull request, or compared.

mod comparison;
pub(super) mod error;
mod folder;
mod input;
mod profile;
mod requests;
mod staircase;

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use reports::page::{self, Document, Part};
use reports::{AtomicFile, Threshold, ThresholdError};

use self::error::ResultError;
use self::input::Input;
use super::failure::Failure;
use super::inputs::refuse_if_read;
use super::run::output::FILES;

/// Make a page of results, or compare two runs.
///
/// DIR is a folder that `sim run --out` wrote, a profile (.toml, or the name of a built-in one), or the answer of `sim propose --format json` (.json).
/// The page is one HTML file without scripts that loads nothing: charts, the figures behind them, warnings, and the
/// commands to repeat it. Several inputs become parts of one page.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sim run scenarios/chunked.toml --seeds 5 --out results && sim report results --out report.html
      A run as a page.
  sim report results --markdown
      Its short form for a pull request: verdict, tables, warnings, commands.
  sim report my-gpu.toml --out calibration.html
      What a profile holds: padding staircase, launches, rungs, attention, origin of each figure.
  sim report --compare before after
      Candidates of the same name, seed by seed.
  sim report --compare before after --candidate \"engine default=proposal\" --fail-if p99_tpot_ms=2%
      Two candidates of different names; exit code 7 if the figure regresses.

A figure regresses if it is worse than in the baseline by more than the limit, percent of the
baseline's mean or a number in the figure's own unit, and the 95 % interval of the paired
difference does not hold zero. Where it holds zero, the seeds do not tell the two apart: that is
no regression, and a warning says so. With one common seed the difference is exact, and the limit
decides alone. A candidate of the baseline that the other run does not have cannot be judged: exit
code 3, unless --candidate names the pairs. Figures are named as the columns of --format csv.")]
pub(super) struct Arguments {
    /// Folders of `sim run --out`, profiles, or proposals; with --compare the baseline, then the run compared with it.
    #[arg(value_name = "DIR", required = true)]
    inputs: Vec<PathBuf>,
    /// Compare two folders of `sim run --out` seed by seed instead.
    #[arg(long)]
    compare: bool,
    /// With --compare: compare this candidate of the first run with that of the second; may be given several times
    /// [default: those of the same name].
    #[arg(long = "candidate", value_name = "NAME[=OTHER]", requires = "compare")]
    candidates: Vec<String>,
    /// With --compare: end with exit code 7 if this figure regresses beyond the limit, `2%` or `0.5`; may be given several
    /// times.
    #[arg(long = "fail-if", value_name = "FIGURE=LIMIT", requires = "compare", value_parser = threshold)]
    fail_if: Vec<Threshold>,
    /// Write into this file instead of standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The same as --format markdown.
    #[arg(long, conflicts_with = "format")]
    markdown: bool,
    /// How the answer is written [default: html, with --compare text].
    #[arg(long, value_enum)]
    format: Option<ReportFormat>,
}

/// `--format` of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ReportFormat {
    /// One page for a browser.
    Html,
    /// The short form for a pull request.
    Markdown,
    /// With --compare: tables for a terminal.
    Text,
    /// With --compare: one JSON document, every field documented in reports/SCHEMA.md.
    Json,
}

fn threshold(text: &str) -> Result<Threshold, ThresholdError> {
    text.parse()
}

pub(super) fn execute(arguments: &Arguments, out: &mut impl Write) -> Result<(), Failure> {
    let default = if arguments.compare { ReportFormat::Text } else { ReportFormat::Html };
    let format = if arguments.markdown { ReportFormat::Markdown } else { arguments.format.unwrap_or(default) };
    check_usage(arguments, format)?;
    super::unfinished::removed_on_signals();
    if arguments.compare {
        return comparison::execute(arguments, format, out);
    }
    let parts =
        arguments.inputs.iter().map(|path| Input::open(path)?.part()).collect::<Result<Vec<Part>, Failure>>()?;
    write_document(&Document::of(parts), format, arguments.out.as_deref(), out)
}

fn check_usage(arguments: &Arguments, format: ReportFormat) -> Result<(), Failure> {
    let refuse =
        |message: &str, help: &str| Err(Failure::Usage { message: message.to_owned(), help: Some(help.to_owned()) });
    if arguments.compare && arguments.inputs.len() != 2 {
        let message = format!("--compare takes two folders, not {}", arguments.inputs.len());
        return refuse(&message, "give the baseline, then the run to compare with it");
    }
    if !arguments.compare && matches!(format, ReportFormat::Text | ReportFormat::Json) {
        return refuse(
            "only --compare is written as text or JSON",
            "the text of a run is what `sim run` prints, its JSON is the folder's run.json",
        );
    }
    if let Some(file) = &arguments.out {
        let of_folders = arguments.inputs.iter().flat_map(|input| FILES.map(|name| input.join(name)));
        let read: Vec<PathBuf> = arguments.inputs.iter().cloned().chain(of_folders).collect();
        refuse_if_read(file, &read.iter().map(PathBuf::as_path).collect::<Vec<_>>())?;
    }
    if format == ReportFormat::Html && arguments.out.is_none() && io::stdout().is_terminal() {
        return refuse("a page of HTML is nothing for a terminal", "give --out report.html, or --markdown");
    }
    Ok(())
}

/// Writes a page as HTML or Markdown, to the file or to standard output.
fn write_document(
    document: &Document,
    format: ReportFormat,
    file: Option<&Path>,
    out: &mut impl Write,
) -> Result<(), Failure> {
    deliver(file, out, |mut sink| match format {
        ReportFormat::Markdown => page::markdown(document, &mut sink),
        _ => page::html(document, &mut sink),
    })
}

/// Writes to the file, whole or not at all, or to standard output.
fn deliver(
    file: Option<&Path>,
    out: &mut impl Write,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Failure> {
    match file {
        Some(path) => Ok(AtomicFile::write(path, |sink| write(sink))?),
        None => write(out).map_err(Failure::Stdout),
    }
}

/// A file's text.
///
/// # Errors
/// It cannot be read, or is not UTF-8.
fn read(path: &Path) -> Result<String, ResultError> {
    fs::read_to_string(path).map_err(|error| ResultError::unreadable(path, &error))
}
