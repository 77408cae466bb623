//! The best bucket set for a scenario (design section 8).
//!
//! ```text
//! ladders in force ─► simulate ─► histogram of step shapes ─► exact optimum by number of rungs ─► simulate ─┐
//!                                        ▲                   (landscape.rs, `optimum`)                      │
//!                                        └────────────── until it stands still ◄───────────────────────────┘
//! best so far ─► one rung more, less or elsewhere, simulated on the same requests ─► check on other seeds ─► answer
//! ```

pub mod answer;
pub mod decision;
pub mod error;
pub mod histogram;
pub mod ladders;
pub mod landscape;
pub mod limits;
pub mod neighbours;
pub mod objective;
pub mod search;
pub mod sensitivity;
pub mod shapes;
pub mod stop;
pub mod trials;
pub mod verdict;
pub mod worth;

#[cfg(test)]
mod tests;
