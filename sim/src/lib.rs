//! Rungwise `sim`.
pub mod engine;
pub mod scenario;
pub mod time;
pub mod traffic;
