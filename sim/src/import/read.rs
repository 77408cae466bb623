//! Reads one source to its end, whatever it is.

use std::borrow::Cow;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;

use super::bench::{Bench, BenchLengths, Sent};
use super::error::ImportError;
use super::found::{Found, Source};
use super::input::{Input, Packing, RawLine};
use super::kind::Kind;
use super::parts::Part;
use super::prometheus::SeveralServers;
use super::requests::{Arriving, Beside, Folder, Long, Requests, TraceFile, TracePlace};
use super::servegen::{self, Dataset, Window};
use super::settings::Place;
use super::steps::Shape;
use crate::time::SimTime;
use crate::traffic::{
    BadRows, Request, SkippedRows, StepHistogram, TraceReader, TraceSource, TrafficError, Unsorted, Wanted,
};

/// The most bytes of a source that is read whole: a bench of 10,000 requests with all its texts.
const WHOLE_BYTES_MAX: u64 = 256 << 20;

/// The most requests that are drawn for a ServeGen client: a hundred times its busiest in two weeks.
const REQUESTS_DRAWN_MAX: u64 = 100_000_000;

/// The most requests that are held to be put in order.
const REQUESTS_HELD_MAX: usize = 10_000_000;

/// Reads a source, and adds what it says to what was found before.
///
/// # Errors
/// If it is nothing that is known, or cannot be read.
pub fn source(path: &Path, kind: Option<Kind>, folder: &Folder, found: &mut Found) -> Result<(), ImportError> {
    let shown = calibrate::stderr::printable(&path.display().to_string());
    let unreadable =
        |error: std::io::Error| ImportError::Unreadable { name: shown.clone(), problem: error.to_string() };
    let mut input = Input::open(path).map_err(unreadable)?;
    let kind = match kind {
        Some(kind) => kind,
        None => Kind::of(input.head()).map_err(|stranger| stranger.error(&input.name))?,
    };
    let mut lines = Lines::default();
    if let Some(format) = kind.trace_format() {
        let source = TraceSource {
            path: path.to_owned(),
            format: Some(format),
            rate_multiplier: 1.0,
            limit: None,
            unsorted: Unsorted::Refuse,
            bad_rows: BadRows::Skip,
        };
        input = trace(input, kind, source, folder, &mut lines, found)?;
    } else {
        match kind {
            Kind::Bench => found.set_requests(bench(&mut input, folder)?),
            Kind::VllmRequests => found.set_requests(vllm_requests(&mut input, &mut lines, folder)?),
            Kind::ServegenTrace => windows(&mut input, &mut lines, found)?,
            Kind::ServegenDataset => {
                let text = whole(&mut input)?;
                let name = &input.name;
                found.dataset = Some(Dataset::read(&text).map_err(|problem| broken(name, problem))?);
            }
            Kind::Steps => steps(&mut input, found)?,
            Kind::Prometheus => each_line(&mut input, &mut lines, |text, place| metrics(text, place, found)),
            _ => log(&mut input, &mut lines, found)?,
        }
    }
    let Lines { count, replaced, cut, broken } = lines;
    let origin = input.finish().map_err(unreadable)?;
    if let Some(other) = found.sources.iter().find(|source| source.origin.sha256 == origin.sha256) {
        let other = calibrate::stderr::printable(&other.origin.name);
        if kind == Kind::Prometheus {
            return Err(ImportError::StoodStill { names: format!("{other}, {shown}") });
        }
        return Err(ImportError::Twice { name: shown, other });
    }
    found.sources.push(Source { origin, kind, lines: count, replaced_lines: replaced, cut_lines: cut, broken });
    Ok(())
}

