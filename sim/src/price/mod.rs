//! Exact expectations over a histogram of step shapes: every shape dispatched and priced once, no event loop.
//!
//! One cost curve serves real and padded rows alike, so a step of `b` rows costs `device(b)` without a graph and
//! `device(rung)` with one. Sums are in whole nanoseconds, weighted by counts: nothing is rounded before the division.
//! A histogram holds no contexts, so attention is left out of every kind alike.

mod break_even;
mod expectation;
mod other_graphs;

pub use break_even::break_even_padded_rows;
pub use expectation::{Expectation, RungSum, expect, prefilling, shape, work};
pub use other_graphs::{BatchSum, EncoderSum, ReplaySum};
