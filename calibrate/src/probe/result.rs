//! What the probes give: estimates by the names of what was measured. They are what a resumed calibration keeps, and what
//! the machine half of a profile is made of.
//!
//! Times are in microseconds. *Host* is the time that calls take on the CPU, the device idle before them. *Device* is the
//! time between two events around the work, with the work queued up behind a gate, so that the host is never waited for.

use kernels::units::{Bytes, Requests, Rows};
use serde::{Deserialize, Serialize};

use crate::graph_mode::Mode;
use crate::measure::Estimate;

/// A cost that grows with a count: `fixed_us + each_us * count`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinearCost {
    /// Whatever the count.
    pub fixed_us: Estimate,
    /// For each.
    pub each_us: Estimate,
}

/// What launches and graph nodes cost: ladders of kernels that do nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchCosts {
    /// Host time of launches.
    pub eager_host: LinearCost,
    /// Device time of launches: the empty kernel, and what lies between two kernels of a stream.
    pub eager_device: LinearCost,
    /// Host time of replaying a graph, by its nodes.
    pub graph_host: LinearCost,
    /// Device time of a graph, by its nodes: the empty kernel, and what lies between two nodes.
    pub graph_device: LinearCost,
    /// The ladder that the lines were fitted to.
    pub ladder: Vec<LaunchRung>,
}

/// One rung of the ladder of empty kernels.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchRung {
    /// Launches, or nodes of the graph.
    pub count: u32,
    /// Host time of all launches.
    pub eager_host_us: Estimate,
    /// Device time of all launches.
    pub eager_device_us: Estimate,
    /// Host time of one replay.
    pub graph_host_us: Estimate,
    /// Device time of one replay.
    pub graph_device_us: Estimate,
}

/// How fast memory is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bandwidth {
    /// Of a copy within the device, bytes read plus bytes written, 10^9 bytes per second: the best of the sizes' medians.
    pub copy_gb_per_s: Estimate,
    /// Every size.
    pub copies: Vec<CopyTime>,
}

/// One copied size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopyTime {
    /// Bytes copied: so many are read, and so many written.
    pub bytes: Bytes,
    /// Device time of the copy.
    pub copy_us: Estimate,
}

/// What capturing and running the rungs of a ladder costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rungs {
    /// Tokens of context that each request of the timed steps had, the new one included; every row was a real request.
    pub context: u32,
    /// In the order of capture: by mode, PIECEWISE first, largest rung first.
    pub rungs: Vec<RungCosts>,
    /// What the shared pool had taken in the end.
    pub pool: Bytes,
    /// The same ladder captured smallest rung first, in a pool of its own, if that was asked for.
    pub ascending: Option<AscendingControl>,
}

/// One descriptor of a ladder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RungCosts {
    /// How it is captured.
    pub mode: Mode,
    /// Captured rows.
    pub rows: Rows,
    /// Graphs: 1 of FULL, N + 1 of PIECEWISE for N layers.
    pub graphs: u32,
    /// Nodes in all of its graphs.
    pub nodes: u32,
    /// Launches of the same step run eagerly, the head included.
    pub launches: u32,
    /// Host time of the first capture, growth of the pool included: from the beginning of each capture to its end.
    pub first_capture_us: Estimate,
    /// Host time of a capture that finds its memory in the pool.
    pub capture_us: Estimate,
    /// Host time of making all of its graphs executable.
    pub instantiate_us: Estimate,
    /// Host time of uploading all of its executables, until that is done.
    pub upload_us: Estimate,
    /// Host time of the first replay of executables that were not uploaded.
    pub first_replay_host_us: Estimate,
    /// From that replay's first call to the end of its work.
    pub first_replay_us: Estimate,
    /// Host time of a replay, the head included, which stays eager; and under PIECEWISE attention, which does too.
    pub replay_host_us: Estimate,
    /// Device time of the same.
    pub replay_device_us: Estimate,
    /// Host time of the eager step.
    pub eager_host_us: Estimate,
    /// Device time of the eager step.
    pub eager_device_us: Estimate,
    /// Device time that the replay saves.
    pub gap_us: Estimate,
    /// Device time of a PIECEWISE replay beyond that of the FULL replay of as many rows, where both were captured.
    #[serde(default)]
    pub beyond_full_us: Option<Estimate>,
    /// What the shared pool took for it.
    pub pool_growth: Bytes,
    /// What the driver's free memory fell by meanwhile; negative where it rose.
    pub driver_growth_bytes: i64,
    /// The most that its activations took of the pool at a time.
    pub live_peak: Bytes,
}

/// What the order of capture is worth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AscendingControl {
    /// What the pool had taken in the end.
    pub pool: Bytes,
    /// What each rung took, smallest first.
    pub growth: Vec<RungGrowth>,
}

