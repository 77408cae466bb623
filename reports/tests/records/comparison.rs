//! Two runs compared: what they have in common, what is refused, what is said.

use reports::{CompareError, ComparisonReport, RunBySeed, RunReport, Verdict, text};

use crate::samples;

fn compared(one: &RunReport, other: &RunReport, names: &[(&str, &str)]) -> Result<ComparisonReport, CompareError> {
    let scales = [1.0, 1.1, 0.9, 1.2];
    let by_seed = |folder: &str, report| RunBySeed {
        folder: folder.to_owned(),
        report,
        figures: samples::seed_figures(report, &scales),
    };
    let names: Vec<(String, String)> =
        names.iter().map(|(one, other)| ((*one).to_owned(), (*other).to_owned())).collect();
    ComparisonReport::between(&by_seed("before", one), &by_seed("after", other), &names, &[])
}

#[test]
fn comparison_as_text() {
    let mut text = Vec::new();
    text::comparison(&samples::comparison(), &mut text).expect("a vector takes it all");
    insta::assert_snapshot!("comparison", String::from_utf8(text).expect("UTF-8"));
}

#[test]
fn a_run_equals_itself() {
    let run = samples::run_over_seeds();
    let report = compared(&run, &run, &[]).expect("comparable");
    assert_eq!((report.pairs.len(), report.seeds.len(), report.warnings.len()), (2, 3, 0));
    for found in report.pairs.iter().flat_map(|pair| &pair.figures) {
        assert_eq!(found.difference.verdict, Verdict::Equal, "{}", found.figure);
    }
}

#[test]
fn one_seed_is_exact_and_says_so() {
    let run = samples::run();
    let report = compared(&run, &run, &[("engine default", "no graphs")]).expect("comparable");
    assert_eq!((report.seeds.as_slice(), report.pairs.len()), (&[7][..], 1));
    assert!(report.verdict().contains("have no interval"), "{}", report.verdict());
    assert!(
        report.pairs[0].figures.iter().all(|found| found.difference.low.to_bits() == found.difference.high.to_bits())
    );
    assert!(report.only_in_baseline.is_empty(), "who names pairs knows what is left out");
}

#[test]
fn candidates_of_one_run_only_are_named() {
    let (run, mut fewer) = (samples::run(), samples::run());
    fewer.candidates.truncate(1);
    let report = compared(&run, &fewer, &[]).expect("comparable");
    assert_eq!(report.only_in_baseline, ["no graphs", "ceiling 8192 with a long name"]);
    assert!(report.only_in_candidate.is_empty());
}

#[test]
fn common_seeds_are_compared_and_others_pointed_out() {
    let (run, mut shifted) = (samples::run_over_seeds(), samples::run_over_seeds());
    shifted.seeds = Some(vec![8, 9, 10]);
    let report = compared(&run, &shifted, &[]).expect("two seeds in common");
    assert_eq!(report.seeds, [8, 9]);
    assert_eq!(report.warnings.iter().filter(|warning| warning.code == "other_seeds").count(), 2);
}

#[test]
fn what_differs_beside_the_candidates_is_said() {
    let (run, mut other) = (samples::run(), samples::run());
    other.scenario.sha256 = "1".repeat(64);
    other.profile.sha256 = "2".repeat(64);
    other.engine.version = "0.34.0".into();
    other.version = "0.2.0".into();
    let report = compared(&run, &other, &[]).expect("comparable");
    let codes: Vec<&str> = report.warnings.iter().map(|warning| warning.code.as_str()).collect();
    assert_eq!(codes, ["other_scenario", "other_profile", "other_engine", "other_version"]);
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let run = samples::run();
    let refused = |other: &RunReport, names: &[(&str, &str)], part: &str| {
        let error = compared(&run, other, names).expect_err(part);
        assert!(error.message.contains(part), "{error}");
        assert!(!error.help.is_empty());
    };
    let changed = |change: &dyn Fn(&mut RunReport)| {
        let mut other = samples::run();
        change(&mut other);
        other
    };
    refused(&changed(&|other| other.seed = 8), &[], "no seed is common to both: before ran seed 7, after ran seed 8");
    refused(&changed(&|other| other.scenario.requests = Some(1)), &[], "not of the same traffic");
    refused(
        &changed(&|other| other.candidates.iter_mut().for_each(|one| one.name += "!")),
        &[],
        "no candidate is common",
    );
    refused(&run, &[("engine default", "nobody")], "after has no candidate named `nobody`");
    refused(&run, &[("nobody", "no graphs")], "before has no candidate named `nobody`");
    let by_seed = |figures| RunBySeed { folder: "f".into(), report: &run, figures };
    let none = ComparisonReport::between(&by_seed(Vec::new()), &by_seed(Vec::new()), &[], &[]).expect_err("no rows");
    assert!(none.message.contains("figures.csv has no row of candidate `engine default` with seed 7"), "{none}");
}
