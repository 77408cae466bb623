//! The answer of a run in a sentence or two, and no more than its figures allow.

use std::cmp::Ordering;

use crate::figures::figure;
use crate::text::{change, number};
use crate::{CandidateReport, Difference, FigureSpec, RunReport, Verdict};

/// What candidates are judged by: the first that every candidate has.
const JUDGED_BY: [(&str, &str); 3] =
    [("request_goodput", "goodput"), ("request_throughput", "throughput"), ("mean_step_ms", "mean step")];

/// Names that a sentence holds.
const NAMED_MOST: usize = 4;

/// The verdict.
pub(super) fn verdict(report: &RunReport) -> String {
    let judged = JUDGED_BY
        .iter()
        .find(|(name, _)| report.candidates.iter().all(|candidate| (figure(name).get)(candidate).mean().is_some()));
    let Some((name, what)) = judged else {
        return "No figure is defined for every candidate, so none can be called best.".to_owned();
    };
    let spec = figure(name);
    match &report.candidates[..] {
        [] => "The run has no candidate.".to_owned(),
        [only] => format!(
            "{} alone was run: its {what} is {}. There is nothing to compare it with.",
            quoted(&only.name),
            value(only, spec)
        ),
        all => match &report.seeds {
            Some(seeds) => over_seeds(report, all, spec, what, seeds.len()),
            None => of_one_seed(report, all, spec, what),
        },
    }
}

/// Candidates, the best first; equals keep their order.
fn ranked<'a>(candidates: &'a [CandidateReport], spec: &FigureSpec) -> Vec<&'a CandidateReport> {
    let mut ranked: Vec<&CandidateReport> = candidates.iter().collect();
    let mean = |candidate: &CandidateReport| (spec.get)(candidate).mean().unwrap_or(0.0);
    ranked.sort_by(|a, b| match spec.better {
        crate::Better::Lower => mean(a).total_cmp(&mean(b)),
        _ => mean(b).total_cmp(&mean(a)),
    });
    ranked
}

fn of_one_seed(report: &RunReport, candidates: &[CandidateReport], spec: &FigureSpec, what: &str) -> String {
    let ranked = ranked(candidates, spec);
    let mean = |candidate: &CandidateReport| (spec.get)(candidate).mean().unwrap_or(0.0);
    let (best, last) = (ranked[0], ranked[ranked.len() - 1]);
    let no_interval = "One seed has no interval: whether they differ on other traffic too, `sim run --seeds 5` tells.";
    if mean(best).to_bits() == mean(last).to_bits() {
        return format!(
            "On seed {} all {} candidates have the same {what}, {}. {no_interval}",
            report.seed,
            candidates.len(),
            value(best, spec)
        );
    }
    let baseline = &candidates[0];
    let equals = ranked.iter().take_while(|one| mean(one).to_bits() == mean(best).to_bits()).count();
    let names: Vec<String> = ranked[..equals].iter().map(|one| quoted(&one.name)).collect();
    let against = if mean(best).to_bits() == mean(baseline).to_bits() {
        let next = ranked[equals];
        format!("next is {} with {}", quoted(&next.name), value_and_share(next, best, spec))
    } else {
        format!("{} has {}", quoted(&baseline.name), value_and_share(baseline, best, spec))
    };
    format!(
        "On seed {} {} {} the best {what}, {}; {against}. {no_interval}",
        report.seed,
        list(&names),
        if equals == 1 { "has" } else { "have" },
        value(best, spec)
    )
}

