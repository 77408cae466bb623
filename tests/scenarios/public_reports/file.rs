//! `scenarios/field/cases.toml`: what public reports state, and which command answers.

use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cases {
    #[serde(rename = "report")]
    pub(super) reports: Vec<Report>,
}

/// One public report.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Report {
    /// Its number in the project's collection of reports.
    pub(super) number: String,
    pub(super) title: String,
    /// When it was published, as exactly as is known.
    pub(super) date: String,
    /// Where it stands.
    pub(super) sources: Vec<String>,
    /// Engine, model, cards, load and figures.
    pub(super) setting: String,
    #[serde(default)]
    pub(super) question: String,
    /// What this program says to it.
    #[serde(default)]
    pub(super) answer: String,
    #[serde(default, rename = "ask")]
    pub(super) asks: Vec<Ask>,
    /// Why no command answers; of a report without `asks`.
    pub(super) unanswered: Option<String>,
}

/// A command and the figures of its answer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ask {
    /// As it is typed in the root of the repository.
    pub(super) command: String,
    /// Another command, whose figure is subtracted.
    pub(super) minus: Option<String>,
    #[serde(rename = "figure")]
    pub(super) figures: Vec<Figure>,
}

/// One figure of a report, and where ours stands.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Figure {
    pub(super) what: String,
    /// The unit of both; none for counts and words.
    #[serde(default)]
    pub(super) unit: String,
    /// What the report states: a number, a word, a list of numbers, or `{ from, to }`.
    pub(super) report: toml::Value,
    /// The value of the varied key at the point of a sweep.
    pub(super) at: Option<i64>,
    pub(super) candidate: Option<String>,
    /// The field of the answer's JSON: a dot goes one level down, a number picks from a list.
    #[serde(rename = "figure")]
    pub(super) field: String,
    /// The candidate from which the figure is the change, in percent.
    pub(super) against: Option<String>,
    pub(super) divided_by: Option<f64>,
    pub(super) how: How,
    /// Why it misses.
    pub(super) why: Option<String>,
}

/// How our figure came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum How {
    /// By the engine's rules alone.
    Rule,
    /// By costs and traffic; the report's own figure is in neither.
    Predicted,
    /// By planning figures of a built-in profile.
    Planned,
    /// The report's figure is in the costs.
    #[serde(rename = "put in")]
    PutIn,
}

impl How {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Rule => "rule",
            Self::Predicted => "predicted",
            Self::Planned => "planned",
            Self::PutIn => "put in",
        }
    }
}
