//! What one decoder step computes: units, model geometry, operations, flops and bytes, and the kernels that compute it.
pub mod bf16;
pub mod check;
pub mod geometry;
pub mod launch;
pub mod machine;
pub mod random;
pub mod reference;
pub mod step;
pub mod units;
pub mod work;
