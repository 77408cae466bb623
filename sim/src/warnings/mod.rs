//! What an operator must know before trusting a result, each under a stable code.

mod after;
mod before;
mod declared;
mod measurement;
mod memory;
mod steady;

pub use after::{FinishedRun, after_run, fewer_requests};
pub use before::{attention_left_out, before_run, of_histogram, of_plan, of_step};
pub use measurement::about_measurement;

/// A number of things, for a sentence; `noun` is that of one.
fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// The verb after such a number.
fn was(number: u64) -> &'static str {
    if number == 1 { "was" } else { "were" }
}

/// A share in percent, for a sentence; a share that is not zero never reads as zero.
fn percent(part: u64, whole: u64) -> String {
    let percent = 100.0 * part as f64 / whole.max(1) as f64;
    if part > 0 && percent < 0.1 { "less than 0.1 %".to_owned() } else { format!("{percent:.1} %") }
}
