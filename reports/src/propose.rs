//! The result of `sim propose`: the best ladders, with reasons and flags.

use serde::{Deserialize, Serialize};

use crate::{
    Better, CandidateReport, Difference, EngineReport, FIGURES, Figure, LadderSizes, Name, PairReport, ProfileReport,
    ScenarioReport, SeedsError, Warning,
};

/// Everything `sim propose` says, as one JSON document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProposeReport {
    /// The scenario that the proposal is for.
    pub scenario: ScenarioReport,
    /// The engine simulated.
    pub engine: EngineReport,
    /// The cost profile, with the provenance of each group used.
    pub profile: ProfileReport,
    /// What to know before trusting the figures.
    pub warnings: Vec<Warning>,
    /// What was asked for.
    pub asked: ProposeQuestion,
    /// How the answer was found.
    pub search: SearchReport,
    /// The answer in one sentence, and in one word for programs.
    pub verdict: ProposeVerdict,
    /// The ladders in force.
    pub current: LadderChoice,
    /// The ladders proposed; equal to `current` where nothing better was found.
    pub proposal: LadderChoice,
    /// Ladders that no other one found beats in the objective, in memory and in start-up alike: from no graphs up.
    pub front: Vec<LadderChoice>,
    /// What each rung of the proposal is worth, list by list, ascending.
    pub rungs: Vec<RungWorth>,
    /// The best single change to the current ladders that takes no more memory; null where no change gains.
    pub one_change: Option<SingleChange>,
    /// How far the load may move before the answer changes.
    pub sensitivity: Vec<Sensitivity>,
    /// The proposal as flags, for each engine version asked for.
    pub flags: Vec<FlagsReport>,
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProposeQuestion {
    /// `goodput`, `p99_tpot` or `device_time`.
    pub objective: Name,
    /// Most device memory of all graphs, bytes; null without a limit.
    pub graph_memory_bytes: Option<u64>,
    /// Longest start-up, s; null without a limit.
    pub startup_s: Option<f64>,
    /// Most descriptors; null without a limit.
    pub descriptors: Option<u32>,
    /// What else was let vary (`--also`), as written; empty without.
    pub also: Vec<String>,
}

/// How the answer was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchReport {
    /// The seeds that ladders were chosen on.
    pub seeds: Vec<u64>,
    /// The seeds that all figures here are from: other traffic than the search saw. Equal to `seeds` where the traffic
    /// draws nothing at random.
    pub check_seeds: Vec<u64>,
    /// Ladders simulated.
    pub ladders: u64,
    /// Runs simulated, all seeds counted.
    pub runs: u64,
    /// Rounds until the histogram of steps stood still, or the search was ended.
    pub rounds: u32,
    /// Whether the search was ended before it was done: the answer is then the best so far.
    pub interrupted: bool,
}

/// The answer in short.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProposeVerdict {
    /// `keep` (the current ladders are fine), `smaller` (others do the same with less), `change`, or `no_graphs`.
    pub kind: Name,
    /// The same for people, with the figures that it rests on.
    pub sentence: String,
}

/// Ladders with what they come to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LadderChoice {
    /// The lists as they would be given to the engine: what the engine makes of them is in `figures.ladders`.
    pub lists: Vec<LadderSizes>,
    /// What else is set (`--also`), as `key = value`; empty without.
    pub settings: Vec<String>,
    /// All figures over `check_seeds`, as `sim run` gives them.
    pub figures: CandidateReport,
    /// Time that steps take, by request: mean step duration times steps over completed requests, ms.
    pub step_ms_per_request: Figure,
    /// Paired differences to the current ladders, [`STEP_MS_PER_REQUEST`] among them; null for those. Exact, with intervals
    /// without width, where the traffic draws nothing at random.
    pub against_current: Option<PairReport>,
}

/// The name of [`LadderChoice::step_ms_per_request`] among the paired differences of choices.
pub const STEP_MS_PER_REQUEST: &str = "step_ms_per_request";

