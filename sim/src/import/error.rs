//! Why an import gives no scenario.

use miette::Diagnostic;
use reports::OutputError;

use crate::traffic::TrafficError;

/// An import that cannot be.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub enum ImportError {
    /// A source cannot be opened or read at all.
    #[error("cannot read {name}: {problem}")]
    #[diagnostic(help("check its spelling and permissions; `-` is standard input"))]
    Unreadable {
        /// The source.
        name: String,
        /// What the system said.
        problem: String,
    },
    /// A source is nothing that is known.
    #[error("{name} is nothing that can be imported; it begins with\n{head}")]
    Foreign {
        /// The source.
        name: String,
        /// Its first lines, shortened.
        head: String,
        /// What is known.
        #[help]
        help: String,
    },
    /// A source is of a kind that is known and cannot be read.
    #[error("{name}: {problem}")]
    Broken {
        /// The source.
        name: String,
        /// What is wrong.
        problem: String,
        /// What to do.
        #[help]
        help: String,
    },
    /// A source was given before, perhaps under another name.
    #[error("{name} holds what {other} holds: its steps would count twice")]
    #[diagnostic(help("give it once"))]
    Twice {
        /// The source.
        name: String,
        /// The one before it.
        other: String,
    },
    /// A scrape was given before an older one.
    #[error("scrapes are in reversed order: give the older one first")]
    #[diagnostic(help("{place} is of an earlier time than what was read before it: {why}"))]
    Reversed {
        /// The line that tells.
        place: String,
        /// How it tells.
        why: String,
    },
    /// Metrics of several servers.
    #[error("{names}: the metrics count the steps of several servers: {differ}")]
    SeveralServers {
        /// The sources.
        names: String,
        /// The labels that tell them apart, with their values.
        differ: String,
        /// What to do.
        #[help]
        help: String,
    },
    /// Metrics that no server can have.
    #[error("{place}: the metrics contradict themselves: {what}")]
    #[diagnostic(help("no server counts like this: scrape its /metrics again, and give what it answers as it is"))]
    Contradicting {
        /// The line that tells.
        place: String,
        /// What it says.
        what: String,
    },
    /// Scrapes between which nothing happened.
    #[error("{names}: the scrapes count the same steps: the server ran none between them")]
    #[diagnostic(help(
        "scrape again while the server serves requests, or give one scrape alone: it counts everything since the server's start"
    ))]
    StoodStill {
        /// The sources.
        names: String,
    },
    /// A source says what steps cost, not which steps there are.
    #[error("{name} says how long steps take, not which steps a server ran: it is no traffic")]
    #[diagnostic(help("`sim fit` makes a profile of such figures"))]
    Costs {
        /// The source.
        name: String,
    },
    /// A trace cannot be read.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Trace(#[from] TrafficError),
    /// A file beside the scenario is needed, and the scenario has no place.
    #[error("the {what} go into a file beside the scenario, and the scenario goes to standard output")]
    #[diagnostic(help("give --out FILE"))]
    NeedsOut {
        /// What needs it.
        what: &'static str,
    },
    /// A file beside the scenario exists.
    #[error("{path} exists already")]
    #[diagnostic(help("choose another name for the scenario, or replace both with --force"))]
    Exists {
        /// The file.
        path: String,
    },
    /// A file beside the scenario cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The sources say nothing of which a scenario can be made.
    #[error("{names}: {problem}")]
    Nothing {
        /// The sources.
        names: String,
        /// What was looked for.
        problem: String,
        /// Which flag prints it.
        #[help]
        help: String,
    },
}
