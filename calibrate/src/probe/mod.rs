//! One module a probe: what is timed on a device, and what comes out of it.
//!
//! A [`Bench`] makes a session ready; every probe takes it, the model where it needs one, and what to measure, and gives a
//! [`Probed`] result: estimates with their intervals, how the campaigns of timings went, and what disturbed them. Every
//! probe asks for its memory beforehand, sets valid inputs before anything reads them, and times nothing across an
//! allocation or the loading of a module. Method: GPU specification section 4.

#[cfg(feature = "gpu")]
pub mod attention;
#[cfg(feature = "gpu")]
pub mod bandwidth;
#[cfg(feature = "gpu")]
mod bench;
#[cfg(feature = "gpu")]
mod clock_rate;
#[cfg(feature = "gpu")]
mod cold_cache;
pub(crate) mod copy_sizes;
#[cfg(feature = "gpu")]
pub mod dense;
#[cfg(feature = "gpu")]
mod error;
#[cfg(feature = "gpu")]
pub mod executables;
#[cfg(feature = "gpu")]
mod gate;
#[cfg(feature = "gpu")]
mod graph_of;
#[cfg(feature = "gpu")]
pub mod head;
#[cfg(feature = "gpu")]
mod inputs;
#[cfg(feature = "gpu")]
pub mod launch;
#[cfg(feature = "gpu")]
mod line;
#[cfg(feature = "gpu")]
mod pace;
#[cfg(feature = "gpu")]
mod parts;
pub mod result;
#[cfg(feature = "gpu")]
pub mod rungs;
pub mod step_shape;
#[cfg(feature = "gpu")]
pub mod steps;
#[cfg(feature = "gpu")]
mod stopwatch;
#[cfg(feature = "gpu")]
pub mod update;
#[cfg(feature = "gpu")]
mod work;

#[cfg(feature = "gpu")]
pub use bench::{Bench, Heard, Probed};
#[cfg(feature = "gpu")]
pub use error::ProbeError;
#[cfg(feature = "gpu")]
pub(crate) use pace::PaceWork;
#[cfg(feature = "gpu")]
pub use rungs::RungPlan;
