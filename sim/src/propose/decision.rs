//! What is said of the best ladders found, in a word and in a sentence.

use reports::text::factor;
use reports::{Better, CandidateReport, Difference, ProposeVerdict, Verdict};

use super::objective::{Objective, Quantity};
use super::verdict::{Outcome, losses};

/// The ladders in force stay.
pub const KEEP: &str = "keep";
/// Others do the same with less memory.
pub const SMALLER: &str = "smaller";
/// Others are better.
pub const CHANGE: &str = "change";
/// Graphs do not pay, or none fits.
pub const NO_GRAPHS: &str = "no_graphs";

/// A wait for the first token that is longer, or a KV pool that is smaller, by this share is said.
const PRICE_MIN: f64 = 0.05;
/// Ladders that serve alike are worth a restart if they spare so much of the graph memory.
const SPARED_MIN: f64 = 0.1;

/// Which ladders the best ones are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Best {
    /// Those in force: no others were tried.
    Untried,
    /// Those in force.
    InForce,
    /// Others.
    Other,
}

/// The best ladders found beside those in force, on the same requests.
#[derive(Clone, Copy, Debug)]
pub struct Candidates<'a> {
    /// What they were chosen by.
    pub objective: Objective,
    /// Some requests may be served and not be good.
    pub has_slo: bool,
    /// What the best ones set beside their ladders.
    pub settings: &'a [String],
    /// The ladders in force keep within the budget.
    pub is_within: bool,
    /// Which ladders the best ones are.
    pub best: Best,
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
        if self.best == Best::Untried {
            return (KEEP, "No other ladder was tried: keep the one in force until one is.".to_owned());
        }
        if self.best == Best::InForce {
            return (
                KEEP,
                "The ladder in force is fine: no other one that was tried is better by half a percent.".to_owned(),
            );
        }
        if !self.is_within {
            let what = if self.has_graphs {
                "The ladder in force is beyond the budget; the proposal keeps within it"
            } else {
                "The ladder in force is beyond the budget, and within it no graphs at all are best"
            };
            return (or_none(CHANGE), format!("{what}{}{}{}.", self.set(), self.beside(outcome), self.price()));
        }
        match outcome {
            Outcome::Better(..) => {
                let what = if self.has_graphs { "Change the ladder" } else { "Run without graphs" };
                let all = losses(self.objective, self.current, self.proposed).into_iter();
                let gained = all.filter(|&(_, loss)| loss < 0.0);
                let gained: Vec<String> = gained.map(|(quantity, loss)| moved(self.gained(quantity), -loss)).collect();
                let gained = listed(&gained);
                let (set, memory, price) = (self.set(), with_memory(spared), self.price());
                (or_none(CHANGE), format!("{what}{set}: {gained}{memory}{price}."))
            }
            Outcome::Worse(..) => {
                let words =
                    "The ladder in force is fine: what looked better during the search was not so on other requests.";
                (KEEP, words.to_owned())
            }
            Outcome::Alike if spared > SPARED_MIN * before => {
                let what = if self.has_graphs { "A smaller ladder" } else { "No graphs at all" };
                let (set, spared, price) = (self.set(), gib(spared), self.price());
                let does = if self.has_graphs { "does" } else { "do" };
                let words =
                    format!("{what}{set} {does} the same as the one in force, with {spared} less graph memory{price}.");
                (or_none(SMALLER), words)
            }
            Outcome::Alike => {
                let words = "The ladder in force is fine: the gain of the best one found is below the noise, or below half a percent.";
                (KEEP, words.to_owned())
            }
        }
    }

    /// What is set beside the ladder.
    fn set(&self) -> String {
        if self.settings.is_empty() { String::new() } else { format!(" with {}", self.settings.join(", ")) }
    }

    /// What is worse: quantities of the objective, and what an operator would notice beside them: a longer wait for the first
    /// token, and a smaller KV pool.
    fn price(&self) -> String {
        let later = worse_by(self.current, self.proposed, Better::Lower, |run| run.p99_ttft_ms.mean());
        let smaller = worse_by(self.current, self.proposed, Better::Higher, |run| run.kv_tokens.mean());
        let others = [(later, "p99 TTFT rises by"), (smaller, "the KV pool shrinks by")];
        let others = others
            .into_iter()
            .filter_map(|(share, words)| Some(moved(words, share.filter(|&share| share >= PRICE_MIN)?)));
        let lost = losses(self.objective, self.current, self.proposed).into_iter().filter(|&(_, loss)| loss > 0.0);
        let lost = lost.map(|(quantity, loss)| moved(self.lost(quantity), loss));
        let said: Vec<String> = lost.chain(others).collect();
        if said.is_empty() { String::new() } else { format!("; but {}", listed(&said)) }
    }

    fn beside(&self, outcome: Outcome) -> String {
        match outcome {
            Outcome::Better(quantity, gain) => format!("; {}", moved(self.gained(quantity), gain)),
            Outcome::Worse(..) => String::new(),
            Outcome::Alike => "; both serve alike".to_owned(),
        }
    }

    fn gained(&self, quantity: Quantity) -> &'static str {
        match quantity {
            Quantity::Goodput if self.has_slo => "goodput rises by",
            Quantity::Goodput => "throughput rises by",
            Quantity::P99Tpot => "p99 TPOT falls by",
            Quantity::StepTime => "step time falls by",
        }
    }

    fn lost(&self, quantity: Quantity) -> &'static str {
        match quantity {
            Quantity::Goodput if self.has_slo => "goodput falls by",
            Quantity::Goodput => "throughput falls by",
            Quantity::P99Tpot => "p99 TPOT rises by",
            Quantity::StepTime => "step time rises by",
        }
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

