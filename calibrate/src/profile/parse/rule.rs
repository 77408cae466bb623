//! What a single number may be, whoever states it.

/// What a number may be. Upper limits are far beyond any machine: they catch a wrong unit or a typing slip. What a figure that
/// counts as measured may be is narrower: [`super::ranges`].
#[derive(Clone, Copy)]
pub(super) struct Rule {
    zero_allowed: bool,
    negative_allowed: bool,
    is_whole: bool,
    least: f64,
    most: f64,
    what: &'static str,
}

impl Rule {
    pub(super) const fn positive(most: f64, what: &'static str) -> Self {
        Self { zero_allowed: false, negative_allowed: false, is_whole: false, least: 0.0, most, what }
    }

    pub(super) const fn or_zero(self) -> Self {
        Self { zero_allowed: true, ..self }
    }

    pub(super) const fn or_less(self) -> Self {
        Self { negative_allowed: true, ..self.or_zero() }
    }

    pub(super) const fn at_least(self, least: f64) -> Self {
        Self { least, ..self }
    }

    /// Counts are whole: half a row is none, and half a kernel node neither.
    pub(super) const fn whole(self) -> Self {
        Self { is_whole: true, ..self }
    }

    pub(super) fn accepts(self, value: f64) -> bool {
        value <= self.most
            && (value > 0.0 || (value == 0.0 && self.zero_allowed) || (value >= -self.most && self.negative_allowed))
            && (value >= self.least || self.negative_allowed)
            && (!self.is_whole || value.fract() == 0.0)
    }

    pub(super) fn expectation(self) -> String {
        if self.negative_allowed {
            return format!("expected {}, at most {} to either side of zero", self.what, self.most);
        }
        if self.least > 0.0 {
            return format!("expected {}, {} to {}", self.what, self.least, self.most);
        }
        let sign = if self.zero_allowed { "zero or more" } else { "more than zero" };
        format!("expected {}, {sign} and at most {}", self.what, self.most)
    }
}

pub(super) const MICROSECONDS: Rule = Rule::positive(1e9, "microseconds");
pub(super) const SECONDS: Rule = Rule::positive(1e6, "seconds");
pub(super) const BYTES: Rule = Rule::positive((1_u64 << 50) as f64, "bytes");
/// By which a pool grew.
pub(super) const GROWTH: Rule = Rule::positive((1_u64 << 50) as f64, "whole bytes").or_zero().whole();
pub(super) const COUNT: Rule = Rule::positive(1e6, "a count");
/// Rows, sequences, requests and tokens of a chunk.
pub(super) const ROWS: Rule = Rule::positive(1e9, "a whole number").whole();
/// Kernel nodes of the graphs of a step.
pub(super) const NODES: Rule = Rule::positive(1e6, "a whole number").whole();
/// What need not be whole: tokens of context, which may be those of several requests on average, and where a line passes.
pub(super) const PLACE: Rule = Rule::positive(1e9, "a count").or_zero();
/// Visits, samples.
pub(super) const VISITS: Rule = Rule::positive(1e9, "a count");
pub(super) const GB_PER_S: Rule = Rule::positive(1e6, "10^9 bytes per second");
/// Of one descriptor's recording, instantiation or upload: at most an hour.
pub(super) const MILLISECONDS: Rule = Rule::positive(3.6e6, "milliseconds").or_zero();
/// Of one step: at most 100 seconds.
pub(super) const STEP_US: Rule = Rule::positive(1e8, "microseconds").or_zero();
/// Far beyond the clocks of GPUs to both sides.
pub(super) const MEGAHERTZ: Rule = Rule::positive(10_000.0, "MHz").at_least(10.0);
pub(super) const RANKS: Rule = Rule::positive(1024.0, "a count");
/// Any figure of a profile, and the ends of its interval: narrower ones are among [`super::ranges`].
pub(super) const FIGURE: Rule = Rule::positive((1_u64 << 50) as f64, "a number in the figure's unit").or_zero();
pub(super) const SLOPE: Rule = Rule::positive(1e9, "microseconds a row").or_less();
/// Later over earlier times of the same work: calibrate gives up long before either.
pub(super) const DRIFT: Rule = Rule::positive(1.5, "a ratio near 1").at_least(0.66);
pub(super) const PERCENT: Rule = Rule::positive(1e6, "percent").or_zero();
