//! `sim import`: what a server printed, as a scenario.

use std::borrow::Cow;
use std::io::Write;
use std::path::{Path, PathBuf};

use calibrate::profile::{BUILTIN, Profile};
use calibrate::stderr::printable;
use clap::{Args, ValueEnum};
use reports::{AtomicFile, ImportLines, ImportReport, ImportSource, ImportTraffic, OutputError, Warning};

use super::failure::Failure;
use super::inputs::{named_profile, refuse_if_read};
use crate::import::error::ImportError;
use crate::import::found::{Engine, Found, Source};
use crate::import::kind::Kind;
use crate::import::read;
use crate::import::requests::{Folder, TracePlace};
use crate::import::scenario::{self, KnownDevice, Made, Wish, Written, one_line};
use crate::import::steps::Bucket;
use crate::scenario::Scenario;

/// Make a scenario of a server's log, its metrics, a bench result or a trace.
///
/// The log of a vLLM or SGLang server gives the ladder in force, the server's flags, its KV cache, and the steps that it ran; metrics
/// give steps by ranges; results of a bench and traces give requests. Several files go together: a log for the server and a
/// trace for its requests. The scenario says where each value is from, what is not told, and what was assumed instead; `sim
/// propose`, `sim run` (of requests), `sim price` (of steps) and `sim check` take it as it is.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sim import server.log --out mine.toml && sim propose mine.toml
      From a log to flags.
  sim import server.log.2.gz server.log.1 server.log --out mine.toml
      A log in several files, the oldest first.
  sim import BurstGPT_1.csv server.log --out mine.toml && sim run mine.toml
      Requests of a trace, on the server of the log.
  sim import before.prom after.prom --buckets upper --out mine.toml
      What a server ran between two scrapes of /metrics.
  kubectl logs vllm-0 | sim import - --profile my-gpu.toml --out mine.toml
      From standard input, with costs measured on your card.

What vLLM has to print: --cudagraph-metrics (a table of steps every ten seconds) or, better,
--enable-logging-iteration-details (a line a step); without either VLLM_LOG_BATCHSIZE_INTERVAL=10.
SGLang prints its steps by itself; --decode-log-interval 1 makes it all of them. A trace that the
simulator reads by itself stays where it is; requests of any other source, and of packed ones, go
into mine.requests.csv beside mine.toml.")]
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
    /// Seed of the traffic, and of the requests that are drawn for a ServeGen client.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    seed: u64,
    /// How the answer is written.
    #[arg(long, value_enum, default_value_t)]
    format: ImportFormat,
}

/// `--format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum ImportFormat {
    /// The scenario, or, with --out, a line about it.
    #[default]
    Text,
    /// One JSON document that holds the scenario as well, every field documented in reports/SCHEMA.md.
    Json,
}

pub(super) fn execute(arguments: &Arguments, out: &mut impl Write) -> Result<(), Failure> {
    check_usage(arguments)?;
    super::unfinished::removed_on_signals();
    let folder = Folder { scenario: arguments.out.clone(), force: arguments.force };
    let mut found = Found::default();
    for file in &arguments.files {
        read::source(file, arguments.from, &folder, &mut found)?;
    }
    read::finish(&mut found, arguments.seed, &folder)?;
    let engine = arguments.engine.or(found.engine());
    let (engine, written) = if let Some(requests) = &found.requests {
        // Traces name no engine.
        let engine = engine.unwrap_or(Engine::Vllm);
        (engine, scenario::of_requests(&found, requests, &wish(arguments, &found, engine)?))
    } else {
        let engine =
            engine.or((!found.given_steps.is_empty()).then_some(Engine::Vllm)).ok_or_else(|| nothing(&found))?;
        let steps = found.steps(engine).ok_or_else(|| nothing(&found))?;
        (engine, scenario::of_steps(&found, &steps, &wish(arguments, &found, engine)?))
    };
    deliver(arguments, &folder, found, engine, written, out)
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
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        let message = format!("{} is no folder", printable(&folder.display().to_string()));
        return refuse(message, "make it first, or choose another place");
    }
    Ok(())
}

/// What vLLM has to be asked for.
const VLLM_HELP: &str = "start vLLM with --cudagraph-metrics (a table every ten seconds while it serves requests) or with \
                         --enable-logging-iteration-details (a line a step)";

/// What brings the ends of lines.
const ENDS_HELP: &str = "look whether lines are missing in it: give all files of the node's log, in order of time, or what `kubectl logs` \
                         prints";

/// There is nothing to make a scenario of.
fn nothing(found: &Found) -> ImportError {
    if found.scrapes.stood_still() {
        return ImportError::StoodStill { names: found.names_of(Kind::Prometheus) };
    }
    let names: Vec<String> = found.sources.iter().map(|source| printable(&source.origin.name)).collect();
    if let Some((place, _)) = &found.missing_ends.first {
        let problem = format!(
            "no steps and no requests are in it: {} that came in parts (`P`) never ended (`F`), the first at {}",
            if found.missing_ends.count == 1 {
                "1 line".to_owned()
            } else {
                format!("{} lines", found.missing_ends.count)
            },
            printable(&place.to_string())
        );
        return ImportError::Nothing { names: names.join(", "), problem, help: ENDS_HELP.to_owned() };
    }
    let sglang = found.engine() == Some(Engine::Sglang);
    let (problem, help) = if sglang {
        (
            "no steps are in it: looked for `Decode batch` and `Prefill batch` lines, and for metrics beside the ladder of a log",
            "SGLang prints them by itself at log level info, once it serves requests; --decode-log-interval 1 prints every step",
        )
    } else if !found.log.statistics.is_empty() {
        (
            "no steps and no requests are in it: its statistics lines say of no ten seconds how many requests made their tokens",
            VLLM_HELP,
        )
    } else {
        (
            "no steps and no requests are in it: looked for CUDA graph tables, `Iteration(…)` lines, `Batchsize forward time stats` lines and \
             SGLang's `Decode batch` lines",
            VLLM_HELP,
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
        steps_file: name_of(Folder { scenario: arguments.out.clone(), force: false }.file("steps").as_deref()),
        trace_file: trace_file(arguments, found),
        seed: arguments.seed,
    })
}

