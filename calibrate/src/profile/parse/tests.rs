//! What is accepted and what is refused, with the whole message.

#[path = "../../../../tests/form.rs"]
mod form;
mod keys;

use toml::de::{DeTable, DeValue};

use super::*;

const GOOD: &str = include_str!("../../../../scenarios/profiles/textbook.toml");
const TABLES: &str = include_str!("../../../../scenarios/profiles/rtx4090-llama-3.1-8b.toml");

/// The error that a change to a good profile gives: the message with its place, and the way out.
fn refused(text: &str, from: &str, to: &str) -> (String, String) {
    assert!(text.contains(from), "{from:?} is not in the profile");
    let error = Profile::from_toml(&text.replacen(from, to, 1), "mine.toml").unwrap_err();
    (error.to_string(), error.advice())
}

fn message(text: &str, from: &str, to: &str) -> String {
    refused(text, from, to).0
}

#[test]
fn another_schema_is_named_before_anything_else() {
    let (problem, help) = refused(GOOD, "schema = 1", "schema = 2\nsurprise = true");
    assert_eq!(problem, "mine.toml:2:10: schema: schema 2: this build reads schema 1");
    assert!(help.contains("write the profile anew"), "{help}");
    let (problem, help) = refused(GOOD, "schema = 1\n", "");
    assert_eq!(problem, "mine.toml:1:1: schema: no schema version: this build reads schema 1");
    assert_eq!(help, "write `schema = 1` as the first line");
}

#[test]
fn toml_faults_keep_their_place_and_key() {
    let (problem, help) = refused(GOOD, "launch_us = 1100", "launch_us = 1100\nlaunch_ms = 1.1");
    assert_eq!(
        problem,
        "mine.toml:55:1: machine.launch.launch_ms: unknown field `launch_ms`, expected one of `launch_us`, \
         `provenance`, `measured`"
    );
    assert_eq!(help, "remove the key or correct its spelling");
    let (problem, help) = refused(GOOD, "node_us = 0\n", "");
    assert_eq!(problem, "mine.toml:61:1: machine.replay: missing field `node_us`");
    assert!(help.starts_with("add the key"), "{help}");
    let (problem, help) = refused(GOOD, "layers = 32", "layers = 32.5");
    assert_eq!(problem, "mine.toml:12:10: identity.model.layers: invalid type: floating point `32.5`, expected i64");
    assert!(help.starts_with("write a value of the expected kind"), "{help}");
    assert_eq!(
        message(GOOD, "overlap = \"additive\"", "overlap = \"serial\""),
        "mine.toml:4:11: overlap: unknown variant `serial`, expected `pipelined` or `additive`"
    );
    let (problem, help) = refused(GOOD, "us = 4000", "us = = 4000");
    assert_eq!(problem, "mine.toml:35:6: machine.dense.line.us: extra `=`, expected nothing");
    assert!(help.starts_with("correct the TOML"), "{help}");
}

#[test]
fn numbers_outside_their_range_are_refused_with_the_range() {
    let launch = |value: &str| message(GOOD, "launch_us = 1100", &format!("launch_us = {value}"));
    let expected = "expected microseconds, more than zero and at most 1000000000";
    for (written, shown) in
        [("0", "0"), ("-3", "-3"), ("nan", "NaN"), ("inf", "inf"), ("-inf", "-inf"), ("1e300", &format!("{}", 1e300))]
    {
        assert_eq!(launch(written), format!("mine.toml:54:13: machine.launch.launch_us: {shown}: {expected}"));
    }
    assert_eq!(
        message(GOOD, "total_bytes = 85899345920", "total_bytes = 0"),
        "mine.toml:26:15: machine.memory.total_bytes: 0: expected bytes, more than zero and at most 1125899906842624"
    );
    assert_eq!(
        message(GOOD, "step_overhead_us = 0", "step_overhead_us = -1"),
        "mine.toml:135:20: engine.host.step_overhead_us: -1: expected microseconds, zero or more and at most 1000000000"
    );
    assert_eq!(
        message(GOOD, "kv_heads = 8", "kv_heads = 5"),
        "mine.toml:11:1: identity.model.kv_heads: 5: expected a divisor of query_heads = 32"
    );
}

