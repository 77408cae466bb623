//! CSV: the same columns in every row, and cells that read back exactly.

use reports::{FIGURES, Figure, RequestLog, rows};

use crate::samples;

fn written(write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> String {
    let mut bytes = Vec::new();
    write(&mut bytes).expect("a vector takes it all");
    String::from_utf8(bytes).expect("UTF-8")
}

/// Header and rows; fails if one row has other columns than the header.
fn table(text: &str) -> (Vec<String>, Vec<Vec<String>>) {
    let mut reader = csv::ReaderBuilder::new().flexible(false).from_reader(text.as_bytes());
    let words = |record: &csv::StringRecord| record.iter().map(str::to_owned).collect::<Vec<_>>();
    let header = words(reader.headers().expect("a header"));
    let rows = reader.records().map(|record| words(&record.expect("as many cells as columns"))).collect();
    let mut unique = header.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), header.len(), "no column twice");
    (header, rows)
}

#[test]
fn a_run_has_one_row_a_candidate_and_every_figure_exactly() {
    let report = samples::run();
    let (header, rows) = table(&written(|sink| rows::run(&report, sink)));
    assert_eq!(rows.len(), report.candidates.len());
    for (row, candidate) in rows.iter().zip(&report.candidates) {
        assert_eq!(row[0], candidate.name);
        for spec in FIGURES {
            let column = header.iter().position(|name| name == spec.name).expect("a column a figure");
            let cell = &row[column];
            match (spec.get)(candidate) {
                Figure::Undefined => assert_eq!(cell, "", "{}", spec.name),
                figure => assert_eq!(cell.parse::<f64>().ok(), figure.mean(), "{}", spec.name),
            }
        }
    }
}

#[test]
fn several_seeds_give_three_columns_a_figure() {
    let report = samples::run_over_seeds();
    let (header, rows) = table(&written(|sink| rows::run(&report, sink)));
    assert_eq!(header.len(), 3 + 3 * FIGURES.len());
    let column = |name: &str| header.iter().position(|column| column == name).expect("a column");
    let Figure::Interval(goodput) = report.candidates[0].request_goodput else { panic!("three seeds") };
    assert_eq!(rows[0][column("request_goodput.low")].parse::<f64>().ok(), Some(goodput.low));
    assert_eq!(rows[0][column("request_goodput.high")].parse::<f64>().ok(), Some(goodput.high));
    assert_eq!(rows[1][column("exact_hit_rate.mean")], "");
}

#[test]
fn a_sweep_has_a_row_for_each_point_and_candidate_and_a_column_for_each_key() {
    for seeds in [&[7][..], &[7, 8, 9]] {
        let (manifest, points) = samples::sweep_points(seeds);
        let text = written(|sink| {
            let mut rows = rows::SweepRows::new(&manifest, sink)?;
            points.iter().try_for_each(|point| rows.point(point))?;
            rows.finish()
        });
        let (header, rows) = table(&text);
        assert_eq!(
            header[..4],
            ["point", "traffic.arrivals.gamma.rate", "server.vllm.cudagraph_capture_sizes", "name"]
        );
        assert_eq!(header.len(), 6 + FIGURES.len() * if seeds.len() > 1 { 3 } else { 1 });
        assert_eq!(rows.len(), 8);
        assert_eq!(rows[5][..4], ["2", "8", "[1,2,4,8,16,24,32,40,48,56,64,72]", "no graphs"]);
    }
}

#[test]
fn the_other_reports_are_tables_too() {
    insta::assert_snapshot!("csv_price", written(|sink| rows::price(&samples::price(), sink)));
    insta::assert_snapshot!("csv_ladder", written(|sink| rows::ladder(&samples::ladder(), sink)));
    insta::assert_snapshot!("csv_startup", written(|sink| rows::startup(&samples::startup(), sink)));
    insta::assert_snapshot!("csv_explain", written(|sink| rows::explain(&samples::explain(), sink)));
    table(&written(|sink| rows::price(&samples::price(), sink)));
    let (_, descriptors) = table(&written(|sink| rows::ladder(&samples::ladder(), sink)));
    assert_eq!(descriptors.len(), 6);
    let (_, starts) = table(&written(|sink| rows::startup(&samples::startup(), sink)));
    assert_eq!(starts.len(), 4 + 3);
    let (_, choices) = table(&written(|sink| rows::explain(&samples::explain(), sink)));
    assert_eq!(choices.len(), 4);
}

#[test]
fn a_proposal_has_a_row_a_choice_with_the_figures_of_a_run() {
    let report = samples::propose();
    let (header, rows) = table(&written(|sink| rows::propose(&report, sink)));
    let choices: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(choices[..5], ["current", "proposal", "one_change", "front_1", "front_2"]);
    assert_eq!(rows.len(), 3 + report.front.len());
    assert_eq!(header.len(), 3 + 3 + 3 + 3 * FIGURES.len());
    assert_eq!(rows[1][1..3], ["decode requests 8 16 24 40 96; prefill tokens 320 2048", "max_num_seqs = 96"]);
    let column = |name: &str| header.iter().position(|column| column == name).expect("a column");
    let Figure::Interval(step_ms) = report.proposal.step_ms_per_request else { panic!("three seeds") };
    assert_eq!(rows[1][column("step_ms_per_request.high")].parse::<f64>().ok(), Some(step_ms.high));
    let Figure::Interval(goodput) = report.front[1].figures.request_goodput else { panic!("three seeds") };
    assert_eq!(rows[4][column("request_goodput.mean")].parse::<f64>().ok(), Some(goodput.mean));

    let (header, rows) = table(&written(|sink| rows::propose(&samples::propose_nothing(), sink)));
    assert_eq!((header.len(), rows.len()), (3 + 1 + 3 + FIGURES.len(), 2));
    assert_eq!(rows[0][..4], ["current", "", "", ""], "nothing is captured, and no request completed");
}

#[test]
fn requests_stream_as_rows() {
    let mut log = RequestLog::new(Vec::new()).expect("a header");
    let mut refused = samples::request();
    refused.outcome = "refused".into();
    refused.output_tokens = 0;
    (refused.ttft_ms, refused.tpot_ms, refused.e2el_ms, refused.good) = (None, Some(f64::NAN), None, None);
    log.request(&samples::request()).expect("written");
    log.request(&refused).expect("written");
    let text = String::from_utf8(log.finish().expect("flushed")).expect("UTF-8");
    let (header, _) = table(&text);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let back: Vec<reports::RequestRecord> = reader.deserialize().map(|row| row.expect("a record")).collect();
    refused.tpot_ms = None;
    assert_eq!(back, [samples::request(), refused]);
    let keys = serde_json::to_value(samples::request()).expect("plain data");
    let mut fields: Vec<&String> = keys.as_object().expect("a record").keys().collect();
    let mut columns: Vec<&String> = header.iter().collect();
    fields.sort();
    columns.sort();
    assert_eq!(columns, fields, "one column a field");
    insta::assert_snapshot!("csv_requests", text);
}