/// What the pool took for one rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RungGrowth {
    /// How it is captured.
    pub mode: Mode,
    /// Captured rows.
    pub rows: Rows,
    /// What the pool took.
    pub pool_growth: Bytes,
}

/// Device memory of executable graphs. The driver takes memory in granules; the intervals are what its readings allow, not
/// a matter of chance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Executables {
    /// What all steps in which free memory fell are multiples of.
    pub granule: Bytes,
    /// Of a graph, whatever its nodes.
    pub graph_bytes: Estimate,
    /// Of each node.
    pub node_bytes: Estimate,
    /// Of whole descriptors, a mode each.
    pub descriptors: Vec<DescriptorBytes>,
}

/// Device memory of the executables of one descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DescriptorBytes {
    /// How it is captured.
    pub mode: Mode,
    /// Captured rows.
    pub rows: Rows,
    /// Graphs.
    pub graphs: u32,
    /// Nodes in all of them.
    pub nodes: u32,
    /// Device memory of all its executables together.
    pub bytes: Estimate,
}

/// What switching an executable to another graph of the same topology costs, by the nodes of the graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpdateCosts {
    /// Host time of the update, by nodes.
    pub update_host: LinearCost,
    /// The same with what the replay behind it takes longer: what a switch costs.
    pub switch_host: LinearCost,
    /// Every pair of rungs that was switched between.
    pub switches: Vec<Switch>,
}

/// Switching between two rungs, there and back.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Switch {
    /// The rungs.
    pub rows: [Rows; 2],
    /// Nodes of either graph.
    pub nodes: u32,
    /// Host time of an update.
    pub update_us: Estimate,
    /// Host time of the first replay behind it: the executable goes to the device again.
    pub next_replay_host_us: Estimate,
    /// Host time of a replay without an update before it.
    pub replay_host_us: Estimate,
}

/// Rows that a graph runs against device time: everything of a step but attention and head.
///
/// A point is one graph of the step's pieces without what lies between them (cache write and attention of every layer), so
/// that a FULL step's device time is `dense + attention + head`: this table holds the fixed cost of the one graph, attention
/// is without it, and the head runs as launches behind the graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DenseTable {
    /// Real rows, the same at every point; all others were padding.
    pub real_rows: Rows,
    /// By rising rows.
    pub points: Vec<DensePoint>,
    /// What a row of padding costs; `None` where no two sizes lie on one tread.
    pub padding: Option<Padding>,
}

/// What one row more costs where no edge is crossed (GPU specification section 4, "Padding slope").
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Padding {
    /// The median of the slopes of all pairs of sizes that share a tread, its interval by resampling the rounds.
    pub row_us: Estimate,
    /// The largest size it was found over.
    pub to_rows: Rows,
}

/// One captured size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DensePoint {
    /// Rows of the graph.
    pub rows: Rows,
    /// Nodes of the graph.
    pub nodes: u32,
    /// Device time of a replay.
    pub device_us: Estimate,
}

/// Decode attention of all layers, cache writes included, the fixed cost of a graph left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecodeTable {
    /// On a rectilinear grid, contexts running fastest.
    pub points: Vec<DecodePoint>,
    /// Each request that pads a FULL graph: no new token, no context.
    pub padded_request_us: Estimate,
    /// The cache writes of all layers for the smallest batch alone: a step that mixes decodes and a chunk makes them once.
    pub cache_writes_us: Estimate,
}

/// One decoding batch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecodePoint {
    /// Requests.
    pub requests: Requests,
    /// Tokens of context of each, the new one included.
    pub context: u32,
    /// Whether requests shared cache blocks, for the cache did not hold them all apart.
    pub shares_blocks: bool,
    /// Device time of all layers.
    pub device_us: Estimate,
}

/// Prefill attention of all layers, cache writes included, the fixed cost of a graph left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrefillTable {
    /// On a rectilinear grid, contexts running fastest.
    pub points: Vec<PrefillPoint>,
    /// Whether prefills and decodes of a step are kernels of their own, so that a mixed step is the sum. Those of calibrate
    /// are.
    pub separate_kernels: bool,
}

/// One chunk of one request.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrefillPoint {
    /// Tokens of the chunk.
    pub chunk: Rows,
    /// Tokens in the cache before the chunk.
    pub context: u32,
    /// Device time of all layers.
    pub device_us: Estimate,
}

/// Sequences that are sampled against device time: choice of the rows, LM head and argmax, as launches of a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeadTable {
    /// By rising sequences.
    pub points: Vec<HeadPoint>,
}

/// One number of sequences.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeadPoint {
    /// Sequences sampled.
    pub sequences: Rows,
    /// Device time.
    pub device_us: Estimate,
}