#[test]
fn knots_must_rise() {
    let (problem, help) = refused(TABLES, "  1, 2, 3, 4, 5, 6,", "  1, 2, 3, 2.5, 5, 6,");
    assert_eq!(problem, "mine.toml:37:12: machine.dense.table.rows[3]: 2.5 after 3: knots must rise strictly");
    assert_eq!(help, "sort the knots, together with their costs, and keep one of each");
    assert!(
        message(TABLES, "  1, 2, 3, 4, 5, 6,", "  1, 2, 2, 4, 5, 6,")
            .ends_with("rows[2]: 2 after 2: knots must rise strictly")
    );
    assert!(
        message(TABLES, "  1, 2, 3, 4, 5, 6,", "  1, nan, 3, 4, 5, 6,")
            .contains("rows[1]: NaN: expected a whole number")
    );
    assert!(
        message(TABLES, "  1, 2, 3, 4, 5, 6,", "  -1, 2, 3, 4, 5, 6,").contains("rows[0]: -1: expected a whole number")
    );
}

#[test]
fn every_knot_has_one_cost() {
    let (problem, help) = refused(TABLES, "  1, 2, 3, 4, 5, 6,", "  1, 2, 3, 4, 6,");
    assert!(problem.ends_with("machine.dense.table.us: 155 costs for 154 knots"), "{problem}");
    assert_eq!(help, "give one cost for each knot");
    let requests = "decode_requests = [1, 2, 4, 8, 16, 32, 64, 128]";
    let problem = message(TABLES, requests, "decode_requests = [1, 2, 4, 8, 16, 32, 64]");
    assert!(problem.ends_with("engine.attention.mixed.us: 3200 costs for 2800 knots"), "{problem}");
    let problem = message(TABLES, requests, "decode_requests = [1]");
    assert!(problem.ends_with("engine.attention.mixed.decode_requests: 1 knots: expected 2 to 1048576"), "{problem}");
}

#[test]
fn measured_to_names_a_knot() {
    let problem = message(TABLES, "measured_to_rows = 2048", "measured_to_rows = 2047");
    assert_eq!(problem, "mine.toml:35:20: machine.dense.table.measured_to_rows: 2047: expected one of rows");
}

#[test]
fn a_curve_has_exactly_one_shape() {
    let extra = "[machine.dense.constant]\nus = 1\n\n[machine.dense.line]";
    assert_eq!(
        message(GOOD, "[machine.dense.line]", extra),
        "mine.toml:33:1: machine.dense: expected exactly one of table, line and constant"
    );
    assert_eq!(
        message(GOOD, "[machine.head.constant]\nus = 0\n", ""),
        "mine.toml:46:1: machine.head: expected exactly one of table and constant"
    );
}

#[test]
fn lines_need_a_range_in_which_they_are_positive() {
    let line = |valid: &str| message(GOOD, "valid_rows = [1, 512]", valid);
    assert_eq!(
        line("valid_rows = [1]"),
        "mine.toml:37:14: machine.dense.line.valid_rows: 1 values: expected the first and the last row"
    );
    assert_eq!(
        line("valid_rows = [8, 8]"),
        "mine.toml:37:14: machine.dense.line.valid_rows: [8, 8]: the last row must lie above the first"
    );
    assert_eq!(
        message(GOOD, "us_per_row = 240", "us_per_row = 600"),
        "mine.toml:37:14: machine.dense.line.valid_rows: -200 us at 1 rows: the line falls below zero inside its \
         valid range"
    );
}

#[test]
fn every_group_says_where_it_comes_from() {
    let provenance = "[machine.launch.provenance]\nkind = \"declared\"\nsource = \"declared by the textbook \
                      exercise\"\nrange = \"exact by declaration\"\n";
    let (problem, help) = refused(GOOD, provenance, "");
    assert_eq!(problem, "mine.toml:53:1: machine.launch: no provenance: every group says where its figures come from");
    assert_eq!(help, "add [machine.launch.provenance] with kind and source");
    let needs = |kind: &str| {
        message(
            GOOD,
            provenance,
            &provenance.replace("declared\"\n", &format!("{kind}\"\n")).replace("range", "licence"),
        )
    };
    assert!(needs("declared").ends_with("machine.launch.provenance: no range: declared figures need it"));
    assert!(needs("derived").ends_with("machine.launch.provenance: no method: derived figures need it"));
    let needs = |kind: &str| message(GOOD, provenance, &provenance.replace("declared\"\n", &format!("{kind}\"\n")));
    assert!(needs("imported").ends_with("machine.launch.provenance: no licence: imported figures need it"));
    assert!(needs("guessed").contains("unknown variant `guessed`"));
    assert_eq!(message(GOOD, "name = \"textbook\"", "name = \" \""), "mine.toml:3:8: name: empty: expected some text");
}

