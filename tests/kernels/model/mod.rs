//! A whole tiny model on the executor, step by step, without a driver: against the reference, and against itself under
//! other padding.

mod batch;
mod runner;
mod tests;
mod tiny;