/// Puts together what several sources say, once all are read; the requests of a ServeGen client are drawn here.
///
/// # Errors
/// If metrics are of several servers, contradict themselves, or their scrapes are in the wrong order; if one of a client's two files is missing, or its
/// requests cannot be written.
pub fn finish(found: &mut Found, seed: u64, folder: &Folder) -> Result<(), ImportError> {
    for broken in found.parts.finish() {
        found.log.faults.add(&broken.begun, &broken.problem);
        found.missing_ends.add(&broken.begun, &broken.problem);
    }
    found.log.finish();
    check_scrapes(found)?;
    found.log.vllm.settings.fill_from(&found.scrapes.settings);
    let other = |name: &str, missing: &str| {
        let problem = format!("a ServeGen client is two files, and its {missing} is not given");
        broken(name, problem)
    };
    let name = |kind: Kind| {
        let source = found.sources.iter().find(|source| source.kind == kind);
        source.map_or_else(String::new, |source| source.origin.name.clone())
    };
    let dataset = match (&found.dataset, found.windows.is_empty()) {
        (None, true) => return Ok(()),
        (None, false) => return Err(other(&name(Kind::ServegenTrace), "dataset (…-dataset.json)")),
        (Some(_), true) => return Err(other(&name(Kind::ServegenDataset), "windows (…-trace.csv)")),
        (Some(dataset), false) => dataset,
    };
    let mut beside = Beside::create(folder, "arrival,prompt,output")?;
    let mut count = 0;
    let windows = name(Kind::ServegenTrace);
    servegen::draw(&found.windows, dataset, seed, |at, prompt, output| {
        count += 1;
        if count > REQUESTS_DRAWN_MAX {
            let problem = format!("its windows have more than {REQUESTS_DRAWN_MAX} requests: keep fewer of them");
            return Err(broken(&windows, problem));
        }
        beside.row(&format!("{at:.6},{prompt},{output}"))
    })?;
    if count == 0 {
        return Err(broken(&windows, "none of its windows has traffic".to_owned()));
    }
    let requests = Requests {
        what: "a ServeGen client",
        arrivals: Arriving::Trace,
        lengths: Long::Trace,
        trace: Some(written(beside, true)),
        count,
        longest_tokens: dataset.longest_request().into(),
        unresolved: vec![format!(
            "The client is described, not recorded: arrivals are drawn for each window from its law, scaled to its rate, lengths \
             from the distributions of its six hours, prompt and output each for itself, with seed {seed} (--seed)."
        )],
        measured: Vec::new(),
    };
    found.set_requests(requests);
    Ok(())
}

/// Refuses metrics that no single server can have.
fn check_scrapes(found: &Found) -> Result<(), ImportError> {
    use calibrate::stderr::printable;
    if let Some(SeveralServers { labels }) = found.scrapes.several_servers() {
        let is_plain =
            |value: &&String| !value.is_empty() && !value.contains(['\'', '\\', '"']) && printable(value) == **value;
        let one = labels.iter().find_map(|(label, values)| Some((*label, values.iter().find(is_plain)?.as_str())));
        let (label, value) = one.unwrap_or((labels[0].0, "VALUE"));
        return Err(ImportError::SeveralServers {
            names: found.names_of(Kind::Prometheus),
            differ: labels.iter().map(|(label, values)| told_apart(label, values)).collect::<Vec<_>>().join("; "),
            help: format!(
                "a scenario is of one server: keep the lines of one in every scrape, for instance with grep '{label}=\"{value}\"' FILE"
            ),
        });
    }
    if let Some((place, why)) = found.scrapes.reversed() {
        return Err(ImportError::Reversed { place: printable(&place.to_string()), why: printable(&why) });
    }
    let contradiction = found.scrapes.contradiction();
    contradiction.map_or(Ok(()), |(place, what)| {
        Err(ImportError::Contradicting { place: printable(&place.to_string()), what: printable(&what) })
    })
}

/// Values of a label that a message shows.
const VALUES_SHOWN: usize = 4;

/// A label with its values.
fn told_apart(label: &str, values: &[String]) -> String {
    let shown = values.iter().take(VALUES_SHOWN).map(|value| match value.as_str() {
        "" => "none".to_owned(),
        value => format!("\"{}\"", calibrate::stderr::printable(value)),
    });
    let more = values.len().saturating_sub(VALUES_SHOWN);
    let more = (more > 0).then(|| format!("{more} more"));
    format!("{label} is {}", shown.chain(more).collect::<Vec<_>>().join(", "))
}

