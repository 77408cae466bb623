//! Parquet tables, read back: every cell is that of the record, every column is in `SCHEMA.md`.

use std::io::{self, Cursor};

use polars::prelude::{AnyValue, DataFrame};
use polars_io::SerReader;
use polars_io::prelude::ParquetReader;
use reports::frames::{
    Column, Kind, PointFigures, PointRungs, RowLog, Table, figures, request_columns, rungs, step_columns,
};
use reports::{CandidateReport, FIGURES, Fallbacks, Figure, Log, RequestRecord, StepRecord};
use serde_json::{Map, Value, json};

use crate::samples;
use crate::schema::documented_fields;

const ABOUT: [(&str, &str); 2] = [("version", "0.1.0"), ("scenario", "a scenario")];

fn frame(file: &[u8]) -> DataFrame {
    ParquetReader::new(Cursor::new(file.to_vec())).finish().expect("Parquet")
}

fn names(frame: &DataFrame) -> Vec<String> {
    frame.get_column_names().iter().map(ToString::to_string).collect()
}

/// A file as rows: each an object with a key for every column.
fn read(file: &[u8]) -> Vec<Map<String, Value>> {
    let frame = frame(file);
    let names = names(&frame);
    let row = |index: usize| {
        let cells = frame.columns().iter().map(|column| cell(&column.get(index).expect("a row")));
        names.iter().cloned().zip(cells).collect()
    };
    (0..frame.height()).map(row).collect()
}

fn cell(value: &AnyValue<'_>) -> Value {
    match value {
        AnyValue::Null => Value::Null,
        AnyValue::Boolean(flag) => json!(flag),
        AnyValue::UInt32(count) => json!(count),
        AnyValue::UInt64(count) => json!(count),
        AnyValue::Int64(whole) => json!(whole),
        AnyValue::Float64(number) => json!(number),
        AnyValue::String(text) => json!(text),
        AnyValue::List(values) => values.iter().map(|value| cell(&value)).collect(),
        other => panic!("no cell of a table: {other:?}"),
    }
}

/// A step as the columns should have it, from its JSON and without a list of columns.
fn flat(candidate: &str, seed: u64, step: &StepRecord) -> Map<String, Value> {
    let Value::Object(fields) = serde_json::to_value(step).expect("plain data") else { panic!("an object") };
    let mut row = Map::from_iter([("candidate".to_owned(), json!(candidate)), ("seed".to_owned(), json!(seed))]);
    for (name, value) in fields {
        match (name.as_str(), value) {
            ("prefills", Value::Array(prefills)) => {
                for (part, place) in [("chunk", 0), ("context", 1)] {
                    let values = prefills.iter().map(|prefill| prefill[place].clone()).collect();
                    row.insert(format!("prefills.{part}"), values);
                }
            }
            ("descriptor", Value::Null) => {
                let keys = serde_json::to_value(samples::descriptor("FULL", 1, None)).expect("plain data");
                let keys = keys.as_object().expect("an object").keys();
                row.extend(keys.map(|key| (format!("descriptor.{key}"), Value::Null)));
            }
            (_, Value::Object(inner)) => {
                row.extend(inner.into_iter().map(|(key, value)| (format!("{name}.{key}"), value)));
            }
            (_, value) => _ = row.insert(name, value),
        }
    }
    row
}

/// Steps of every kind, with values from end to end.
fn steps() -> Vec<StepRecord> {
    let plain = samples::step();
    let eager = StepRecord {
        step: 42,
        mode: "NONE".into(),
        descriptor: None,
        prefills: vec![[8192, 0], [1, u32::MAX], [16, 70_000]],
        fallback: Some("above_ceiling".into()),
        artifact: "compiled eager".into(),
        saved_ns: None,
        outside_range: true,
        ..plain.clone()
    };
    let decode = StepRecord {
        step: u64::MAX,
        start_ns: u64::MAX - 1,
        descriptor: Some(samples::descriptor("FULL", 512, Some(3))),
        prefills: Vec::new(),
        real_rows: u32::MAX,
        saved_ns: Some(i64::MIN),
        artifact: "a name that is longer than twelve bytes".into(),
        ..plain.clone()
    };
    vec![plain, eager, decode]
}

fn rows_of<R>(records: &[R]) -> Vec<u8>
where
    RowLog<Vec<u8>>: Log<R>,
{
    let mut log = RowLog::new(Vec::new(), "default, \"quoted\"", 7);
    for record in records {
        log.record(record).expect("writes");
    }
    log.finish().expect("writes")
}

fn table(columns: Vec<Column>, blocks: &[&[u8]]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut table = Table::new(&mut file, columns, &ABOUT).expect("a table");
    for block in blocks {
        table.append(block).expect("rows");
    }
    table.finish().expect("writes");
    file
}

fn metadata(file: &[u8]) -> (usize, Vec<(String, Option<String>)>) {
    let mut reader = ParquetReader::new(Cursor::new(file.to_vec()));
    let metadata = reader.get_metadata().expect("a footer");
    let about = metadata.key_value_metadata().iter().flatten();
    let about = about.map(|entry| (entry.key.clone(), entry.value.clone()));
    (metadata.row_groups.len(), about.filter(|(key, _)| key.starts_with("rungwise.")).collect())
}

