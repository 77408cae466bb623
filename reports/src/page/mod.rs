//! The page of a result: one self-contained HTML file, or its short form as Markdown.
//!
//! ```text
//! RunPage, ProfilePage, ProposeReport, ComparisonReport ─► Part ─► Document ─┬─► html
//!                                                          chart ──┘         └─► markdown
//! ```
//!
//! What a page says is a [`Document`] first: headings, sentences, tables and charts. The two writers know nothing of what is
//! in it, and are the only places where text is escaped.

mod chart;
mod comparison;
mod document;
mod html;
mod latencies;
mod markdown;
mod profile;
mod proposal;
mod run;
mod staircase;

pub use comparison::comparison;
pub use document::{Document, Part};
pub use html::html;
pub use latencies::{CandidateLatencies, LatencyCounts};
pub use markdown::markdown;
pub use profile::{AttentionGrid, HostCost, MeasuredRung, ModeRungs, ProfilePage, ProfileStairs};
pub use proposal::proposal;
pub use run::RunPage;
pub use staircase::{StairEdge, Staircase};

impl Document {
    /// A page of these parts. Of several the title says only how many there are.
    #[must_use]
    pub fn of(parts: Vec<Part>) -> Self {
        let title = match &parts[..] {
            [part] => part.title.clone(),
            _ => format!("{} results", parts.len()),
        };
        Self { title, parts }
    }
}

/// The letter that stands for the candidate at a place: A to Z, then A2 and so on.
fn letter(place: usize) -> String {
    let letter = char::from(b'A' + (place % 26) as u8);
    match place / 26 {
        0 => letter.to_string(),
        round => format!("{letter}{}", round + 1),
    }
}
