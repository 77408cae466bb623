//! `calibrate replay` on the driver double: steps priced with a profile that was just calibrated there, and what is refused.
//! Kernels take time there and compute nothing.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use calibrate::profile::Profile;
use serde_json::{Value, json};

use crate::double::{Double, Run};

/// A Llama of two narrow layers.
const TINY: &str = r#"{
    "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 1024, "rms_norm_eps": 1e-5
}"#;

/// Products take as long as on a device, so that what lies between kernels is no more than there: a staircase over rows.
const STAIRS: (&str, &str) = (
    "RUNGWISE_DOUBLE_STAIRS",
    "gemm_tile16_bf16=1:100000;gemm_tile64_bf16=1:130000;gemm_tile128_bf16=1:170000,129:340000;\
     decode_attention_bf16=1:20000;prefill_attention_bf16=1:90000",
);

/// The double, a tiny model and its profile.
struct Bench {
    double: Double,
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let bench = Self { double: Double::driver(), folder: tempfile::tempdir().expect("a folder to write to") };
        fs::write(bench.path("tiny.json"), TINY).expect("the folder can be written");
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Run {
        let output = self.double.command(arguments, variables).current_dir(&self.folder).output();
        Run { output: output.expect("the binary was built"), report: String::new() }
    }

    /// Calibrates the tiny model.
    fn profile(&self, variables: &[(&str, &str)]) -> Profile {
        let ladder = ["--ladder", "1,2,4,8,16,64", "--time-limit", "4s", "--out", "mine.toml", "--no-progress"];
        let arguments = [&["--device", "0", "--quick", "--model", "tiny.json"], &ladder[..]].concat();
        let run = self.run(&arguments, variables);
        assert_eq!(run.code(), Some(0), "{}{}", run.stdout(), run.stderr());
        Profile::load(&self.path("mine.toml")).expect("calibrate wrote it")
    }

    /// Replays a log of these lines; the JSON document too.
    fn replay(&self, log: &str, more: &[&str], variables: &[(&str, &str)]) -> (Run, Value) {
        fs::write(self.path("steps.jsonl"), log).expect("the folder can be written");
        let fixed = ["replay", "steps.jsonl", "--model", "tiny.json", "--out", "replay.json", "--time-limit", "4s"];
        let run = self.run(&[&fixed, more].concat(), variables);
        let document = fs::read(self.path("replay.json")).unwrap_or_else(|_| b"null".to_vec());
        (run, serde_json::from_slice(&document).expect("the document is JSON"))
    }
}

/// A step as a log has it.
#[derive(Clone, Copy)]
struct Step {
    mode: &'static str,
    rows: u32,
    prefill: Option<[u32; 2]>,
    decodes: u32,
    /// Of each decoding request.
    context: u32,
}

impl Step {
    fn decodes(mode: &'static str, rows: u32, decodes: u32, context: u32) -> Self {
        Self { mode, rows, prefill: None, decodes, context }
    }

    /// Device and launch time as `sim` predicts them (`sim/src/cost/model.rs`), in nanoseconds: dense, head, attention, gaps
    /// and launch.
    fn priced(&self, profile: &Profile) -> [u64; 5] {
        let ns = |us: f64| (us * 1e3).round() as u64;
        let machine = &profile.machine;
        let attention = &machine.attention.as_ref().expect("it was measured").figures;
        let sampled = self.decodes + u32::from(self.prefill.is_some());
        let mut attention_us = 0.0;
        if self.decodes > 0 {
            attention_us += attention.decode.at(self.decodes.into(), self.context.into()).value;
        }
        if let Some([chunk, context]) = self.prefill {
            attention_us += attention.prefill.at(chunk.into(), context.into()).value;
        }
        if self.decodes > 0 && self.prefill.is_some() {
            attention_us -= attention.shared_us;
        }
        if self.mode == "FULL" {
            attention_us += attention.padded_request_us * f64::from(self.rows - self.decodes);
        }
        let dense_us = machine.dense.figures.at(self.rows.into()).value;
        let gap = match self.mode {
            "FULL" => None,
            "PIECEWISE" => machine.piecewise_gap.as_ref(),
            _ => machine.eager_gap.as_ref(),
        };
        let gap_us = gap.map_or(0.0, |gap| gap.figures.within(self.rows.into()));
        let replay = &machine.replay.figures;
        let launch_us = replay.fixed_us + replay.node_us * f64::from(profile.engine.ops.figures.graph_nodes);
        let head_us = machine.head.figures.at(sampled.into()).value;
        [dense_us, head_us, attention_us, gap_us, launch_us].map(ns)
    }