#[test]
fn steps_come_back_cell_by_cell() {
    let file = table(step_columns(), &[&rows_of(&steps())]);
    let expected: Vec<_> = steps().iter().map(|step| flat("default, \"quoted\"", 7, step)).collect();
    assert_eq!(read(&file), expected);
    let (groups, about) = metadata(&file);
    assert_eq!(groups, 1);
    let about_expected = ABOUT.map(|(name, value)| (format!("rungwise.{name}"), Some(value.to_owned())));
    assert_eq!(about, about_expected);
}

#[test]
fn requests_come_back_cell_by_cell() {
    let refused = RequestRecord {
        outcome: "refused".into(),
        ttft_ms: None,
        tpot_ms: None,
        e2el_ms: None,
        good: None,
        ..samples::request()
    };
    let requests = [samples::request(), refused];
    let file = table(request_columns(), &[&rows_of(&requests)]);
    let expected: Vec<Value> =
        requests.iter().map(|request| serde_json::to_value(request).expect("plain data")).collect();
    assert_eq!(read(&file).into_iter().map(Value::Object).collect::<Vec<_>>(), expected);
}

#[test]
fn long_tables_are_written_in_groups_wherever_blocks_end() {
    let records: Vec<StepRecord> = (0..70_000).map(|step| StepRecord { step, ..samples::step() }).collect();
    let whole = rows_of(&records);
    let parts: Vec<Vec<u8>> = records.chunks(7_001).map(rows_of).collect();
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    let file = table(step_columns(), &[&whole]);
    assert_eq!(metadata(&file).0, 2, "65536 and the rest");
    assert!(table(step_columns(), &parts) == file, "the same bytes however rows come");
    let frame = frame(&file);
    let steps = frame.column("step").and_then(|column| column.u64()).expect("counts");
    assert!(steps.iter().eq((0..70_000).map(Some)));
}

#[test]
fn a_table_without_rows_has_its_columns() {
    let frame = frame(&table(step_columns(), &[]));
    assert_eq!((frame.height(), frame.width()), (0, step_columns().len()));
}

#[test]
fn the_rungs_of_a_candidate_and_seed_add_up_to_its_steps() {
    let runs = [(7, with_causes(1.0)), (8, with_causes(2.0)), (7, samples::without_graphs(1.0))];
    let mut file = Vec::new();
    rungs(runs.iter().map(|(seed, report)| (*seed, report)), &ABOUT, &mut file).expect("writes");
    let rows = read(&file);
    assert_eq!(rows.len(), 2 * (6 + 6) + 6, "every rung and every cause");
    for (seed, report) in &runs[..2] {
        let of_run = rows.iter().filter(|row| row["candidate"] == report.name && row["seed"] == *seed);
        let steps: u64 = of_run.map(|row| row["steps"].as_u64().expect("a count")).sum();
        let on_rungs: f64 = report.rungs.iter().filter_map(|rung| rung.steps.mean()).sum();
        assert_eq!(steps, on_rungs as u64 + 5 + 2);
    }
    let rung = json!({
        "candidate": "engine default", "seed": 7, "mode": "FULL", "phase": null, "size": 8, "fallback": null,
        "steps": 600, "exact_steps": 200, "real_rows": 4349, "padded_rows": 451, "saved_ms": 312.25,
    });
    assert_eq!(Value::Object(rows[4].clone()), rung);
    let cause = json!({
        "candidate": "engine default", "seed": 7, "mode": "NONE", "phase": null, "size": null, "fallback": "no_key",
        "steps": 2, "exact_steps": null, "real_rows": null, "padded_rows": null, "saved_ms": null,
    });
    assert_eq!(Value::Object(rows[7].clone()), cause);
}

fn with_causes(scale: f64) -> CandidateReport {
    let mut report = samples::with_graphs(scale);
    let [above_ceiling, no_key, none] = [5_u64, 2, 0].map(Figure::from);
    report.fallbacks = Fallbacks {
        above_ceiling,
        no_key,
        mode_excluded: none,
        encoder_inputs: none,
        other_rank: none,
        graphs_off: none,
    };
    report
}

#[test]
fn figures_are_those_of_the_report() {
    let runs = [(7, samples::with_graphs(1.0)), (8, samples::without_graphs(1.0))];
    let mut file = Vec::new();
    figures(runs.iter().map(|(seed, report)| (*seed, report)), &ABOUT, &mut file).expect("writes");
    let rows = read(&file);
    assert_eq!(rows.len(), 2);
    for (row, (seed, report)) in rows.iter().zip(&runs) {
        assert_eq!((&row["candidate"], &row["seed"]), (&json!(report.name), &json!(seed)));
        assert_eq!(row["capture_sizes"], json!(report.capture_sizes));
        assert_eq!(row.len(), 4 + FIGURES.len());
        for spec in FIGURES {
            assert_eq!(row[spec.name].as_f64(), (spec.get)(report).mean(), "{}", spec.name);
        }
    }
}