impl LadderChoice {
    /// Ladders with their runs, one a seed; `current` are those of the current ladders on the same traffic, seed by seed. A
    /// single run of traffic that is drawn says nothing: leave `current` out.
    ///
    /// # Errors
    /// [`SeedsError`] as [`CandidateReport::over_seeds`].
    pub fn over_seeds(
        lists: Vec<LadderSizes>,
        settings: Vec<String>,
        runs: &[CandidateReport],
        current: Option<&[CandidateReport]>,
    ) -> Result<Self, SeedsError> {
        let step_ms: Vec<Figure> = runs.iter().map(|run| Figure::from(step_ms_per_request(run))).collect();
        Ok(Self {
            lists,
            settings,
            figures: CandidateReport::over_seeds(runs)?,
            step_ms_per_request: Figure::over_seeds(&step_ms),
            against_current: current.map(|current| Self::pair(current, runs)),
        })
    }

    /// As [`PairReport::between`], with [`STEP_MS_PER_REQUEST`] among the differences; a single run is taken for traffic that
    /// draws nothing at random, and its differences are exact.
    #[must_use]
    pub fn pair(baseline: &[CandidateReport], candidate: &[CandidateReport]) -> PairReport {
        let mut pair = PairReport::between(baseline, candidate);
        let step_ms = |runs: &[CandidateReport]| runs.iter().map(step_ms_per_request).collect::<Option<Vec<f64>>>();
        let step_ms = step_ms(baseline).zip(step_ms(candidate));
        let step_ms = if let ([baseline], [candidate]) = (baseline, candidate) {
            let judged = FIGURES.iter().filter(|spec| spec.better != Better::Neither);
            pair.differences.extend(judged.filter_map(|spec| {
                let (baseline, candidate) = ((spec.get)(baseline).mean()?, (spec.get)(candidate).mean()?);
                Some((spec.name.to_owned(), Difference::exact(spec.better, baseline, candidate)?))
            }));
            step_ms.and_then(|(baseline, candidate)| Difference::exact(Better::Lower, baseline[0], candidate[0]))
        } else {
            step_ms.and_then(|(baseline, candidate)| Difference::paired(Better::Lower, &baseline, &candidate))
        };
        pair.differences.extend(step_ms.map(|difference| (STEP_MS_PER_REQUEST.to_owned(), difference)));
        pair
    }
}

/// Time that the steps of one run take, by completed request, ms; `None` where no request completed.
fn step_ms_per_request(run: &CandidateReport) -> Option<f64> {
    let completed = run.completed.mean().filter(|completed| *completed > 0.0)?;
    Some(run.mean_step_ms.mean()? * run.steps.mean()? / completed)
}

/// What one rung is worth: the proposal against the proposal without it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RungWorth {
    /// `all`, `decode` or `prefill`.
    pub phase: Name,
    /// The size, in the unit of its list.
    pub size: u32,
    /// Share of all steps that run on it.
    pub share_of_steps: f64,
    /// Real rows of the smallest and the largest step that runs on it; null if none does.
    pub rows: Option<[u32; 2]>,
    /// Share of those steps in which everybody decodes.
    pub decode_share: Option<f64>,
    /// With the rung minus without, requests good per second; null where undefined.
    pub request_goodput: Option<Difference>,
    /// With the rung minus without, p99 TPOT, ms.
    pub p99_tpot_ms: Option<Difference>,
    /// With the rung minus without, step time of a request, ms.
    pub step_ms_per_request: Option<Difference>,
    /// With the rung minus without, mean step, ms: what is left to compare where steps are given without requests.
    pub mean_step_ms: Option<Difference>,
    /// Device memory that the rung takes, bytes.
    pub memory_bytes: i64,
    /// Start-up that the rung takes, s.
    pub startup_s: f64,
}

/// One change to the current ladders.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SingleChange {
    /// `add`, `drop` or `shift`.
    pub kind: Name,
    /// `all`, `decode` or `prefill`.
    pub phase: Name,
    /// The size that goes; null for `add`.
    pub from: Option<u32>,
    /// The size that comes; null for `drop`.
    pub to: Option<u32>,
    /// The ladders after the change.
    pub choice: LadderChoice,
}

/// What happens to the answer as one thing about the load or the machine moves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sensitivity {
    /// `rate`, `lengths`, `padding_cost` or `launch_cost`.
    pub what: Name,
    /// Factors tried, ascending, 1 left out.
    pub points: Vec<SensitivityPoint>,
    /// Smallest and largest factor, 1 included, between which the answer stands at every factor tried.
    pub holds: [f64; 2],
}

