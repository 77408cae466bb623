//! A run as a trace that Perfetto and Chrome's tracing page open: start-up, captures, steps, queue.
//!
//! The form is the Trace Event Format's JSON object: times in microseconds, one process a candidate and seed. All processes
//! share one clock, which begins with the longest start-up; each start-up ends when serving begins.

use std::io::{self, Write};

use serde::{Serialize, Serializer};

use crate::{StartupCandidate, StepRecord};

/// What all processes of a trace have in common.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceHeader {
    /// Version of Rungwise that wrote the trace.
    pub version: String,
    /// Name of the scenario.
    pub scenario: String,
    /// SHA-256 of the scenario file, lower-case hexadecimal.
    pub scenario_sha256: String,
    /// Name of the cost profile.
    pub profile: String,
    /// The command that gives the same run, word by word.
    pub command: Vec<String>,
    /// When serving begins on the trace's clock, ns: the simulated clock's zero.
    pub serving_from_ns: u64,
}

/// Where a step lies in time on the simulated clock, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceSpan {
    /// From scheduling to the last launch.
    pub host_ns: [u64; 2],
    /// From the first kernel to the last.
    pub device_ns: [u64; 2],
}

/// Writes the events of one process: one candidate with one seed.
pub struct TraceLog<W: Write> {
    sink: W,
    process: u64,
    serving_from_ns: u64,
    /// Counters as last written, by rank.
    counters: Vec<[u64; 5]>,
}

/// Threads of a process. A rank takes two, from [`FIRST_RANK`] on.
const STARTUP: u32 = 1;
const CAPTURES: u32 = 2;
const FIRST_RANK: u32 = 3;

/// One event. Absent fields are left out.
#[derive(Serialize)]
struct TraceEvent<'a, A> {
    name: &'a str,
    ph: &'static str,
    pid: u64,
    tid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<Us>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<Us>,
    /// How far an instant event reaches: `t`, its thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<&'static str>,
    args: A,
}

/// Nanoseconds, written in microseconds.
#[derive(Clone, Copy)]
struct Us(u64);

impl Serialize for Us {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0 as f64 / 1e3)
    }
}

#[derive(Serialize)]
struct Nothing {}

#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
}

#[derive(Serialize)]
struct PhaseArgs<'a> {
    detail: &'a str,
    count: u32,
}

#[derive(Serialize)]
struct CaptureArgs {
    pool_bytes: u64,
    executables_bytes: u64,
}

#[derive(Serialize)]
struct HostArgs {
    step: u64,
    launch_us: Us,
    update_us: Us,
    overhead_us: Us,
}

#[derive(Serialize)]
struct StepArgs<'a> {
    step: u64,
    mode: &'a str,
    real_rows: u32,
    padded_rows: u32,
    prefills: &'a [[u32; 2]],
    decode_requests: u32,
    decode_context: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    fallback: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    saved_ms: Option<f64>,
    outside_range: bool,
}

#[derive(Serialize)]
struct Requests {
    running: u64,
    waiting: u64,
}

#[derive(Serialize)]
struct Rows {
    real: u64,
    padded: u64,
}

#[derive(Serialize)]
struct Blocks {
    used: u64,
}

/// Begins a trace, whose processes follow in any order.
///
/// # Errors
/// The I/O error of the sink, unchanged.
pub fn begin(header: &TraceHeader, sink: &mut impl Write) -> io::Result<()> {
    sink.write_all(b"{\"displayTimeUnit\":\"ms\",\"otherData\":")?;
    serde_json::to_writer(&mut *sink, header)?;
    sink.write_all(b",\"traceEvents\":[\n")?;
    // Every other event begins with a comma.
    let ts = Some(Us(header.serving_from_ns));
    let event = TraceEvent {
        name: "serving begins",
        ph: "i",
        pid: 0,
        tid: STARTUP,
        ts,
        dur: None,
        s: Some("g"),
        args: Nothing {},
    };
    Ok(serde_json::to_writer(sink, &event)?)
}

/// Ends a trace.
///
/// # Errors
/// The I/O error of the sink, unchanged.
pub fn end(sink: &mut impl Write) -> io::Result<()> {
    sink.write_all(b"\n]}\n")
}

impl<W: Write> TraceLog<W> {
    /// A process of `ranks` data-parallel ranks, numbered from 0, with its start-up, which ends when serving begins.
    ///
    /// # Errors
    /// The I/O error of the sink, unchanged.
    pub fn new(
        sink: W,
        (process, name): (u64, &str),
        ranks: u32,
        startup: &StartupCandidate,
        serving_from_ns: u64,
    ) -> io::Result<Self> {
        let mut log = Self { sink, process, serving_from_ns, counters: vec![[u64::MAX; 5]; ranks as usize] };
        log.name("process_name", STARTUP, name)?;
        log.name("thread_name", STARTUP, "start-up")?;
        log.name("thread_name", CAPTURES, "captures")?;
        for rank in 0..ranks {
            let of = if ranks > 1 { format!(", rank {rank}") } else { String::new() };
            log.name("thread_name", FIRST_RANK + 2 * rank, &format!("host{of}"))?;
            log.name("thread_name", FIRST_RANK + 2 * rank + 1, &format!("device{of}"))?;
        }
        log.startup(startup)?;
        Ok(log)
    }

