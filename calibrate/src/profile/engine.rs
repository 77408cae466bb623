//! The engine half of a profile: what a Python engine adds and a calibration run cannot see. Most of it is declared; of figures
//! that somebody measured, reading refuses what lies outside the ranges below.

use kernels::units::Bytes;

use super::{Attention, Group};

/// What a Python engine adds to the machine's own costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Engine {
    /// Attention of the engine's backend; preferred over the machine's.
    pub attention: Option<Group<Attention>>,
    /// Operations of one step.
    pub ops: Group<Ops>,
    /// Framework cost per operation, on top of the launch itself.
    pub dispatch: Group<DispatchCost>,
    /// Host cost of a step outside its launches.
    pub host: Group<Host>,
    /// Activation memory.
    pub activation: Group<Activation>,
    /// Seconds of starting the engine, captures apart.
    pub startup: Group<Startup>,
}

/// Operations of one step of the whole model: up to 10^6 of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ops {
    /// Launched one by one when compilation is off.
    pub eager: u32,
    /// Launched one by one by the compiled model.
    pub compiled: u32,
    /// Kernel nodes of one FULL graph, or of all pieces of one PIECEWISE descriptor together.
    pub graph_nodes: u32,
    /// Attention operations launched between the pieces of a PIECEWISE replay; part of `compiled`.
    pub attention_launches: u32,
}

/// Host microseconds per operation that the framework spends on top of the launch. Up to 100,000.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DispatchCost {
    /// Per operation when compilation is off.
    pub eager_us: f64,
    /// Where `eager_us` may lie; declared figures only.
    pub eager_us_range: Option<PlanningRange>,
    /// Per operation of the compiled model.
    pub compiled_us: f64,
    /// Where `compiled_us` may lie; declared figures only.
    pub compiled_us_range: Option<PlanningRange>,
}

/// The range in which a declared figure is plausible, in the figure's unit: `low < high`, the figure not outside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlanningRange {
    /// The low end.
    pub low: f64,
    /// The high end.
    pub high: f64,
}

/// Host cost of a step outside its launches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Host {
    /// Microseconds per step: scheduling, input preparation, output handling. Up to 10 s.
    pub step_overhead_us: f64,
    /// Microseconds per scheduled request. Up to 10^6.
    pub per_request_us: f64,
    /// Microseconds per step that runs a graph: dispatch and padding bookkeeping. Up to 10^6.
    pub padding_bookkeeping_us: f64,
}

/// Peak activation memory of a step: `base + per_row * max_num_batched_tokens`. Up to 16 TiB each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activation {
    /// Whatever the step.
    pub base: Bytes,
    /// Per row of the largest step.
    pub per_row: Bytes,
}

/// Seconds of starting the engine, captures apart. Up to a day each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Startup {
    /// Tracing the model's Python code for compilation, whatever the compile cache holds.
    pub trace_s: f64,
    /// Compiling the model for one range of sizes or one size, the compile cache empty.
    pub compile_cold_s: f64,
    /// The same, loaded from the compile cache.
    pub compile_warm_s: f64,
    /// The memory profiling run of the largest step, compilation and sampled graphs apart.
    pub memory_profiling_s: f64,
    /// Capturing one graph only to see how much memory it takes.
    pub graph_sample_s: f64,
    /// Tuning and warming up kernels before the captures.
    pub kernel_warm_up_s: f64,
    /// The last run, which makes the sampler allocate its buffers.
    pub sampler_warm_up_s: f64,
    /// What each capture takes on top of the machine's seconds: the engine's warm-up steps and Python. `None` where it is not
    /// known, or the machine's seconds hold it, as those read from an engine's log do.
    pub per_capture_s: Option<f64>,
    /// Everything else: process start, weight loading.
    pub other_s: f64,
}
