//! Every report as text, whole.

use reports::{RunReport, text};

use crate::samples;

fn shown(write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> String {
    let mut bytes = Vec::new();
    write(&mut bytes).expect("a vector takes it all");
    let text = String::from_utf8(bytes).expect("reports are UTF-8");
    for line in text.lines() {
        assert_eq!(line.trim_end(), line, "no blanks at line ends");
        assert!(line.chars().count() <= 120, "{} columns: {line}", line.chars().count());
        assert!(!line.contains('\u{1b}'), "no colours");
    }
    text
}

#[test]
fn run() {
    insta::assert_snapshot!(shown(|sink| text::run(&samples::run(), sink)));
}

#[test]
fn run_over_seeds() {
    insta::assert_snapshot!(shown(|sink| text::run(&samples::run_over_seeds(), sink)));
}

#[test]
fn run_with_many_candidates_goes_down_the_page() {
    let mut report = samples::run();
    report.candidates = (0..12)
        .map(|index| {
            let mut candidate = samples::with_graphs(1.0 + f64::from(index) / 10.0);
            candidate.name = format!("candidate number {index} of the sweep");
            candidate
        })
        .collect();
    let text = shown(|sink| text::run(&report, sink));
    assert!(text.lines().count() < 80, "{} lines", text.lines().count());
    insta::assert_snapshot!(text);
}

#[test]
fn run_with_as_many_candidates_as_fit_in_blocks() {
    let mut report = samples::run();
    report.candidates = (0..8).map(|index| samples::with_graphs(1.0 + f64::from(index))).collect();
    for (index, candidate) in report.candidates.iter_mut().enumerate() {
        candidate.name = format!("candidate-without-a-blank-{index}");
    }
    let text = shown(|sink| text::run(&report, sink));
    for candidate in &report.candidates {
        assert!(text.contains(candidate.name.as_str()), "the ladders name {}", candidate.name);
    }
}

#[test]
fn run_without_candidates_or_figures_is_still_a_report() {
    let report = RunReport { candidates: vec![], pairs: Some(vec![]), ..samples::run() };
    assert!(shown(|sink| text::run(&report, sink)).contains("Costs: profile"));
    let report = RunReport { candidates: vec![reports::CandidateReport::default()], ..samples::run() };
    shown(|sink| text::run(&report, sink));
}

#[test]
fn price() {
    insta::assert_snapshot!(shown(|sink| text::price(&samples::price(), sink)));
}

#[test]
fn ladder() {
    insta::assert_snapshot!(shown(|sink| text::ladder(&samples::ladder(), sink)));
}

#[test]
fn startup() {
    insta::assert_snapshot!(shown(|sink| text::startup(&samples::startup(), sink)));
}

#[test]
fn explain() {
    insta::assert_snapshot!(shown(|sink| text::explain(&samples::explain(), sink)));
}

#[test]
fn warnings() {
    insta::assert_snapshot!(shown(|sink| text::warnings(&samples::warnings(), sink)));
}