#[test]
fn planning_ranges_hold_their_declared_figure() {
    const RANGE: &str = "compiled_us_range = [2, 20]";
    let range = |written: &str| refused(TABLES, RANGE, &format!("compiled_us_range = {written}"));
    let place = {
        let line = TABLES.lines().position(|line| line == RANGE).unwrap() + 1;
        move |column: usize, index: &str| format!("mine.toml:{line}:{column}: engine.dispatch.compiled_us_range{index}")
    };
    for (written, problem, help) in [
        ("[2]", "1 values: expected the low and the high end", "write [low, high]"),
        ("[2, 10, 20]", "3 values: expected the low and the high end", "write [low, high]"),
        ("[20, 2]", "[20, 2]: the high end must lie above the low one", "write [low, high]"),
        ("[10, 10]", "[10, 10]: the high end must lie above the low one", "write [low, high]"),
        (
            "[11, 20]",
            "[11, 20]: expected a range that holds compiled_us = 10",
            "widen the range, or correct the figure",
        ),
        (
            "[2, 9.5]",
            "[2, 9.5]: expected a range that holds compiled_us = 10",
            "widen the range, or correct the figure",
        ),
    ] {
        assert_eq!(range(written), (format!("{}: {problem}", place(21, "")), help.to_owned()));
    }
    let expected = "expected microseconds, zero or more and at most 1000000000";
    assert_eq!(range("[-1, 20]").0, format!("{}: -1: {expected}", place(22, "[0]")));
    assert_eq!(range("[nan, 20]").0, format!("{}: NaN: {expected}", place(22, "[0]")));
    assert_eq!(
        range("[2, inf]").0,
        format!("{}: inf: expected microseconds, more than zero and at most 1000000000", place(25, "[1]"))
    );
    for edge in ["[10, 20]", "[0, 10]"] {
        Profile::from_toml(&TABLES.replace(RANGE, &format!("compiled_us_range = {edge}")), "mine.toml").unwrap();
    }
}

#[test]
fn only_declared_figures_have_a_planning_range() {
    const DECLARED: &str = "[engine.dispatch.provenance]\nkind = \"declared\"";
    assert_eq!(
        refused(TABLES, DECLARED, "[engine.dispatch.provenance]\nkind = \"measured\""),
        (
            format!(
                "mine.toml:{}:18: engine.dispatch.eager_us_range: a planning range of measured figures: only declared \
                 figures have one",
                TABLES.lines().position(|line| line.starts_with("eager_us_range")).unwrap() + 1
            ),
            "remove the range".to_owned()
        )
    );
    for line in ["eager_us_range = [7, 56]\n", "compiled_us_range = [2, 20]\n"] {
        assert!(Profile::from_toml(&TABLES.replacen(line, "", 1), "mine.toml").is_ok(), "each is optional");
    }
}

#[test]
fn faults_point_into_the_text() {
    let error = Profile::from_toml(&GOOD.replace("launch_us = 1100", "launch_us = -1"), "mine.toml").unwrap_err();
    let fault = error.fault().unwrap();
    assert_eq!(&fault.text()[fault.span()], "-1");
    assert_eq!((fault.origin(), fault.line_column()), ("mine.toml", (54, 13)));
    assert_eq!((fault.key(), fault.help()), ("machine.launch.launch_us", error.advice().as_str()));
    assert!(fault.problem().starts_with("-1: expected microseconds"));
}