fn over_seeds(
    report: &RunReport,
    candidates: &[CandidateReport],
    spec: &FigureSpec,
    what: &str,
    seeds: usize,
) -> String {
    let ranked = ranked(candidates, spec);
    let best = ranked[0];
    let (mut worse, mut alike, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
    for other in &ranked[1..] {
        match difference(report, &other.name, &best.name, spec.name).map(|difference| difference.verdict) {
            Some(Verdict::Better | Verdict::Worse) => worse.push(quoted(&other.name) + &share(other, best, spec)),
            Some(Verdict::Equal | Verdict::NotDistinguishable) => alike.push(quoted(&other.name)),
            None => unknown.push(quoted(&other.name)),
        }
    }
    let first = format!(
        "Over {seeds} seeds {} has the {} mean {what}, {}",
        quoted(&best.name),
        if spec.better == crate::Better::Lower { "lowest" } else { "highest" },
        value(best, spec)
    );
    if alike.is_empty() && unknown.is_empty() {
        return format!("{first}, better than every other candidate on the same traffic: {}.", list(&worse));
    }
    if alike.len() + 1 == candidates.len() {
        let told = format!(
            "Over {seeds} seeds the {what} of no candidate is distinguishable from that of {} on the same traffic, {}.",
            quoted(&best.name),
            value(best, spec)
        );
        return told + &cheapest(candidates).unwrap_or_default();
    }
    let mut sentences = vec![format!("{first}.")];
    for (said, of) in [
        ("Not distinguishable from it on the same traffic", alike),
        ("Worse", worse),
        ("Not compared with it", unknown),
    ] {
        sentences.extend((!of.is_empty()).then(|| format!("{said}: {}.", list(&of))));
    }
    sentences.join(" ")
}

/// Of candidates that serve alike the one with the least graph memory, or those, as a sentence.
fn cheapest(candidates: &[CandidateReport]) -> Option<String> {
    let bytes = |candidate: &CandidateReport| candidate.graph_memory_bytes.mean();
    let known = || candidates.iter().filter(|one| bytes(one).is_some());
    let least = known().min_by(|a, b| bytes(a).partial_cmp(&bytes(b)).unwrap_or(Ordering::Equal))?;
    let all_least: Vec<String> =
        known().filter(|one| bytes(one) == bytes(least)).map(|one| quoted(&one.name)).collect();
    let memory = value(least, figure("graph_memory_bytes"));
    Some(match &all_least[..] {
        [one] => format!(" {one} takes the least graph memory, {memory}."),
        all if all.len() == candidates.len() => format!(" All take the same graph memory, {memory}."),
        several => format!(" The least graph memory is that of {}, {memory}.", list(several)),
    })
}

/// The difference between two candidates in either order.
fn difference<'a>(report: &'a RunReport, one: &str, other: &str, figure: &str) -> Option<&'a Difference> {
    let pairs = report.pairs.as_ref()?;
    let pair = pairs.iter().find(|pair| {
        (pair.baseline == one && pair.candidate == other) || (pair.baseline == other && pair.candidate == one)
    })?;
    pair.differences.get(figure)
}

fn value(candidate: &CandidateReport, spec: &FigureSpec) -> String {
    let figure = number::row(&[*(spec.get)(candidate)], spec.scale).concat();
    let unit = spec.label.rsplit_once(", ").map_or("", |(_, unit)| unit);
    format!("{figure} {unit}")
}

fn value_and_share(candidate: &CandidateReport, best: &CandidateReport, spec: &FigureSpec) -> String {
    value(candidate, spec) + &share(candidate, best, spec)
}

/// By how much a candidate is off the best, in brackets: a difference that is told apart can still be small.
fn share(candidate: &CandidateReport, best: &CandidateReport, spec: &FigureSpec) -> String {
    let mean = |candidate: &CandidateReport| (spec.get)(candidate).mean().unwrap_or(0.0);
    let share = change(mean(candidate) - mean(best), mean(best));
    share.map(|share| format!(" ({share})")).unwrap_or_default()
}

