//! The log of a server, line by line: every line goes to the reader that knows it, and what they find is added up.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::line::{LogLine, Style};
use super::settings::{Known, Place};
use super::sglang::captures::{self, CaptureLine, CaptureProgress, CapturedPhase, Worker};
use super::sglang::server::SglangServer;
use super::sglang::steps::{PrefillLine, StepLine};
use super::steps::{OpenSteps, SeenSteps, Shape};
use super::vllm::batch_sizes::{self, BatchSize};
use super::vllm::drafts::{Drafts, DraftsLine};
use super::vllm::graph_table::{self, GraphRow, GraphTable, GraphTableReader, TableStep};
use super::vllm::iteration::Iteration;
use super::vllm::server::{VllmServer, graph_mode};
use super::vllm::startup::{self, StartFact};
use super::vllm::statistics::{AllStatistics, StatisticsLine};
use crate::limits::{HISTOGRAM_ROWS_MAX, RUNGS_MAX};

/// Adds to a sum by key; a key beyond the most that a histogram holds is counted as left out instead.
fn add<K: Ord>(sums: &mut BTreeMap<K, u64>, key: K, count: u64, left_out: &mut u64) {
    if sums.len() >= HISTOGRAM_ROWS_MAX && !sums.contains_key(&key) {
        *left_out = left_out.saturating_add(count);
        return;
    }
    let sum = sums.entry(key).or_default();
    *sum = sum.saturating_add(count);
}

/// Rows of a table that are kept before they are added up.
const TABLE_ROWS_KEPT: usize = 4096;

/// Most processes whose tables are read side by side: a log of more is a log of something else.
const PROCESSES_MAX: usize = 4096;

/// What a log says.
#[derive(Debug, Default)]
pub struct Log {
    /// The vLLM server.
    pub vllm: VllmServer,
    /// The SGLang server.
    pub sglang: SglangServer,
    /// What a start of vLLM says about memory and time, the last of each kind.
    pub start: BTreeMap<&'static str, Known<StartFact>>,
    /// Mode and ladder as the graph tables have them: configured, before the worker resolves them.
    pub configured: Option<Known<(String, Vec<u32>)>>,
    /// Steps of the graph tables, by tokens and mode.
    pub graph_rows: BTreeMap<(u32, String), u64>,
    /// Steps of the iteration lines.
    pub iterations: SeenSteps,
    /// How long these took in all, ms.
    pub iterations_ms: f64,
    /// Iteration lines with tokens.
    pub iteration_count: u64,
    /// SGLang's steps.
    pub sglang_steps: SglangSteps,
    /// Captures of SGLang's target model: decode sizes, then prefill sizes.
    pub captured: [Option<Known<Vec<u32>>>; 2],
    /// How long SGLang's captures took, and how much memory, by what was captured.
    pub captures: BTreeMap<&'static str, Known<String>>,
    /// Sizes of progress bars with the device memory that is left before them, GiB: decode, then prefill.
    pub progress: [Vec<(u32, f64)>; 2],
    /// Tokens of each request in SGLang's decode graphs.
    pub decode_width: Option<u32>,
    /// vLLM's statistics lines.
    pub statistics: AllStatistics,
    /// vLLM's lines about drafts.
    pub drafts: Drafts,
    /// Steps that are left out because there are too many different ones.
    pub left_out: u64,
    /// Lines that were read, by kind.
    pub taken: BTreeMap<&'static str, u64>,
    /// Lines that begin as one that is read, and cannot be.
    pub faults: Faults,
    /// Lines that begin as vLLM's, and as SGLang's.
    pub prefixed: [u64; 2],
    batch_sizes: BTreeMap<String, BatchSizes>,
    tables: BTreeMap<String, OpenTable>,
    /// Lines of tables that are not over.
    table_lines: u64,
}

/// Lines that could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// How many.
    pub count: u64,
    /// The first, and what was wrong with it.
    pub first: Option<(Place, String)>,
}

impl Faults {
    /// Counts one.
    pub fn add(&mut self, place: &Place, problem: &dyn ToString) {
        self.count += 1;
        self.first.get_or_insert_with(|| (place.clone(), problem.to_string()));
    }
}

/// Steps that SGLang tells of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SglangSteps {
    /// Decode lines by running requests and whether a graph ran; they stand for `--decode-log-interval` steps each.
    pub decodes: BTreeMap<(u32, Option<bool>), u64>,
    /// Replays of decode graphs by requests: a line each, with `SGLANG_LOG_DECODE_GRAPH_KEY=1`.
    pub replays: BTreeMap<u32, u64>,
    /// Prefill lines: requests and tokens that prefill, requests that run beside.
    pub prefills: BTreeMap<(u32, u32, u32), u64>,
    /// Verifications of drafts in the decode lines.
    pub verifications: f64,
    /// What these yielded, tokens.
    pub accepted_len: f64,
}

