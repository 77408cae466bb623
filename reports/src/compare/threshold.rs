//! `--fail-if`: by how much a figure may get worse.

use std::str::FromStr;

use thiserror::Error;

use super::{CompareError, ComparedPair, ThresholdReport};
use crate::{Better, FIGURES, FigureSpec, Verdict};

/// How far a figure may get worse.
///
/// A pair *regresses* if its mean over the common seeds is worse by more than this, and the 95 % interval of the paired
/// difference does not hold zero. Where it holds zero, these seeds do not tell the two apart: that is no regression, and is
/// said. With one seed the difference is exact, and the first condition decides alone.
#[derive(Clone, Debug)]
pub struct Threshold {
    text: String,
    spec: &'static FigureSpec,
    limit: Limit,
}

/// The limit itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// Percent of the baseline's mean.
    Percent(f64),
    /// The figure's own unit.
    Absolute(f64),
}

/// A threshold that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ThresholdError(String);

impl FromStr for Threshold {
    type Err = ThresholdError;

    fn from_str(text: &str) -> Result<Self, ThresholdError> {
        let wrong = |problem: String| Err(ThresholdError(problem));
        let Some((name, limit)) = text.split_once('=') else {
            return wrong("expected FIGURE=LIMIT, for example request_goodput=2%".to_owned());
        };
        let name = name.trim();
        let Some(spec) = FIGURES.iter().find(|spec| spec.name == name) else {
            return wrong(format!("there is no figure `{name}`{}", nearest(name)));
        };
        if spec.better == Better::Neither {
            return wrong(format!("neither side of `{name}` is better by itself, so it cannot regress"));
        }
        let limit = limit.trim();
        let (digits, percent) = limit.strip_suffix('%').map_or((limit, false), |digits| (digits.trim_end(), true));
        match digits.parse::<f64>() {
            Ok(value) if value.is_finite() && value >= 0.0 => {
                let limit = if percent { Limit::Percent(value) } else { Limit::Absolute(value) };
                Ok(Self { text: text.to_owned(), spec, limit })
            }
            _ => wrong(format!(
                "`{limit}` is no limit: expected percent of the baseline (2%) or a number of {} (0.5), 0 or more",
                spec.unit
            )),
        }
    }
}

/// Figures whose names hold what was written, or begin alike.
fn nearest(name: &str) -> String {
    let alike = |spec: &&FigureSpec| {
        spec.better != Better::Neither
            && !name.is_empty()
            && (spec.name.contains(name) || name.split('_').any(|word| word.len() > 3 && spec.name.contains(word)))
    };
    let names: Vec<&str> = FIGURES.iter().filter(alike).map(|spec| spec.name).take(5).collect();
    if names.is_empty() {
        "; the names are the columns of --format csv".to_owned()
    } else {
        format!("; is it {}?", names.join(" or "))
    }
}

