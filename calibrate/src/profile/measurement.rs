//! How a whole profile was measured: what a reader needs to judge it, and to measure it again.

use serde::{Deserialize, Serialize};

use crate::graph_mode::Mode;
use crate::state::Concern;

/// One calibration run.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// When it began, UTC: `2026-01-31T09:30:00Z`. In 2024 or later, and not later than a day after it is read.
    pub date: String,
    /// The version of `calibrate`: `0.1.0`.
    pub calibrate_version: String,
    /// What was asked for: its options as typed; of a run in several pieces those of each.
    pub options: String,
    /// Seconds that it took, all pieces together; up to 10^6.
    pub took_s: f64,
    /// The highest CUDA version that the driver supports: `12.9`.
    pub cuda_version: Option<String>,
    /// The device's compute capability: `9.0`.
    pub compute_capability: Option<String>,
    /// What multiplied matrices; the dense staircase is that of its tiles.
    pub gemm_backend: String,
    /// Ranks that the model is sharded over; the geometry is that of one rank, and collectives between them are not
    /// measured. 1: the whole model.
    pub tensor_parallel: u32,
    /// Layers with weights of their own, where the weights of all would not have fitted: the others shared them. Fewer than the
    /// model has.
    pub weight_layers: Option<u32>,
    /// The lowest and the highest SM clock seen, MHz, where clocks can be read; 10 to 10,000.
    pub sm_clock_mhz: Option<[f64; 2]>,
    /// What makes the figures suspect.
    pub warnings: Vec<KeptWarning>,
    /// What a reader could miss, and why it is not there.
    pub not_measured: Vec<NotMeasured>,
    /// Rung by rung, FULL: the measurements behind pool, capture and replay. Missing only where [`Measurement::not_measured`] has
    /// [`NotMeasured::graphs`], and not of both modes.
    pub full: Option<Rungs>,
    /// The same, PIECEWISE.
    pub piecewise: Option<Rungs>,
}

/// Something that was amiss while measuring: a [`Concern`], or one of the measuring itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptWarning {
    /// A name for it that does not change.
    pub code: String,
    /// What was the case, and what it does to the figures.
    pub what: String,
    /// What to do.
    pub advice: Option<String>,
}

impl From<&Concern> for KeptWarning {
    fn from(concern: &Concern) -> Self {
        Self { code: concern.code.to_owned(), what: concern.what.clone(), advice: Some(concern.advice.clone()) }
    }
}

/// Something that was not measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotMeasured {
    /// What: `mixed steps`.
    pub what: String,
    /// Why, and what stands in its place.
    pub why: String,
}

impl NotMeasured {
    /// What is said of a mode of which no graph was captured.
    pub fn graphs(mode: Mode) -> String {
        format!("{mode} graphs")
    }
}

/// What each captured size cost, in one mode. All columns are of the same length; sizes, nodes and bytes are whole, times up to
/// an hour of a capture and 100 s of a step. Times of a step move from size to size by no more than four times what rows do, and are
/// on the device no shorter than a fourth of the dense table's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rungs {
    /// Captured sizes, ascending; all among the rows of the dense table.
    pub rows: Vec<f64>,
    /// Kernel nodes, all pieces of a PIECEWISE descriptor together: half a node to four for each operation of the model.
    pub nodes: Vec<f64>,
    /// Milliseconds of recording.
    pub capture_ms: Vec<f64>,
    /// Milliseconds of making it executable.
    pub instantiate_ms: Vec<f64>,
    /// Milliseconds of uploading it.
    pub upload_ms: Vec<f64>,
    /// Bytes by which the shared pool grew, captured largest first: counted by the pool itself.
    pub pool_growth_bytes: Vec<f64>,
    /// Host microseconds of the first replay.
    pub first_replay_us: Vec<f64>,
    /// Host microseconds of a later replay.
    pub replay_host_us: Vec<f64>,
    /// Device microseconds of a replay.
    pub replay_device_us: Vec<f64>,
    /// Host microseconds of the same step launched kernel by kernel.
    pub eager_host_us: Vec<f64>,
    /// Device microseconds of the same step launched kernel by kernel, the host far ahead.
    pub eager_device_us: Vec<f64>,
}

impl Rungs {
    /// Every column by its key in the file, in file order; [`Rungs::rows`] first.
    pub fn columns(&self) -> [(&'static str, &[f64]); 11] {
        [
            ("rows", &self.rows),
            ("nodes", &self.nodes),
            ("capture_ms", &self.capture_ms),
            ("instantiate_ms", &self.instantiate_ms),
            ("upload_ms", &self.upload_ms),
            ("pool_growth_bytes", &self.pool_growth_bytes),
            ("first_replay_us", &self.first_replay_us),
            ("replay_host_us", &self.replay_host_us),
            ("replay_device_us", &self.replay_device_us),
            ("eager_host_us", &self.eager_host_us),
            ("eager_device_us", &self.eager_device_us),
        ]
    }
}
