//! The padding staircase from the driver double to the report: what is planted is what an operator reads, whatever the noise.

use std::fmt::Write;
use std::fs;
use std::process::Command;

use crate::double::Double;

/// A Llama of two narrow layers: four products and one activation each.
const TINY: &str = r#"{
    "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 1024, "rms_norm_eps": 1e-5
}"#;

/// Edges where the own GEMM's tiles end; behind 128 rows it is faster, as on some cards.
const PRODUCTS: &str = "gemm_tile16_bf16=1:4000;gemm_tile64_bf16=17:7000;gemm_tile128_bf16=65:12000,129:9000";
/// The edges: the last row before each, and what the eight products take longer behind it.
const EDGES: [(u32, f64); 3] = [(16, 24.0), (64, 40.0), (128, -24.0)];
/// What a row costs in the activations of both layers, microseconds.
const ROW_US: f64 = 0.04;

/// One line of the report's table.
#[derive(Debug, PartialEq)]
struct Edge {
    last_row: u32,
    jump_us: f64,
    is_exact: bool,
}

/// What an operator reads.
struct Report {
    text: String,
    edges: Vec<Edge>,
}

/// A whole quick calibration with this planted, and the report of its profile; what the calibration printed.
fn calibrated(double: &Double, variables: &[(&str, &str)]) -> (String, Report) {
    let folder = tempfile::tempdir().expect("a folder to write to");
    fs::write(folder.path().join("tiny.json"), TINY).expect("the folder can be written");
    let arguments = ["--device", "0", "--quick", "--model", "tiny.json", "--ladder", "1,8,16,64,256"];
    let more = ["--time-limit", "10s", "--out", "mine.toml", "--no-progress"];
    let output = double.command(&[&arguments[..], &more].concat(), variables).current_dir(&folder).output();
    let output = output.expect("the binary was built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report =
        Command::new(env!("CARGO_BIN_EXE_calibrate")).current_dir(&folder).args(["report", "mine.toml"]).output();
    let text = String::from_utf8(report.expect("the binary was built").stdout).expect("reports are text");
    let edges = edges(&text);
    (String::from_utf8(output.stdout).expect("output is text"), Report { text, edges })
}

/// Lines such as `      17 to 64   0.0763     0.040  +40.0 us +-0.2 (+51.2 %), exactly here`; what is doubtful is no edge.
fn edges(report: &str) -> Vec<Edge> {
    let (_, table) = report.split_once("edge after it (95 %)\n").expect("a table of treads");
    let lines = table.lines().take_while(|line| !line.contains("one row of padding"));
    let edge = |line: &str| {
        let (tread, place) = line.split_once(" %), ")?;
        let words: Vec<&str> = tread.split_whitespace().collect();
        let jump = words.iter().position(|word| *word == "us")? - 1;
        // The last row, the time, the slope, the jump.
        let last_row = words[jump - 3].parse().expect("a row");
        Some(Edge { last_row, jump_us: words[jump].parse().expect("a time"), is_exact: place == "exactly here" })
    };
    lines.filter_map(edge).collect()
}

/// A report breaks its sentences.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The products' stairs, and the activation's cost row by row.
fn planted() -> String {
    let mut stairs = format!("{PRODUCTS};silu_mul_bf16=");
    for row in 1..=256 {
        let comma = if row == 1 { "" } else { "," };
        write!(stairs, "{comma}{row}:{}", 3_000 + 20 * row).expect("writing to a string");
    }
    stairs
}

#[test]
fn planted_edges_are_those_of_the_report() {
    let double = Double::driver_and_nvml();
    let stairs = planted();
    let mut rows_us = Vec::new();
    for seed in 0..4 {
        let seed = seed.to_string();
        let noise = [("RUNGWISE_DOUBLE_NOISE_PERMILLE", "20"), ("RUNGWISE_DOUBLE_SEED", &seed)];
        let variables = [&noise[..], &[("RUNGWISE_DOUBLE_STAIRS", stairs.as_str())]].concat();
        let (printed, report) = calibrated(&double, &variables);
        let text = &report.text;
        let found: Vec<u32> = report.edges.iter().map(|edge| edge.last_row).collect();
        assert_eq!(found, EDGES.map(|(row, _)| row), "seed {seed}: {text}");
        for (edge, (_, jump_us)) in report.edges.iter().zip(EDGES) {
            assert!(edge.is_exact && (edge.jump_us / jump_us - 1.0).abs() < 0.08, "seed {seed}: {edge:?}\n{text}");
        }
        let words = one_line(text);
        let (_, padding) = words.split_once("one row of padding: ").expect("the cost of a row");
        let (row_us, padding) = padding.split_once(' ').expect("a time and its unit");
        let row_us: f64 = row_us.parse().expect("a time");
        // Its interval is about a quarter of it to either side.
        assert!((row_us / ROW_US - 1.0).abs() < 0.35, "seed {seed}: {row_us}\n{text}");
        rows_us.push(row_us);
        let (low, rest) = padding.split_once('(').and_then(|(_, rest)| rest.split_once(" to ")).expect("an interval");
        let (high, rest) = rest.split_once(", ").expect("its end");
        let [low, high] = [low, high].map(|end| end.parse::<f64>().expect("a time"));
        assert!(low < ROW_US && ROW_US < high, "seed {seed}: {low} to {high}");
        assert!(rest.contains(" rounds); each edge"), "seed {seed}: {rest}");
        assert!(printed.contains("us a row between edges; 3 edges of tiles"), "seed {seed}: {printed}");
    }
    let mean_us = rows_us.iter().sum::<f64>() / rows_us.len() as f64;
    assert!((mean_us / ROW_US - 1.0).abs() < 0.15, "{rows_us:?}");
}

#[test]
fn without_stairs_there_are_no_edges() {
    let double = Double::driver_and_nvml();
    for seed in 0..3 {
        let seed = seed.to_string();
        let noise = [("RUNGWISE_DOUBLE_NOISE_PERMILLE", "20"), ("RUNGWISE_DOUBLE_SEED", &seed)];
        let (printed, report) = calibrated(&double, &noise);
        assert_eq!(report.edges, [], "seed {seed}: {}", report.text);
        assert!(one_line(&report.text).contains("no edge is proven"), "seed {seed}: {}", report.text);
        assert!(printed.contains("no edge of tiles is proven"), "seed {seed}: {printed}");
    }
}