fn list(names: &[String]) -> String {
    let shown = names[..names.len().min(NAMED_MOST)].join(", ");
    match names.len().saturating_sub(NAMED_MOST) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn quoted(name: &str) -> String {
    format!("\u{201c}{name}\u{201d}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{EngineReport, Figure, Interval, PairReport, ProfileReport, ScenarioReport};

    fn report(goodputs: &[Figure]) -> RunReport {
        let candidate = |(place, goodput): (usize, &Figure)| CandidateReport {
            name: ["first", "second", "third"][place].into(),
            request_goodput: *goodput,
            ..CandidateReport::default()
        };
        RunReport {
            version: String::new(),
            command: Vec::new(),
            scenario: ScenarioReport { name: "s".into(), sha256: String::new(), requests: Some(1), slo: None },
            seed: 7,
            seeds: None,
            engine: EngineReport {
                name: "vllm".into(),
                version: "0.33.0".into(),
                runner: None,
                max_num_seqs: 1,
                max_num_batched_tokens: 1,
                max_model_len: None,
                attention_support: None,
                async_scheduling: None,
            },
            profile: ProfileReport {
                name: "p".into(),
                sha256: String::new(),
                device: None,
                model: None,
                overlap: "pipelined".into(),
                groups: Vec::new(),
            },
            warnings: Vec::new(),
            candidates: goodputs.iter().enumerate().map(candidate).collect(),
            pairs: None,
        }
    }

    fn pair(baseline: &str, candidate: &str, verdict: Verdict) -> PairReport {
        let difference = Difference { mean: 0.1, low: 0.0, high: 0.2, verdict };
        let differences = BTreeMap::from([("request_goodput".to_owned(), difference)]);
        PairReport { baseline: baseline.into(), candidate: candidate.into(), differences }
    }

    #[test]
    fn one_seed_never_claims_a_difference_beyond_it() {
        let said = verdict(&report(&[4.0.into(), 5.0.into()]));
        assert_eq!(
            said,
            "On seed 7 \u{201c}second\u{201d} has the best goodput, 5.000 requests/s; \u{201c}first\u{201d} has 4.000 \
             requests/s (-20.00 %). One seed has no interval: whether they differ on other traffic too, `sim run --seeds 5` \
             tells."
        );
        assert!(
            verdict(&report(&[4.0.into(), 4.0.into()])).starts_with("On seed 7 all 2 candidates have the same goodput")
        );
        assert!(
            verdict(&report(&[4.0.into(), 5.0.into(), 5.0.into()]))
                .starts_with("On seed 7 \u{201c}second\u{201d}, \u{201c}third\u{201d} have the best goodput"),
            "none of two equals is the best"
        );
        assert!(
            verdict(&report(&[5.0.into(), 5.0.into(), 4.0.into()]))
                .contains("next is \u{201c}third\u{201d} with 4.000")
        );
        assert!(verdict(&report(&[4.0.into()])).contains("nothing to compare"));
        assert!(verdict(&report(&[4.0.into(), Figure::Undefined])).starts_with("No figure is defined"));
        assert_eq!(verdict(&report(&[])), "The run has no candidate.");
    }

    #[test]
    fn not_distinguishable_is_a_verdict() {
        let figure = |mean: f64| Figure::Interval(Interval { mean, low: mean - 0.5, high: mean + 0.5 });
        let mut run = report(&[figure(4.0), figure(5.0), figure(4.9)]);
        run.seeds = Some(vec![7, 8]);
        run.pairs = Some(vec![
            pair("first", "second", Verdict::Better),
            pair("first", "third", Verdict::NotDistinguishable),
            pair("second", "third", Verdict::NotDistinguishable),
        ]);
        assert_eq!(
            verdict(&run),
            "Over 2 seeds \u{201c}second\u{201d} has the highest mean goodput, 5.000 \u{b1}0.500 requests/s. Not \
             distinguishable from it on the same traffic: \u{201c}third\u{201d}. Worse: \u{201c}first\u{201d} (-20.00 %)."
        );
        run.pairs = Some(vec![pair("first", "second", Verdict::Better), pair("second", "third", Verdict::Worse)]);
        assert!(verdict(&run).ends_with(
            "better than every other candidate on the same traffic: \u{201c}third\u{201d} (-2.00 %), \u{201c}first\u{201d} \
             (-20.00 %)."
        ));
        run.pairs =
            Some(vec![pair("first", "second", Verdict::NotDistinguishable), pair("second", "third", Verdict::Equal)]);
        for (candidate, bytes) in run.candidates.iter_mut().zip([3_u64 << 30, 2 << 30, 1 << 30]) {
            candidate.graph_memory_bytes = bytes.into();
        }
        assert_eq!(
            verdict(&run),
            "Over 2 seeds the goodput of no candidate is distinguishable from that of \u{201c}second\u{201d} on the same \
             traffic, 5.000 \u{b1}0.500 requests/s. \u{201c}third\u{201d} takes the least graph memory, 1.00 GiB."
        );
        let mut with_memory = |bytes: [u64; 3]| {
            for (candidate, bytes) in run.candidates.iter_mut().zip(bytes) {
                candidate.graph_memory_bytes = (bytes << 30).into();
            }
            verdict(&run)
        };
        assert!(
            with_memory([1, 2, 1]).ends_with(
                " The least graph memory is that of \u{201c}first\u{201d}, \u{201c}third\u{201d}, 1.00 GiB."
            )
        );
        assert!(with_memory([2, 2, 2]).ends_with(" All take the same graph memory, 2.00 GiB."));
        run.pairs = Some(vec![pair("first", "second", Verdict::Better)]);
        assert!(verdict(&run).ends_with("Not compared with it: \u{201c}third\u{201d}."), "{}", verdict(&run));
    }
}
