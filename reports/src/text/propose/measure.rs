//! What choices are compared by: the figures of a run, and the step time of a request.

use super::{interval_and_verdict, number};
use crate::figures::figure;
use crate::{Difference, Figure, LadderChoice, RungWorth, STEP_MS_PER_REQUEST, Scale, Verdict};

/// One figure of a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    /// That of a run, by its name.
    Figure(&'static str),
    /// [`LadderChoice::step_ms_per_request`].
    StepTime,
}

impl Measure {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Figure(name) => name,
            Self::StepTime => STEP_MS_PER_REQUEST,
        }
    }

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Figure(name) => figure(name).label,
            Self::StepTime => "steps of a request, ms",
        }
    }

    pub(super) fn scale(self) -> Scale {
        match self {
            Self::Figure(name) => figure(name).scale,
            Self::StepTime => Scale::Plain,
        }
    }

    pub(super) fn of(self, choice: &LadderChoice) -> Figure {
        match self {
            Self::Figure(name) => *(figure(name).get)(&choice.figures),
            Self::StepTime => choice.step_ms_per_request,
        }
    }

    /// The paired difference of a choice to the current ladders, over two lines; `None` where there is none.
    pub(super) fn against_current(self, choice: &LadderChoice, current: &LadderChoice) -> Option<String> {
        let difference = choice.against_current.as_ref()?.differences.get(self.name())?;
        Some(interval_and_verdict(difference, self.scale(), self.of(current).mean()))
    }

    /// What a rung is worth by it; `None` for what rungs are not weighed by.
    pub(super) fn worth(self, rung: &RungWorth) -> Option<Difference> {
        match self {
            Self::Figure("request_goodput") => rung.request_goodput,
            Self::Figure("p99_tpot_ms") => rung.p99_tpot_ms,
            Self::Figure("mean_step_ms") => rung.mean_step_ms,
            Self::Figure(_) => None,
            Self::StepTime => rung.step_ms_per_request,
        }
    }
}

/// Differences in one column, with their signs and one precision; `-` for those that are not there.
pub(super) fn column(differences: &[Option<Difference>], scale: Scale) -> Vec<String> {
    let interval = |difference: &Option<Difference>| {
        difference.map_or(Figure::Undefined, |Difference { mean, low, high, .. }| {
            Figure::Interval(crate::Interval { mean, low, high })
        })
    };
    let figures: Vec<Figure> = differences.iter().map(interval).collect();
    let is_above = |difference: &Option<Difference>| difference.is_some_and(|difference| difference.mean > 0.0);
    let signs = differences.iter().map(|difference| if is_above(difference) { "+" } else { "" });
    number::row(&figures, scale).into_iter().zip(signs).map(|(cell, sign)| format!("{sign}{cell}")).collect()
}

/// What several differences say together: the first that can tell decides. `None` if there is none.
pub(super) fn first_verdict(differences: impl IntoIterator<Item = Option<Difference>>) -> Option<Verdict> {
    let verdicts: Vec<Verdict> = differences.into_iter().flatten().map(|difference| difference.verdict).collect();
    let tells = |verdict: &&Verdict| matches!(verdict, Verdict::Better | Verdict::Worse);
    let doubtful = |verdict: &&Verdict| **verdict == Verdict::NotDistinguishable;
    verdicts.iter().find(tells).or_else(|| verdicts.iter().find(doubtful)).or(verdicts.first()).copied()
}