/// One factor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SensitivityPoint {
    /// The factor.
    pub factor: f64,
    /// The proposal against the current ladders there: `better`, `worse`, `equal` or `not_distinguishable`, by the objective
    /// and, where that cannot tell, by what comes after it.
    pub verdict: Name,
    /// By how much more the steps there cost on the proposal than on the best ladders of as many sizes for them, share.
    pub regret: f64,
}

/// The proposal as flags of one engine version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlagsReport {
    /// The engine and its version.
    pub target: String,
    /// Environment variables that the server needs, as `NAME=value`; mostly none.
    pub environment: Vec<String>,
    /// The flags, one shell line, to be put behind the server's command; empty where the engine does the same without any.
    pub shell: String,
    /// The file that a flag names; null where the flags say all.
    pub file: Option<FlagsFile>,
    /// The same as the engine's own JSON.
    pub json: serde_json::Value,
    /// What to know when pasting them.
    pub notes: Vec<String>,
    /// Whether the engine, by its own rules, makes exactly the graphs of the proposal from these flags; null where it is not
    /// simulated.
    pub exact: Option<bool>,
}

/// A configuration file that flags name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlagsFile {
    /// Its name.
    pub name: String,
    /// Its text.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;

    fn run(mean_step_ms: f64, completed: u64) -> CandidateReport {
        CandidateReport {
            name: "current".into(),
            steps: 200_u64.into(),
            mean_step_ms: mean_step_ms.into(),
            completed: completed.into(),
            ..CandidateReport::default()
        }
    }

    #[test]
    fn step_time_of_a_request_is_compared_seed_by_seed() {
        let (current, faster) = ([run(10.0, 100), run(30.0, 100)], [run(9.0, 100), run(28.9, 100)]);
        let choice = LadderChoice::over_seeds(vec![], vec![], &faster, Some(&current)).expect("one candidate");
        assert_eq!(choice.step_ms_per_request.mean(), Some(37.9));
        let pair = choice.against_current.expect("two seeds");
        let difference = pair.differences[STEP_MS_PER_REQUEST];
        assert!((difference.mean - -2.1).abs() < 1e-9, "{difference:?}");
        assert_eq!(difference.verdict, Verdict::Better, "less time is better");
    }

    #[test]
    fn one_run_is_compared_exactly_and_without_requests_there_is_no_time_of_one() {
        let choice = LadderChoice::over_seeds(vec![], vec![], &[run(9.0, 100)], Some(&[run(10.0, 90)]));
        let choice = choice.expect("one run");
        assert_eq!(choice.step_ms_per_request, Figure::Value(18.0));
        let pair = choice.against_current.expect("there are current ladders");
        let exactly = |name: &str| (pair.differences[name].mean, pair.differences[name].verdict);
        assert_eq!(exactly("mean_step_ms"), (-1.0, Verdict::Better));
        assert_eq!(exactly("completed"), (10.0, Verdict::Better));
        assert_eq!(pair.differences["mean_step_ms"].low.to_bits(), pair.differences["mean_step_ms"].high.to_bits());
        assert!(!pair.differences.contains_key("steps"), "no side of it is better");
        let pair = LadderChoice::pair(&[run(9.0, 100), run(9.0, 0)], &[run(9.0, 100), run(9.0, 100)]);
        assert!(!pair.differences.contains_key(STEP_MS_PER_REQUEST));
        assert!(LadderChoice::over_seeds(vec![], vec![], &[], None).is_err());
    }

    #[test]
    fn exact_differences_know_which_side_is_better() {
        let verdict =
            |better, candidate| Difference::exact(better, 2.0, candidate).map(|difference| difference.verdict);
        assert_eq!(verdict(Better::Higher, 3.0), Some(Verdict::Better));
        assert_eq!(verdict(Better::Higher, 1.0), Some(Verdict::Worse));
        assert_eq!(verdict(Better::Lower, 1.0), Some(Verdict::Better));
        assert_eq!(verdict(Better::Lower, 3.0), Some(Verdict::Worse));
        assert_eq!(verdict(Better::Lower, 2.0), Some(Verdict::Equal));
        assert_eq!(verdict(Better::Lower, f64::NAN), None);
    }
}
