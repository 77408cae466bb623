//! The best bucket set for a scenario (design section 8).
//!
//! ```text
//! current ladders ─► simulate ─► histogram of step shapes ─► exact optimum by number of rungs ─► simulate ─┐
//!                                        ▲                   (landscape.rs, `optimum`)                     │
//!                                        └────────────── until it stands still ◄──────────────────────────┘
//! best so far ─► one rung more, less or elsewhere, simulated in pairs ─► check on other seeds ─► answer
//! ```

pub mod ladders;
pub mod landscape;
pub mod shapes;
