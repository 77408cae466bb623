//! What measured points have in common: lines, stairs, growth, and how far readings between them may be off.
//!
//! Times over rows are stairs with sloped treads, and they may fall (design.md section 5): no fit here assumes that more
//! rows take longer.

mod growth;
mod held_out;
mod line;
mod resampled;
mod segmentation;
mod staircase;

pub use growth::{FREE_MEMORY_GRANULE, each_bytes};
pub use held_out::HeldOut;
pub use line::{Line, median_slope};
pub use resampled::interval_of_medians;
pub use segmentation::POINTS_LEAST;
pub use staircase::{Doubt, Edge, Staircase, Tread, scatter};

#[cfg(test)]
mod tests;
