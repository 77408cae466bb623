//! Parquet tables of results, behind the feature `frames`: nothing else names polars.
//!
//! ```text
//! StepRecord, RequestRecord ─► RowLog ─► bytes of rows ─┐
//! CandidateReport ─► rungs, figures ────────────────────┴─► Table ─► row groups of a .parquet file
//! ```
//!
//! A run of many steps never holds them all. Each run turns its records into the bytes of rows ([`RowLog`]), which the caller
//! keeps wherever there is room; when all have ended, a [`Table`] takes those bytes in the order of candidates and seeds and
//! writes a row group whenever it has enough rows for one. The same records give the same file, byte for byte.
//!
//! Columns have the names and units of the JSON, JSONL and CSV output, nested ones as paths with dots; `SCHEMA.md` lists them.
//! What is null there is null here. Every file says in its key-value metadata what it belongs to ([`About`]).

mod column;
mod figures;
mod log;
mod points;
mod requests;
mod row;
mod rungs;
mod steps;
mod table;

pub use column::{Column, Kind};
pub use figures::{PointFigures, figures};
pub use log::RowLog;
pub use requests::request_columns;
pub use row::Row;
pub use rungs::{PointRungs, rungs};
pub use steps::step_columns;
pub use table::{About, Table};
