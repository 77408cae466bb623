//! What is said of the best ladders found, in a word and in a sentence.

use reports::{CandidateReport, ProposeVerdict};

use super::objective::Objective;
use super::verdict::Outcome;

/// The ladders in force stay.
pub const KEEP: &str = "keep";
/// Others do the same with less memory.
pub const SMALLER: &str = "smaller";
/// Others are better.
pub const CHANGE: &str = "change";
/// Graphs do not pay, or none fits.
pub const NO_GRAPHS: &str = "no_graphs";

/// Ladders that serve alike are worth a restart if they spare so much of the graph memory.
const SPARED_MIN: f64 = 0.1;

/// The best ladders found beside those in force, on the same requests.
#[derive(Clone, Copy, Debug)]
pub struct Candidates<'a> {
    /// What they were chosen by.
    pub objective: Objective,
    /// The ladders in force keep within the budget.
    pub is_within: bool,
    /// Both are the same server.
    pub is_same: bool,
    /// The best ones have some graph.
    pub has_graphs: bool,
    /// Runs with the ladders in force.
    pub current: &'a [CandidateReport],
    /// Runs with the best ones.
    pub proposed: &'a [CandidateReport],
}

impl Candidates<'_> {
    /// Which of them to run, and why.
    #[must_use]
    pub fn verdict(&self) -> ProposeVerdict {
        let (kind, sentence) = self.decided();
        ProposeVerdict { kind: kind.into(), sentence }
    }

    fn decided(&self) -> (&'static str, String) {
        let outcome = Outcome::of(self.objective, self.current, self.proposed);
        let memory =
            |runs: &[CandidateReport]| runs.first().and_then(|run| run.graph_memory_bytes.mean()).unwrap_or(0.0);
        let (before, after) = (memory(self.current), memory(self.proposed));
        let spared = before - after;
        let or_none = |kind| if self.has_graphs { kind } else { NO_GRAPHS };
        if self.is_same {
            return (KEEP, "The ladder in force is fine: no other one that was tried is better.".to_owned());
        }
        if !self.is_within {
            let what = if self.has_graphs {
                "The ladder in force is beyond the budget; the proposal keeps within it"
            } else {
                "The ladder in force is beyond the budget, and within it no graphs at all are best"
            };
            return (or_none(CHANGE), format!("{what}{}.", beside(outcome)));
        }
        match outcome {
            Outcome::Better(quantity, gain) => {
                let what = if self.has_graphs { "Change the ladder" } else { "Run without graphs" };
                (or_none(CHANGE), format!("{what}: {} {}{}.", quantity.gained(), percent(gain), with_memory(spared)))
            }
            Outcome::Worse(..) => {
                let words =
                    "The ladder in force is fine: what looked better during the search was not so on other requests.";
                (KEEP, words.to_owned())
            }
            Outcome::Alike if spared > SPARED_MIN * before => {
                let what = if self.has_graphs { "A smaller ladder does" } else { "No graphs at all do" };
                let spared = gib(spared);
                (or_none(SMALLER), format!("{what} the same as the one in force, with {spared} less graph memory."))
            }
            Outcome::Alike => {
                let words = "The ladder in force is fine: the gain of the best one found is below the noise.";
                (KEEP, words.to_owned())
            }
        }
    }
}

fn beside(outcome: Outcome) -> String {
    match outcome {
        Outcome::Better(quantity, gain) => format!(", and {} {}", quantity.gained(), percent(gain)),
        Outcome::Worse(quantity, loss) => format!(", at {} {}", quantity.lost(), percent(loss)),
        Outcome::Alike => ", and serves alike".to_owned(),
    }
}

/// What a change does to the memory of graphs.
fn with_memory(spared: f64) -> String {
    const SEEN: f64 = 0.005 * (1_u64 << 30) as f64;
    if spared.abs() < SEEN {
        String::new()
    } else if spared > 0.0 {
        format!(", with {} less graph memory", gib(spared))
    } else {
        format!(", for {} more graph memory", gib(-spared))
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn gib(bytes: f64) -> String {
    format!("{:.2} GiB", bytes / f64::from(1 << 30))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of so much goodput, with so many GiB of graphs.
    fn runs(goodput: [f64; 4], gib: f64) -> Vec<CandidateReport> {
        goodput
            .map(|goodput| CandidateReport {
                request_goodput: goodput.into(),
                graph_memory_bytes: (gib * f64::from(1 << 30)).into(),
                ..CandidateReport::default()
            })
            .to_vec()
    }

    fn said(current: &[CandidateReport], proposed: &[CandidateReport], has_graphs: bool) -> ProposeVerdict {
        let (objective, is_within, is_same) = (Objective::Goodput, true, false);
        Candidates { objective, is_within, is_same, has_graphs, current, proposed }.verdict()
    }

    #[test]
    fn a_gain_beyond_the_noise_is_a_change() {
        let current = runs([5.0, 6.0, 5.5, 5.2], 2.0);
        let better = runs([5.2, 6.21, 5.68, 5.4], 1.0);
        let verdict = said(&current, &better, true);
        assert_eq!(verdict.kind, CHANGE);
        assert_eq!(verdict.sentence, "Change the ladder: goodput rises by 3.6 %, with 1.00 GiB less graph memory.");
        assert_eq!(said(&current, &better, false).kind, NO_GRAPHS);
        assert_eq!(said(&better, &current, true).kind, KEEP, "worse on other requests");
    }

    #[test]
    fn a_gain_within_the_noise_is_none_but_less_memory_is() {
        let current = runs([5.0, 6.0, 5.5, 5.2], 2.0);
        let noisy = |gib| runs([5.3, 5.8, 5.9, 5.1], gib);
        assert_eq!(said(&current, &noisy(2.0), true).kind, KEEP);
        assert_eq!(said(&current, &noisy(1.9), true).kind, KEEP, "a twentieth less memory is not worth a restart");
        assert_eq!(said(&current, &noisy(1.0), true).kind, SMALLER);
        assert_eq!(said(&current, &noisy(0.0), false).kind, NO_GRAPHS);
        let slightly = runs([5.01, 6.012, 5.511, 5.2104], 2.0);
        assert_eq!(said(&current, &slightly, true).kind, KEEP, "seen, but below half a percent");
    }

    #[test]
    fn beyond_the_budget_something_has_to_give() {
        let (current, proposed) = (runs([5.0, 6.0, 5.5, 5.2], 2.0), runs([4.5, 5.4, 4.95, 4.68], 0.5));
        let all = Candidates {
            objective: Objective::Goodput,
            is_within: false,
            is_same: false,
            has_graphs: true,
            current: &current,
            proposed: &proposed,
        };
        let verdict = all.verdict();
        assert_eq!(verdict.kind, CHANGE);
        assert!(verdict.sentence.ends_with("keeps within it, at a goodput lower by 10.0 %."), "{}", verdict.sentence);
        assert_eq!(Candidates { has_graphs: false, ..all }.verdict().kind, NO_GRAPHS);
        assert_eq!(Candidates { is_same: true, ..all }.verdict().kind, KEEP);
    }
}
