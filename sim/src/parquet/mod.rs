//! `--parquet`: the Parquet tables, in a build that has them.
//!
//! [`Parquet`] is at hand only where they can be written, so that nothing else needs to ask which build this is.

use std::io;

#[cfg(feature = "frames")]
mod built;
#[cfg(not(feature = "frames"))]
mod left_out;

#[cfg(feature = "frames")]
pub use built::{Parquet, PointTables, RowLog};
#[cfg(not(feature = "frames"))]
pub use left_out::{Parquet, PointTables, RowLog};

/// A name and a text that a file says of what it belongs to.
pub type About<'a> = [(&'static str, &'a str)];

/// What takes whole rows of a log.
pub type TakeRows<'a> = dyn FnMut(&[u8]) -> io::Result<()> + 'a;