    fn line(&self, number: usize, priced: [u64; 5]) -> String {
        let real = self.decodes + self.prefill.map_or(0, |[chunk, _]| chunk);
        let descriptor = (self.mode != "NONE").then(|| {
            let uniform = (self.mode == "FULL").then_some(1);
            let requests = (self.mode == "FULL").then_some(self.rows);
            json!({ "mode": self.mode, "tokens": self.rows, "requests": requests, "uniform": uniform, "max_query": null,
                "loras": 0, "ubatches": 1, "prefix_chunks": null })
        });
        let [dense, head, attention, gap, launch] = priced;
        let cost = json!({ "dense_ns": dense, "head_ns": head, "attention_ns": attention, "drafting_ns": 0,
            "gap_ns": gap, "device_ns": dense + head + attention + gap, "launch_ns": launch });
        let step = json!({ "step": number, "mode": self.mode, "descriptor": descriptor, "real_rows": real,
            "padded_rows": self.rows - real, "prefills": Vec::from_iter(self.prefill),
            "decode_requests": self.decodes, "decode_context": self.decodes * self.context, "drafts": 0,
            "active_loras": 0, "cost": cost });
        json!({ "step": step }).to_string()
    }
}

fn header(candidate: &str) -> String {
    let header =
        json!({ "schema": 1, "scenario": "Two ladders", "profile": "mine", "seed": 7, "candidate": candidate });
    json!({ "header": header }).to_string()
}

/// Steps of one candidate after the other, each with its price.
fn log(candidates: &[(&str, Vec<Step>)], price: impl Fn(&Step) -> [u64; 5]) -> String {
    let mut log = String::new();
    for (name, steps) in candidates {
        let _ = writeln!(log, "{}", header(name));
        for (number, step) in steps.iter().enumerate() {
            let _ = writeln!(log, "{}", step.line(number, price(step)));
        }
    }
    log
}

/// Three ladders for the same growing batch: rungs that fit, rungs that pad half of the batches to 64 rows, and one rung of
/// 64 rows. The same mixed step follows, without a graph where the ladder has no PIECEWISE one for it.
fn ladders() -> [(&'static str, Vec<Step>); 3] {
    let decodes = |rungs: &'static [u32]| {
        move |requests: u32| {
            let rung = rungs.iter().copied().find(|rung| *rung >= requests);
            let mode = if rung.is_some() { "FULL" } else { "NONE" };
            Step::decodes(mode, rung.unwrap_or(requests), requests, 100 + requests)
        }
    };
    let mixed = |mode, rows| Step { mode, rows, prefill: Some([40, 16]), decodes: 5, context: 90 };
    let steps = |rungs, last| (1..=20).map(decodes(rungs)).chain([last]).collect();
    [
        ("fine", steps(&[1, 2, 4, 8, 16], mixed("PIECEWISE", 64))),
        ("half", steps(&[8, 64], mixed("NONE", 45))),
        ("coarse", steps(&[64], mixed("NONE", 45))),
    ]
}

fn figure(document: &Value, path: &str) -> f64 {
    document.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path}: {document}"))
}

/// What a calibration on the double says of these steps is what they take there.
#[test]
fn a_calibrated_profile_prices_steps_as_they_run() {
    let bench = Bench::new();
    let noise = [STAIRS, ("RUNGWISE_DOUBLE_NOISE_PERMILLE", "20"), ("RUNGWISE_DOUBLE_HOST_NOISE_PERMILLE", "20")];
    let profile = bench.profile(&noise);
    let (run, document) = bench.replay(&log(&ladders(), |step| step.priced(&profile)), &[], &noise);
    assert_eq!(run.code(), Some(0), "{}{}", run.stdout(), run.stderr());
    assert_eq!(document["double"], true);
    assert_eq!((document["steps"].as_u64(), document["shapes"].as_u64()), (Some(63), Some(46)));
    for path in ["all", "by_mode/FULL", "by_mode/PIECEWISE", "by_mode/NONE"] {
        let mape = figure(&document, &format!("/device_time/{path}/mape"));
        println!("MAPE {path}: {:.2} %", mape * 100.0);
        assert!(mape < 0.02, "{path}: {mape}\n{}", run.stdout());
    }
    assert!(figure(&document, "/device_time/all/total_error").abs() < 0.02, "{}", run.stdout());
    assert!((figure(&document, "/kendall_tau") - 1.0).abs() < 1e-9, "{}", run.stdout());
}

