//! What one decoder step computes: units, model geometry, operations, flops and bytes.
pub mod geometry;
pub mod units;
pub mod work;
