//! `sim import`: what a server printed, as a scenario.

use std::io::Write;
use std::path::{Path, PathBuf};

use calibrate::profile::{BUILTIN, Profile};
use calibrate::stderr::printable;
use clap::Args;
use reports::{AtomicFile, Warning};

use super::failure::Failure;
use super::inputs::{named_profile, refuse_if_read};
use crate::import::error::ImportError;
use crate::import::found::{Engine, Found};
use crate::import::input::Input;
use crate::import::kind::Kind;
use crate::import::read;
use crate::import::scenario::{self, KnownDevice, Wish, Written};
use crate::import::steps::Bucket;
use crate::scenario::Scenario;

/// Make a scenario of what a server printed.
///
/// Reads the log of a vLLM or SGLang server: the ladder in force, the server's flags, its KV cache, and the steps that it ran.
/// The scenario says where each value is from, what the log does not tell, and what was assumed instead; `sim propose`, `sim
/// price` and `sim check` take it as it is.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sim import server.log --out mine.toml && sim propose mine.toml
      From a log to flags.
  sim import server.log.2.gz server.log.1 server.log --out mine.toml
      A log in several files, the oldest first.
  kubectl logs vllm-0 | sim import - --profile my-gpu.toml --out mine.toml
      From standard input, with costs measured on your card.

What vLLM has to print: --cudagraph-metrics (a table of steps every ten seconds) or, better,
--enable-logging-iteration-details (a line a step); without either VLLM_LOG_BATCHSIZE_INTERVAL=10.
SGLang prints its steps by itself; --decode-log-interval 1 makes it all of them.")]
pub(super) struct Arguments {
    /// Files to read, plain or packed with gzip or zstd; `-` is standard input.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// What the files are [default: told from their first lines].
    #[arg(long, value_enum, value_name = "KIND")]
    from: Option<Kind>,
    /// Write the scenario into this file instead of standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace the file if it exists.
    #[arg(long, requires = "out")]
    force: bool,
    /// Costs of the scenario: a built-in name (`calibrate list`) or a file [default: the nearest built-in one].
    #[arg(long, value_name = "FILE|NAME")]
    profile: Option<String>,
    /// The engine, where the files are of both or of none.
    #[arg(long, value_enum)]
    engine: Option<Engine>,
    /// Where sizes are known as ranges only: what stands for a range.
    #[arg(long, value_enum, default_value_t)]
    buckets: Bucket,
}

pub(super) fn execute(arguments: &Arguments, out: &mut impl Write) -> Result<(), Failure> {
    check_usage(arguments)?;
    super::unfinished::removed_on_signals();
    let mut found = Found::default();
    for file in &arguments.files {
        let name = printable(&file.display().to_string());
        let unreadable = |error: std::io::Error| ImportError::Unreadable { name, problem: error.to_string() };
        read::source(Input::open(file).map_err(unreadable)?, arguments.from, &mut found)?;
    }
    let engine = arguments.engine.or(found.engine()).ok_or_else(|| nothing(&found))?;
    let steps = found.steps(engine).ok_or_else(|| nothing(&found))?;
    let written = scenario::of_steps(&found, &steps, &wish(arguments, &found, engine)?);
    deliver(arguments, &found, &written, out)
}

fn check_usage(arguments: &Arguments) -> Result<(), Failure> {
    let refuse = |message: String, help: &str| Err(Failure::Usage { message, help: Some(help.to_owned()) });
    if arguments.files.iter().filter(|file| *file == Path::new("-")).count() > 1 {
        return refuse("standard input is given twice".to_owned(), "give `-` once");
    }
    let Some(out) = &arguments.out else { return Ok(()) };
    refuse_if_read(out, &arguments.files.iter().map(PathBuf::as_path).collect::<Vec<_>>())?;
    if out.exists() && !arguments.force {
        let message = format!("{} exists already", printable(&out.display().to_string()));
        return refuse(message, "choose another name, or replace it with --force");
    }
    Ok(())
}

