//! The best bucket set for steps whose shapes are known, found exactly (design section 8, step 2).
//!
//! A [`Problem`] is one ladder: the sizes that may become rungs, the steps that run on it, and what a step costs on a graph
//! of each size and without one. [`front()`] gives the cheapest ladder for every number of rungs under a [`Budget`], and
//! [`front_apart()`] the cheapest pair of ladders where an engine keeps one for decode batches and one for all others.
//! Costs are whole nanoseconds, sums are exact, and nothing is rounded: brute force gives the same ladders, ties included.
//!
//! ```text
//! Problem ─► prune ─► sums, axes ─► chain (one layer per rung, an envelope for each axis) ─► front, front_apart
//! ```
//!
//! # The recurrence
//!
//! Let `f(k, j)` be the least cost of all steps that rung `j` holds, with `k` rungs of which `j` is the largest. The rung
//! below it is `i`, or there is none, and the steps between the two run on `j`:
//!
//! ```text
//! f(k, j) = min over i < j of f(k - 1, i) + w(i, j)        w(i, j) = sum of count * cost(step, j) over i < step <= j
//! ```
//!
//! Steps above the top rung run without a graph. Read plainly this takes `rungs * sizes^2` times the price of `w`. Two
//! observations make it quick, and neither needs graph costs to grow with size: padding up to a dip stays allowed.
//!
//! 1. Few sizes can be rungs (`prune.rs`).
//! 2. Seen from `j`, two rungs below it differ by the cost of the steps between them, at the price of `j`. A step is never
//!    cheaper on a graph that is dearer in every term, so along sizes *ordered by cost* this difference only grows, and
//!    one rung follows the other as the better one at most once (`envelope.rs`). That holds for every rule by which a step
//!    is priced, as long as it never falls when the graph's terms rise: padding always, the better of graph and eager,
//!    host and device one after the other or side by side.
//!
//! # Ties
//!
//! Of ladders with the same cost the one with fewer rungs is taken, then the one with the smaller top rung (it needs less
//! memory), then the smaller rung below it, and so on down.

mod apart;
mod assignment;
mod axes;
mod budget;
mod chain;
mod envelope;
mod front;
mod problem;
mod prune;
mod sums;
#[cfg(test)]
mod tests;

pub use apart::{Pair, front_apart};
pub use assignment::{Assignment, RungShare};
pub use budget::{Budget, Resources, Usage};
pub use front::{Front, Optimum, front};
pub use problem::{Batch, Candidate, Captures, Policy, Problem, ProblemFault, StepLoad, Terms};
