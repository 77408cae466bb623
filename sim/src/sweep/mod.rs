//! Sweeps: one scenario at many points, each with other values of some of its keys.
//!
//! ```text
//! --vary key=v1,v2 ─► axis ─► grid (all points, or a sample) ─► shard ─► point: the scenario with its values
//!                                                                  store: finished points on the disk ◄─┘
//! ```
//!
//! Points are numbered over the whole sweep, so that a shard, a resumed sweep and a merged one speak of the same points.
//! Every point is offered traffic of the same seeds. How points run is in `commands/sweep`.

mod axis;
mod base;
mod error;
mod grid;
mod key;
pub mod merge;
mod shard;
mod store;

pub use axis::Axis;
pub use base::{Base, PointScenario};
pub use error::{FolderError, StoreError, VaryError};
pub use grid::{Grid, Sample};
pub use key::Key;
pub use shard::{Environment, Shard};
pub use store::{FinishedSweep, SweepFolder};
