//! What an engine's log says about time and memory: its steps and its start.
//!
//! | line | gives |
//! |---|---|
//! | `Iteration(…)` of vLLM (`--enable-logging-iteration-details`) | one step: requests, tokens, milliseconds |
//! | `Batchsize forward time stats` of vLLM (`VLLM_LOG_BATCHSIZE_INTERVAL`) | the median forward pass of a batch size |
//! | `Decode batch` of SGLang | the mean step between two lines, where nothing else ran in between |
//! | captures, graph memory, `init engine` | seconds and GiB of a start |

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use crate::file_error::FileError;
use crate::fit::FitError;
use crate::fit::tables::sheet::shown;
use crate::import::input::{Input, RawLine};
use crate::import::line::LogLine;
use crate::import::settings::Place;
use crate::import::sglang::captures::{self, CaptureLine, CapturedPhase, Worker};
use crate::import::sglang::server::SglangServer;
use crate::import::sglang::steps::{DecodeLine, StepLine};
use crate::import::vllm::batch_sizes::{self, BatchSize};
use crate::import::vllm::iteration::Iteration;
use crate::import::vllm::server::VllmServer;
use crate::import::vllm::startup::{self, StartFact};

/// The most steps that are kept of a log: more would not make a figure any surer.
const STEPS_MAX: usize = 1 << 20;

/// The clock of a progress bar counts whole seconds and leaves out the rest.
const BAR_OFF_S: f64 = 1.0;
/// SGLang prints hundredths.
const PRINTED_OFF_S: f64 = 0.01;

/// Captures that went through.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Captured {
    /// Whether they are FULL graphs; else PIECEWISE.
    pub full: bool,
    /// Graphs, at least one.
    pub graphs: u32,
    /// How long they took at least, s: what is printed.
    pub seconds: f64,
    /// How much longer they may have taken, s: what the printed number leaves out.
    pub off_s: f64,
}

/// One log as it was read.
#[derive(Clone, Debug, Default)]
pub struct EngineLog {
    /// The file, as it was named.
    pub file: String,
    /// SHA-256 of its bytes, lower-case hexadecimal.
    pub sha256: String,
    /// Lines.
    pub lines: u64,
    /// vLLM's steps, with the share of the KV cache in use where the line has it.
    pub iterations: Vec<(u64, Iteration, Option<f64>)>,
    /// vLLM's batch sizes: the last line of each process, which holds everything since its start.
    pub batch_sizes: BTreeMap<String, (u64, Vec<BatchSize>)>,
    /// SGLang's steps between two lines that stand for the same batch.
    pub decodes: Vec<(u64, DecodeLine)>,
    /// SGLang's decode lines that do not.
    pub mingled_decodes: u64,
    /// Sizes of SGLang's decode graphs, requests.
    pub decode_sizes: Vec<u32>,
    /// Captures that went through.
    pub captured: Vec<Captured>,
    /// What all graphs hold, GiB.
    pub graphs_gib: Option<f64>,
    /// The KV pool, tokens.
    pub kv_tokens: Option<u64>,
    /// From profiling to the last warm-up, s.
    pub init_s: Option<f64>,
    /// What its lines say of a vLLM server.
    pub vllm: VllmServer,
    /// What they say of an SGLang server.
    pub sglang: SglangServer,
    /// Lines that begin as one of these and do not go on so.
    pub broken: u64,
    /// Steps beyond those that are kept.
    pub beyond: u64,
}

impl EngineLog {
    /// Reads a log line by line, packed or not, or standard input for `-`. What is no text in it is replaced.
    ///
    /// # Errors
    /// It cannot be read, or no line of it says anything about time or memory.
    pub fn read(path: &Path) -> Result<Self, FitError> {
        let unreadable = |source| FileError::open(path.display().to_string(), source);
        Self::of(Input::open(path).map_err(unreadable)?).map_err(|error| match error {
            ReadError::Io(source) => unreadable(source).into(),
            ReadError::Fit(error) => error,
        })
    }