/// Steps that mix decodes and a chunk make the cache writes once that both tables hold: without that term their price is off by
/// as much.
#[test]
fn mixed_steps_write_the_cache_once() {
    let bench = Bench::new();
    let profile = bench.profile(&[]);
    let mixed = |mode, rows| move |decodes| Step { mode, rows, prefill: Some([32, 16]), decodes, context: 90 };
    let steps = [
        ("PIECEWISE", (2..=20).map(mixed("PIECEWISE", 64)).collect::<Vec<_>>()),
        ("NONE", (2..=20).map(|decodes| mixed("NONE", 32 + decodes)(decodes)).collect()),
    ];
    let mut twice = profile.clone();
    twice.machine.attention.as_mut().expect("it was measured").figures.shared_us = 0.0;
    let mapes = [&twice, &profile].map(|profile| {
        let (run, document) = bench.replay(&log(&steps, |step| step.priced(profile)), &[], &[]);
        assert_eq!(run.code(), Some(0), "{}{}", run.stdout(), run.stderr());
        ["PIECEWISE", "NONE"].map(|mode| figure(&document, &format!("/device_time/by_mode/{mode}/mape")))
    });
    println!("MAPE of mixed steps (PIECEWISE, NONE), cache writes twice and once: {mapes:.4?}");
    assert!(mapes[1].iter().zip(mapes[0]).all(|(once, twice)| *once < 0.5 * twice && *once < 0.02), "{mapes:?}");
}

/// Kernels that take next to nothing: what is left of a step are the gaps of launches, nodes and pieces. Candidates differ by
/// their modes alone, and come out in the right order.
#[test]
fn gaps_are_priced_in_every_mode() {
    let bench = Bench::new();
    let profile = bench.profile(&[]);
    let decodes = |mode: &'static str| {
        let of = move |requests: u32| Step::decodes(mode, requests.next_power_of_two(), requests, 100 + requests);
        let eager = move |requests: u32| Step::decodes(mode, requests, requests, 100 + requests);
        let steps: Vec<Step> = match mode {
            "NONE" => (1..=64).map(eager).collect(),
            _ => (1..=16).map(of).collect(),
        };
        steps
    };
    let modes = ["FULL", "PIECEWISE", "NONE"].map(|mode| (mode, decodes(mode)));
    let (run, document) = bench.replay(&log(&modes, |step| step.priced(&profile)), &[], &[]);
    assert_eq!(run.code(), Some(0), "{}{}", run.stdout(), run.stderr());
    for mode in ["FULL", "PIECEWISE", "NONE"] {
        let mape = figure(&document, &format!("/device_time/by_mode/{mode}/mape"));
        assert!(mape < 0.02, "{mode}: {mape}\n{}", run.stdout());
    }
    assert!((figure(&document, "/kendall_tau") - 1.0).abs() < 1e-9, "{}", run.stdout());
}

