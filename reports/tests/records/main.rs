//! What the writers make of small records made by hand: whole texts as snapshots, and the promises of `SCHEMA.md`.

mod samples;

mod comparison;
mod fit;
#[cfg(feature = "frames")]
mod frames;
mod import;
#[cfg(feature = "pages")]
mod page;
mod pipes;
mod round_trips;
mod rows;
mod schema;
mod seeds;
mod text;
mod validate;
