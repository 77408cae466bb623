//! Why an import gives no scenario.

use miette::Diagnostic;

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