/// The cumulative lines of one process.
#[derive(Clone, Debug, Default)]
struct BatchSizes {
    /// Of ranks that run every step together one counts.
    is_first_rank: bool,
    /// Of starts before this one.
    earlier: BTreeMap<u32, u64>,
    /// The last line.
    last: Vec<BatchSize>,
}

/// A table that a process is printing.
#[derive(Debug)]
struct OpenTable {
    begun: Place,
    reader: GraphTableReader,
}

impl BatchSizes {
    /// Takes the next line. Counts never fall while a process lives: one that has fallen began anew.
    fn take(&mut self, sizes: Vec<BatchSize>) {
        let now: BTreeMap<u32, u64> = sizes.iter().map(|size| (size.tokens, size.count)).collect();
        let fell = self.last.iter().any(|size| now.get(&size.tokens).is_none_or(|count| *count < size.count));
        if fell {
            let mut left_out = 0;
            for size in &self.last {
                add(&mut self.earlier, size.tokens, size.count, &mut left_out);
            }
        }
        self.last = sizes;
    }
}

impl Log {
    /// Lines so far that are an engine's by their beginning or by what they say.
    #[must_use]
    pub fn recognised(&self) -> u64 {
        self.prefixed.iter().sum::<u64>() + self.taken.values().sum::<u64>() + self.faults.count + self.table_lines
    }

    /// Reads a raw line, which may hold several states of a progress bar.
    pub fn take(&mut self, raw: &str, place: &Place) {
        let trimmed = raw.trim();
        if trimmed.starts_with('{') && self.record(trimmed, place) {
            return;
        }
        self.printed(raw, None, place);
    }

    /// One line or several, of a process that is named beside them or by them.
    fn printed(&mut self, raw: &str, process: Option<&str>, place: &Place) {
        for state in raw.trim_end_matches(['\r', '\n']).split(['\r', '\n']) {
            let mut line = LogLine::of(state);
            if let (None, Some(process)) = (line.style, process) {
                line.style = Some(Style::Vllm);
                line.origin = Cow::Borrowed(process);
            }
            match line.style {
                Some(Style::Vllm) => self.prefixed[0] += 1,
                Some(Style::Sglang) => self.prefixed[1] += 1,
                None => {}
            }
            self.text(&line, place);
        }
    }

    /// A record in JSON: as vLLM's formatter of that name writes it, the text being its message, or a container's log file
    /// (`log`) or a cloud's (`textPayload`), with the whole line in it.
    fn record(&mut self, raw: &str, place: &Place) -> bool {
        let Ok(serde_json::Value::Object(record)) = serde_json::from_str(raw) else { return false };
        let text = |name: &str| record.get(name).and_then(serde_json::Value::as_str);
        if let Some(message) = text("message") {
            let process = record.get("process").map(ToString::to_string).unwrap_or_default();
            self.printed(message, Some(&process), place);
            return true;
        }
        let Some(line) = text("log").or_else(|| text("textPayload")) else { return false };
        self.printed(line, None, place);
        true
    }

    fn text(&mut self, line: &LogLine<'_>, place: &Place) {
        let speaker = line.speaker();
        if self.in_table(&speaker, &line.text, place) {
            return;
        }
        let kind = self.step(line, &speaker, place).or_else(|| self.start(&line.text, place));
        if let Some(kind) = kind {
            *self.taken.entry(kind).or_default() += 1;
        }
    }

    /// A line of a graph table, which follow each other in one process.
    fn in_table(&mut self, speaker: &str, text: &str, place: &Place) -> bool {
        if let Some(OpenTable { reader, .. }) = self.tables.get_mut(speaker) {
            let table = match reader.take(text) {
                Ok(TableStep::Taken) => {
                    self.table_lines += 1;
                    let rows = reader.take_rows(TABLE_ROWS_KEPT);
                    self.add_rows(rows);
                    return true;
                }
                Ok(TableStep::Over(table)) => Some(table),
                Err(fault) => {
                    self.faults.add(place, &fault);
                    None
                }
            };
            let was_whole = table.is_some();
            if let Some(OpenTable { begun, reader }) = self.tables.remove(speaker) {
                self.add_table(table.unwrap_or_else(|| reader.interrupted()), &begun);
            }
            if was_whole && text.trim_start().starts_with('|') {
                self.faults.add(place, &"a row of a graph table is cut off");
                return true;
            }
        }
        if graph_table::is_row(text) {
            self.faults.add(
                place,
                &"a row of a graph table whose beginning is not before it: are the files in order of time?",
            );
            return true;
        }
        if !graph_table::begins(text) || self.tables.len() >= PROCESSES_MAX {
            return false;
        }
        let table = OpenTable { begun: place.clone(), reader: GraphTableReader::default() };
        self.tables.insert(speaker.to_owned(), table);
        true
    }