/// Of the step's parts each is found where it was planted: a FULL replay, a PIECEWISE one, and launches.
#[test]
fn steps_take_what_the_double_plants() {
    let bench = Bench::new();
    let steps = vec![
        Step::decodes("FULL", 8, 5, 33),
        Step::decodes("PIECEWISE", 8, 5, 33),
        Step::decodes("NONE", 8, 8, 33),
        Step { mode: "NONE", rows: 25, prefill: Some([20, 7]), decodes: 5, context: 33 },
    ];
    let (run, document) = bench.replay(&log(&[("one", steps)], |_| [1_000_000, 0, 0, 0, 5_000]), &[], &[]);
    assert_eq!(run.code(), Some(0), "{}{}", run.stdout(), run.stderr());
    let us = |number: usize, what: &str| figure(&document, &format!("/runs/{number}/measured_{what}_us/value"));
    // A decode with splits has 12 launches in each of 2 layers with the head norms left out: norm, QKV, rotary, write,
    // attention, join, output, norm, gate and up, SiLU, down make 11; embedding and last norm besides; 3 of the head.
    let (kernel, gap, node, graph) = (1.5, 0.9, 0.35, 2.5);
    let head = 3.0 * (kernel + gap);
    let nodes = |count: f64| count * (kernel + node);
    let near = |found: f64, planted: f64| (found - planted).abs() < 0.02 * planted;
    let eager = 27.0 * kernel + 26.0 * gap;
    assert!(near(us(2, "device"), eager), "{} {eager}", us(2, "device"));
    let full = graph + nodes(24.0) + head;
    assert!(near(us(0, "device"), full), "{} {full}", us(0, "device"));
    // Three graphs; write, attention and join of two layers between them.
    let piecewise = 3.0 * graph + nodes(18.0) + 6.0 * (kernel + gap) + head;
    assert!(near(us(1, "device"), piecewise), "{} {piecewise}", us(1, "device"));
    // A prefill kernel more in each layer.
    let mixed = 29.0 * kernel + 28.0 * gap;
    assert!(near(us(3, "device"), mixed), "{} {mixed}", us(3, "device"));
    // Launches of 2.6 us, a replay of 3.5 us and 12 ns a node, the head left out where there are graphs.
    assert!(near(us(0, "launch"), 3.5 + 24.0 * 0.012), "{}", us(0, "launch"));
    assert!(near(us(1, "launch"), 3.0 * 3.5 + 18.0 * 0.012 + 6.0 * 2.6), "{}", us(1, "launch"));
    assert!(near(us(2, "launch"), 27.0 * 2.6), "{}", us(2, "launch"));
}

#[test]
fn what_does_not_fit_is_counted_and_said() {
    let bench = Bench::new();
    let steps = vec![Step::decodes("NONE", 4, 4, 100), Step::decodes("NONE", 4, 4, 2_000_000)];
    let planted = [("RUNGWISE_DOUBLE_MEMORY_BYTES", "2000000000")];
    let (run, document) = bench.replay(&log(&[("one", steps)], |_| [1_000, 0, 0, 0, 0]), &[], &planted);
    assert_eq!(run.code(), Some(0), "{}{}", run.stdout(), run.stderr());
    assert_eq!(document["not_replayed"][0]["steps"].as_f64(), Some(1.0));
    let line = run.stdout().lines().find(|line| line.contains("not replayed")).unwrap_or_default();
    assert!(
        line.starts_with("         not replayed: 1 of one, too large: up to 7.63 GiB of cache, and there is room for"),
        "{line}"
    );
}

#[test]
fn a_sample_of_many_shapes_stands_for_all() {
    let bench = Bench::new();
    let steps: Vec<Step> =
        (0..600).map(|step| Step::decodes("NONE", 1 + step / 100, 1 + step / 100, 50 + step)).collect();
    let lines = log(&[("one", steps)], |step| [u64::from(step.rows) * 40_000, 0, 0, 0, 0]);
    let (run, document) = bench.replay(&lines, &["--limit", "30", "--format", "json"], &[]);
    assert_eq!(run.code(), Some(0), "{}", run.stderr());
    assert_eq!(serde_json::from_str::<Value>(run.stdout()).expect("stdout is the document"), document);
    assert_eq!((document["shapes"].as_u64(), document["shapes_run"].as_u64()), (Some(600), Some(30)));
    assert!((figure(&document, "/device_time/all/steps") - 600.0).abs() < 1e-6);
    assert!((figure(&document, "/device_time/all/predicted_ms") - 84.0).abs() < 1e-6, "{document}");
}

#[test]
fn a_bad_log_is_refused_with_line_and_key() {
    let bench = Bench::new();
    let good = log(&[("one", vec![Step::decodes("NONE", 4, 4, 100)])], |_| [1_000, 0, 0, 0, 0]);
    let refused = |text: &str| {
        let (run, _) = bench.replay(text, &[], &[]);
        assert_eq!((run.code(), run.stdout()), (Some(3), ""));
        run.stderr().to_owned()
    };
    let text = good.replace("\"real_rows\":4", "\"real_rows\":\"4\"");
    insta::assert_snapshot!("wrong_key", refused(&text));
    insta::assert_snapshot!("no_step", refused(&format!("{}\n", header("one"))));
    insta::assert_snapshot!("other_schema", refused(&good.replace("\"schema\":1", "\"schema\":9")));
    let missing = bench.run(&["replay", "no/such.jsonl"], &[]);
    assert_eq!(missing.code(), Some(3));
    insta::assert_snapshot!("no_log", missing.stderr());
}