/// Lines as they went by.
#[derive(Debug, Default)]
struct Lines {
    count: u64,
    replaced: u64,
    cut: u64,
    broken: Option<String>,
}

/// Gives every line to `each`, with its place; `each` says whether it was UTF-8.
fn each_raw_line(input: &mut Input, lines: &mut Lines, mut each: impl FnMut(&[u8], &Place) -> bool) {
    let mut raw = RawLine::default();
    let mut place = Place { file: input.name.clone(), line: 0 };
    loop {
        match input.next_line(&mut raw) {
            Ok(Some(line)) => {
                place.line = line.number;
                lines.count = line.number;
                lines.cut += u64::from(line.is_cut);
                lines.replaced += u64::from(!each(line.bytes(), &place));
            }
            Ok(None) => return,
            Err(error) => {
                lines.broken = Some(format!("behind line {}: {error}", lines.count));
                return;
            }
        }
    }
}

/// Gives the text of every line to `each`, with its place.
fn each_line(input: &mut Input, lines: &mut Lines, mut each: impl FnMut(&str, &Place)) {
    each_raw_line(input, lines, |bytes, place| decoded(bytes, |text| each(text, place)));
}

/// Whether bytes are UTF-8; what is not is replaced before `each` has it.
fn decoded(bytes: &[u8], each: impl FnOnce(&str)) -> bool {
    let text = String::from_utf8_lossy(bytes);
    each(&text);
    matches!(text, Cow::Borrowed(_))
}

fn log(input: &mut Input, lines: &mut Lines, found: &mut Found) -> Result<(), ImportError> {
    let Found { log, parts, missing_ends, .. } = found;
    let before = log.recognised();
    each_raw_line(input, lines, |bytes, place| {
        let part = parts.take(bytes, place);
        if let Some(broken) = parts.given_up() {
            log.faults.add(&broken.begun, &broken.problem);
            missing_ends.add(&broken.begun, &broken.problem);
        }
        match part {
            Ok(Part::Whole(bytes)) => decoded(bytes, |text| log.take(text, place)),
            Ok(Part::Last(bytes, begun)) => decoded(&bytes, |text| log.take(text, &begun)),
            Ok(Part::More) => true,
            Err(broken) => {
                log.faults.add(&broken.begun, &broken.problem);
                true
            }
        }
    });
    if log.recognised() == before && !parts.is_open() {
        return Err(Kind::foreign(input.head(), "").error(&input.name));
    }
    Ok(())
}

fn metrics(text: &str, place: &Place, found: &mut Found) {
    match found.scrapes.take(text, place) {
        Ok(true) => *found.log.taken.entry("metrics").or_default() += 1,
        Ok(false) => {}
        Err(problem) => found.log.faults.add(place, &problem),
    }
}

fn steps(input: &mut Input, found: &mut Found) -> Result<(), ImportError> {
    let name = input.name.clone();
    let histogram = StepHistogram::read_csv(input).map_err(|problem| broken(&name, problem))?;
    for row in &histogram.rows {
        found
            .given_steps
            .add(Shape { tokens: row.tokens, requests: row.requests, query_len: row.query_len }, row.count);
    }
    Ok(())
}

fn windows(input: &mut Input, lines: &mut Lines, found: &mut Found) -> Result<(), ImportError> {
    let mut fault = None;
    each_line(input, lines, |text, place| match Window::read(text) {
        _ if text.trim().is_empty() => {}
        Ok(window) => found.windows.push(window),
        Err(problem) => {
            fault.get_or_insert_with(|| format!("line {}: {problem}", place.line));
        }
    });
    if let Some(problem) = fault {
        return Err(broken(&input.name, problem));
    }
    if found.windows.windows(2).any(|pair| pair[1].start_s <= pair[0].start_s) {
        return Err(broken(&input.name, "its windows are not in order of time, or are of several clients".to_owned()));
    }
    Ok(())
}