    fn add_table(&mut self, table: GraphTable, place: &Place) {
        *self.taken.entry("graph tables").or_default() += 1;
        self.add_rows(table.rows);
        if let Some(mode) = graph_mode(&table.mode) {
            let mut sizes = table.capture_sizes;
            sizes.sort_unstable();
            self.configured = Some(Known { value: (mode.to_owned(), sizes), place: place.clone() });
        }
    }

    fn add_rows(&mut self, rows: Vec<GraphRow>) {
        if !rows.is_empty() {
            *self.taken.entry("rows of graph tables").or_default() += rows.len() as u64;
        }
        for row in rows {
            add(&mut self.graph_rows, (row.unpadded_tokens, row.mode), row.count, &mut self.left_out);
        }
    }

    /// A line about one step or several.
    fn step(&mut self, line: &LogLine<'_>, speaker: &str, place: &Place) -> Option<&'static str> {
        let text = &*line.text;
        match Iteration::read(text) {
            Ok(Some(iteration)) => {
                self.iteration(&iteration);
                return Some("iteration lines");
            }
            Ok(None) => {}
            Err(fault) => self.faults.add(place, &fault),
        }
        match batch_sizes::read(text) {
            Ok(Some(sizes)) => {
                if self.batch_sizes.len() < PROCESSES_MAX || self.batch_sizes.contains_key(speaker) {
                    let of_process = self.batch_sizes.entry(speaker.to_owned()).or_default();
                    of_process.is_first_rank = !line.origin.contains("TP") || line.origin.contains("TP0");
                    of_process.take(sizes);
                }
                return Some("batch size lines");
            }
            Ok(None) => {}
            Err(fault) => self.faults.add(place, &fault),
        }
        match StepLine::read(text) {
            Ok(Some(StepLine::Decode(line))) => {
                if let Some(length) = line.accept_len.filter(|length| length.is_finite() && *length >= 1.0) {
                    let requests = f64::from(line.running);
                    self.sglang_steps.verifications += requests;
                    self.sglang_steps.accepted_len += requests * length;
                }
                add(&mut self.sglang_steps.decodes, (line.running, line.cuda_graph), 1, &mut self.left_out);
                return Some("decode lines");
            }
            Ok(Some(StepLine::Prefill(line))) => {
                self.prefill(&line);
                return Some("prefill lines");
            }
            Ok(None) => {}
            Err(fault) => self.faults.add(place, &fault),
        }
        if let Some(requests) = replayed(text) {
            add(&mut self.sglang_steps.replays, requests, 1, &mut self.left_out);
            return Some("replay lines");
        }
        if let Some(line) = DraftsLine::read(text) {
            self.drafts.add(&line);
            return Some("lines about drafts");
        }
        self.statistics.add(speaker, &StatisticsLine::read(text)?);
        Some("statistics lines")
    }

    fn iteration(&mut self, iteration: &Iteration) {
        let Iteration { context_requests, context_tokens, generation_requests, generation_tokens, elapsed_ms, .. } =
            *iteration;
        let tokens = context_tokens.saturating_add(generation_tokens);
        if tokens == 0 {
            return;
        }
        let longest = |tokens: u32, requests: u32| if requests == 0 { 0 } else { tokens.div_ceil(requests) };
        let query_len = longest(context_tokens, context_requests).max(longest(generation_tokens, generation_requests));
        self.iterations
            .add(Shape { tokens, requests: context_requests.saturating_add(generation_requests), query_len }, 1);
        self.iterations_ms += elapsed_ms;
        self.iteration_count += 1;
    }

    fn prefill(&mut self, line: &PrefillLine) {
        let key = (line.new_seqs, line.new_tokens, line.running.unwrap_or_default());
        add(&mut self.sglang_steps.prefills, key, 1, &mut self.left_out);
    }

    /// A line about the server and its start.
    fn start(&mut self, text: &str, place: &Place) -> Option<&'static str> {
        if let Some(fact) = startup::read(text) {
            self.start.insert(fact.name(), Known { value: fact, place: place.clone() });
            return Some("start-up lines");
        }
        match CaptureLine::read(text) {
            Ok(Some(line)) => {
                self.capture(&line, place);
                return Some("capture lines");
            }
            Ok(None) => {}
            Err(fault) => self.faults.add(place, &fault),
        }
        if let Some(sizes) = captures::old_ladder(text) {
            self.captured[0] = Some(Known { value: sizes, place: place.clone() });
            return Some("capture lines");
        }
        if let Some(CaptureProgress { prefill, size, avail_mem_gb }) = CaptureProgress::read(text) {
            let sizes = &mut self.progress[usize::from(prefill)];
            // A start that comes later begins at the largest size again.
            if sizes.last().is_some_and(|(last, _)| *last < size) {
                sizes.clear();
            }
            if sizes.last().is_none_or(|(last, _)| *last != size) && sizes.len() < RUNGS_MAX {
                sizes.push((size, avail_mem_gb));
            }
            return Some("captured sizes");
        }
        let known = self.vllm.read(text, place) || self.sglang.read(text, place);
        known.then_some("lines about the server")
    }