    fn of(mut input: Input) -> Result<Self, ReadError> {
        let mut log = Self { file: input.name.clone(), ..Self::default() };
        let (mut before, mut first, mut line) = (BTreeMap::new(), None, RawLine::default());
        let mut place = Place { file: log.file.clone(), line: 0 };
        while let Some(raw) = input.next_line(&mut line)? {
            let text = String::from_utf8_lossy(raw.bytes());
            log.lines = raw.number;
            first.get_or_insert_with(|| shown(text.trim_end()));
            place.line = raw.number;
            log.take(&LogLine::of(&text), &mut before, &place);
        }
        log.sha256 = input.finish()?.sha256;
        if log.says_nothing() {
            let first = first.unwrap_or_default();
            let problem = format!("no line about steps or a start; the first is {first}");
            let help = "start vLLM with --enable-logging-iteration-details, or with VLLM_LOG_BATCHSIZE_INTERVAL=10 in its \
                        environment; SGLang prints `Decode batch` lines by itself";
            return Err(FitError::file(&log.file, problem, help).into());
        }
        Ok(log)
    }

    /// The lines of a log that a test makes up.
    #[cfg(test)]
    pub(super) fn of_text(text: &str) -> Result<Self, FitError> {
        let bytes = io::Cursor::new(text.as_bytes().to_vec());
        let input = Input::of("server.log".to_owned(), Box::new(bytes)).expect("memory");
        Self::of(input).map_err(|error| match error {
            ReadError::Fit(error) => error,
            ReadError::Io(_) => unreachable!("memory"),
        })
    }

    fn says_nothing(&self) -> bool {
        self.iterations.is_empty()
            && self.batch_sizes.is_empty()
            && self.decodes.is_empty()
            && self.captured.is_empty()
            && self.graphs_gib.is_none()
            && self.init_s.is_none()
    }