impl Threshold {
    /// What comes of it for one pair.
    ///
    /// # Errors
    /// The figure is not defined in both at every seed: what was asked for cannot be checked.
    pub(super) fn judge(&self, pair: &ComparedPair) -> Result<ThresholdReport, CompareError> {
        let found = pair.figures.iter().find(|figure| figure.figure == self.spec.name).ok_or_else(|| {
            CompareError::new(
                format!(
                    "--fail-if {}: `{}` is not defined at every seed for `{}` and `{}`",
                    self.text, self.spec.name, pair.baseline, pair.candidate
                ),
                "choose a figure that both have; goodput needs an SLO, for instance",
            )
        })?;
        let sign = if self.spec.better == Better::Higher { -1.0 } else { 1.0 };
        let worse_by = sign * found.difference.mean + 0.0;
        let worse_by_percent = found.percent().map(|percent| sign * percent + 0.0);
        let beyond = match self.limit {
            // Of nothing any worsening is more than every share.
            Limit::Percent(limit) => worse_by_percent.map_or(worse_by > 0.0, |percent| percent > limit),
            Limit::Absolute(limit) => worse_by > limit,
        };
        let outcome = match (beyond, found.difference.verdict) {
            (false, _) => "kept",
            (true, Verdict::NotDistinguishable) => "unproven",
            (true, _) => "regressed",
        };
        Ok(ThresholdReport {
            threshold: self.text.clone(),
            figure: self.spec.name.to_owned(),
            baseline: pair.baseline.clone(),
            candidate: pair.candidate.clone(),
            worse_by,
            worse_by_percent,
            outcome: outcome.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ComparedFigure, Difference};

    fn parsed(text: &str) -> Threshold {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn pair(name: &'static str, baseline: &[f64], candidate: &[f64]) -> ComparedPair {
        let better = crate::figures::figure(name).better;
        let difference = match (baseline, candidate) {
            ([one], [other]) => Difference::exact(better, *one, *other),
            _ => Difference::paired(better, baseline, candidate),
        };
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let figure = ComparedFigure {
            figure: name.into(),
            baseline: mean(baseline),
            candidate: mean(candidate),
            difference: difference.expect("finite"),
        };
        ComparedPair { baseline: "a".into(), candidate: "b".into(), figures: vec![figure] }
    }

    fn outcome(threshold: &str, pair: &ComparedPair) -> String {
        parsed(threshold).judge(pair).expect("defined").outcome.into_owned()
    }

    #[test]
    fn a_regression_is_beyond_the_limit_and_told_apart() {
        let slower = pair("p99_tpot_ms", &[100.0, 102.0, 98.0], &[103.0, 105.2, 101.0]);
        assert_eq!(outcome("p99_tpot_ms=2%", &slower), "regressed");
        assert_eq!(outcome("p99_tpot_ms=4%", &slower), "kept");
        assert_eq!(outcome("p99_tpot_ms=3", &slower), "regressed", "3.07 ms are more than 3");
        assert_eq!(outcome("p99_tpot_ms=3.1", &slower), "kept");
        let scattered = pair("p99_tpot_ms", &[100.0, 100.0, 100.0], &[90.0, 100.0, 130.0]);
        assert_eq!(outcome("p99_tpot_ms=2%", &scattered), "unproven");
        let faster = pair("p99_tpot_ms", &[100.0, 102.0], &[90.0, 92.1]);
        assert_eq!(outcome("p99_tpot_ms=0%", &faster), "kept");
    }

    #[test]
    fn the_worse_side_is_that_of_the_figure() {
        let less = pair("request_goodput", &[4.0], &[3.9]);
        let judged = parsed("request_goodput=2%").judge(&less).expect("defined");
        assert_eq!(judged.outcome, "regressed");
        assert!(
            (judged.worse_by - 0.1).abs() < 1e-9 && judged.worse_by_percent.is_some_and(|p| (p - 2.5).abs() < 1e-9)
        );
        assert_eq!(outcome("request_goodput=0%", &pair("request_goodput", &[4.0], &[4.0])), "kept");
    }

    #[test]
    fn of_nothing_any_worsening_is_too_much() {
        assert_eq!(outcome("preemptions=50%", &pair("preemptions", &[0.0], &[1.0])), "regressed");
        assert_eq!(outcome("preemptions=50%", &pair("preemptions", &[0.0], &[0.0])), "kept");
    }

    #[test]
    fn what_cannot_be_checked_is_refused() {
        for (text, part) in [
            ("request_goodput", "expected FIGURE=LIMIT"),
            ("goodput=2%", "is it request_goodput?"),
            ("nonsense=2%", "columns of --format csv"),
            ("steps=2%", "neither side"),
            ("p99_tpot_ms=-1", "no limit"),
            ("p99_tpot_ms=NaN%", "no limit"),
            ("p99_tpot_ms=", "no limit"),
        ] {
            let error = text.parse::<Threshold>().expect_err(text);
            assert!(error.to_string().contains(part), "{text}: {error}");
        }
        let error = parsed("request_goodput=1%").judge(&pair("p99_tpot_ms", &[1.0], &[1.0])).expect_err("undefined");
        assert!(error.message.contains("not defined at every seed"), "{error}");
    }
}
