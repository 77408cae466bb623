//! What makes one server better than another: first the objective, then the others in their order.

use std::fmt;
use std::str::FromStr;

use reports::CandidateReport;

/// What a proposal is best in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Objective {
    /// Requests good per second, then p99 TPOT, then step time. Without an SLO every request is good: then it is throughput.
    #[default]
    Goodput,
    /// p99 TPOT, then goodput, then step time.
    P99Tpot,
    /// Step time, then goodput, then p99 TPOT.
    DeviceTime,
}

/// One of the quantities that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Quantity {
    /// Requests good per second; without an SLO all that are served.
    Goodput,
    /// 99th percentile of the time per output token, in ms.
    P99Tpot,
    /// Time that steps take, by request, in ms; of a histogram of steps, which serves no request, by step.
    StepTime,
}

impl Objective {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Goodput, Self::P99Tpot, Self::DeviceTime];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Goodput => "goodput",
            Self::P99Tpot => "p99_tpot",
            Self::DeviceTime => "device_time",
        }
    }

    /// What is compared, in this order.
    #[must_use]
    pub const fn order(self) -> [Quantity; 3] {
        use Quantity::{Goodput, P99Tpot, StepTime};
        match self {
            Self::Goodput => [Goodput, P99Tpot, StepTime],
            Self::P99Tpot => [P99Tpot, Goodput, StepTime],
            Self::DeviceTime => [StepTime, Goodput, P99Tpot],
        }
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Objective {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|objective| objective.name() == text)
            .ok_or_else(|| format!("expected {}, found `{text}`", Self::ALL.map(Self::name).join(", ")))
    }
}

impl Quantity {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Goodput, Self::P99Tpot, Self::StepTime];

    /// The figure of one run; `None` where it is undefined, as all but step time are for a histogram of steps.
    #[must_use]
    pub fn of(self, run: &CandidateReport) -> Option<f64> {
        match self {
            Self::Goodput => run.request_goodput.mean().or_else(|| run.request_throughput.mean()),
            Self::P99Tpot => run.p99_tpot_ms.mean(),
            Self::StepTime => {
                let step_ms = run.mean_step_ms.mean()?;
                match run.completed.mean().filter(|&completed| completed > 0.0) {
                    Some(completed) => Some(step_ms * run.steps.mean()? / completed),
                    None => Some(step_ms),
                }
            }
        }
    }

    /// The figure in every run; `None` if some run leaves it undefined.
    #[must_use]
    pub fn of_all(self, runs: &[CandidateReport]) -> Option<Vec<f64>> {
        runs.iter().map(|run| self.of(run)).collect()
    }

    /// The mean over all runs.
    #[must_use]
    pub fn mean(self, runs: &[CandidateReport]) -> Option<f64> {
        let of_all = self.of_all(runs).filter(|of_all| !of_all.is_empty())?;
        Some(of_all.iter().sum::<f64>() / of_all.len() as f64)
    }

    /// Whether more is better.
    #[must_use]
    pub const fn is_gain(self) -> bool {
        matches!(self, Self::Goodput)
    }

    /// Servers that differ by less than this share are taken to be alike while the search chooses: less than a restart is
    /// worth ([`GAIN_MIN`](super::verdict::GAIN_MIN)), and about what some seeds leave open.
    const fn alike(self) -> f64 {
        match self {
            Self::Goodput | Self::StepTime => 0.002,
            Self::P99Tpot => 0.01,
        }
    }

    /// By what share `value` is worse than `best`; negative if it is better.
    #[must_use]
    pub fn loss(self, best: f64, value: f64) -> f64 {
        let more = if self.is_gain() { best - value } else { value - best };
        if best == 0.0 && more != 0.0 {
            more.signum() * f64::INFINITY
        } else if more == 0.0 {
            0.0
        } else {
            more / best.abs()
        }
    }
}

/// The place of the best of some servers, each with its runs: of those that are alike in the first quantity the best in the
/// second, and so on; of those alike in all the one that `price` says is cheapest, then the first. `None` of none.
pub fn best_of<K: Ord>(
    objective: Objective,
    servers: &[(usize, &[CandidateReport])],
    price: impl Fn(&CandidateReport) -> K,
) -> Option<usize> {
    let mut left: Vec<(usize, &[CandidateReport])> = servers.to_vec();
    for quantity in objective.order() {
        let all = left.iter().filter_map(|(_, runs)| quantity.mean(runs));
        let best = all.reduce(|one, other| if quantity.loss(one, other) < 0.0 { other } else { one });
        let Some(best) = best else { continue };
        let is_alike = |value| quantity.loss(best, value) <= quantity.alike();
        left.retain(|(_, runs)| quantity.mean(runs).is_some_and(is_alike));
    }
    left.into_iter().min_by_key(|(place, runs)| (runs.first().map(&price), *place)).map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(goodput: f64, p99_tpot_ms: f64, step_ms: f64) -> Vec<CandidateReport> {
        vec![CandidateReport {
            request_goodput: goodput.into(),
            p99_tpot_ms: p99_tpot_ms.into(),
            mean_step_ms: step_ms.into(),
            steps: 1000_u64.into(),
            completed: 100_u64.into(),
            ..CandidateReport::default()
        }]
    }

    fn best(objective: Objective, all: &[Vec<CandidateReport>], price: &[u32]) -> Option<usize> {
        let servers: Vec<(usize, &[CandidateReport])> =
            all.iter().enumerate().map(|(place, runs)| (place, runs.as_slice())).collect();
        let of = |run: &CandidateReport| all.iter().position(|runs| runs[0] == *run).map(|place| price[place]);
        best_of(objective, &servers, of)
    }

    #[test]
    fn the_next_quantity_decides_among_those_alike_and_the_price_last() {
        let all = [runs(5.0, 40.0, 10.0), runs(4.995, 30.0, 11.0), runs(4.0, 20.0, 1.0), runs(5.0, 30.1, 11.0)];
        assert_eq!(best(Objective::Goodput, &all, &[1, 2, 1, 1]), Some(3), "as the second, and cheaper");
        assert_eq!(best(Objective::Goodput, &all, &[1, 1, 1, 2]), Some(1));
        assert_eq!(best(Objective::P99Tpot, &all, &[1; 4]), Some(2));
        assert_eq!(best(Objective::DeviceTime, &all, &[1; 4]), Some(2));
        assert_eq!(best(Objective::Goodput, &[], &[]), None);
    }

    #[test]
    fn what_is_undefined_decides_nothing() {
        let mut all = [runs(5.0, 40.0, 10.0), runs(9.0, 30.0, 10.0)];
        for runs in &mut all {
            runs[0].request_goodput = reports::Figure::Undefined;
        }
        assert_eq!(best(Objective::Goodput, &all, &[1, 1]), Some(1));
        assert_eq!(Quantity::StepTime.mean(&all[0]), Some(100.0));
        all[0][0].completed = reports::Figure::Undefined;
        assert_eq!(Quantity::StepTime.mean(&all[0]), Some(10.0), "by step where no request is served");
    }

    #[test]
    fn a_loss_is_positive_where_it_is_worse() {
        assert!(Quantity::Goodput.loss(5.0, 4.0) > 0.0 && Quantity::P99Tpot.loss(5.0, 4.0) < 0.0);
        assert!(Quantity::Goodput.loss(0.0, 0.0).abs() < 1e-9 && Quantity::P99Tpot.loss(0.0, 1.0) > 1e9);
        assert!(Quantity::Goodput.loss(0.0, 6.0) < -1e9, "a gain from nothing");
    }
}