/// The whole source as text.
fn whole(input: &mut Input) -> Result<String, ImportError> {
    let read = input.read_whole(WHOLE_BYTES_MAX).map_err(|error| broken(&input.name, error.to_string()))?;
    let bytes = read.ok_or_else(|| broken(&input.name, "it is larger than 256 MiB".to_owned()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn broken(name: &str, problem: String) -> ImportError {
    let help = "look whether the file is whole, or say with --from what it is".to_owned();
    ImportError::Broken { name: calibrate::stderr::printable(name), problem, help }
}

/// A trace written beside the scenario, with arrivals in s or without.
fn written(beside: Beside, arrivals: bool) -> TraceFile {
    let columns = if arrivals {
        r#"{ arrival = "arrival", prompt = "prompt", output = "output" }"#
    } else {
        r#"{ prompt = "prompt", output = "output" }"#
    };
    let mut keys = vec![("columns", columns.to_owned())];
    if arrivals {
        keys.push(("time_unit", "\"s\"".to_owned()));
    }
    TraceFile { place: TracePlace::Beside(beside), keys }
}

fn bench(input: &mut Input, folder: &Folder) -> Result<Requests, ImportError> {
    let text = whole(input)?;
    let bench = Bench::read(&text).map_err(|problem| broken(&input.name, problem))?;
    let mut unresolved = Vec::new();
    if bench.runs > 1 {
        unresolved.push(format!("{} holds {} results; the last one is taken.", input.name, bench.runs));
    }
    unresolved.extend(bench.ramp.clone());
    if bench.failed > 0 {
        unresolved.push(format!("{} requests without an answer are left out.", bench.failed));
    }
    let times = if let Sent::At(times) = &bench.sent { Some(times.clone()) } else { None };
    let (lengths, trace, longest_tokens) = match (&bench.lengths, times) {
        (BenchLengths::Each(each), times) => {
            let times = times.filter(|times| times.len() == each.len());
            let mut rows: Vec<(f64, u32, u32)> = each
                .iter()
                .enumerate()
                .map(|(at, (prompt, output))| (times.as_ref().map_or(0.0, |times| times[at]), *prompt, *output))
                .collect();
            rows.sort_by(|a, b| a.0.total_cmp(&b.0));
            let has_times = times.is_some();
            let mut beside = Beside::create(folder, if has_times { "arrival,prompt,output" } else { "prompt,output" })?;
            for (at, prompt, output) in &rows {
                let time = if has_times { format!("{at:.6},") } else { String::new() };
                beside.row(&format!("{time}{prompt},{output}"))?;
            }
            let longest = each.iter().map(|(prompt, output)| u64::from(*prompt) + u64::from(*output)).max();
            (Long::Trace, Some(written(beside, has_times)), longest.unwrap_or_default())
        }
        (BenchLengths::Mean { prompt, output }, _) => {
            unresolved.push(
                "The result holds mean lengths only, so all requests are alike: --save-detailed (vLLM) and --output-details \
                 (SGLang) keep each."
                    .to_owned(),
            );
            let lengths = Long::Fixed { prompt: *prompt, output: *output };
            (lengths, None, u64::from(*prompt) + u64::from(*output))
        }
    };
    let has_times = trace.as_ref().is_some_and(|trace| trace.keys.iter().any(|(key, _)| *key == "time_unit"));
    let arrivals = match bench.sent {
        Sent::Rate { rate, burstiness } => Arriving::Rate { rate, burstiness },
        Sent::Closed { concurrency } => Arriving::Closed { concurrency },
        Sent::At(_) if has_times => Arriving::Trace,
        Sent::At(_) => Arriving::Unknown,
    };
    let figures: Vec<String> = bench.measured.iter().map(|(name, value)| format!("{name} {value}")).collect();
    Ok(Requests {
        what: "a bench",
        arrivals,
        lengths,
        trace,
        count: bench.completed,
        longest_tokens,
        unresolved,
        measured: if figures.is_empty() { Vec::new() } else { vec![figures.join(", ")] },
    })
}

/// What is read of a request of a vLLM run; everything else in it is passed over.
#[derive(Deserialize)]
struct VllmRequest {
    input_toks: u32,
    output_toks: u32,
    queued_ts: Option<f64>,
    arrival_time: Option<f64>,
}

fn vllm_requests(input: &mut Input, lines: &mut Lines, folder: &Folder) -> Result<Requests, ImportError> {
    let (mut rows, mut bad): (Vec<(f64, u32, u32)>, _) = (Vec::new(), SkippedRows::default());
    let mut clock = None;
    each_line(input, lines, |text, place| {
        if text.trim().is_empty() {
            return;
        }
        let row = serde_json::from_str(text).ok().and_then(|row: VllmRequest| {
            // The server's own clock where it is there; never both.
            let queued = *clock.get_or_insert(row.queued_ts.is_some());
            let at = if queued { row.queued_ts } else { row.arrival_time };
            let is_sound = row.input_toks > 0 && row.output_toks > 0;
            at.filter(|at| at.is_finite() && is_sound).map(|at| (at, row.input_toks, row.output_toks))
        });
        if let Some(row) = row {
            if rows.len() <= REQUESTS_HELD_MAX {
                rows.push(row);
            }
        } else {
            bad.count += 1;
            bad.first_line.get_or_insert(place.line);
        }
    });
    if rows.is_empty() {
        return Err(broken(&input.name, "no line of it is a request".to_owned()));
    }
    if rows.len() > REQUESTS_HELD_MAX {
        return Err(broken(&input.name, format!("it has more than {REQUESTS_HELD_MAX} requests")));
    }
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let first = rows[0].0;
    let mut beside = Beside::create(folder, "arrival,prompt,output")?;
    for (at, prompt, output) in &rows {
        beside.row(&format!("{:.9},{prompt},{output}", at - first))?;
    }
    let longest = rows.iter().map(|(_, prompt, output)| u64::from(*prompt) + u64::from(*output)).max();
    Ok(Requests {
        what: "requests of a vLLM run",
        arrivals: Arriving::Trace,
        lengths: Long::Trace,
        trace: Some(written(beside, true)),
        count: rows.len() as u64,
        longest_tokens: longest.unwrap_or_default(),
        unresolved: left_out(&bad).into_iter().collect(),
        measured: Vec::new(),
    })
}

/// Rows that were left out, in a sentence.
fn left_out(skipped: &SkippedRows) -> Option<String> {
    let first = skipped.first_line?;
    Some(format!(
        "{} rows are left out because they cannot be used, the first on line {first}: BurstGPT's failed requests, for instance, \
         have no output.",
        skipped.count
    ))
}

/// What a pass over a trace found.
#[derive(Debug, Default)]
struct Pass {
    rows: u64,
    longest_tokens: u64,
    skipped: SkippedRows,
}

fn pass(reader: TraceReader, mut each: impl FnMut(&Request) -> Result<(), ImportError>) -> Result<Pass, ImportError> {
    let (mut reader, mut pass) = (reader, Pass::default());
    while let Some(request) = reader.next_request()? {
        pass.longest_tokens =
            pass.longest_tokens.max(u64::from(request.prompt_tokens) + u64::from(request.output_tokens));
        each(&request)?;
    }
    pass.rows = reader.rows();
    pass.skipped = reader.skipped_rows();
    Ok(pass)
}

/// Reads a trace that the simulator plays by itself: the scenario names it as it is, or, if it is packed or comes from
/// standard input, a copy of its rows.
fn trace(
    input: Input,
    kind: Kind,
    mut source: TraceSource,
    folder: &Folder,
    lines: &mut Lines,
    found: &mut Found,
) -> Result<Input, ImportError> {
    let head = String::from_utf8_lossy(input.head()).into_owned();
    let has_arrivals = kind != Kind::Vidur || head.lines().next().is_some_and(|names| names.contains("arrived_at"));
    let wanted = if has_arrivals { Wanted::ALL } else { Wanted::LENGTHS };
    let mut unresolved = Vec::new();
    if !has_arrivals {
        unresolved.push("The trace holds lengths only: requests per second are not told.".to_owned());
    }
    // A pipe gives its bytes once, and nobody after this import finds it again.
    let is_plain_file = input.packing == Packing::Plain
        && source.path != Path::new("-")
        && source.path.metadata().is_ok_and(|there| there.is_file());
    let (passed, place, input) = if is_plain_file {
        let mut passed =
            TraceReader::open(&source, wanted).map_err(ImportError::from).and_then(|it| pass(it, |_| Ok(())));
        if matches!(passed, Err(ImportError::Trace(TrafficError::Unsorted { .. }))) {
            source.unsorted = Unsorted::Sort;
            passed = TraceReader::open(&source, wanted).map_err(ImportError::from).and_then(|it| pass(it, |_| Ok(())));
        }
        (passed?, TracePlace::At(source.path.clone()), input)
    } else {
        if kind == Kind::Mooncake {
            unresolved.push(
                "A copy of a packed or piped trace holds no shared prompt heads: give a plain file to keep them."
                    .to_owned(),
            );
        }
        let mut beside = Beside::create(folder, if has_arrivals { "arrival,prompt,output" } else { "prompt,output" })?;
        let shared = Arc::new(Mutex::new(input));
        let reader = TraceReader::from_input(Box::new(Handle(Arc::clone(&shared))), &source, wanted)?;
        let passed = pass(reader, |request| {
            let SimTime(ns) = request.arrival;
            let (seconds, rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
            let time = if has_arrivals { format!("{seconds}.{rest:09},") } else { String::new() };
            beside.row(&format!("{time}{},{}", request.prompt_tokens, request.output_tokens))
        })?;
        let input = Arc::into_inner(shared).expect("the reader is gone");
        (passed, TracePlace::Beside(beside), input.into_inner().unwrap_or_else(PoisonError::into_inner))
    };
    lines.count = passed.rows + passed.skipped.count;
    unresolved.extend(left_out(&passed.skipped));
    let file = match place {
        TracePlace::Beside(beside) => written(beside, has_arrivals),
        place @ TracePlace::At(_) => TraceFile { place, keys: keys(kind, &source, &passed, has_arrivals) },
    };
    found.set_requests(Requests {
        what: kind.what(),
        arrivals: if has_arrivals { Arriving::Trace } else { Arriving::Unknown },
        lengths: Long::Trace,
        trace: Some(file),
        count: passed.rows,
        longest_tokens: passed.longest_tokens,
        unresolved,
        measured: Vec::new(),
    });
    Ok(input)
}

/// How a scenario says what a trace is.
fn keys(kind: Kind, source: &TraceSource, passed: &Pass, has_arrivals: bool) -> Vec<(&'static str, String)> {
    let mut keys = match kind {
        Kind::Azure => vec![("format", "\"azure\"".to_owned())],
        Kind::Mooncake => vec![("format", "\"mooncake\"".to_owned())],
        Kind::Vidur => vec![("format", "\"vidur\"".to_owned())],
        Kind::Llmservingsim => vec![
            ("columns", r#"{ arrival = "arrival_time_ns", prompt = "input_toks", output = "output_toks" }"#.to_owned()),
            ("time_unit", "\"ns\"".to_owned()),
        ],
        _ => vec![
            (
                "columns",
                r#"{ arrival = "Timestamp", prompt = "Request tokens", output = "Response tokens" }"#.to_owned(),
            ),
            ("time_unit", "\"s\"".to_owned()),
        ],
    };
    if source.unsorted == Unsorted::Sort && has_arrivals {
        keys.push(("unsorted", "\"sort\"".to_owned()));
    }
    if passed.skipped.count > 0 {
        keys.push(("bad_rows", "\"skip\"".to_owned()));
    }
    keys
}

/// A reader of an input that is needed again behind it.
struct Handle(Arc<Mutex<Input>>);

impl std::io::Read for Handle {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).read(buffer)
    }
}
