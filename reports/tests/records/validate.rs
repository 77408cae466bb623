//! `sim validate`.

use reports::{
    CostSource, DecodeErrors, EngineReport, FigureValidation, PredictedEvents, RunValidation, StepTimeValidation,
    ValidateReport, json, text,
};

use crate::schema::{check, value};

fn figure(
    name: &'static str,
    unit: &'static str,
    measured: f64,
    predicted: f64,
    target: Option<f64>,
) -> FigureValidation {
    let is_share = unit != "requests";
    let difference = if is_share { predicted / measured - 1.0 } else { predicted - measured };
    let met = target.map(|target| difference.abs() <= target);
    FigureValidation { figure: name.into(), unit: unit.into(), measured, predicted, difference, is_share, target, met }
}

fn sample() -> ValidateReport {
    let compared = RunValidation {
        run: "card_model_tp1".to_owned(),
        model: "somebody/Model-8B".to_owned(),
        device: "NVIDIA Card".to_owned(),
        ran: "vllm 0.19.0".to_owned(),
        simulated: Some(EngineReport {
            name: "vllm".into(),
            version: "0.33.0".to_owned(),
            runner: Some("v1".into()),
            max_num_seqs: 256,
            max_num_batched_tokens: 2048,
            max_model_len: Some(32_768),
            attention_support: Some("UNIFORM_BATCH".to_owned()),
            async_scheduling: Some(true),
        }),
        requests: 300,
        carried_by: Some("the bandwidths of both data sheets".to_owned()),
        is_fitted: false,
        reason: None,
        notes: vec!["ran on vLLM 0.19.0; simulated by the rules of 0.33.0".to_owned()],
        costs: vec![CostSource { part: "dense".to_owned(), from: "its own table, 32 layers".to_owned() }],
        figures: vec![
            figure("wall", "s", 183.5, 184.25, Some(0.01)),
            figure("TTFT p99", "ms", 137_356.0, 141_000.0, Some(0.02)),
            figure("running, most", "requests", 49.0, 47.0, Some(1.0)),
            figure("running, median", "requests", 33.0, 33.5, None),
        ],
        step_times: vec![
            StepTimeValidation {
                ticks: "1 to 8 running".to_owned(),
                measured_ticks: 3,
                predicted_ticks: 4,
                measured_ms: Some(19.5),
                predicted_ms: Some(20.0),
                difference: Some(20.0 / 19.5 - 1.0),
                priced_ms: Some(19.25),
                priced_difference: Some(19.25 / 19.5 - 1.0),
            },
            StepTimeValidation {
                ticks: "nobody waits any more".to_owned(),
                measured_ticks: 0,
                predicted_ticks: 1,
                measured_ms: None,
                predicted_ms: Some(21.0),
                difference: None,
                priced_ms: None,
                priced_difference: None,
            },
        ],
        decode_errors: Some(DecodeErrors {
            requests: 299,
            mean_absolute: 0.0125,
            median_absolute: 0.01,
            most_absolute: 0.2,
            mean: -0.001,
            target: 0.05,
            met: true,
        }),
        predicted: Some(PredictedEvents {
            steps: 6151,
            mixed_steps: 297,
            eager_steps: 249,
            preemptions: 182,
            prompt_hit_tokens: 4848,
            preempted_hit_tokens: 60_576,
            running_most: 50,
            largest_full: Some(56),
            largest_piecewise: None,
            outside_steps: 0,
        }),
    };
    let absent = RunValidation {
        run: "card_other_tp2".to_owned(),
        simulated: None,
        requests: 0,
        carried_by: None,
        reason: Some("no result files: only its meta.json is there".to_owned()),
        notes: Vec::new(),
        costs: Vec::new(),
        figures: Vec::new(),
        step_times: Vec::new(),
        decode_errors: None,
        predicted: None,
        ..compared.clone()
    };
    ValidateReport { runs: vec![compared, absent] }
}

#[test]
fn text_and_json() {
    let mut shown = Vec::new();
    text::validate(&sample(), &mut shown).expect("a vector takes it all");
    insta::assert_snapshot!(String::from_utf8(shown).expect("reports are UTF-8"));
    let mut written = Vec::new();
    json::write(&sample(), &mut written).expect("a vector takes it all");
    assert_eq!(serde_json::from_slice::<ValidateReport>(&written).expect("reads back"), sample());
    check("`sim validate`", &[value(&sample())]);
}

#[test]
fn what_is_missed_is_named() {
    let report = sample();
    assert_eq!(report.runs[0].missed(), ["TTFT p99", "running, most"]);
    assert!(report.runs[1].missed().is_empty());
    let mut run = report.runs[0].clone();
    run.figures.clear();
    run.decode_errors.as_mut().expect("there are some").met = false;
    assert_eq!(run.missed(), ["decode time of single requests"]);
}
