//! What a user can ask a view for, and the keys for it.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// Something that a user asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Hold the clock, or let it run.
    Pause,
    /// The next step of the candidate in focus, then hold.
    Step,
    /// One notch faster.
    Faster,
    /// One notch slower.
    Slower,
    /// No limit.
    FullSpeed,
    /// On to what is looked for, then hold.
    Jump(Target),
    /// Look at the traffic of the next larger rung that fired.
    LargerRung,
    /// Look at the traffic of the next smaller rung that fired.
    SmallerRung,
    /// Give the focus to the other candidate on the screen.
    Focus,
    /// Show the next candidate in place of the one in focus.
    NextCandidate,
    /// Show the previous candidate in place of the one in focus.
    PreviousCandidate,
    /// One candidate alone, or two side by side.
    Split,
    /// Show the keys, or hide them.
    Help,
    /// Close what is open.
    Back,
    /// Leave.
    Quit,
    /// Leave at once, as a signal asks for.
    Interrupt,
}

/// What a jump looks for, in the steps of the candidate in focus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Any step.
    Step,
    /// A step without a graph.
    Fallback,
    /// A step before which requests lost their KV blocks.
    Preemption,
    /// A step on another rung than the one before it of the same rank, or without a graph after one with.
    RungChange,
    /// The end of the run.
    End,
}

impl Target {
    /// In words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Fallback => "fallback",
            Self::Preemption => "preemption",
            Self::RungChange => "rung change",
            Self::End => "end",
        }
    }
}

/// Keys of one action, as the help shows them.
#[derive(Debug)]
pub struct Binding {
    /// Any of these.
    pub keys: &'static [Key],
    /// What they do.
    pub action: Action,
    /// How they are written.
    pub shown: &'static str,
    /// What they do, in words.
    pub meaning: &'static str,
}

/// A key with what is held down beside it. Shift is part of the character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Alone.
    Plain(KeyCode),
    /// With Ctrl.
    Ctrl(char),
}

const fn letter(character: char) -> Key {
    Key::Plain(KeyCode::Char(character))
}

const fn binding(keys: &'static [Key], action: Action, shown: &'static str, meaning: &'static str) -> Binding {
    Binding { keys, action, shown, meaning }
}

/// Every key, in the order of the help.
pub const BINDINGS: [Binding; 18] = [
    binding(&[letter(' ')], Action::Pause, "space", "hold the clock, let it run"),
    binding(&[letter('.'), Key::Plain(KeyCode::Right)], Action::Step, ". →", "one step of the candidate in focus"),
    binding(&[letter('+'), letter('=')], Action::Faster, "+", "faster"),
    binding(&[letter('-')], Action::Slower, "-", "slower"),
    binding(&[letter('m')], Action::FullSpeed, "m", "as fast as can be"),
    binding(&[letter('f')], Action::Jump(Target::Fallback), "f", "on to the next step without a graph"),
    binding(&[letter('p')], Action::Jump(Target::Preemption), "p", "on to the next preemption"),
    binding(&[letter('r')], Action::Jump(Target::RungChange), "r", "on to the next change of the rung"),
    binding(&[letter('e'), Key::Plain(KeyCode::End)], Action::Jump(Target::End), "e End", "on to the end of the run"),
    binding(
        &[Key::Plain(KeyCode::Up), letter('k')],
        Action::LargerRung,
        "↑ k",
        "traffic of the busiest rung, of the next larger",
    ),
    binding(
        &[Key::Plain(KeyCode::Down), letter('j')],
        Action::SmallerRung,
        "↓ j",
        "traffic of the busiest rung, of the next smaller",
    ),
    binding(&[Key::Plain(KeyCode::Tab)], Action::Focus, "Tab", "focus on the other candidate"),
    binding(&[letter('c')], Action::NextCandidate, "c", "another candidate here"),
    binding(&[letter('C')], Action::PreviousCandidate, "C", "the candidate before it here"),
    binding(&[letter('s')], Action::Split, "s", "one candidate, or two side by side"),
    binding(&[letter('?'), letter('h')], Action::Help, "? h", "these keys"),
    binding(&[Key::Plain(KeyCode::Esc)], Action::Back, "Esc", "close what is open"),
    binding(&[letter('q')], Action::Quit, "q", "leave"),
];

/// Ctrl-C leaves whatever is open, and ends the command too.
const INTERRUPT: [Key; 1] = [Key::Ctrl('c')];

/// What a key asks for; `None` for a key without a meaning, or one that is let go.
#[must_use]
pub fn action(event: KeyEvent) -> Option<Action> {
    if event.kind == KeyEventKind::Release {
        return None;
    }
    let key = match (event.modifiers.difference(KeyModifiers::SHIFT), event.code) {
        (KeyModifiers::NONE, code) => Key::Plain(code),
        (KeyModifiers::CONTROL, KeyCode::Char(character)) => Key::Ctrl(character.to_ascii_lowercase()),
        _ => return None,
    };
    if INTERRUPT.contains(&key) {
        return Some(Action::Interrupt);
    }
    BINDINGS.iter().find(|binding| binding.keys.contains(&key)).map(|binding| binding.action)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pressed(code: KeyCode, modifiers: KeyModifiers) -> Option<Action> {
        action(KeyEvent::new(code, modifiers))
    }

    #[test]
    fn no_key_means_two_things() {
        let keys: Vec<Key> = BINDINGS.iter().flat_map(|binding| binding.keys).chain(&INTERRUPT).copied().collect();
        for (place, key) in keys.iter().enumerate() {
            assert!(!keys[..place].contains(key), "{key:?}");
        }
    }

    #[test]
    fn keys_are_what_the_table_says() {
        let plain = KeyModifiers::NONE;
        assert_eq!(pressed(KeyCode::Char(' '), plain), Some(Action::Pause));
        assert_eq!(pressed(KeyCode::Char('f'), plain), Some(Action::Jump(Target::Fallback)));
        assert_eq!(pressed(KeyCode::Char('C'), KeyModifiers::SHIFT), Some(Action::PreviousCandidate));
        assert_eq!(pressed(KeyCode::Char('+'), KeyModifiers::SHIFT), Some(Action::Faster));
        assert_eq!(pressed(KeyCode::Up, plain), Some(Action::LargerRung));
        assert_eq!(pressed(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Action::Interrupt));
        assert_eq!(pressed(KeyCode::Char('q'), KeyModifiers::CONTROL), None, "Ctrl-Q is no q");
        assert_eq!(pressed(KeyCode::Char('q'), KeyModifiers::ALT), None, "Esc and then q in one go is no q");
        assert_eq!(pressed(KeyCode::Char('z'), plain), None);
        assert_eq!(pressed(KeyCode::F(1), plain), None);
        let released = KeyEvent::new_with_kind(KeyCode::Char('q'), plain, KeyEventKind::Release);
        assert_eq!(action(released), None);
    }
}