    fn startup(&mut self, startup: &StartupCandidate) -> io::Result<()> {
        let from_ns = self.serving_from_ns.saturating_sub(ns(startup.startup_s));
        for phase in &startup.phases {
            let args = PhaseArgs { detail: &phase.detail, count: phase.count };
            let span = [phase.at_s, phase.at_s + phase.seconds].map(|at_s| from_ns + ns(at_s));
            self.span(&phase.phase, STARTUP, span, args)?;
        }
        for capture in &startup.captures {
            let args = CaptureArgs { pool_bytes: capture.pool_bytes, executables_bytes: capture.executables_bytes };
            let span = [capture.at_s, capture.at_s + capture.seconds].map(|at_s| from_ns + ns(at_s));
            self.span(&capture.descriptor.to_string(), CAPTURES, span, args)?;
        }
        Ok(())
    }

    /// Writes one step: what host and device did, what it took of queue and memory, and what went wrong.
    ///
    /// # Errors
    /// The I/O error of the sink, unchanged.
    pub fn step(&mut self, step: &StepRecord, span: TraceSpan) -> io::Result<()> {
        let serving = |[from, to]: [u64; 2]| [from, to].map(|at_ns| self.serving_from_ns + at_ns);
        let (host, device) = (serving(span.host_ns), serving(span.device_ns));
        let tid = FIRST_RANK + 2 * step.rank;
        if step.preempted > 0 {
            let name = format!("{} preempted", step.preempted);
            self.instant(&name, tid, host[0])?;
        }
        let cost = &step.cost;
        let overhead_us = Us(cost.step_overhead_ns + cost.request_overhead_ns + cost.bookkeeping_ns);
        let args =
            HostArgs { step: step.step, launch_us: Us(cost.launch_ns), update_us: Us(cost.update_ns), overhead_us };
        self.span("schedule and launch", tid, host, args)?;
        let args = StepArgs {
            step: step.step,
            mode: &step.mode,
            real_rows: step.real_rows,
            padded_rows: step.padded_rows,
            prefills: &step.prefills,
            decode_requests: step.decode_requests,
            decode_context: step.decode_context,
            fallback: step.fallback.as_deref(),
            saved_ms: step.saved_ns.map(|ns| ns as f64 / 1e6),
            outside_range: step.outside_range,
        };
        self.span(&step.artifact, tid + 1, device, args)?;
        if let Some(cause) = &step.fallback {
            self.instant(&format!("no graph: {cause}"), tid + 1, device[0])?;
        }
        self.counters(step, host[0])
    }

    /// Counters hold until they change.
    fn counters(&mut self, step: &StepRecord, at_ns: u64) -> io::Result<()> {
        let [running, waiting, real, padded] =
            [step.running, step.waiting, step.real_rows, step.padded_rows].map(u64::from);
        let now = [running, waiting, real, padded, step.kv_used_blocks];
        let rank = step.rank as usize;
        if rank >= self.counters.len() {
            self.counters.resize(rank + 1, [u64::MAX; 5]);
        }
        let before = std::mem::replace(&mut self.counters[rank], now);
        let of = if self.counters.len() > 1 { format!(", rank {rank}") } else { String::new() };
        if before[..2] != now[..2] {
            self.counter(&format!("requests{of}"), at_ns, Requests { running, waiting })?;
        }
        if before[2..4] != now[2..4] {
            self.counter(&format!("rows{of}"), at_ns, Rows { real, padded })?;
        }
        if before[4] != now[4] {
            self.counter(&format!("KV blocks{of}"), at_ns, Blocks { used: step.kv_used_blocks })?;
        }
        Ok(())
    }

    fn name(&mut self, what: &'static str, tid: u32, name: &str) -> io::Result<()> {
        self.event(&TraceEvent {
            name: what,
            ph: "M",
            pid: self.process,
            tid,
            ts: None,
            dur: None,
            s: None,
            args: Named { name },
        })
    }

    fn span(&mut self, name: &str, tid: u32, [from_ns, to_ns]: [u64; 2], args: impl Serialize) -> io::Result<()> {
        let (ts, dur) = (Some(Us(from_ns)), Some(Us(to_ns.saturating_sub(from_ns))));
        self.event(&TraceEvent { name, ph: "X", pid: self.process, tid, ts, dur, s: None, args })
    }

    fn instant(&mut self, name: &str, tid: u32, at_ns: u64) -> io::Result<()> {
        let (ts, s) = (Some(Us(at_ns)), Some("t"));
        self.event(&TraceEvent { name, ph: "i", pid: self.process, tid, ts, dur: None, s, args: Nothing {} })
    }

    fn counter(&mut self, name: &str, at_ns: u64, args: impl Serialize) -> io::Result<()> {
        let ts = Some(Us(at_ns));
        self.event(&TraceEvent { name, ph: "C", pid: self.process, tid: 0, ts, dur: None, s: None, args })
    }

    fn event(&mut self, event: &TraceEvent<'_, impl Serialize>) -> io::Result<()> {
        self.sink.write_all(b",\n")?;
        Ok(serde_json::to_writer(&mut self.sink, event)?)
    }

    /// Flushes and gives the sink back.
    ///
    /// # Errors
    /// The I/O error of the sink, unchanged.
    pub fn finish(mut self) -> io::Result<W> {
        self.sink.flush()?;
        Ok(self.sink)
    }
}

/// Seconds as whole nanoseconds.
fn ns(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}
