//! What data-parallel ranks agree on before each step: their expert layers meet in one collective, so all ranks run a
//! graph of one size, or none does (specification sections 4 and 6).
//!
//! Pure functions: the ranks' own wishes in, what every rank runs out.

pub mod v1;
pub mod v2;