/// There is nothing to make a scenario of.
fn nothing(found: &Found) -> ImportError {
    let names: Vec<String> = found.sources.iter().map(|source| printable(&source.origin.name)).collect();
    let sglang = found.engine() == Some(Engine::Sglang);
    let (problem, help) = if sglang {
        (
            "no steps are in it: looked for `Decode batch` and `Prefill batch` lines",
            "SGLang prints them by itself at log level info, once it serves requests; --decode-log-interval 1 prints every step",
        )
    } else {
        (
            "no steps are in it: looked for CUDA graph tables, `Iteration(…)` lines, `Batchsize forward time stats` lines and \
             SGLang's `Decode batch` lines",
            "start vLLM with --cudagraph-metrics (a table every ten seconds while it serves requests) or with \
             --enable-logging-iteration-details (a line a step)",
        )
    };
    ImportError::Nothing { names: names.join(", "), problem: problem.to_owned(), help: help.to_owned() }
}

fn wish(arguments: &Arguments, found: &Found, engine: Engine) -> Result<Wish, Failure> {
    let given = arguments.profile.as_deref();
    let name = given.unwrap_or_else(|| {
        let (vllm, sglang) = (&found.log.vllm, &found.log.sglang);
        scenario::nearest(&KnownDevice {
            gib: vllm.device_gib.as_ref().or(sglang.device_gib.as_ref()).map(|known| known.value),
            flash_attn_version: vllm.flash_attn_version.as_ref().map(|known| known.value),
        })
    });
    let profile: Profile = named_profile(name)?;
    let profile_line = if BUILTIN.contains(&name) {
        format!("builtin:{name}")
    } else {
        format!("file:{}", beside(arguments.out.as_deref(), Path::new(name)))
    };
    Ok(Wish {
        engine,
        profile,
        profile_line,
        profile_is_guess: given.is_none(),
        bucket: arguments.buckets,
        steps_file: arguments.out.as_deref().map_or_else(String::new, steps_file),
    })
}

/// The name of the file of steps beside a scenario.
fn steps_file(out: &Path) -> String {
    let stem = out.file_stem().unwrap_or_default().to_string_lossy();
    format!("{stem}.steps.csv")
}

/// A file as a scenario at `out` names it: scenarios name files from their own folder.
fn beside(out: Option<&Path>, file: &Path) -> String {
    let folder = out.and_then(Path::parent).filter(|folder| !folder.as_os_str().is_empty());
    let Some(folder) = folder else { return file.display().to_string() };
    if let Ok(inside) = file.strip_prefix(folder) {
        return inside.display().to_string();
    }
    file.canonicalize().unwrap_or_else(|_| file.to_owned()).display().to_string()
}

/// Checks the scenario as any command would, and puts it where it was asked for.
fn deliver(arguments: &Arguments, found: &Found, written: &Written, out: &mut impl Write) -> Result<(), Failure> {
    let folder = arguments.out.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
    let label = arguments.out.as_ref().map_or_else(|| "<scenario>".to_owned(), |file| file.display().to_string());
    if let Some(csv) = &written.steps_csv {
        let Some(file) = &arguments.out else {
            return Err(Failure::Usage {
                message: format!("{} different steps do not fit a scenario on standard output", written.shapes),
                help: Some("give --out FILE: the steps go into a file beside it".to_owned()),
            });
        };
        AtomicFile::write(folder.join(steps_file(file)), |sink| sink.write_all(csv.as_bytes()))?;
    }
    Scenario::parse(&written.text, &label, folder)?;
    let assumed = written.assumed.iter().map(|sentence| Warning::general("assumed", sentence));
    let unresolved = written.unresolved.iter().map(|sentence| Warning::general("not_told", sentence));
    let not_read = found.not_read().into_iter().map(|sentence| Warning::general("not_read", sentence));
    super::warn(&not_read.chain(assumed).chain(unresolved).collect::<Vec<_>>());
    match &arguments.out {
        None => out.write_all(written.text.as_bytes()).map_err(Failure::Stdout),
        Some(file) => {
            AtomicFile::write(file, |sink| sink.write_all(written.text.as_bytes()))?;
            let names: Vec<&str> = found.sources.iter().map(|source| source.origin.name.as_str()).collect();
            writeln!(
                out,
                "{label}: {} steps of {} shapes from {}; next: sim propose {label}",
                written.steps,
                written.shapes,
                names.join(", ")
            )
            .map_err(Failure::Stdout)
        }
    }
}
