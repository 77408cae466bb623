//! `--probe-rules`: the rule table performed on a driver, each misuse in a process of its own.

mod child;
mod guard;
mod report;

pub(crate) use child::{COMMAND, answer, perform_here, run};
pub(crate) use guard::{Shared, refuse_beside_others, shares_faults};
pub(crate) use report::{Probe, ProbedOn, table, write};

use crate::driver_rules::{CaptureAfter, Outcome, Rule};

/// What became of a misuse on the driver that was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Got {
    /// The call returned.
    Returned {
        /// Its `CUresult`.
        status: u32,
        /// What became of the capture.
        capture: CaptureAfter,
        /// Whether the context still works.
        context_survives: bool,
    },
    /// The process died of this signal.
    Crashed {
        /// Its number.
        signal: i32,
    },
    /// The call did not return in time.
    TimedOut,
    /// The misuse could not be performed, for this reason.
    NotTried(String),
}

/// How an outcome and the rule's expectation compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The rule holds on this driver.
    Agrees,
    /// It does not.
    Differs,
    /// It was not tried.
    Unknown,
}

impl Got {
    /// Compares with a rule.
    pub(crate) fn verdict(&self, rule: &Rule) -> Verdict {
        let agrees = match (self, rule.outcome) {
            (Self::NotTried(_), _) => return Verdict::Unknown,
            (Self::Returned { status, capture, context_survives }, Outcome::Returns(expected)) => {
                (*status, *capture, *context_survives) == (expected, rule.capture, rule.context_survives)
            }
            (Self::Crashed { .. }, Outcome::Crashes) => true,
            _ => false,
        };
        if agrees { Verdict::Agrees } else { Verdict::Differs }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver_rules::Misuse;

    #[test]
    fn a_rule_agrees_in_everything_or_not_at_all() {
        let rule = Misuse::AllocateInCapture.rule();
        let got = |status, capture, context_survives| Got::Returned { status, capture, context_survives };
        assert_eq!(got(900, CaptureAfter::Invalidated, true).verdict(rule), Verdict::Agrees);
        for other in [
            got(901, CaptureAfter::Invalidated, true),
            got(900, CaptureAfter::Intact, true),
            got(900, CaptureAfter::Invalidated, false),
            Got::Crashed { signal: 11 },
            Got::TimedOut,
        ] {
            assert_eq!(other.verdict(rule), Verdict::Differs, "{other:?}");
        }
        assert_eq!(Got::NotTried(String::new()).verdict(rule), Verdict::Unknown);
        let crash = Misuse::UnknownStream.rule();
        assert_eq!(Got::Crashed { signal: 6 }.verdict(crash), Verdict::Agrees);
        assert_eq!(got(400, CaptureAfter::None, true).verdict(crash), Verdict::Differs);
    }
}
