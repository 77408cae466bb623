//! The scenarios of this repository through the real binary: each is listed, valid and runs, its expectations hold; and
//! the practice exercise comes out as worked by hand; public reports get the advice that helped their reporters, and their
//! figures stand beside those of the commands that answer them.
//!
//! `cargo test --test scenarios -- --nocapture` prints `part: matched/total` for the exercise.

mod binary;
mod ceiling;
mod expectations;
mod field;
mod files;
mod own_trace;
mod practice;
mod public_reports;
