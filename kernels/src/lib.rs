//! What one decoder step computes: units, model geometry, operations, flops and bytes, and the kernels that compute it.
pub mod geometry;
pub mod launch;
pub mod machine;
pub mod units;
pub mod work;
