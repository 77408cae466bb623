//! The laws of the simulation: properties that hold for every scenario, closed forms, and recorded traffic.
//!
//! `cargo test --test laws -- --nocapture` prints how many scenarios and steps each law saw. Scenarios are random but
//! the same on every run; `PROPTEST_RNG_SEED` gives others and `PROPTEST_CASES` more of them. Recorded traces are read
//! from `$RUNGWISE_SHARED/traces` (default `../shared`); where they are missing, their checks say so and pass.

mod costs;
mod dispatch;
mod fast_steps;
mod graph_memory;
mod house;
mod kv;
mod ledger;
mod occupancy;
mod oracle;
mod profiles;
mod ranks;
mod recorded;
mod requests;
mod reuse;
mod same_bytes;
mod same_schedule;
mod scenarios;
mod sglang;
mod sums;
mod theory;
mod time;
mod traces;
mod watch;
