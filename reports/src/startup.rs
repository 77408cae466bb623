//! The result of `sim startup`: what a start does to time and memory, in the engine's order.

use serde::{Deserialize, Serialize};

use crate::{DescriptorRecord, EngineReport, Name, ProfileReport, Warning};

/// Everything `sim startup` says, as one JSON document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StartupReport {
    /// The engine that starts.
    pub engine: EngineReport,
    /// The cost profile, with the provenance of each group used.
    pub profile: ProfileReport,
    /// What to know before trusting the figures.
    pub warnings: Vec<Warning>,
    /// One entry a candidate, in the scenario's order.
    pub candidates: Vec<StartupCandidate>,
}

/// The start of one candidate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StartupCandidate {
    /// The candidate's name.
    pub name: String,
    /// The `cudagraph_mode` after the engine's own resolution.
    pub cudagraph_mode: String,
    /// From the loaded model to the first request, s.
    pub startup_s: f64,
    /// The phases, in order.
    pub phases: Vec<PhaseReport>,
    /// Every capture, in order.
    pub captures: Vec<CaptureReport>,
    /// Device memory once the server is up.
    pub memory: StartMemory,
}

/// One phase of a start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseReport {
    /// What happens: `memory_profiling`, `compilation`, `graph_samples`, `kv_sizing`, `kernel_warm_up`,
    /// `capture_piecewise`, `capture_full` or `sampler_warm_up`.
    pub phase: Name,
    /// When it begins, s after the model is loaded.
    pub at_s: f64,
    /// How long it takes, s.
    pub seconds: f64,
    /// How often: runs, ranges and sizes compiled, or graphs.
    pub count: u32,
    /// What that means here, in words.
    pub detail: String,
}

/// One capture of a start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaptureReport {
    /// The graph.
    pub descriptor: DescriptorRecord,
    /// When its capture begins, s after the model is loaded.
    pub at_s: f64,
    /// How long it takes, s; its warm-up run included, unless the warning `captures_without_engine` says otherwise.
    pub seconds: f64,
    /// By how much the graph pool grows, bytes.
    pub pool_bytes: u64,
    /// Its executables, bytes.
    pub executables_bytes: u64,
}

/// Device memory once the server is up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartMemory {
    /// All memory of the device, bytes.
    pub device_bytes: u64,
    /// Model weights, bytes.
    pub weights_bytes: u64,
    /// Peak activations of the largest step, bytes.
    pub activation_bytes: u64,
    /// The graphs as the engine estimates them before it captures, bytes; null where it makes no estimate.
    pub graph_estimate_bytes: Option<u64>,
    /// What the engine keeps out of the KV pool for them, bytes.
    pub graph_set_aside_bytes: u64,
    /// The graphs as the model predicts them, bytes.
    pub graph_memory_bytes: u64,
    /// The part of `graph_memory_bytes` in pools, bytes.
    pub graph_pool_bytes: u64,
    /// The part of `graph_memory_bytes` in executables, bytes.
    pub graph_executables_bytes: u64,
    /// The KV pool, bytes.
    pub kv_bytes: u64,
    /// Blocks of the KV pool, the null block included.
    pub kv_blocks: u32,
    /// Its blocks if graphs took nothing; null where the pool's size is given, so that they take nothing.
    pub kv_blocks_without_graphs: Option<u32>,
    /// Its blocks if graphs took `graph_estimate_bytes`; null as above.
    pub kv_blocks_less_estimate: Option<u32>,
    /// Its blocks if graphs took `graph_memory_bytes`; null as above.
    pub kv_blocks_less_actual: Option<u32>,
}