/// By what share a figure is worse in the later runs; `None` if it is not, or if that cannot be told.
fn worse_by(
    before: &[CandidateReport],
    after: &[CandidateReport],
    better: Better,
    figure: impl Fn(&CandidateReport) -> Option<f64>,
) -> Option<f64> {
    let of = |runs: &[CandidateReport]| runs.iter().map(&figure).collect::<Option<Vec<f64>>>();
    let (before, after) = (of(before)?, of(after)?);
    let difference = match (before.as_slice(), after.as_slice()) {
        ([before], [after]) => Difference::exact(better, *before, *after),
        _ => Difference::paired(better, &before, &after),
    }?;
    let mean = before.iter().sum::<f64>() / before.len().max(1) as f64;
    (difference.verdict == Verdict::Worse && mean > 0.0).then(|| difference.mean.abs() / mean)
}

/// One, one and two, or one, two and three.
fn listed(all: &[String]) -> String {
    match all {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// What a figure does, by which share, or to how many times what it was.
fn moved(words: &str, share: f64) -> String {
    let verb = words.strip_suffix(" by").unwrap_or(words);
    let times = if verb.ends_with("rises") { factor(share) } else { None };
    match times {
        _ if share.is_infinite() => format!("{verb} from nothing"),
        Some(times) => format!("{verb} to {times} what it was"),
        None => format!("{words} {}", percent(share)),
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

    fn candidates<'a>(current: &'a [CandidateReport], proposed: &'a [CandidateReport]) -> Candidates<'a> {
        Candidates {
            objective: Objective::Goodput,
            has_slo: true,
            settings: &[],
            is_within: true,
            best: Best::Other,
            has_graphs: true,
            current,
            proposed,
        }
    }

    fn said(current: &[CandidateReport], proposed: &[CandidateReport], has_graphs: bool) -> ProposeVerdict {
        Candidates { has_graphs, ..candidates(current, proposed) }.verdict()
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
        let all = Candidates { is_within: false, ..candidates(&current, &proposed) };
        let verdict = all.verdict();
        assert_eq!(verdict.kind, CHANGE);
        assert!(verdict.sentence.ends_with("keeps within it; but goodput falls by 10.0 %."), "{}", verdict.sentence);
        assert_eq!(Candidates { has_graphs: false, ..all }.verdict().kind, NO_GRAPHS);
        assert_eq!(Candidates { best: Best::InForce, ..all }.verdict().kind, KEEP);
    }

    #[test]
    fn settings_and_a_longer_wait_for_the_first_token_are_said() {
        let (mut current, mut better) = (runs([5.0, 6.0, 5.5, 5.2], 2.0), runs([5.2, 6.21, 5.68, 5.4], 2.0));
        for (place, (before, after)) in current.iter_mut().zip(&mut better).enumerate() {
            before.p99_ttft_ms = (100.0 + place as f64).into();
            after.p99_ttft_ms = (150.0 + 2.0 * place as f64).into();
        }
        let settings = ["server.vllm.max_num_seqs = 8".to_owned()];
        let all = Candidates { settings: &settings, has_slo: false, ..candidates(&current, &better) };
        let sentence = all.verdict().sentence;
        let wanted = "Change the ladder with server.vllm.max_num_seqs = 8: throughput rises by 3.6 %; but p99 TTFT rises by 50.7 %.";
        assert_eq!(sentence, wanted);
        assert_eq!(Candidates { best: Best::Untried, ..all }.verdict().kind, KEEP);
    }

    #[test]
    fn what_grows_beyond_percentages_is_a_multiple() {
        assert_eq!(moved("p99 TTFT rises by", 0.5), "p99 TTFT rises by 50.0 %");
        assert_eq!(moved("p99 TTFT rises by", 4_439.818_2), "p99 TTFT rises to 4,441 times what it was");
        assert_eq!(moved("goodput falls by", 0.5), "goodput falls by 50.0 %");
        assert_eq!(moved("goodput rises by", f64::INFINITY), "goodput rises from nothing");
    }
}
