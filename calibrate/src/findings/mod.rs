//! What the probes found, as a profile.

mod engine;
mod error;
mod gap;
mod machine;
mod rungs;
mod stated;

pub use engine::declared_engine;
pub use error::Unusable;
pub use machine::{Findings, Found, machine};
pub use rungs::rungs;
pub use stated::{Statement, clock_range_mhz, left_out};

#[cfg(test)]
mod tests;
