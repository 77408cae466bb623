//! The machine half of a profile: what a calibration run can measure on a card.
//!
//! Each figure states between what it lies where it was measured: wide enough for any real machine, narrow enough to find a
//! wrong unit. Reading refuses others, except of declared figures: exercises may declare anything.

use kernels::units::Bytes;

use super::{Attention, Curve, Group};

/// What a calibration run can measure on a card.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Device memory.
    pub memory: Group<Memory>,
    /// Rows run -> microseconds: all non-attention operations of all layers. Embedding and final norm belong here where
    /// the source has them (they are about 0.1 % of a step); LM head and sampler do not. Up to 100 s a step; where measured,
    /// no step takes less than a quarter of what one of fewer rows does, intervals and 20 us apart.
    pub dense: Group<Curve>,
    /// Sequences sampled -> microseconds: LM head and sampler. As the dense work.
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
    /// beyond the first and the last rows it stays as it is there, for launches do not grow with rows. Up to 10 s; measured at
    /// captured sizes.
    pub eager_gap: Option<Group<Curve>>,
    /// The same of a PIECEWISE step, by the rows of its graphs.
    pub piecewise_gap: Option<Group<Curve>>,
}

/// Device memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// All memory of the device, as its driver reports it: exact, without an interval. 64 MiB to 16 TiB.
    pub total: Bytes,
}

/// Host cost of one kernel launch, without any framework around it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Launch {
    /// Host microseconds per launch. Up to 10,000.
    pub launch_us: f64,
}

/// Host cost of one graph replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Replay {
    /// Host microseconds of a replay, whatever the graph. Up to 100,000.
    pub fixed_us: f64,
    /// Host microseconds per graph node. Up to 1,000.
    pub node_us: f64,
}

/// Host cost of pointing one executable at another, structurally equal graph.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Update {
    /// Host microseconds per update, whatever the graph; with `node_us` at 0 all of an update. Up to 10^6.
    pub update_us: f64,
    /// Host microseconds per node of the graph; 0 where only whole updates are known. Up to 10,000.
    pub node_us: f64,
}

/// Device memory that captured graphs hold. Figures are per descriptor, never per piece of a PIECEWISE descriptor. None is more
/// than all memory of the device.
///
/// The shared pool has no interval: calibrate's own pool counts the segments that it took from the driver, which are the same
/// in every run of the same ladder (GPU specification section 4). Executables are the driver's, and measured.
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
    /// Seconds per FULL descriptor. Up to an hour.
    pub full_s: f64,
    /// Seconds per PIECEWISE descriptor. Up to an hour.
    pub piecewise_s: f64,
    /// Extra seconds of the first capture of a start-up, on top of the above. Up to an hour; it happens once, so it has no
    /// interval.
    pub first_extra_s: f64,
}

/// Device memory bandwidth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bandwidth {
    /// Read bandwidth, 10^9 bytes per second. Up to 100,000.
    pub read_gb_per_s: f64,
}