#[test]
fn odd_texts_are_refused_without_panic() {
    for text in
        ["", "\u{feff}", "schema = 1", "schema = \"1\"", "[", "schema = 1\n[ünïcode", "schema = 99999999999999999999"]
    {
        assert!(Profile::from_toml(text, "odd").is_err(), "{text:?} was accepted");
    }
    // Every prefix of a good file: truncation anywhere is an error with a place, or (the last group complete) none.
    for end in (0..GOOD.len()).filter(|&end| GOOD.is_char_boundary(end)) {
        if let Err(error) = Profile::from_toml(&GOOD[..end], "cut") {
            assert!(error.to_string().starts_with("cut:"), "{error}");
        }
    }
}

const MEASURED: &str = include_str!("../../../../tests/calibrate/double.toml");

#[test]
fn intervals_belong_to_figures_and_hold_them() {
    let launch = "launch_us = { low = 2.2869, high = 2.3331, samples = 24 }";
    let place = |columns: &str| {
        let line = MEASURED.lines().position(|line| line == launch).unwrap() + 1;
        format!("mine.toml:{line}:{columns}: machine.launch.measured.intervals.launch_us")
    };
    let (problem, help) = refused(MEASURED, launch, "launch_us = { low = 2.32, high = 2.4, samples = 24 }");
    assert_eq!(problem, format!("{}: 2.32 to 2.4: expected an interval that holds the figure, 2.31", place("13")));
    assert!(help.starts_with("correct the figure or its interval"), "{help}");
    let problem = message(MEASURED, launch, "launch_us = { low = 2.4, high = 2.2, samples = 24 }");
    assert!(problem.ends_with("2.4 to 2.2: expected an interval that holds the figure, 2.31"), "{problem}");
    let problem = message(MEASURED, launch, "launch_us = { low = nan, high = 2.4, samples = 24 }");
    assert!(problem.contains("intervals.launch_us.low: NaN: expected a number in the figure's unit"), "{problem}");
    let problem = message(MEASURED, launch, "launch_us = { low = 2.2, high = 2.4, samples = 0 }");
    assert!(problem.contains("samples: 0: expected a count, more than zero"), "{problem}");
    let (problem, help) = refused(MEASURED, launch, "fixed_us = { low = 2.2, high = 2.4, samples = 24 }");
    assert!(problem.ends_with("measured.intervals.fixed_us: not a figure of this group: expected one of launch_us"));
    assert_eq!(help, "correct the name, or remove it");
    let problem = message(MEASURED, launch, "launch_us = { low = 2.2, high = 2.4 }");
    assert!(problem.contains("missing field `samples`"), "{problem}");
}

#[test]
fn every_knot_has_its_interval() {
    let knots = "[machine.head.measured.knots.us]\nlow = [";
    let problem = message(MEASURED, knots, &format!("{knots}1, "));
    assert!(problem.ends_with("machine.head.measured.knots.us.low: 5 values for 4 knots"), "{problem}");
    let single = "[machine.head.measured.intervals]\nus = { low = 1, high = 2, samples = 3 }\n\n";
    let problem =
        message(MEASURED, "[machine.head.measured.knots.us]", &format!("{single}[machine.head.measured.knots.us]"));
    assert!(problem.ends_with("machine.head.measured: both an interval and knots of us"), "{problem}");
    let problem = message(MEASURED, knots, "[machine.head.measured.knots.rows]\nlow = [");
    assert!(problem.contains("knots.rows: not a figure of this group"), "{problem}");
}

#[test]
fn a_cost_of_padding_has_its_interval_and_a_table_over_rows() {
    let slope = "us_per_row = 1.6\nlow = 1.5\n";
    let problem = message(MEASURED, slope, "us_per_row = 1.4\nlow = 1.5\n");
    assert!(
        problem
            .contains("machine.dense.measured.padding: 1.5 to 1.71: expected an interval that holds the figure, 1.4")
    );
    let problem = message(MEASURED, slope, "us_per_row = nan\nlow = 1.5\n");
    assert!(problem.ends_with("expected microseconds a row, at most 1000000000 to either side of zero"), "{problem}");
    // Larger steps may be faster.
    let falling = MEASURED.replacen(slope, "us_per_row = -1.6\nlow = -1.9\n", 1);
    let padding = |text: &str| {
        let dense = Profile::from_toml(text, "mine.toml").unwrap().machine.dense;
        dense.measured.unwrap().padding.unwrap()
    };
    assert_eq!((padding(&falling).us_per_row, padding(MEASURED).to_rows), (-1.6, 512.0));
    let of_launches =
        "[machine.launch.measured.padding]\nus_per_row = 1\nlow = 1\nhigh = 1\nsamples = 9\nto_rows = 9\n\n";
    let intervals = "[machine.launch.measured.intervals]";
    let problem = message(MEASURED, intervals, &format!("{of_launches}{intervals}"));
    assert!(problem.ends_with("machine.launch.measured.padding: a cost of padding: only a table over rows has one"));
}

