//! The machine half of a profile: what a calibration run can measure on a card.

use kernels::units::Bytes;

use super::{Attention, Curve, Group};

/// What a calibration run can measure on a card.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Device memory.
    pub memory: Group<Memory>,
    /// Rows run -> microseconds: all non-attention operations of all layers. Embedding and final norm belong here where
    /// the source has them (they are about 0.1 % of a step); LM head and sampler do not.
    pub dense: Group<Curve>,
    /// Sequences sampled -> microseconds: LM head and sampler.
    pub head: Group<Curve>,
    /// One kernel launch.
    pub launch: Group<Launch>,
    /// One graph replay.
    pub replay: Group<Replay>,
    /// Switching an executable between deduplicated graphs.
    pub update: Group<Update>,
    /// Device memory of captured graphs.
    pub pool: Group<Pool>,
    /// Seconds of capturing.
    pub capture: Group<Capture>,
    /// Device memory bandwidth, where known.
    pub bandwidth: Option<Group<Bandwidth>>,
    /// Attention of the calibration run's own kernels, where measured.
    pub attention: Option<Group<Attention>>,
    /// Rows -> device microseconds by which a step launched one by one takes longer than its FULL graph, where measured;
    /// beyond the first and the last rows it stays as it is there, for launches do not grow with rows.
    pub eager_gap: Option<Group<Curve>>,
    /// The same of a PIECEWISE step, by the rows of its graphs.
    pub piecewise_gap: Option<Group<Curve>>,
}

/// Device memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// All memory of the device, as its driver reports it.
    pub total: Bytes,
}

/// Host cost of one kernel launch, without any framework around it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Launch {
    /// Host microseconds per launch.
    pub launch_us: f64,
}

/// Host cost of one graph replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Replay {
    /// Host microseconds of a replay, whatever the graph.
    pub fixed_us: f64,
    /// Host microseconds per graph node.
    pub node_us: f64,
}

/// Host cost of pointing one executable at another, structurally equal graph.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Update {
    /// Host microseconds per update, whatever the graph; with `node_us` at 0 all of an update.
    pub update_us: f64,
    /// Host microseconds per node of the graph; 0 where only whole updates are known.
    pub node_us: f64,
}

/// Device memory that captured graphs hold. Figures are per descriptor, never per piece of a PIECEWISE descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// The shared pool, whatever the largest rung.
    pub base: Bytes,
    /// The shared pool per row of the largest rung.
    pub per_row: Bytes,
    /// Executable of one FULL descriptor.
    pub full_executable: Bytes,
    /// Executables of one PIECEWISE descriptor, all its pieces together.
    pub piecewise_executable: Bytes,
}

/// Seconds that capturing takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capture {
    /// Seconds per FULL descriptor.
    pub full_s: f64,
    /// Seconds per PIECEWISE descriptor.
    pub piecewise_s: f64,
    /// Extra seconds of the first capture of a start-up, on top of the above.
    pub first_extra_s: f64,
}

/// Device memory bandwidth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bandwidth {
    /// Read bandwidth, 10^9 bytes per second.
    pub read_gb_per_s: f64,
}
