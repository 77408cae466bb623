//! `steps.jsonl`: one line a step, so that a run can be watched, explained and replayed later.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use crate::{CostTerms, DescriptorRecord, EngineReport, LadderSizes, Log, Name};

/// Version of the step log that this crate writes. It rises when a field changes its meaning or goes away; a reader
/// must refuse a log of a higher version and ignore fields it does not know.
pub const STEP_SCHEMA: u32 = 1;

/// One line of `steps.jsonl`, an object with one key: `{"header": {…}}` or `{"step": {…}}`.
///
/// A file holds one section a candidate and seed: its header, then its steps in order of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepLine {
    /// Begins the steps of one candidate and seed.
    Header(StepHeader),
    /// One step.
    Step(StepRecord),
}

/// What the steps that follow belong to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepHeader {
    /// Version of the log's fields: [`STEP_SCHEMA`].
    pub schema: u32,
    /// Version of Rungwise that wrote the log.
    pub version: String,
    /// Name of the scenario.
    pub scenario: String,
    /// SHA-256 of the scenario file, lower-case hexadecimal.
    pub scenario_sha256: String,
    /// Name of the cost profile.
    pub profile: String,
    /// SHA-256 of the profile, lower-case hexadecimal.
    pub profile_sha256: String,
    /// The seed of the traffic.
    pub seed: u64,
    /// The engine simulated.
    pub engine: EngineReport,
    /// Name of the candidate.
    pub candidate: String,
    /// The configured `cudagraph_mode` after the engine's own resolution.
    pub cudagraph_mode: String,
    /// The capture sizes after the engine's own rules, those of all ladders together, ascending, tokens.
    pub capture_sizes: Vec<u32>,
    /// The sizes that each kind of step pads to; empty in logs of earlier versions.
    #[serde(default)]
    pub ladders: Vec<LadderSizes>,
}

/// One step that ran at least one token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// Index of the step in the run, from 0.
    pub step: u64,
    /// Start on the simulated clock, ns.
    pub start_ns: u64,
    /// End on the simulated clock, ns.
    pub end_ns: u64,
    /// The data-parallel rank that ran it.
    #[serde(default)]
    pub rank: u32,
    /// `FULL`, `PIECEWISE` or `NONE`.
    pub mode: Name,
    /// The graph; null when none ran.
    pub descriptor: Option<DescriptorRecord>,
    /// Rows that requests asked for (scheduled tokens), rows.
    pub real_rows: u32,
    /// Rows that no request asked for, rows; 0 without a graph, unless data-parallel ranks padded to a size that has none.
    pub padded_rows: u32,
    /// Prefills as `[chunk, context]`: tokens computed in this step, and tokens of KV before them.
    pub prefills: Vec<[u32; 2]>,
    /// Requests that decode.
    pub decode_requests: u32,
    /// KV tokens that the decoding requests read, all together, tokens.
    pub decode_context: u64,
    /// Requests that got tokens from this step: one, and one more for each draft accepted.
    pub sampled: u32,
    /// Drafts verified, tokens.
    #[serde(default)]
    pub drafts: u32,
    /// Drafts accepted, tokens.
    #[serde(default)]
    pub accepted: u32,
    /// Different LoRA adapters in the step.
    #[serde(default)]
    pub active_loras: u32,
    /// Requests running when the step was scheduled.
    pub running: u32,
    /// Requests waiting after the step was scheduled.
    pub waiting: u32,
    /// Requests that lost their KV blocks since the step before was scheduled, whichever rank ran that.
    #[serde(default)]
    pub preempted: u32,
    /// KV blocks in use after the step was scheduled, blocks.
    pub kv_used_blocks: u64,
    /// KV blocks of the pool, blocks.
    pub kv_total_blocks: u64,
    /// Why no graph ran: `above_ceiling`, `no_key`, `mode_excluded`, `encoder_inputs`, `other_rank` or `graphs_off`; null when one ran.
    pub fallback: Option<Name>,
    /// Whether the step wanted a FULL graph and ran PIECEWISE.
    pub relaxed: bool,
    /// Identity of the artifact that served: the descriptor in one line, `eager` or `compiled eager`.
    pub artifact: Name,
    /// What the graph won (negative: lost) against the eager kind that the engine would have run, ns; null without a graph.
    #[serde(default)]
    pub saved_ns: Option<i64>,
    /// Predicted cost, term by term.
    pub cost: CostTerms,
    /// Some cost came from outside the range of its group.
    pub outside_range: bool,
    /// Some cost came from `derived` figures, inside their valid range.
    pub derived: bool,
}

/// Writes `steps.jsonl` line by line, holding nothing back but the sink's own buffer.
#[derive(Debug)]
pub struct StepLog<W: Write> {
    sink: W,
}

/// The same lines by reference, so that writing a record does not copy it.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum LineRef<'a> {
    Header(&'a StepHeader),
    Step(&'a StepRecord),
}

impl<W: Write> StepLog<W> {
    /// A log into `sink`; give it a buffered one.
    pub fn new(sink: W) -> Self {
        Self { sink }
    }

    /// Begins the steps of one candidate and seed.
    ///
    /// # Errors
    /// The I/O error of the sink, unchanged.
    pub fn header(&mut self, header: &StepHeader) -> io::Result<()> {
        self.line(&LineRef::Header(header))
    }

    /// Writes one step.
    ///
    /// # Errors
    /// The I/O error of the sink, unchanged.
    pub fn step(&mut self, step: &StepRecord) -> io::Result<()> {
        self.line(&LineRef::Step(step))
    }

    /// Flushes and gives the sink back.
    ///
    /// # Errors
    /// The I/O error of the sink, unchanged.
    pub fn finish(mut self) -> io::Result<W> {
        self.sink.flush()?;
        Ok(self.sink)
    }

    fn line(&mut self, line: &LineRef<'_>) -> io::Result<()> {
        serde_json::to_writer(&mut self.sink, line)?;
        self.sink.write_all(b"\n")
    }
}

impl<W: Write> Log<StepRecord> for StepLog<W> {
    fn record(&mut self, step: &StepRecord) -> io::Result<()> {
        self.step(step)
    }
}
