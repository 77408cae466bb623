//! The optimum beside brute force, and beside the exercises worked by hand.

mod brute;
mod plain;
mod practice;
pub(super) mod random;