    fn capture(&mut self, line: &CaptureLine, place: &Place) {
        if line.worker == Some(Worker::Draft) {
            return;
        }
        let prefill = line.phase == Some(CapturedPhase::Prefill);
        if let Some(sizes) = &line.sizes {
            let mut sizes = sizes.clone();
            sizes.sort_unstable();
            self.captured[usize::from(prefill)] = Some(Known { value: sizes, place: place.clone() });
        }
        if !prefill {
            self.decode_width = line.tokens_per_request.or(self.decode_width);
        }
        if line.ended {
            let seconds = line.elapsed_s.map(|seconds| format!("{seconds} s"));
            let memory = line.mem_usage_gb.map(|gib| format!("{gib} GiB"));
            let took: Vec<String> = seconds.into_iter().chain(memory).collect();
            let what = if prefill { "capture of prefill graphs" } else { "capture of decode graphs" };
            self.captures.insert(what, Known { value: took.join(", "), place: place.clone() });
        }
    }

    /// Adds the tables that the last source ends with. Those that another ends with may go on in the next one: whoever keeps
    /// logs in several files cuts them anywhere.
    pub fn finish(&mut self) {
        for (_, OpenTable { begun, reader }) in std::mem::take(&mut self.tables) {
            match reader.finish() {
                Ok(table) => self.add_table(table, &begun),
                Err(fault) => self.faults.add(&begun, &fault),
            }
        }
    }

    /// Steps of the batch size lines, by padded tokens. Of ranks that run every step together one counts.
    #[must_use]
    pub fn batch_sizes(&self) -> BTreeMap<u32, u64> {
        let mut sum = BTreeMap::new();
        for sizes in self.batch_sizes.values().filter(|sizes| sizes.is_first_rank) {
            let last = sizes.last.iter().map(|size| (size.tokens, size.count));
            for (tokens, count) in sizes.earlier.iter().map(|(tokens, count)| (*tokens, *count)).chain(last) {
                let sum: &mut u64 = sum.entry(tokens).or_default();
                *sum = sum.saturating_add(count);
            }
        }
        sum
    }

    /// Steps of the graph tables. Where FULL graphs are of decode batches only, a FULL step is one, and any other step at
    /// or below the ceiling is none.
    #[must_use]
    pub fn graph_steps(&self, decode_tokens: u32) -> SeenSteps {
        let mode = self.configured.as_ref().map_or("", |configured| configured.value.0.as_str());
        let decodes_have_graphs = matches!(mode, "FULL_AND_PIECEWISE" | "FULL_DECODE_ONLY");
        let ceiling = self.configured.as_ref().and_then(|configured| configured.value.1.last().copied());
        let mut steps = SeenSteps::default();
        for ((tokens, mode), count) in &self.graph_rows {
            let (tokens, is_full) = (*tokens, mode == "FULL");
            if is_full && decodes_have_graphs && tokens.is_multiple_of(decode_tokens.max(1)) {
                let shape = Shape { tokens, requests: tokens / decode_tokens.max(1), query_len: decode_tokens.max(1) };
                steps.add(shape, *count);
                continue;
            }
            let would_have_been_full = decodes_have_graphs && ceiling.is_some_and(|ceiling| tokens <= ceiling);
            let open =
                OpenSteps { least_tokens: tokens, most_tokens: tokens, may_decode: is_full || !would_have_been_full };
            steps.add_open(open, *count);
        }
        steps
    }
}

/// `Decode graph replay: worker=target key_size=8 (bs) mode=DECODE raw_bs=5`: the requests.
fn replayed(text: &str) -> Option<u32> {
    let rest = text.trim().strip_prefix("Decode graph replay: ")?;
    let field = |name: &str| rest.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    if field("worker") != Some("target") {
        return None;
    }
    field("raw_bs")?.parse().ok()
}
