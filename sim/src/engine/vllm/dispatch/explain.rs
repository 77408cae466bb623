//! The dispatchers' guards as they are evaluated. Dispatch itself runs with [`NoTrace`], which compiles to nothing, so an
//! explanation comes from the very code that answers steps.

use crate::engine::shape::Guard;

/// A guard of a dispatcher, in the order in which each runner asks (specification sections 3 and 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// Runner V1: are there graphs at all?
    Keys,
    /// Runner V2: have graphs been captured, and is there anything to run?
    Idle,
    /// Is the step larger than every graph?
    Ceiling,
    /// Does the step carry encoder inputs, which keep it out of full graphs (V1) or of all (V2)?
    EncoderInputs,
    /// Runner V1: is eager forced?
    AllowedModes,
    /// Which captured number of adapters serves the step?
    LoraCase,
    /// Which captured size, per mode, is the smallest that holds the step?
    PaddedSize,
    /// Runner V1: is there a full graph of that size?
    FullKey,
    /// Runner V1: is there a piecewise graph of that size?
    PiecewiseKey,
    /// Runner V2: is this graph for another uniform query length?
    UniformLength,
    /// Runner V2: is the step's longest query too long for this graph?
    LongestQuery,
    /// Runner V2: does the step have more requests than this graph?
    Requests,
    /// Runner V2: does this graph differ in tokens, adapters or microbatches?
    Key,
    /// No graph was taken.
    NoneLeft,
    /// Runner V1: would an assertion of the engine stop it?
    Assertion,
}

impl Rule {
    /// A stable name for reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::Idle => "idle",
            Self::Ceiling => "ceiling",
            Self::EncoderInputs => "encoder_inputs",
            Self::AllowedModes => "allowed_modes",
            Self::LoraCase => "lora_case",
            Self::PaddedSize => "padded_size",
            Self::FullKey => "full_key",
            Self::PiecewiseKey => "piecewise_key",
            Self::UniformLength => "uniform_length",
            Self::LongestQuery => "longest_query",
            Self::Requests => "requests",
            Self::Key => "key",
            Self::NoneLeft => "none_left",
            Self::Assertion => "assertion",
        }
    }

    /// What follows from the guard, in words.
    #[must_use]
    pub const fn outcome(self, fired: bool) -> &'static str {
        match (self, fired) {
            (Self::Keys | Self::Idle | Self::Ceiling | Self::EncoderInputs | Self::AllowedModes, false) => "goes on",
            (
                Self::Keys | Self::Idle | Self::Ceiling | Self::EncoderInputs | Self::AllowedModes | Self::NoneLeft,
                true,
            ) => "no graph",
            (Self::LoraCase | Self::PaddedSize, _) => "chosen",
            (Self::FullKey | Self::PiecewiseKey, true) | (Self::Key, false) => "taken",
            (Self::FullKey | Self::PiecewiseKey, false) => "not captured",
            (Self::UniformLength | Self::LongestQuery | Self::Requests, false) => "fits",
            (Self::UniformLength | Self::LongestQuery | Self::Requests | Self::Key, true) => "does not fit",
            (Self::NoneLeft | Self::Assertion, _) => "the engine stops here",
        }
    }
}

/// One guard of a dispatcher and how it came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleCheck {
    /// The guard.
    pub rule: Rule,
    /// The values compared, in words.
    pub compared: String,
    /// The guard decided: it ended the search, took this graph or sent it away. `false`: the search went on.
    pub fired: bool,
}

impl From<RuleCheck> for Guard {
    fn from(check: RuleCheck) -> Self {
        Self { rule: check.rule.name(), outcome: check.rule.outcome(check.fired), compared: check.compared }
    }
}

/// Receives each guard as it is evaluated.
pub trait RuleTrace {
    /// Notes the guard and hands its outcome back.
    fn guard(&mut self, rule: Rule, fired: bool, compared: impl FnOnce() -> String) -> bool;
}

/// Notes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTrace;

impl RuleTrace for NoTrace {
    #[inline]
    fn guard(&mut self, _rule: Rule, fired: bool, _compared: impl FnOnce() -> String) -> bool {
        fired
    }
}

impl RuleTrace for Vec<RuleCheck> {
    fn guard(&mut self, rule: Rule, fired: bool, compared: impl FnOnce() -> String) -> bool {
        self.push(RuleCheck { rule, compared: compared(), fired });
        fired
    }
}