#[test]
fn points_of_a_sweep_have_their_settings() {
    for seeds in [&[7][..], &[7, 8, 9]] {
        let (manifest, points) = samples::sweep_points(seeds);
        let mut files = [Vec::new(), Vec::new()];
        let [figures, rungs] = &mut files;
        let mut figures = PointFigures::new(&manifest, &ABOUT, figures).expect("a table");
        let mut rungs = PointRungs::new(&manifest, &ABOUT, rungs).expect("a table");
        for point in &points {
            figures.point(point).and_then(|()| rungs.point(point)).expect("rows");
        }
        figures.finish().and_then(|()| rungs.finish()).expect("writes");

        let [figures, rungs] = files.map(|file| read(&file));
        assert_eq!(figures.len(), 8, "four points of two candidates");
        assert_eq!(rungs.len(), 4 * (6 + 6 + 6));
        let settings = [figures[5].clone(), rungs[18 * 2 + 12].clone()];
        for (row, point, rate) in [(&settings[0], 2, 8.0), (&settings[1], 2, 8.0)] {
            assert_eq!(row["point"], json!(point));
            assert_eq!(row["traffic.arrivals.gamma.rate"], json!(rate), "a number, as one of its values is");
            assert_eq!(row["server.vllm.cudagraph_capture_sizes"], json!("[1,2,4,8,16,24,32,40,48,56,64,72]"));
            assert_eq!(row["candidate"], json!("no graphs"));
        }
        let goodput = points[2].report.candidates[1].request_goodput;
        if let Figure::Interval(interval) = goodput {
            let parts = ["mean", "low", "high"].map(|part| settings[0][&format!("request_goodput.{part}")].as_f64());
            assert_eq!(parts, [interval.mean, interval.low, interval.high].map(Some));
            assert_eq!(rungs[4]["steps.mean"].as_f64(), points[0].report.candidates[0].rungs[4].steps.mean());
        } else {
            assert_eq!(settings[0]["request_goodput"].as_f64(), goodput.mean());
            assert_eq!(rungs[4]["steps"].as_f64(), points[0].report.candidates[0].rungs[4].steps.mean());
            assert!(rungs[4]["steps"].is_u64(), "a count");
        }
    }
}

#[test]
fn what_is_no_row_is_refused() {
    let mut file = Vec::new();
    let mut table = Table::new(&mut file, step_columns(), &ABOUT).expect("a table");
    let requests = rows_of(&[samples::request()]);
    assert_eq!(table.append(&requests).expect_err("rows of another table").kind(), io::ErrorKind::InvalidData);
    let twice = ["a", "b", "a"].map(|name| Column::new(name, Kind::Flag)).into();
    let mut file = Vec::new();
    let refused = Table::new(&mut file, twice, &ABOUT).err().expect("two columns of one name");
    assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn a_full_disk_stays_a_full_disk() {
    struct Full(usize);
    impl io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let rows = rows_of(&steps());
    let whole = table(step_columns(), &[&rows]).len();
    for room in [0, 100, whole - 1] {
        let mut sink = Full(room);
        let written = Table::new(&mut sink, step_columns(), &ABOUT)
            .and_then(|mut table| table.append(&rows).and_then(|()| table.finish()));
        assert_eq!(written.expect_err("full").kind(), io::ErrorKind::StorageFull, "{room} bytes");
    }
}

#[test]
fn every_column_is_documented() {
    let check = |title: &str, columns: &[Column]| {
        let documented = documented_fields(title);
        let names: Vec<&str> = documented.iter().map(|field| &*field.name).collect();
        let written: Vec<&str> = columns.iter().map(|column| &*column.name).collect();
        assert_eq!(names, written, "{title}");
        for (field, column) in documented.iter().zip(columns) {
            let kind = field.kind.strip_suffix(" or null").unwrap_or(&field.kind);
            assert_eq!(kind, column.kind.to_string(), "{title}: {}", field.name);
        }
    };
    check("`steps.parquet`", &step_columns());
    check("`requests.parquet`", &request_columns());
    for (title, write) in [("`rungs.parquet`", true), ("`figures.parquet`", false)] {
        let report = samples::with_graphs(1.0);
        let mut file = Vec::new();
        let runs = [(7, &report)];
        if write { rungs(runs, &ABOUT, &mut file) } else { figures(runs, &ABOUT, &mut file) }.expect("writes");
        let names = names(&frame(&file));
        let documented = documented_fields(title).into_iter().map(|field| field.name);
        let figures = FIGURES.iter().map(|spec| spec.name.to_owned()).filter(|_| !write);
        assert_eq!(names, documented.chain(figures).collect::<Vec<_>>(), "{title}");
    }
}

/// The same field says the same in both places.
#[test]
fn columns_mean_what_the_fields_mean() {
    let fields = documented_fields("`steps.jsonl`, step");
    for column in documented_fields("`steps.parquet`") {
        let Some(field) = fields.iter().find(|field| field.name == column.name) else { continue };
        assert_eq!((&column.unit, &column.definition), (&field.unit, &field.definition), "{}", column.name);
    }
}
