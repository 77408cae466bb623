//! The scenarios of this repository through the real binary: each is listed, valid and runs, its expectations hold; and
//! the practice exercise comes out as worked by hand.
//!
//! `cargo test --test scenarios -- --nocapture` prints `part: matched/total` for the exercise.

mod binary;
mod ceiling;
mod expectations;
mod files;
mod own_trace;
mod practice;
mod published;
