//! Every report as text, whole.

use reports::{Figure, ProposeReport, RunReport, SweepSample, SweepShard, text};

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

/// Flags are to be pasted, so they alone may be longer than the page.
fn shown_proposal(report: &ProposeReport) -> String {
    let mut bytes = Vec::new();
    text::propose(report, &mut bytes).expect("a vector takes it all");
    let text = String::from_utf8(bytes).expect("reports are UTF-8");
    for line in text.lines() {
        assert_eq!(line.trim_end(), line, "no blanks at line ends");
        let is_flags = line.starts_with("  --");
        assert!(is_flags || line.chars().count() <= text::WIDTH, "{} columns: {text}", line.chars().count());
    }
    text
}

#[test]
fn propose() {
    insta::assert_snapshot!(shown_proposal(&samples::propose()));
}

#[test]
fn propose_nothing() {
    insta::assert_snapshot!(shown_proposal(&samples::propose_nothing()));
}

#[test]
fn propose_for_steps() {
    insta::assert_snapshot!(shown_proposal(&samples::propose_for_steps()));
}

/// The whole list of what to paste is there, and a front of a hundred is still a page.
#[test]
fn a_long_front_is_cut_and_flags_are_not() {
    let mut report = samples::propose();
    report.flags[0].shell = format!("--cuda-graph-bs {}", vec!["1024"; 200].join(" "));
    let mut front_of = |count: usize| {
        report.front = vec![report.front[3].clone(); count];
        for (index, choice) in report.front.iter_mut().enumerate() {
            choice.settings = vec![format!("max_num_seqs = {index}")];
        }
        shown_proposal(&report)
    };
    let (few, many) = (front_of(7), front_of(100));
    assert!(few.contains("; --format json has 1 more."), "{few}");
    assert!(many.contains("; --format json has 94 more."), "{many}");
    for place in [1, 20, 40, 60, 80, 100] {
        assert!(many.contains(&format!("\nfront {place} ")), "both ends and what is between: {many}");
    }
    assert_eq!(many.lines().count(), few.lines().count());
    assert!(many.contains(&format!("\n  {}\n", report.flags[0].shell)), "{many}");
}

#[test]
fn a_single_change_is_said_in_words() {
    let mut report = samples::propose();
    let mut said = |kind: &'static str, phase: &'static str, from, to| {
        let change = report.one_change.as_mut().expect("the sample has one");
        (change.kind, change.phase, change.from, change.to) = (kind.into(), phase.into(), from, to);
        let text = shown_proposal(&report);
        let start = text.find("Best single change").expect("it is said");
        text[start..].split(": ").nth(1).expect("after the colon").to_owned()
    };
    assert_eq!(said("add", "all", None, Some(24)), "add 24");
    assert_eq!(said("drop", "decode", Some(8), None), "drop 8 among the decode sizes");
    assert_eq!(said("shift", "all", Some(32), Some(12)), "shift 32 to 12");
}

#[test]
fn of_many_rungs_those_with_most_steps_are_shown() {
    let mut report = samples::propose();
    let rung = report.rungs[0].clone();
    let rungs = (1..=40_u32).map(|index| {
        let share_of_steps = if index.is_multiple_of(5) { 0.0 } else { f64::from(index) / 1_000.0 };
        reports::RungWorth { size: 10_000 + index, share_of_steps, ..rung.clone() }
    });
    report.rungs = rungs.collect();
    let text = shown_proposal(&report);
    assert!(text.contains("\nThe 32 rungs with most steps of 40; all are in --format json.\n"), "{text}");
    let shown: Vec<u32> = (10_001..=10_040).filter(|size| text.contains(&format!(" {size} "))).collect();
    let with_steps: Vec<u32> =
        (1..=40_u32).filter(|index| !index.is_multiple_of(5)).map(|index| 10_000 + index).collect();
    assert_eq!(shown, with_steps);
}

/// Small differences have many decimals: they stay on the page, and on one line where it has room.
#[test]
fn small_worths_fit_the_page() {
    let mut report = samples::propose();
    for rung in &mut report.rungs {
        for difference in [&mut rung.request_goodput, &mut rung.p99_tpot_ms, &mut rung.step_ms_per_request] {
            *difference = Some(samples::difference(0.003_757, 0.002_182, reports::Verdict::Better));
        }
    }
    let wide = shown_proposal(&report);
    assert!(wide.lines().any(|line| line.matches("+0.003757").count() == 3 && !line.contains('±')), "{wide}");
    report.rungs.iter_mut().for_each(|rung| rung.request_goodput = None);
    let narrow = shown_proposal(&report);
    assert!(narrow.lines().any(|line| line.matches("+0.003757 ±0.002182").count() == 2), "{narrow}");
}

/// What a search that was ended did not come to is not told as a finding.
#[test]
fn an_ended_search_says_what_it_did_not_reach() {
    let mut report = samples::propose();
    (report.one_change, report.rungs, report.sensitivity) = (None, vec![], vec![]);
    let text = shown_proposal(&report);
    assert!(text.contains("\nThe search was ended before it was done"), "{text}");
    assert!(text.contains("current ladders: none was found before the search was ended.\n"), "{text}");
    assert!(!text.contains("Rungs of") && !text.contains("the answer stands"), "{text}");
    report.search.interrupted = false;
    let text = shown_proposal(&report);
    assert!(text.contains("none; no size added") && !text.contains("ended"), "{text}");
}

/// The first figure that can tell decides, the objective before the others.
#[test]
fn rungs_that_are_not_worth_their_place_are_named() {
    let mut report = samples::propose();
    let text = shown_proposal(&report);
    assert!(text.contains("zero: decode 16, prefill 2048.\n"), "{text}");
    assert!(text.contains("without: decode 40 96.\n"), "{text}");
    assert!(text.contains("Better without: decode 24.\n"), "{text}");
    report.rungs[0].step_ms_per_request = report.rungs[2].p99_tpot_ms;
    assert_eq!(shown_proposal(&report).matches("Better without: decode 24.").count(), 1, "goodput comes first");
    report.asked.objective = "device_time".into();
    assert_eq!(shown_proposal(&report).matches("Better without: decode 8 24.").count(), 1, "now step time does");
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
