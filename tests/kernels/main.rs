//! The kernels on the CPU: the same CUDA sources, run by `tests/executor`, against the references in f64.
//!
//! Without a C++ compiler every test says so and passes.

mod cases;
mod compiler;
mod executor;
mod model;
mod planted;
