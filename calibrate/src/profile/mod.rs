//! The cost profile: every figure a simulated step is priced with, each group carrying its [`Provenance`].
//!
//! A profile has two halves. [`Machine`] is what a calibration run can measure on a card; [`Engine`] is what a Python
//! engine adds on top and a calibration run cannot see. The figures serve these formulas:
//!
//! ```text
//! device            = dense(rows) + head(sequences) + attention + gap(rows)
//! host              = step_overhead + per_request * requests + launch
//! launch, eager     = ops.eager * (launch_us + dispatch.eager_us)
//!         compiled  = ops.compiled * (launch_us + dispatch.compiled_us)
//!         PIECEWISE = (attention layers + 1) * fixed_us + graph_nodes * node_us
//!                     + attention_launches * (launch_us + dispatch.compiled_us) + padding_bookkeeping_us
//!         FULL      = fixed_us + graph_nodes * node_us + padding_bookkeeping_us
//! ```
//!
//! `gap` is what a step takes longer on the device than as one graph, `eager_gap` without a graph and `piecewise_gap` in
//! pieces; it is nothing under FULL, and where a profile has none.
//!
//! The attention of a step that mixes decodes and prefills is a reading of the mixed table where there is one, else the sum of
//! both less `shared_us`.
//!
//! How host and device time combine is the profile's [`Overlap`].

mod attention;
mod curve;
mod date;
mod engine;
mod error;
mod file;
mod identity;
mod machine;
mod measured;
mod measurement;
mod parse;
mod provenance;
mod store;
mod write;

use crate::graph_mode::Mode;

pub use attention::{Attention, Grid, Mixed, Surface, SurfaceRow};
pub use curve::{Axis, Curve, Line, Outside, Reading, Table};
pub use date::{ClockNotSet, beginning};
pub use engine::{Activation, DispatchCost, Engine, Host, Ops, PlanningRange, Startup};
pub use error::{Fault, ProfileError};
pub use identity::{Expected, Identity};
pub use machine::{Bandwidth, Capture, Launch, Machine, Memory, Pool, Replay, Update};
pub use measured::{Figure, Figures, HeldOut, Interval, LEAST_FIGURE, Measured, PaddingCost, Protocol};
pub use measurement::{KeptWarning, Measurement, NotMeasured, Rungs};
pub use provenance::{AnyGroup, Group, Kind, Provenance};
pub use store::BUILTIN;

/// The version of the file format that this build reads and writes.
pub const SCHEMA: u32 = 1;

/// How the host's and the device's time of a step combine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Overlap {
    /// Launches run ahead of the device: a step takes about the longer of the two.
    Pipelined,
    /// Host and device time add up, as in the textbook exercises.
    Additive,
}

impl Overlap {
    /// Its name in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pipelined => "pipelined",
            Self::Additive => "additive",
        }
    }
}

/// One cost profile: a machine, an engine on it, and where each group of figures comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The profile's own name.
    pub name: String,
    /// What the figures are about: device, engine, model.
    pub identity: Identity,
    /// How the machine half was measured; none where it was not measured by `calibrate`.
    pub measurement: Option<Measurement>,
    /// How host and device time combine.
    pub overlap: Overlap,
    /// The machine half.
    pub machine: Machine,
    /// The engine half.
    pub engine: Engine,
}

impl Profile {
    /// The attention figures to price with: the engine's own backend where known, else the machine's own kernels.
    pub fn attention(&self) -> Option<&Group<Attention>> {
        self.engine.attention.as_ref().or(self.machine.attention.as_ref())
    }

    /// Tensor-parallel ranks of which one was measured; 1: the figures are those of the whole model.
    pub fn tensor_parallel(&self) -> u32 {
        self.measurement.as_ref().map_or(1, |run| run.tensor_parallel)
    }

    /// Every group that the profile holds with its provenance, in file order; names are the file's table names.
    pub fn groups(&self) -> Vec<(&'static str, &Provenance)> {
        self.each_group().into_iter().map(|group| (group.name, group.provenance)).collect()
    }

    /// Whether graphs of a mode were measured; `true` of a profile that calibrate did not measure, whose figures are someone
    /// else's.
    pub fn is_captured(&self, mode: Mode) -> bool {
        self.measurement.as_ref().is_none_or(|run| match mode {
            Mode::Full => run.full.is_some(),
            Mode::Piecewise => run.piecewise.is_some(),
        })
    }

    /// Every captured size, ascending, of either mode; none of a profile that calibrate did not measure.
    pub fn captured_rows(&self) -> Vec<f64> {
        let modes = self.measurement.iter().flat_map(|run| [&run.full, &run.piecewise]).flatten();
        let mut rows: Vec<f64> = modes.flat_map(|rungs| rungs.rows.iter().copied()).collect();
        rows.sort_by(f64::total_cmp);
        rows.dedup();
        rows
    }

    /// Every group that the profile holds, in file order.
    pub fn each_group(&self) -> Vec<AnyGroup<'_>> {
        let (machine, engine) = (&self.machine, &self.engine);
        let mut groups = vec![
            machine.memory.named("machine.memory"),
            machine.dense.named("machine.dense"),
            machine.head.named("machine.head"),
            machine.launch.named("machine.launch"),
            machine.replay.named("machine.replay"),
            machine.update.named("machine.update"),
            machine.pool.named("machine.pool"),
            machine.capture.named("machine.capture"),
        ];
        groups.extend(machine.bandwidth.as_ref().map(|group| group.named("machine.bandwidth")));
        groups.extend(machine.attention.as_ref().map(|group| group.named("machine.attention")));
        groups.extend(machine.eager_gap.as_ref().map(|group| group.named("machine.eager_gap")));
        groups.extend(machine.piecewise_gap.as_ref().map(|group| group.named("machine.piecewise_gap")));
        groups.extend(engine.attention.as_ref().map(|group| group.named("engine.attention")));
        groups.extend([
            engine.ops.named("engine.ops"),
            engine.dispatch.named("engine.dispatch"),
            engine.host.named("engine.host"),
            engine.activation.named("engine.activation"),
            engine.startup.named("engine.startup"),
        ]);
        groups
    }
}