/// The name of a file in its folder.
fn name_of(path: Option<&Path>) -> String {
    path.and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned()
}

/// How the scenario names the trace of its requests.
fn trace_file(arguments: &Arguments, found: &Found) -> String {
    match found.requests.as_ref().and_then(|requests| requests.trace.as_ref()).map(|trace| &trace.place) {
        Some(TracePlace::At(path)) => beside(arguments.out.as_deref(), path),
        Some(TracePlace::Beside(file)) => name_of(Some(file.path())),
        None => String::new(),
    }
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

/// A file with this content.
fn filled(mut file: AtomicFile, text: &str) -> Result<AtomicFile, OutputError> {
    let path = file.path().to_owned();
    file.write_all(text.as_bytes()).map_err(|error| OutputError::Write { path, error })?;
    Ok(file)
}

/// The scenario on the file beside it under the name that this has until it is put into place: an older one must stay where
/// the check fails.
fn on_draft<'a>(text: &'a str, beside: Option<&mut AtomicFile>) -> Result<Cow<'a, str>, OutputError> {
    let Some(file) = beside else { return Ok(Cow::Borrowed(text)) };
    let quoted = |name: String| toml::Value::String(name).to_string();
    let name = quoted(name_of(Some(file.path())));
    let draft = quoted(name_of(Some(file.draft()?)));
    Ok(Cow::Owned(text.replace(&name, &draft)))
}

/// Checks the scenario as any command would, and puts it where it was asked for, with the file beside it if it needs one.
fn deliver(
    arguments: &Arguments,
    folder: &Folder,
    mut found: Found,
    engine: Engine,
    written: Written,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let base = arguments.out.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
    let label = arguments.out.as_ref().map_or_else(|| "<scenario>".to_owned(), |file| file.display().to_string());
    let trace = found.requests.as_mut().and_then(|requests| requests.trace.take()).map(|trace| trace.place);
    let mut beside = match trace {
        Some(TracePlace::Beside(trace)) => Some(trace.into_file()),
        _ => None,
    };
    if let Some(csv) = &written.steps_csv {
        beside = Some(filled(folder.create("steps")?, csv)?);
    }
    Scenario::parse(&on_draft(&written.text, beside.as_mut())?, &label, base)?;
    let not_read = found.not_read().into_iter().map(|sentence| Warning::general("not_read", sentence));
    let assumed = written.assumed.iter().map(|sentence| Warning::general("assumed", sentence));
    let unresolved = written.unresolved.iter().map(|sentence| Warning::general("not_told", sentence));
    let warnings: Vec<Warning> = not_read.chain(assumed).chain(unresolved).collect();
    super::warn(&warnings);
    let beside_name = beside.as_ref().map(|file| file.path().display().to_string());
    if let Some(file) = &arguments.out {
        // Both are whole before either takes the place of an older one.
        let scenario = filled(AtomicFile::create(file)?, &written.text)?;
        if let Some(beside) = beside {
            beside.finish()?;
        }
        scenario.finish()?;
    }
    match (arguments.format, &arguments.out) {
        (ImportFormat::Json, _) => {
            reports::json::write(&report(arguments, &found, engine, written, beside_name, warnings), out)
        }
        (ImportFormat::Text, None) => out.write_all(written.text.as_bytes()),
        (ImportFormat::Text, Some(_)) => {
            let names: Vec<String> = found.sources.iter().map(|source| one_line(&source.origin.name)).collect();
            let label = one_line(&label);
            writeln!(out, "{label}: {} from {}; next: sim propose {label}", written.traffic, names.join(", "))
        }
    }
    .map_err(Failure::Stdout)
}

/// The answer as a record.
fn report(
    arguments: &Arguments,
    found: &Found,
    engine: Engine,
    written: Written,
    beside: Option<String>,
    warnings: Vec<Warning>,
) -> ImportReport {
    let source = |source: &Source| ImportSource {
        file: source.origin.name.clone(),
        sha256: source.origin.sha256.clone(),
        bytes: source.origin.bytes,
        what: source.what(),
        lines: source.lines,
        not_utf8: source.replaced_lines,
        cut: source.cut_lines,
        ended_early: source.broken.clone(),
    };
    let lines = found.log.taken.iter().map(|(kind, count)| ImportLines { kind: (*kind).to_owned(), count: *count });
    let Written { text, traffic: Made { from, count, steps, caution }, .. } = written;
    ImportReport {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        written: arguments.out.as_ref().map(|file| file.display().to_string()),
        beside,
        engine: match engine {
            Engine::Vllm => "vllm".into(),
            Engine::Sglang => "sglang".into(),
        },
        sources: found.sources.iter().map(source).collect(),
        lines: lines.collect(),
        traffic: ImportTraffic {
            unit: if steps.is_some() { "steps".into() } else { "requests".into() },
            from: from.to_owned(),
            count,
            shapes: steps.map(|steps| steps.shapes as u64),
            assumed: steps.map(|steps| steps.assumed),
            caution: caution.map(str::to_owned),
        },
        warnings,
        scenario: text,
    }
}
