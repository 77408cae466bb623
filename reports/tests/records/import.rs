//! `sim import`.

use reports::{ImportLines, ImportReport, ImportSource, ImportTraffic, Warning, json};

use crate::schema::{check, value};

fn sample() -> ImportReport {
    ImportReport {
        version: "0.1.0".to_owned(),
        written: Some("mine.toml".to_owned()),
        beside: Some("mine.steps.csv".to_owned()),
        engine: "vllm".into(),
        sources: vec![ImportSource {
            file: "server.log.gz".to_owned(),
            sha256: "5c".repeat(32),
            bytes: 4096,
            what: "log of a server, gzip".to_owned(),
            lines: 5000,
            not_utf8: 1,
            cut: 2,
            ended_early: Some("behind line 5000: unexpected end of file".to_owned()),
        }],
        lines: vec![ImportLines { kind: "statistics lines".to_owned(), count: 4 }],
        traffic: ImportTraffic {
            unit: "steps".into(),
            from: "statistics lines".to_owned(),
            count: 2380,
            shapes: Some(5),
            assumed: Some(0),
            caution: Some("the steps are guessed".to_owned()),
        },
        warnings: vec![Warning::general("assumed", "the release is not told: vLLM 0.33.0")],
        scenario: "schema = 1\n".to_owned(),
    }
}

#[test]
fn every_field_is_documented_and_reads_back() {
    let mut written = Vec::new();
    json::write(&sample(), &mut written).expect("a vector takes it all");
    assert_eq!(serde_json::from_slice::<ImportReport>(&written).expect("reads back"), sample());
    check("`sim import`", &[value(&sample())]);
}
