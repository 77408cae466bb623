//! `calibrate probe NAME` against the driver double: every probe finds what was planted.
#![expect(clippy::float_cmp, reason = "counts are whole numbers")]

use toml::{Table, Value};

use crate::double::Double;

/// What the double plants, and what noise moves: kernels by up to 2 % to either side.
const NOISY: [(&str, &str); 1] = [("RUNGWISE_DOUBLE_NOISE_PERMILLE", "20")];

/// What a probe gives, its result as TOML.
fn result(probe: &str, variables: &[(&str, &str)]) -> Table {
    result_of(&[probe], variables)
}

fn result_of(probe: &[&str], variables: &[(&str, &str)]) -> Table {
    let run = Double::driver().calibrate(&[&["probe", "--quick"], probe].concat(), variables);
    assert_eq!((run.code(), run.stderr(), run.complaints()), (Some(0), "", vec![]), "{probe:?}");
    let table: Table = run.stdout().parse().expect("the result is TOML");
    table["result"].as_table().expect("the result is a table").clone()
}

fn number(value: &Value) -> f64 {
    value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64)).expect("a number")
}

fn points<'a>(result: &'a Table, key: &str) -> Vec<&'a Table> {
    result[key].as_array().expect("an array").iter().map(|point| point.as_table().expect("a table")).collect()
}

/// Checks that estimates are what was planted, and that their intervals say so.
#[derive(Default)]
struct Planted {
    found: Vec<(String, [f64; 3], f64)>,
}

impl Planted {
    fn expect(&mut self, name: impl Into<String>, estimate: &Value, planted: f64) {
        let [value, low, high] = ["value", "low", "high"].map(|key| number(&estimate[key]));
        assert!(low <= value && value <= high, "{estimate}");
        self.found.push((name.into(), [value, low, high], planted));
    }

    /// Nothing disturbs: the figures are the planted ones, but for the last digits of events, which are milliseconds in f32.
    fn are_found(&self) {
        for (name, [value, ..], planted) in &self.found {
            let off = (value - planted).abs();
            assert!(off <= 2e-6 * planted.abs() + 1e-4, "{name}: {value}, planted {planted}");
        }
    }

    /// Of the intervals 90 % hold the planted value or its last digits, and none lies three half-widths away.
    fn are_covered(&self) {
        let holds = |[value, low, high]: [f64; 3], planted: f64| {
            let rounding = 2e-6 * value.abs() + 1e-4;
            (low - rounding..=high + rounding).contains(&planted)
        };
        let missed: Vec<_> = self.found.iter().filter(|(_, estimate, planted)| !holds(*estimate, *planted)).collect();
        assert!(missed.len() * 10 <= self.found.len(), "{} of {}: {missed:#?}", missed.len(), self.found.len());
        for (name, [value, low, high], planted) in missed {
            let half = (high - value).max(value - low);
            assert!((planted - value).abs() <= 3.0 * half + 1e-4, "{name}: {value} [{low}, {high}], planted {planted}");
        }
    }
}

/// The double's own figures, where a test plants no others: `tests/double/src/configuration.rs`, in microseconds.
mod us {
    pub(super) const LAUNCH: f64 = 2.6;
    /// A kernel, with the gap before it, and as a node.
    pub(super) const EAGER_KERNEL: f64 = 1.5 + 0.9;
    pub(super) const NODE_KERNEL: f64 = 1.5 + 0.35;
    pub(super) const GRAPH: f64 = 2.5;
    pub(super) const REPLAY: f64 = 3.5;
    pub(super) const REPLAY_NODE: f64 = 0.012;
}

#[test]
fn launches_and_nodes_cost_what_is_planted() {
    let check = |result: &Table| {
        let mut planted = Planted::default();
        for (line, fixed_us, each_us) in [
            ("eager_host", 0.0, us::LAUNCH),
            ("eager_device", 0.0, us::EAGER_KERNEL),
            ("graph_host", us::REPLAY, us::REPLAY_NODE),
            ("graph_device", us::GRAPH, us::NODE_KERNEL),
        ] {
            planted.expect(format!("{line} fixed"), &result[line]["fixed_us"], fixed_us);
            planted.expect(format!("{line} each"), &result[line]["each_us"], each_us);
        }
        for rung in points(result, "ladder") {
            let count = number(&rung["count"]);
            planted.expect(format!("{count} launches"), &rung["eager_device_us"], us::EAGER_KERNEL * count);
            planted.expect(format!("graph of {count}"), &rung["graph_device_us"], us::GRAPH + us::NODE_KERNEL * count);
        }
        planted
    };
    check(&result("launch", &[])).are_found();
    check(&result("launch", &NOISY)).are_covered();
}

