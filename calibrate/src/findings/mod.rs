//! What the probes found, as a profile.

mod achieved;
mod engine;
mod error;
mod found;
mod gap;
mod machine;
mod magnitude;
mod rungs;
mod stated;

pub use achieved::Achieved;
pub use engine::declared_engine;
pub use error::Unusable;
pub use found::Found;
pub use machine::{Findings, machine};
pub use magnitude::implausible;
pub use rungs::rungs;
pub use stated::{Statement, clock_range_mhz, left_out};

#[cfg(test)]
mod tests;
