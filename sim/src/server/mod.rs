//! One replica of a server: the clock, the steps in flight, and who comes next.
//!
//! The loop is the engine's own: schedule, dispatch, price, and, when as many steps are in flight as the engine allows,
//! apply the oldest output. Everything that happens is told to an [`Observer`](crate::observe::Observer).

pub mod error;
pub mod replica;
pub mod setup;
mod source;
pub mod start;
pub mod timeline;

pub use error::{ServerError, SetupError};
pub use replica::{Replica, RunEnd};
pub use setup::Setup;
