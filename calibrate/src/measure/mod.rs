//! How anything is timed: points visited in rounds of random order, and what may be said of them afterwards.
//!
//! A clock that drifts while sizes are timed one after another becomes a slope over the sizes: 8 % too much in the
//! simulation of GPU specification section 4. So every round visits every point once, in an order of its own, and is
//! divided by how slow it was as a whole. Medians stand for the points, and the spread between rounds for what is not
//! known about them. Nothing here knows a device: a [`Visit`] times a point, [`Surroundings`] tell time and conditions.

mod bootstrap;
mod campaign;
mod comparison;
mod course;
mod estimate;
mod measured;
mod order_statistics;
mod pace;
mod protocol;
mod resampled;
mod rounds;
mod steadiness;

pub(crate) use bootstrap::interval as expanded_interval;
pub use estimate::Estimate;
pub use measured::{Campaign, Drift, Measured, Range, StoppedBy};
pub use order_statistics::{mad, median};
pub use pace::{Gauge, Pace};
pub use protocol::{Conditions, Nanoseconds, Phase, Progress, Protocol, ROUNDS_LEAST, Surroundings, Visit};
pub use steadiness::{Cause, Limits, TooNoisy, still_memory, widest};

#[cfg(test)]
pub(crate) mod made;
#[cfg(test)]
mod tests;
