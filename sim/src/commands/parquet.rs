//! `--parquet`, which only some builds can do.

use super::failure::Failure;
use crate::parquet::Parquet;

const WAY_OUT: &str = "build one with them, `cargo build --release -p sim --features frames`, or leave --parquet out: the \
                       CSV and JSON files hold the same";

/// What writes the tables, if they are asked for.
///
/// # Errors
/// They are, and this build has none.
pub(super) fn check(asked: bool) -> Result<Option<Parquet>, Failure> {
    if !asked {
        return Ok(None);
    }
    let refused = || Failure::Usage {
        message: "--parquet: this sim was built without Parquet tables".to_owned(),
        help: Some(WAY_OUT.to_owned()),
    };
    Parquet::of_this_build().ok_or_else(refused).map(Some)
}
