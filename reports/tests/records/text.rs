//! Every report as text, whole.

use reports::{Figure, RunReport, SweepSample, SweepShard, text};

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

#[test]
fn sweep() {
    insta::assert_snapshot!(shown(|sink| text::sweep(&samples::sweep(&[7]), sink)));
}

#[test]
fn sweep_over_seeds() {
    insta::assert_snapshot!(shown(|sink| text::sweep(&samples::sweep(&[7, 8, 9]), sink)));
}

#[test]
fn a_shard_of_a_drawn_sweep_says_so() {
    let mut report = samples::sweep(&[7]);
    report.points.truncate(2);
    report.manifest.shard = Some(SweepShard { index: 0, of: 2 });
    report.manifest.sample = Some(SweepSample { points: 4, seed: 11 });
    let text = shown(|sink| text::sweep(&report, sink));
    assert!(
        text.contains("\n2 points of 4 (shard 0/2), drawn from the grid with seed 11; 2 candidates; seed 7 at"),
        "{text}"
    );
}

/// Of many points the best are shown, best first.
#[test]
fn a_sweep_of_many_points_fits_a_page() {
    let mut report = samples::sweep(&[7]);
    let points = (0..300_u64).map(|number| {
        let mut point = report.points[0].clone();
        point.point = number;
        let goodput = Figure::from(f64::from((number * 7 % 300) as u32));
        point.candidates.iter_mut().for_each(|figures| figures.request_goodput = goodput);
        point
    });
    report.points = points.collect();
    report.manifest.points = 300;
    let text = shown(|sink| text::sweep(&report, sink));
    assert!(text.lines().count() < 60, "{} lines", text.lines().count());
    let rows: Vec<&str> = text.lines().filter(|line| line.contains("299.00") || line.contains("298.00")).collect();
    assert_eq!(rows.len(), 2, "{text}");
    assert!(
        rows[0].trim_start().starts_with(&(0..300).find(|n| n * 7 % 300 == 299).expect("one").to_string()),
        "{text}"
    );
}
