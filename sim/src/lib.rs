//! Rungwise `sim`.
pub mod engine;
pub mod time;
