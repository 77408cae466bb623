//! `sim fit`.

use reports::{
    FitError, FitFigure, FitHeldOut, FitLeftOut, FitOutlier, FitReport, FitSource, GroupReport, ProfileReport, Warning,
    json, text,
};

use crate::schema::{check, value};

fn sample() -> FitReport {
    let figure = |name: &str, verdict: &'static str, after: f64, low: Option<f64>, high: Option<f64>| FitFigure {
        figure: name.to_owned(),
        unit: "us".into(),
        before: Some(10.0),
        after: Some(after),
        verdict: verdict.into(),
        low,
        high,
        samples: 1204,
        why: "the steps of 600 rows wait for their launches".to_owned(),
    };
    FitReport {
        version: "0.1.0".to_owned(),
        profile: ProfileReport {
            name: "mine.toml".to_owned(),
            sha256: "ab".repeat(32),
            device: Some("NVIDIA H200".to_owned()),
            model: Some("llama-3.1-8b".to_owned()),
            overlap: "pipelined".into(),
            groups: vec![GroupReport {
                group: "machine.dense".to_owned(),
                kind: "imported".into(),
                source: "mlp.csv (SHA-256 5c)".to_owned(),
                licence: Some("MIT".to_owned()),
                valid_range: Some("1 to 4096 rows".to_owned()),
                method: Some("medians of one layer".to_owned()),
                stated_error: None,
            }],
        },
        written: Some("mine.toml".to_owned()),
        onto: Some("h200-llama-3.1-8b".to_owned()),
        sources: vec![FitSource {
            file: "server.log".to_owned(),
            sha256: "5c".repeat(32),
            what: "iteration lines of vLLM".to_owned(),
            read: 5000,
            used: 4800,
            left_out: vec![FitLeftOut { count: 200, why: "steps with prompt tokens".to_owned() }],
        }],
        held_out: vec![FitHeldOut {
            group: "machine.dense".to_owned(),
            sizes: 257,
            median_percent: 1.25,
            worst_percent: 31.5,
            worst_at: 136.0,
        }],
        figures: vec![
            figure("engine.dispatch.compiled_us", "fitted", 12.5, Some(12.25), Some(13.0)),
            figure("engine.host.step_overhead_us", "upper_bound", 10.0, None, Some(4200.0)),
            figure("engine.dispatch.eager_us", "kept", 10.0, None, None),
        ],
        errors: vec![FitError {
            steps: "all".to_owned(),
            count: 2400,
            before_median_percent: 12.0,
            before_p95_percent: 31.0,
            after_median_percent: 0.5,
            after_p95_percent: 2.25,
        }],
        outliers: (0..12)
            .map(|line| FitOutlier {
                place: format!("server.log:{line}"),
                execution: "FULL".into(),
                rows: 8,
                ms: 90.0,
                others_ms: 6.5,
            })
            .collect(),
        notes: vec!["The time of a line spans what the worker does.".to_owned()],
        warnings: vec![Warning { code: "one_part".into(), message: "short".to_owned(), candidate: None }],
    }
}

#[test]
fn text_and_json() {
    let mut shown = Vec::new();
    text::fit(&sample(), &mut shown).expect("a vector takes it all");
    insta::assert_snapshot!(String::from_utf8(shown).expect("reports are UTF-8"));
    let mut written = Vec::new();
    json::write(&sample(), &mut written).expect("a vector takes it all");
    assert_eq!(serde_json::from_slice::<FitReport>(&written).expect("reads back"), sample());
    check("`sim fit`", &[value(&sample())]);
}