#[test]
fn only_measured_figures_state_a_measurement() {
    let double = "[machine.launch.provenance]\nkind = \"double\"";
    let declared = "[machine.launch.provenance]\nrange = \"any\"\nkind = \"declared\"";
    let (problem, help) = refused(MEASURED, double, declared);
    assert!(
        problem.ends_with("machine.launch.measured: a measurement of declared figures: only measured figures have one"),
        "{problem}"
    );
    assert_eq!(help, "remove the table, or correct the kind");
    let problem = message(MEASURED, double, &double.replace("double", "measured"));
    assert!(problem.contains("machine.launch.provenance.kind: measured, and machine."), "{problem}");
    assert!(problem.ends_with(" is of the driver double: expected both of one run"), "{problem}");
}

#[test]
fn rungs_and_clocks_are_checked() {
    assert!(
        message(MEASURED, "sm_clock_mhz = [1755, 1980]", "sm_clock_mhz = [1980, 1755]").contains("below the lowest")
    );
    assert!(message(MEASURED, "sm_clock_mhz = [1755, 1980]", "sm_clock_mhz = [1980]").contains("1 values: expected"));
    let rows = "[measurement.full]\nrows = [1, 2, 4,";
    let problem = message(MEASURED, rows, "[measurement.full]\nrows = [1, 4, 4,");
    assert!(problem.ends_with("measurement.full.rows[2]: 4 after 4: rungs must rise strictly"), "{problem}");
    let problem = message(MEASURED, rows, "[measurement.full]\nrows = [2, 4,");
    assert!(problem.ends_with("measurement.full.nodes: 9 values for 8 rungs"), "{problem}");
    let problem = message(MEASURED, "code = \"power_limit\"", "code = \"\"");
    assert!(problem.ends_with("measurement.warning[0].code: empty: expected some text"), "{problem}");
    let problem = message(MEASURED, "drift_ratio = 1.004", "drift_ratio = 0");
    assert!(problem.contains("drift_ratio: 0: expected a ratio near 1, 0.66 to 1.5"), "{problem}");
}

