//! The few styles of a view: from the 16 colours that every terminal has, and readable without any.

use ratatui::style::{Color, Modifier, Style};

use crate::watch::state::State;

/// Steps that a graph ran as they were.
pub(super) const EXACT: char = '█';
/// Steps that a graph padded.
pub(super) const PADDED: char = '░';
/// Steps without a graph.
pub(super) const NO_GRAPH: char = '▒';

/// Styles, with colours or without.
#[derive(Clone, Copy, Debug)]
pub(super) struct Palette {
    colour: bool,
}

impl Palette {
    /// Those that a state allows.
    pub(super) fn of(state: &State) -> Self {
        Self { colour: state.colour }
    }

    /// Without colours.
    #[cfg(test)]
    pub(super) fn plain() -> Self {
        Self { colour: false }
    }

    fn foreground(self, colour: Color) -> Style {
        if self.colour { Style::new().fg(colour) } else { Style::new() }
    }

    /// Steps that a graph ran as they were, and what it won.
    pub(super) fn exact(self) -> Style {
        self.foreground(Color::Green)
    }

    /// Steps that a graph padded.
    pub(super) fn padded(self) -> Style {
        self.foreground(Color::Yellow)
    }

    /// Steps without a graph, and what a graph lost.
    pub(super) fn no_graph(self) -> Style {
        self.foreground(Color::Red)
    }

    /// The ceiling, and other lines to compare with.
    pub(super) fn line(self) -> Style {
        self.foreground(Color::Cyan)
    }

    /// Headings and names.
    pub(super) fn strong() -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// What frames the figures.
    pub(super) fn faint() -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// What must not be overlooked.
    pub(super) fn alarm(self) -> Style {
        self.no_graph().add_modifier(Modifier::BOLD | Modifier::REVERSED)
    }
}
