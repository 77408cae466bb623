//! Several seeds put together, and pairs of candidates.

use reports::{CandidateReport, Figure, PairReport, SeedsError, Verdict};

use crate::samples;

fn interval(figure: Figure) -> reports::Interval {
    match figure {
        Figure::Interval(interval) => interval,
        other => panic!("{other:?} is no interval"),
    }
}

#[test]
fn every_figure_of_every_list_becomes_an_interval() {
    let runs = [1.0, 1.5, 2.0].map(samples::with_graphs);
    let whole = CandidateReport::over_seeds(&runs).expect("one candidate");
    let json = serde_json::to_value(&whole).expect("plain data");
    let steps = interval(whole.steps);
    let mean = runs.iter().filter_map(|run| run.steps.mean()).sum::<f64>() / 3.0;
    assert!((steps.mean - mean).abs() < 1e-9 && steps.low < mean && steps.high > mean);
    for list in ["rungs", "artifacts"] {
        for entry in json[list].as_array().expect("a list") {
            assert!(entry["steps"]["mean"].is_number(), "{entry}");
        }
    }
    let first_use = whole.artifacts.last().expect("the eager kind").first_use_s;
    assert!((interval(first_use).mean - 0.06).abs() < 1e-9);
    assert_eq!(whole.artifacts[2].first_use_s, Figure::Undefined, "it never served");
}

#[test]
fn one_seed_stays_as_it_is() {
    let run = samples::with_graphs(1.0);
    assert_eq!(CandidateReport::over_seeds(std::slice::from_ref(&run)).expect("one run"), run);
}

#[test]
fn different_candidates_are_not_put_together() {
    assert_eq!(CandidateReport::over_seeds(&[]), Err(SeedsError::Empty));
    let mut other = samples::with_graphs(1.0);
    other.capture_sizes.push(32);
    let error = CandidateReport::over_seeds(&[samples::with_graphs(1.0), other]).expect_err("another ladder");
    assert!(matches!(error, SeedsError::Different { index: 1, .. }));
    assert!(CandidateReport::over_seeds(&[samples::with_graphs(1.0), samples::without_graphs(1.0)]).is_err());
}

/// Candidates whose goodput and TTFT are as given, seed by seed.
fn runs(name: &str, figures: [(f64, f64); 4]) -> Vec<CandidateReport> {
    let run = |(goodput, ttft): (f64, f64)| CandidateReport {
        name: name.into(),
        request_goodput: goodput.into(),
        p99_ttft_ms: ttft.into(),
        preemptions: 3_u64.into(),
        ..CandidateReport::default()
    };
    figures.map(run).into()
}

#[test]
fn a_verdict_knows_which_side_is_better_and_when_to_say_nothing() {
    // Seeds differ far more than candidates do: only the pairing shows the difference.
    let a = runs("a", [(10.0, 100.0), (20.0, 300.0), (15.0, 200.0), (12.0, 150.0)]);
    let b = runs("b", [(11.0, 110.0), (21.1, 309.0), (16.0, 212.0), (12.9, 161.0)]);
    let pair = PairReport::between(&a, &b);
    assert_eq!((pair.baseline.as_str(), pair.candidate.as_str()), ("a", "b"));
    assert_eq!(pair.differences["request_goodput"].verdict, Verdict::Better);
    assert!((pair.differences["request_goodput"].mean - 1.0).abs() < 1e-9);
    assert_eq!(pair.differences["p99_ttft_ms"].verdict, Verdict::Worse);
    assert_eq!(pair.differences["preemptions"].verdict, Verdict::Equal);
    assert!(!pair.differences.contains_key("mean_itl_ms"), "undefined figures are left out");
    assert!(!pair.differences.contains_key("steps"), "no side of it is better");

    let back = PairReport::between(&b, &a);
    assert_eq!(back.differences["request_goodput"].verdict, Verdict::Worse);
    assert_eq!(back.differences["p99_ttft_ms"].verdict, Verdict::Better);

    let noisy = runs("c", [(11.0, 0.0), (19.0, 0.0), (16.0, 0.0), (11.0, 0.0)]);
    assert_eq!(PairReport::between(&a, &noisy).differences["request_goodput"].verdict, Verdict::NotDistinguishable);
    assert!(PairReport::between(&a[..1], &b[..1]).differences.is_empty(), "one seed proves nothing");
}