#[test]
fn what_a_terminal_would_obey_is_refused_with_its_place() {
    let line = MEASURED.lines().position(|line| line.starts_with("gemm_backend")).unwrap() + 1;
    let (problem, help) = refused(MEASURED, "\"own kernel\"", r#""own \u001b[2Jkernel""#);
    assert_eq!(
        problem,
        format!("mine.toml:{line}:16: measurement.gemm_backend: a control character (U+001B): expected plain text")
    );
    assert_eq!(help, "remove it; lines and tabs are allowed");
    for (key, text) in [
        ("stopped_by = \"", "machine.dense.measured.protocol.stopped_by"),
        ("what = \"", "measurement.warning[0].what"),
        ("model_name = \"", "identity.model_name"),
        ("source = \"", "machine.memory.provenance.source"),
        ("name = \"", "name"),
    ] {
        for control in [r"\u001b", r"\u009b", r"\r", r"\u202e", r"\u0000"] {
            let problem = message(MEASURED, key, &format!("{key}x{control}"));
            assert!(problem.contains(&format!("{text}: a control character (U+")), "{problem}");
        }
    }
    let lines = MEASURED.replacen("what = \"", r#"what = "a\tb\n"#, 1);
    assert!(Profile::from_toml(&lines, "mine.toml").is_ok());
}

/// Nothing counts as measured because it says so.
#[test]
fn figures_that_count_as_measured_bring_their_measurement() {
    let measured = MEASURED.replace("kind = \"double\"", "kind = \"measured\"");
    Profile::from_toml(&measured, "mine.toml").unwrap();
    let start = measured.find("[measurement]").unwrap();
    let end = measured.find("[machine.memory]").unwrap();
    let alone = format!("{}{}", &measured[..start], &measured[end..]);
    let error = Profile::from_toml(&alone, "mine.toml").unwrap_err();
    assert!(error.to_string().contains(
        "machine.memory.provenance: measured figures without [measurement]: expected when and how they were measured"
    ));
    assert!(error.advice().starts_with("write `declared` with its range"), "{}", error.advice());
    let intervals = "launch_us = { low = 2.2869, high = 2.3331, samples = 24 }\n";
    let problem = message(&measured, intervals, "");
    assert!(problem.ends_with(
        "machine.launch.provenance: measured figures without [machine.launch.measured]: expected intervals with their samples"
    ));
    let declared = message(GOOD, "kind = \"declared\"", "kind = \"measured\"");
    assert!(declared.contains("measured figures without [measurement]"), "{declared}");
}

#[test]
fn a_measurement_fits_its_model_and_its_device() {
    let problem = message(MEASURED, "total_bytes = 150323855360", "total_bytes = 1073741824");
    assert!(problem.contains("machine.memory.total_bytes: 1.00 GiB: expected at least "), "{problem}");
    for layers in ["999", "4"] {
        let problem =
            message(&MEASURED.replace("weight_layers = 8\n", ""), "layers = 32", &format!("layers = {layers}"));
        assert!(
            problem.contains("measurement.full.nodes[0]: 420 kernel nodes: expected ") || layers == "999",
            "{problem}"
        );
    }
    // Of eight layers' weights the device must hold no more, whatever the model has.
    Profile::from_toml(&MEASURED.replace("total_bytes = 150323855360", "total_bytes = 6000000000"), "mine.toml")
        .unwrap();
}

/// What is measured cannot be everything that a number may be; exercises are declared.
#[test]
fn measured_figures_have_magnitudes() {
    let slow = MEASURED.replacen("low = 2.2869, high = 2.3331", "low = 2, high = 2e6", 1);
    let (problem, help) = refused(&slow, "launch_us = 2.31", "launch_us = 1000000");
    assert!(
        problem.ends_with("machine.launch.launch_us: 1000000: expected 0.000001 to 10000 of double figures"),
        "{problem}"
    );
    assert!(help.ends_with("figures of an exercise are `declared`"), "{help}");
    Profile::from_toml(&GOOD.replace("launch_us = 1100", "launch_us = 1000000"), "mine.toml").unwrap();
    let problem = message(TABLES, "  15217.8,", "  1e9,");
    assert!(problem.ends_with("machine.dense.table.us[0]: 1000000000: expected 0 to 100000000 of imported figures"));
}

#[test]
fn every_figure_that_was_timed_has_its_interval() {
    for (line, group, figure) in [
        ("node_us = { low = 0.005335, high = 0.005665, samples = 24 }\n", "replay", "node_us"),
        ("full_executable_bytes = { low = 4315900, high = 4492100, samples = 24 }\n", "pool", "full_executable_bytes"),
        ("piecewise_s = { low = 0.017848, high = 0.018952, samples = 9 }\n", "capture", "piecewise_s"),
        ("padded_request_us = { low = 1.14, high = 1.26, samples = 24 }\n", "attention", "padded_request_us"),
    ] {
        let problem = message(MEASURED, line, "");
        let expected = format!(
            "machine.{group}.{figure}: no interval: expected [machine.{group}.measured.intervals] with {figure}, a double \
             figure"
        );
        assert!(problem.ends_with(&expected), "{problem}");
    }
    let knots = &MEASURED[MEASURED.find("[machine.attention.measured.knots.prefill_us]").unwrap()..];
    let knots = &knots[..knots.find("[machine.attention.decode.table]").unwrap()];
    let problem = message(MEASURED, knots, "");
    assert!(problem.contains("machine.attention.prefill.table.us[0]: no interval: expected ["), "{problem}");
}

const PIECEWISE: [&str; 2] = ["[measurement.piecewise]", "[machine.memory]"];

fn without(text: &str, [from, to]: [&str; 2]) -> String {
    format!("{}{}", &text[..text.find(from).unwrap()], &text[text.find(to).unwrap()..])
}

/// Of a mode that was not captured its figures state no interval, and the profile says that it was not.
#[test]
fn sizes_are_there_or_said_not_to_be() {
    let refused = |text: &str| Profile::from_toml(text, "mine.toml").unwrap_err().to_string();
    let neither = without(MEASURED, ["[measurement.full]", "[machine.memory]"]);
    assert!(refused(&neither).contains("measurement: no captured size of either mode: expected [measurement.full]"));
    let full = without(MEASURED, PIECEWISE);
    assert!(
        refused(&full).contains("measurement: no [measurement.piecewise]: expected it, or `PIECEWISE graphs` as a")
    );
    let said = full.replacen("[[measurement.not_measured]]\n", SAID, 1);
    let said = said.replace("piecewise_s = { low = 0.017848, high = 0.018952, samples = 9 }\n", "");
    Profile::from_toml(&said, "mine.toml").unwrap();
    let both = said.replace("full_s = { low = 0.017654, high = 0.018746, samples = 9 }\n", "");
    assert!(refused(&both).contains("machine.capture.provenance: double figures without [machine.capture.measured]"));
}

const SAID: &str = "[[measurement.not_measured]]\nwhat = \"PIECEWISE graphs\"\nwhy = \"not asked for\"\n\n\
                    [[measurement.not_measured]]\n";

#[test]
fn sizes_and_layers_fit_the_tables_and_the_model() {
    for (from, to, expected) in [
        (
            "weight_layers = 8",
            "weight_layers = 99",
            "weight_layers: 99: expected fewer than the 32 layers of the model",
        ),
        (
            "weight_layers = 8",
            "weight_layers = 32",
            "weight_layers: 32: expected fewer than the 32 layers of the model",
        ),
        ("nodes = [420", "nodes = [420.5", "measurement.full.nodes[0]: 420.5: expected a whole number, more than zero"),
        (
            "rows = [1, 2, 4, 8",
            "rows = [1, 2, 5, 8",
            "measurement.full.rows[2]: 5: expected one of machine.dense.table.rows",
        ),
        (
            "growth_bytes = [0,",
            "growth_bytes = [0.5,",
            "full.pool_growth_bytes[0]: 0.5: expected whole bytes, zero or more",
        ),
        (
            "growth_bytes = [0,",
            "growth_bytes = [3e11,",
            "pool_growth_bytes[0]: 300000000000: expected at most 140.00 GiB of all",
        ),
        (
            "base_bytes = 2097152",
            "base_bytes = 300000000000",
            "pool.base_bytes: 279.40 GiB: expected at most 140.00 GiB, all",
        ),
        ("rows = [1, 8, 64, 256]", "rows = [1, 8, 65, 256]", "eager_gap.table.rows[2]: 65: expected a captured size"),
        (
            "attention_launches = 32",
            "attention_launches = 325",
            "attention_launches: 325: expected at most compiled = 324",
        ),
    ] {
        let problem = message(MEASURED, from, to);
        assert!(problem.contains(expected), "{problem}");
    }
}

/// Knots that fall where nothing but more work lies, by more than a larger tile or a cache can explain.
#[test]
fn more_work_takes_no_far_less_time() {
    let falls_to = |us: &str| {
        let changes =
            [("2167.2, 16847", format!("2167.2, {us}")), ("16679]", "10]".into()), ("17015]", format!("{us}]"))];
        let text = changes.iter().fold(MEASURED.to_owned(), |text, (from, to)| text.replacen(from, to, 1));
        Profile::from_toml(&text, "mine.toml").map_err(|error| error.to_string())
    };
    let problem = falls_to("1000").map(|profile| profile.name).unwrap_err();
    assert!(
        problem.ends_with(
            "machine.attention.decode.table.us[11]: 1000 at [256, 8192]: expected no less than a quarter of the 4264.3 at \
             [64, 8192]: no more work there"
        ),
        "{problem}"
    );
    falls_to("1100").unwrap();
}

#[test]
fn what_is_said_of_a_table_fits_it() {
    for (from, to, expected) in [
        ("sizes = 19", "sizes = 21", "held_out.sizes: 21: expected at most 20, the sizes with others to both sides"),
        (
            "worst_percent = 4.7",
            "worst_percent = 0.3",
            "held_out.worst_percent: 0.3: expected no less than median_percent",
        ),
        ("worst_at = 65", "worst_at = 66", "held_out.worst_at: 66: expected a size of the table"),
        ("to_rows = 512", "to_rows = 4096", "padding.to_rows: 4096: expected 1 to 2048, the rows of the table"),
        (
            "high = 1.71",
            "high = 20000",
            "padding.high: 20000: expected at most 9496.8 a row, what the largest step takes",
        ),
        ("high = 4331.5", "high = 1e12", "intervals.read_gb_per_s.high: 1000000000000: expected at most 100000, as of"),
    ] {
        let problem = message(MEASURED, from, to);
        assert!(problem.contains(expected), "{problem}");
    }
}

/// Every value of a measured profile, changed in every way that its type allows; the table shows which changes are accepted.
/// Every refusal names the value, or what it belongs to.
#[test]
fn every_value_is_checked() {
    let origin = Origin { name: "mine.toml", text: MEASURED };
    let table = DeTable::parse(MEASURED).unwrap();
    let mut keys = Vec::new();
    for (key, value) in table.get_ref() {
        leaves(key.get_ref(), value, &mut keys);
    }
    let mut lines = Vec::new();
    for (key, changes) in &keys {
        let span = origin.place(key).unwrap();
        let accepted = |(change, written): &(&'static str, String)| {
            let text = format!("{}{written}{}", &MEASURED[..span.start], &MEASURED[span.end..]);
            let error = Profile::from_toml(&text, "mine.toml").err()?;
            let named = error.fault().unwrap().key();
            assert!(named.starts_with(group(key)), "{key} {change}: {error}");
            Some(())
        };
        let accepted = changes.iter().filter(|change| accepted(change).is_none()).map(|(change, _)| *change);
        let accepted: Vec<&str> = accepted.collect();
        lines.push(format!("{key}: {}", if accepted.is_empty() { "-".to_owned() } else { accepted.join(", ") }));
    }
    insta::assert_snapshot!(lines.join("\n"));
}

/// The table of a figure with everything that is stated of it; of other keys the key without its place in a list.
fn group(key: &str) -> &str {
    let is_figure = key.starts_with("machine.") || key.starts_with("engine.");
    let dots = key.match_indices(['.', '[']).filter(|(_, found)| is_figure || *found == "[");
    let end = dots.map(|(index, _)| index).nth(usize::from(is_figure));
    &key[..end.unwrap_or(key.len())]
}

type Changes = Vec<(&'static str, String)>;

/// The keys of all values below one, of a list of numbers the last; with what each is changed to.
fn leaves(key: &str, value: &Spanned<DeValue<'_>>, keys: &mut Vec<(String, Changes)>) {
    let number = |shown: &str| {
        let found: f64 = shown.replace('_', "").parse().unwrap();
        let is_whole = found.fract() == 0.0;
        let half = is_whole.then(|| ("+0.5", format!("{:?}", found + 0.5)));
        let huge = [("1e14", "1e14"), ("10^14", "100000000000000")].map(|(name, to)| (name, to.to_owned()));
        let usual = [("nan", "nan"), ("-1", "-1"), ("0", "0"), ("text", "'x'")].map(|(name, to)| (name, to.to_owned()));
        usual.into_iter().chain(half).chain(huge).collect::<Changes>()
    };
    match value.get_ref() {
        DeValue::Table(table) => table.iter().for_each(|(name, value)| {
            leaves(&format!("{key}.{}", name.get_ref()), value, keys);
        }),
        DeValue::Array(values) if values.iter().any(|value| value.get_ref().is_table()) => {
            values.iter().enumerate().for_each(|(index, value)| leaves(&format!("{key}[{index}]"), value, keys));
        }
        DeValue::Array(values) => leaves(&format!("{key}[{}]", values.len() - 1), &values[values.len() - 1], keys),
        DeValue::Integer(found) => keys.push((key.to_owned(), number(found.as_str()))),
        DeValue::Float(found) => keys.push((key.to_owned(), number(found.as_str()))),
        DeValue::Boolean(_) => keys.push((key.to_owned(), vec![("1", "1".to_owned())])),
        _ => {
            let texts = [("empty", "''"), ("ESC", "\"\\u001b\""), ("1", "1"), ("xyz", "'xyz'")];
            keys.push((key.to_owned(), texts.map(|(name, to)| (name, to.to_owned())).into()));
        }
    }
}
