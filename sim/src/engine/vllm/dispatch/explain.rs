//! The dispatchers' guards as they are evaluated. Dispatch itself runs with [`NoTrace`], which compiles to nothing, so an
//! explanation comes from the very code that answers steps.

use serde::Serialize;

/// One guard of a dispatcher and how it came out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuleCheck {
    /// The guard's name.
    pub rule: &'static str,
    /// The values compared, in words.
    pub compared: String,
    /// The guard decided: it ended the search, or sent this graph away. `false`: the search went on.
    pub fired: bool,
}

/// Receives each guard as it is evaluated.
pub trait RuleTrace {
    /// Notes the guard and hands its outcome back.
    fn guard(&mut self, rule: &'static str, fired: bool, compared: impl FnOnce() -> String) -> bool;
}

/// Notes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTrace;

impl RuleTrace for NoTrace {
    #[inline]
    fn guard(&mut self, _rule: &'static str, fired: bool, _compared: impl FnOnce() -> String) -> bool {
        fired
    }
}

impl RuleTrace for Vec<RuleCheck> {
    fn guard(&mut self, rule: &'static str, fired: bool, compared: impl FnOnce() -> String) -> bool {
        self.push(RuleCheck { rule, compared: compared(), fired });
        fired
    }
}

/// An optional key field in words.
pub(super) fn field(value: Option<u32>) -> String {
    value.map_or_else(|| "any".to_owned(), |value| value.to_string())
}