#[test]
fn bandwidth_is_that_of_the_device_without_its_launches() {
    for (variables, gb_per_s) in [(&NOISY[..], 4_300.0), (&[("RUNGWISE_DOUBLE_BANDWIDTH_GB_PER_S", "900")], 900.0)] {
        let mut planted = Planted::default();
        let result = result("bandwidth", variables);
        planted.expect("copy", &result["copy_gb_per_s"], gb_per_s);
        if gb_per_s < 1_000.0 {
            let [value, planted] = [number(&result["copy_gb_per_s"]["value"]), gb_per_s];
            assert!((value / planted - 1.0).abs() < 1e-4, "{value}");
        } else {
            planted.are_covered();
        }
    }
}

/// Every rung of both modes, by what the double is known to charge for each call.
#[test]
fn rungs_cost_what_their_calls_cost() {
    let result = result("rungs", &[]);
    let mut planted = Planted::default();
    let rungs = points(&result, "rungs");
    let order: Vec<_> = rungs.iter().map(|rung| (rung["mode"].as_str().unwrap(), number(&rung["rows"]))).collect();
    let [piecewise, full] = ["PIECEWISE", "FULL"].map(|mode| [64.0, 16.0, 1.0].map(|rows| (mode, rows)));
    assert_eq!(order, [piecewise, full].concat());
    for rung in &rungs {
        let name = format!("{} {} rows", rung["mode"], rung["rows"]);
        let [graphs, nodes, launches] = ["graphs", "nodes", "launches"].map(|key| number(&rung[key]));
        // What stays eager, of a step whose attentions are cut and joined: cache write, attention, merge of four layers, and
        // the three kernels of the head.
        let (eager, graphs_expected) = if graphs > 1.0 { (4.0 * 3.0 + 3.0, 5.0) } else { (3.0, 1.0) };
        assert_eq!((graphs, nodes + eager), (graphs_expected, launches), "{name}");
        for (key, planted_us) in [
            ("capture_us", 8.0 * graphs + 1.2 * nodes),
            ("instantiate_us", 20.0 * graphs + 0.9 * nodes),
            // And the wait for all.
            ("upload_us", 5.0 * graphs + 0.06 * nodes + 2.1),
            (
                "first_replay_host_us",
                (us::REPLAY + 5.0) * graphs + (us::REPLAY_NODE + 0.06) * nodes + us::LAUNCH * eager,
            ),
            ("replay_host_us", us::REPLAY * graphs + us::REPLAY_NODE * nodes + us::LAUNCH * eager),
            ("replay_device_us", us::GRAPH * graphs + us::NODE_KERNEL * nodes + us::EAGER_KERNEL * eager),
            ("eager_host_us", us::LAUNCH * launches),
            ("eager_device_us", us::EAGER_KERNEL * launches),
            ("gap_us", us::EAGER_KERNEL * (launches - eager) - us::GRAPH * graphs - us::NODE_KERNEL * nodes),
        ] {
            planted.expect(format!("{name} {key}"), &rung[key], planted_us);
        }
        assert_eq!(rung["pool_growth"], rung["driver_growth_bytes"], "{name}");
    }
    planted.are_found();
    // Only the first takes anything of the pool; from the other end it is the smallest rung that is first.
    let growth = |rungs: &[&Table]| rungs.iter().map(|rung| number(&rung["pool_growth"])).collect::<Vec<_>>();
    assert_eq!(growth(&rungs)[1..], [0.0; 5]);
    let ascending = result["ascending"].as_table().unwrap();
    assert!(number(&ascending["pool"]) >= number(&result["pool"]));
    assert_eq!(growth(&points(ascending, "growth")).iter().sum::<f64>(), number(&ascending["pool"]));
}