    /// The engines that wrote it, by their lines.
    #[must_use]
    pub fn engines(&self) -> Vec<&'static str> {
        let of_vllm =
            self.vllm != VllmServer::default() || !(self.iterations.is_empty() && self.batch_sizes.is_empty());
        let of_sglang = self.sglang != SglangServer::default()
            || !(self.decodes.is_empty() && self.decode_sizes.is_empty() && self.mingled_decodes == 0);
        [(of_vllm, "vllm"), (of_sglang, "sglang")]
            .into_iter()
            .filter(|(is_one, _)| *is_one)
            .map(|(_, name)| name)
            .collect()
    }

    fn take(&mut self, line: &LogLine<'_>, before: &mut BTreeMap<String, DecodeLine>, place: &Place) {
        let text = &*line.text;
        // Newer releases put the engine's number before it.
        if let Some(at) = text.find("Iteration(") {
            match Iteration::read(&text[at..]) {
                // A rank without work keeps the others company.
                Ok(Some(_)) if text.contains("(dummy)") => {}
                Ok(Some(_)) if self.iterations.len() >= STEPS_MAX => self.beyond += 1,
                Ok(Some(step)) => self.iterations.push((self.lines, step, kv_share(text))),
                Ok(None) => {}
                Err(_) => self.broken += 1,
            }
            return;
        }
        match batch_sizes::read(text) {
            Ok(Some(sizes)) => {
                self.batch_sizes.insert(line.speaker(), (self.lines, sizes));
            }
            Ok(None) => self.take_sglang(line, before, place),
            Err(_) => self.broken += 1,
        }
    }

    fn take_sglang(&mut self, line: &LogLine<'_>, before: &mut BTreeMap<String, DecodeLine>, place: &Place) {
        let origin = line.speaker();
        match StepLine::read(&line.text) {
            Ok(Some(StepLine::Decode(step))) => {
                // The throughput is that since the line before: it is the step's only if the batch was the same all along.
                let is_same = before
                    .get(&origin)
                    .is_some_and(|before| before.running == step.running && before.cuda_graph == step.cuda_graph);
                if self.decodes.len() >= STEPS_MAX {
                    self.beyond += 1;
                } else if is_same && step.running > 0 && step.gen_tokens_per_s.is_some_and(|rate| rate > 0.0) {
                    self.decodes.push((self.lines, step.clone()));
                } else {
                    self.mingled_decodes += 1;
                }
                before.insert(origin, step);
                return;
            }
            Ok(Some(StepLine::Prefill(_))) => {
                before.remove(&origin);
                return;
            }
            Ok(None) => {}
            Err(_) => self.broken += 1,
        }
        if let Ok(Some(capture)) = CaptureLine::read(&line.text) {
            self.take_capture(&capture);
        } else if let Some(sizes) = captures::old_ladder(&line.text) {
            self.decode_sizes = sizes;
        } else {
            self.take_start(&line.text, place);
        }
    }

    fn take_capture(&mut self, capture: &CaptureLine) {
        // What is captured for drafting and for prompts has other sizes, and a line of its own.
        let is_other = matches!(capture.phase, Some(CapturedPhase::Prefill | CapturedPhase::Extend));
        if capture.worker == Some(Worker::Draft) || is_other {
            return;
        }
        if let Some(sizes) = capture.sizes.as_ref().filter(|_| !capture.ended) {
            self.decode_sizes.clone_from(sizes);
        }
        if let (true, Some(seconds)) = (capture.ended, capture.elapsed_s)
            && seconds >= 0.0
            && !self.decode_sizes.is_empty()
        {
            let graphs = self.decode_sizes.len() as u32;
            self.captured.push(Captured { full: true, graphs, seconds, off_s: PRINTED_OFF_S });
            self.graphs_gib = capture.mem_usage_gb.or(self.graphs_gib);
        }
    }

    fn take_start(&mut self, text: &str, place: &Place) {
        match startup::read(text) {
            Some(StartFact::Captured { full, graphs, seconds }) if graphs > 0 => {
                self.captured.push(Captured { full, graphs, seconds, off_s: BAR_OFF_S });
            }
            Some(StartFact::GraphPool { actual_gib, .. }) => self.graphs_gib = Some(actual_gib),
            Some(StartFact::KvTokens(tokens)) => self.kv_tokens = Some(tokens),
            Some(StartFact::EngineInitS(seconds)) => self.init_s = Some(seconds),
            Some(_) => {}
            None => {
                let _known = self.vllm.read(text, place) || self.sglang.read(text, place);
            }
        }
    }
}

