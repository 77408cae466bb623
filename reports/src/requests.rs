//! `requests.csv`: one row a request.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use crate::Log;
use crate::rows::{cell, io_error};

/// One request of one candidate's run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestRecord {
    /// Name of the candidate.
    pub candidate: String,
    /// The seed of the traffic.
    pub seed: u64,
    /// Index of the request in order of arrival, from 0: the same request in every candidate.
    pub id: u64,
    /// Arrival on the simulated clock, s.
    pub arrival_s: f64,
    /// Prompt tokens, tokens.
    pub prompt_tokens: u32,
    /// Output tokens served, tokens.
    pub output_tokens: u32,
    /// What became of it: `finished` or `refused`.
    pub outcome: String,
    /// Time to first token, ms; empty if it got none.
    pub ttft_ms: Option<f64>,
    /// Time per output token after the first, ms; empty with fewer than two output tokens.
    pub tpot_ms: Option<f64>,
    /// End-to-end latency, ms; empty if it did not finish.
    pub e2el_ms: Option<f64>,
    /// Times that it lost its KV blocks and had to recompute.
    pub preemptions: u32,
    /// Whether it finished and met every SLO; empty without an SLO.
    pub good: Option<bool>,
}

/// Writes `requests.csv` row by row.
pub struct RequestLog<W: Write> {
    rows: csv::Writer<W>,
}

/// The columns of `requests.csv`, in order.
const COLUMNS: [&str; 12] = [
    "candidate",
    "seed",
    "id",
    "arrival_s",
    "prompt_tokens",
    "output_tokens",
    "outcome",
    "ttft_ms",
    "tpot_ms",
    "e2el_ms",
    "preemptions",
    "good",
];

impl<W: Write> RequestLog<W> {
    /// A log into `sink`; writes the header row.
    ///
    /// # Errors
    /// The I/O error of the sink, unchanged.
    pub fn new(sink: W) -> io::Result<Self> {
        let mut rows = csv::Writer::from_writer(sink);
        rows.write_record(COLUMNS).map_err(io_error)?;
        Ok(Self { rows })
    }

    /// A log that goes on where another of the same file ended: no header row.
    pub fn continued(sink: W) -> Self {
        Self { rows: csv::Writer::from_writer(sink) }
    }

    /// Writes one request.
    ///
    /// # Errors
    /// The I/O error of the sink, unchanged.
    pub fn request(&mut self, request: &RequestRecord) -> io::Result<()> {
        let good = request.good.map(|good| good.to_string()).unwrap_or_default();
        let row: [&str; 12] = [
            &request.candidate,
            &request.seed.to_string(),
            &request.id.to_string(),
            &cell(request.arrival_s),
            &request.prompt_tokens.to_string(),
            &request.output_tokens.to_string(),
            &request.outcome,
            &request.ttft_ms.map(cell).unwrap_or_default(),
            &request.tpot_ms.map(cell).unwrap_or_default(),
            &request.e2el_ms.map(cell).unwrap_or_default(),
            &request.preemptions.to_string(),
            &good,
        ];
        self.rows.write_record(row).map_err(io_error)
    }

    /// Flushes and gives the sink back.
    ///
    /// # Errors
    /// The I/O error of the sink, unchanged.
    pub fn finish(self) -> io::Result<W> {
        self.rows.into_inner().map_err(csv::IntoInnerError::into_error)
    }
}

impl<W: Write> Log<RequestRecord> for RequestLog<W> {
    fn record(&mut self, request: &RequestRecord) -> io::Result<()> {
        self.request(request)
    }
}