/// More launches than a queue holds: in pieces, each behind a gate of its own.
#[test]
fn a_step_that_no_queue_holds_is_timed_in_pieces() {
    let result = result_of(&["rungs", "--layers", "60"], &[]);
    let mut planted = Planted::default();
    for rung in points(&result, "rungs") {
        let launches = number(&rung["launches"]);
        assert!(launches > 480.0, "{launches}");
        planted.expect("eager host", &rung["eager_host_us"], us::LAUNCH * launches);
        planted.expect("eager device", &rung["eager_device_us"], us::EAGER_KERNEL * launches);
    }
    planted.are_found();
}

#[test]
fn executables_take_what_is_planted() {
    let result =
        result("executables", &[("RUNGWISE_DOUBLE_EXEC_BYTES", "70000"), ("RUNGWISE_DOUBLE_EXEC_NODE_BYTES", "9000")]);
    let mut planted = Planted::default();
    planted.expect("graph", &result["graph_bytes"], 70_000.0);
    planted.expect("node", &result["node_bytes"], 9_000.0);
    for descriptor in points(&result, "descriptors") {
        let [graphs, nodes] = ["graphs", "nodes"].map(|key| number(&descriptor[key]));
        planted.expect(descriptor["mode"].to_string(), &descriptor["bytes"], 70_000.0 * graphs + 9_000.0 * nodes);
    }
    assert_eq!(planted.found.len(), 4);
    for (name, [value, low, high], bytes) in &planted.found {
        assert!((low..=high).contains(&bytes), "{name}: {value} [{low}, {high}], planted {bytes}");
        assert!(high - low < 0.1 * value, "{name}: {value} [{low}, {high}]");
    }
}

#[test]
fn updates_cost_what_is_planted() {
    let result = result("update", &[]);
    let mut planted = Planted::default();
    planted.expect("fixed", &result["update_host"]["fixed_us"], 3.0);
    planted.expect("node", &result["update_host"]["each_us"], 0.35);
    planted.expect("fixed of a switch", &result["switch_host"]["fixed_us"], 3.0 + 5.0);
    planted.expect("node of a switch", &result["switch_host"]["each_us"], 0.35 + 0.06);
    for switch in points(&result, "switches") {
        let nodes = number(&switch["nodes"]);
        let replay_us = us::REPLAY + us::REPLAY_NODE * nodes;
        planted.expect(format!("update of {nodes}"), &switch["update_us"], 3.0 + 0.35 * nodes);
        planted.expect(format!("replay of {nodes}"), &switch["replay_host_us"], replay_us);
        // The executable goes to the device again.
        planted.expect(
            format!("next replay of {nodes}"),
            &switch["next_replay_host_us"],
            replay_us + 5.0 + 0.06 * nodes,
        );
    }
    planted.are_found();
}

/// A staircase planted in two products: each of four layers has two of them up to 16 rows, and the other kernel beyond.
const STAIRS: (&str, &str) =
    ("RUNGWISE_DOUBLE_STAIRS", "gemm_tile16_bf16=1:3000,9:7000;gemm_tile64_bf16=17:12000,33:20000,49:26000");

#[test]
fn padding_is_a_staircase_where_one_is_planted() {
    let check = |result: &Table| {
        let mut planted = Planted::default();
        for point in points(result, "points") {
            let [rows, nodes] = ["rows", "nodes"].map(|key| number(&point[key]));
            let product_us = match rows {
                ..9.0 => 3.0,
                ..17.0 => 7.0,
                ..33.0 => 12.0,
                ..49.0 => 20.0,
                _ => 26.0,
            };
            // Products of a layer: QKV, out projection, gate and up, down.
            let dense_us = us::GRAPH + us::NODE_KERNEL * nodes + 16.0 * (product_us - 1.5);
            planted.expect(format!("{rows} rows"), &point["device_us"], dense_us);
        }
        assert_eq!(number(&result["real_rows"]), 1.0);
        planted
    };
    check(&result("dense", &[STAIRS])).are_found();
    check(&result("dense", &[STAIRS, NOISY[0]])).are_covered();
}