/// A log that gives nothing.
enum ReadError {
    Io(io::Error),
    Fit(FitError),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<FitError> for ReadError {
    fn from(error: FitError) -> Self {
        Self::Fit(error)
    }
}

/// `GPU KV cache usage: 12.3%`, behind the time in newer releases.
fn kv_share(text: &str) -> Option<f64> {
    let (_, rest) = text.split_once("GPU KV cache usage: ")?;
    let percent: f64 = rest.split_once('%')?.0.trim().parse().ok()?;
    (0.0..=100.0).contains(&percent).then_some(percent / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(lines: &[&str]) -> Result<EngineLog, FitError> {
        EngineLog::of_text(&lines.join("\r\n"))
    }

    const STEP: &str = "(EngineCore_DP0 pid=1) INFO 07-08 00:00:02 [core.py:359] Iteration(7): 0 context requests, 0 context \
                        tokens, 43 generation requests, 43 generation tokens, iteration elapsed time: 12.50 ms";

    #[test]
    fn steps_of_old_and_new_lines_are_read() {
        let newer = STEP.replace("] Iteration", "] Engine 000: Iteration") + ", GPU KV cache usage: 12.5%";
        let dummy = STEP.to_owned() + " (dummy)";
        let read = log(&[STEP, &newer, &dummy, &STEP[..STEP.len() - 10]]).expect("steps");
        assert_eq!(
            read.iterations.iter().map(|(line, _, share)| (*line, *share)).collect::<Vec<_>>(),
            [(1, None), (2, Some(0.125))]
        );
        assert_eq!((read.lines, read.broken), (4, 1));
    }

    #[test]
    fn only_lines_of_an_unchanged_batch_say_how_long_its_step_takes() {
        let decode = |running: u32, graph: &str| {
            format!(
                "[2025-07-29 18:15:10 TP0] Decode batch, #running-req: {running}, #token: 3000, token usage: 0.82, cuda graph: \
                 {graph}, gen throughput (token/s): 4000.00, #queue-req: 0"
            )
        };
        let prefill = "[2025-07-29 18:15:10 TP0] Prefill batch, #new-seq: 1, #new-token: 300, #cached-token: 0";
        let lines = [
            decode(30, "True"),
            decode(30, "True"),
            prefill.to_owned(),
            decode(30, "True"),
            decode(31, "True"),
            decode(31, "False"),
            decode(31, "False"),
        ];
        let read = log(&lines.iter().map(String::as_str).collect::<Vec<_>>()).expect("steps");
        assert_eq!(read.decodes.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [2, 7]);
        assert_eq!(read.mingled_decodes, 4);
    }

    #[test]
    fn captures_of_sglang_are_those_of_decode_graphs_old_and_new() {
        let old = [
            "[2025-07-29 18:14:10] Capture cuda graph begin. This can take up to several minutes. avail mem=12.01 GB",
            "[2025-07-29 18:14:10] Capture cuda graph bs [1, 2, 4, 8]",
            "[2025-07-29 18:14:20] Capture cuda graph end. Time elapsed: 10.61 s. mem usage=1.93 GB. avail mem=8.16 GB.",
        ];
        let new = [
            "[2025-07-29 18:14:10 TP0] Capture target decode CUDA graph begin. backend=full, num_tokens_per_req=1, bs=[1, 2, 4, 8]",
            "[2025-07-29 18:14:20 TP0] Capture target decode CUDA graph end. elapsed=10.61 s, mem usage=1.93 GB, avail mem=8.16 GB.",
            "[2025-07-29 18:14:20 TP0] Capture draft decode CUDA graph begin. backend=full, num_tokens_per_req=1, bs=[1, 2]",
            "[2025-07-29 18:14:21 TP0] Capture draft decode CUDA graph end. elapsed=0.50 s, mem usage=0.10 GB, avail mem=8.06 GB.",
            "[2025-07-29 18:14:21 TP0] Capture target prefill CUDA graph begin. backend=full, num_tokens=[64, 128]",
            "[2025-07-29 18:14:23 TP0] Capture target prefill CUDA graph end. elapsed=2.00 s, mem usage=0.20 GB, avail mem=7.86 GB.",
        ];
        for lines in [&old[..], &new] {
            let read = log(lines).expect("a start");
            assert_eq!(read.captured, [Captured { full: true, graphs: 4, seconds: 10.61, off_s: 0.01 }]);
            assert_eq!((read.decode_sizes, read.graphs_gib), (vec![1, 2, 4, 8], Some(1.93)));
        }
    }

    #[test]
    fn a_start_is_read_and_a_foreign_file_is_refused() {
        let read = log(&[
            "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE): 100%|##########| 51/51 [00:21<00:00,  4.77it/s]",
            "Capturing CUDA graphs (decode, FULL): 100%|##########| 35/35 [00:17<00:00,  4.10it/s]",
            "INFO 04-16 16:59:23 [a.py:1] CUDA graph pool memory: 1.68 GiB (actual), 0.67 GiB (estimated), difference: 1.01 GiB.",
        ]);
        let read = read.expect("a start");
        let captured = |full, graphs, seconds| Captured { full, graphs, seconds, off_s: 1.0 };
        assert_eq!(
            (read.captured, read.graphs_gib),
            (vec![captured(false, 51, 21.0), captured(true, 35, 17.0)], Some(1.68))
        );
        let foreign = log(&["TIMESTAMP,ContextTokens,GeneratedTokens", "1,2,3"]).expect_err("no log");
        assert!(foreign.to_string().starts_with("server.log: no line about steps or a start; the first is TIMESTAMP"));
        assert!(EngineLog::of_text("").is_err());
    }
}