#[test]
fn a_log_of_another_model_is_said_and_a_noisy_neighbour_is_named() {
    let bench = Bench::new();
    let steps = vec![Step::decodes("NONE", 4, 4, 100), Step::decodes("FULL", 4, 4, 100)];
    let lines = log(&[("one", steps)], |_| [1_000_000, 0, 0, 0, 0]).replace("\"mine\"", "\"a100-llama-3-8b\"");
    let (run, document) = bench.replay(&lines, &[], &[("RUNGWISE_DOUBLE_NEIGHBOUR", "20000000:6000000:1000")]);
    assert_eq!(run.code(), Some(6), "{}{}", run.stdout(), run.stderr());
    assert!(run.stderr().starts_with(
        "warning: the log was priced with a100-llama-3-8b, a profile of meta-llama/Meta-Llama-3-8B, and is replayed with the shapes of tiny\n"
    ), "{}", run.stderr());
    assert!(run.stderr().contains("device time of steps: "), "{}", run.stderr());
    assert!(
        document["warnings"][0].as_str().is_some_and(|warning| warning.starts_with("device time of steps: ")),
        "{document}"
    );
}

/// The clock falls for 10 ms in the rounds of device times, which end when those of host times begin; it is named, with
/// both clocks.
#[test]
fn a_clock_that_falls_meanwhile_is_named() {
    const NOISE: (&str, &str) = ("RUNGWISE_DOUBLE_NOISE_PERMILLE", "20");
    let bench = Bench::new();
    let steps: Vec<Step> = (1..=6).map(|requests| Step::decodes("NONE", requests, requests, 100)).collect();
    let lines = log(&[("one", steps)], |_| [1_000_000, 0, 0, 0, 0]);
    let (calm, document) = bench.replay(&lines, &[], &[NOISE]);
    assert_eq!((calm.code(), calm.stderr()), (Some(0), ""), "{}", calm.stdout());
    let report = fs::read_to_string(bench.double.folder().join("report")).expect("the double reports");
    let end_ns = report.lines().find_map(|line| line.strip_prefix("clock: ")?.strip_suffix(" ns"));
    let end_ms = end_ns.and_then(|ns| ns.parse::<f64>().ok()).expect("the double tells its clock") / 1e6;
    let rounds_end_ms = end_ms - figure(&document, "/campaigns/host time of steps/seconds") * 1e3;
    let said = [12.0, 18.0, 24.0, 30.0].map(|before_ms| {
        let dip = format!("{:.0}:10000000:330", (rounds_end_ms - before_ms) * 1e6);
        let (run, _) = bench.replay(&lines, &[], &[NOISE, ("RUNGWISE_DOUBLE_DIP", &dip)]);
        assert_eq!(run.code() == Some(6), !run.stderr().is_empty(), "{}", run.stderr());
        run.stderr().to_owned()
    });
    let named = "device time of steps: clock dip: the clock fell from 1980 to 1488 MHz; ";
    assert!(said.iter().any(|text| text.starts_with(named)), "{said:#?}");
}

/// What is asked for as a file is written, whoever reads the table; and it is known at once whether it can be.
#[cfg(unix)]
#[test]
fn the_file_comes_before_the_table() {
    use std::process::Stdio;

    let bench = Bench::new();
    let profile = bench.profile(&[]);
    let step = Step::decodes("FULL", 4, 3, 128);
    fs::write(bench.path("steps.jsonl"), log(&[("one", vec![step])], |step| step.priced(&profile)))
        .expect("the folder can be written");
    let arguments = ["replay", "steps.jsonl", "--model", "tiny.json", "--time-limit", "2s", "--out"];
    let mut command = bench.double.command(&[&arguments[..], &["replay.json"]].concat(), &[]);
    let mut child = command.current_dir(&bench.folder).stdout(Stdio::piped()).spawn().expect("the binary was built");
    drop(child.stdout.take());
    assert!(child.wait().expect("it is our child").success());
    let document = fs::read(bench.path("replay.json")).expect("it was asked for");
    assert!(serde_json::from_slice::<Value>(&document).is_ok());
    for out in ["/dev/full", "/dev/null", "tiny.json/x"] {
        let run = bench.run(&[&arguments[..], &[out]].concat(), &[]);
        assert_eq!((run.code(), run.stdout()), (Some(1), ""), "{out}: {}", run.stderr());
        assert!(run.stderr().starts_with("error: cannot write "), "{}", run.stderr());
    }
}