/// `dense + attention + head` is the device time of a FULL step, whatever its kernels take.
#[test]
fn parts_of_a_step_sum_to_the_step() {
    let stairs = (STAIRS.0, &*format!("{};decode_attention_bf16=1:4000,16:6000;argmax_bf16=1:2500", STAIRS.1));
    let [rungs, dense, decode, head] = ["rungs", "dense", "decode", "head"].map(|probe| result(probe, &[stairs]));
    let at = |result: &Table, key: &str, is: &dyn Fn(&Table) -> bool| {
        let point = points(result, key).into_iter().find(|point| is(point)).expect("the point was measured").clone();
        let us = if key == "rungs" { &point["replay_device_us"] } else { &point["device_us"] };
        number(&us["value"])
    };
    for rows in [1.0, 16.0, 64.0] {
        let is = |key: &'static str| move |point: &Table| number(&point[key]) == rows;
        let step_us = at(&rungs, "rungs", &|rung| is("rows")(rung) && rung["mode"].as_str() == Some("FULL"));
        let decode_us = at(&decode, "points", &|point| is("requests")(point) && number(&point["context"]) == 128.0);
        let sum_us = at(&dense, "points", &is("rows")) + decode_us + at(&head, "points", &is("sequences"));
        assert!((sum_us / step_us - 1.0).abs() < 1e-5, "{rows} rows: {sum_us}, the step {step_us}");
    }
}

#[test]
fn attention_is_all_layers_without_the_graph_around_them() {
    let stairs = [("RUNGWISE_DOUBLE_STAIRS", "decode_attention_bf16=1:4000,16:6000;prefill_attention_bf16=1:9000")];
    let decode = result("decode", &stairs);
    let mut planted = Planted::default();
    for point in points(&decode, "points") {
        // Cache write, attention and merge of four layers.
        let kernel_us = if number(&point["requests"]) < 16.0 { 4.0 } else { 6.0 };
        planted.expect("decode", &point["device_us"], 4.0 * (3.0 * us::NODE_KERNEL + kernel_us - 1.5));
    }
    let prefill = result("prefill", &stairs);
    for point in points(&prefill, "points") {
        planted.expect("prefill", &point["device_us"], 4.0 * (2.0 * us::NODE_KERNEL + 9.0 - 1.5));
    }
    planted.are_found();
    assert_eq!(prefill["separate_kernels"].as_bool(), Some(true));
}

#[test]
fn the_head_is_three_launches() {
    let mut planted = Planted::default();
    for point in points(&result("head", &[("RUNGWISE_DOUBLE_STAIRS", "argmax_bf16=1:2500,64:4500")]), "points") {
        let argmax_us = if number(&point["sequences"]) < 64.0 { 2.5 } else { 4.5 };
        planted.expect("head", &point["device_us"], 3.0 * us::EAGER_KERNEL + argmax_us - 1.5);
    }
    planted.are_found();
}

/// The clock kernel tells the clock without NVML.
#[test]
fn the_clock_is_recorded() {
    let run = Double::driver().calibrate(&["probe", "launch", "--quick"], &[("RUNGWISE_DOUBLE_CLOCK_MHZ", "1410")]);
    let table: Table = run.stdout().parse().expect("the result is TOML");
    for (_, campaign) in table["campaigns"].as_table().expect("a table") {
        let mhz = number(&campaign["sm_clock_mhz"]["median"]);
        assert!((mhz / 1_410.0 - 1.0).abs() < 1e-4, "{mhz}");
    }
}

#[test]
fn what_spoils_a_probe_is_told() {
    let refusal = |probe: &str, variables: &[(&str, &str)]| {
        let run = Double::driver().calibrate(&["probe", probe, "--quick"], variables);
        assert_eq!((run.stdout(), run.complaints()), ("", vec![]), "{probe}");
        format!("exit {}\n{}", run.code().unwrap_or(-1), run.stderr())
    };
    // 480 launches of 5 ms each take longer than the gate waits.
    insta::assert_snapshot!("gate", refusal("launch", &[("RUNGWISE_DOUBLE_LAUNCH_NS", "5000000")]));
    // Half a second's worth of launches: too long only where a display hangs on the card.
    let slow = [("RUNGWISE_DOUBLE_LAUNCH_NS", "1500000"), ("RUNGWISE_DOUBLE_DISPLAY", "1")];
    insta::assert_snapshot!("gate_beside_a_display", refusal("launch", &slow));
    insta::assert_snapshot!("no_room_to_copy", refusal("bandwidth", &[("RUNGWISE_DOUBLE_MEMORY_BYTES", "1073741824")]));
    // 122 MiB of it are for the work by which the pace is taken.
    let too_small = [("RUNGWISE_DOUBLE_MEMORY_BYTES", "775913984")];
    insta::assert_snapshot!("no_room_for_executables", refusal("executables", &too_small));
}
