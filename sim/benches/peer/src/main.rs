//! Rungwise and the Rust crate `aisimulate-core` on the same workload files, in one process on one core:
//! `cargo run --release --manifest-path sim/benches/peer/Cargo.toml`.
//!
//! Both serve with 128 sequences, a budget of 4,096 tokens, the same KV pool, chunked prefill and no prefix cache. Ours
//! prices every step with a named profile, follows its graphs, keeps all metrics and reads the file as it goes. The peer
//! gets its requests ready-made and a constant price: the mean step time of our run, so that both take about as many
//! steps. Its own report is kept without a record a request.

mod ours;
mod theirs;

use std::path::{Path, PathBuf};
use std::time::Duration;

use ours::Ours;

/// Runs per figure; the fastest counts, as everything that disturbs a run makes it slower.
const REPETITIONS: usize = 5;

const WORKLOADS: [&str; 3] = ["splitwise_conv_clip4096", "synth_poisson8_2000", "burst_512x128x512"];

/// One run.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// What serving took.
    wall: Duration,
    /// Steps with tokens.
    steps: u64,
    /// Tokens put out.
    output_tokens: u64,
    /// Seconds simulated.
    simulated_s: f64,
}

/// One line of a workload file.
#[derive(Clone, Copy, Debug)]
struct Row {
    arrival_s: f64,
    prompt_tokens: usize,
    output_tokens: usize,
}

fn main() {
    println!(
        "{:<28}{:<16}{:>9}{:>10}{:>12}{:>14}{:>12}",
        "", "", "steps", "wall s", "M steps/s", "M tokens/s", "sim s/s"
    );
    for workload in WORKLOADS {
        let file = shared().join(format!("traces/workloads/{workload}.csv"));
        let Ok(text) = std::fs::read_to_string(&file) else {
            println!("{workload}: skipped: no {}", file.display());
            continue;
        };
        let rows: Vec<Row> = text.lines().skip(1).map(row).collect();
        // A burst at time zero has no rate.
        let is_burst = rows.iter().all(|row| row.arrival_s == 0.0);
        for rate_multiplier in if is_burst { 1..=1 } else { 1..=4 }.step_by(3) {
            let name = format!("{workload} x{rate_multiplier}");
            let server = Ours::new(&file, rate_multiplier);
            let ours = fastest(|| server.run());
            let step_ms = server.mean_step_ms();
            let theirs = fastest(|| theirs::run(&rows, rate_multiplier, server.kv_blocks(), step_ms));
            print(&name, "Rungwise", &ours);
            print("", "aisimulate-core", &theirs);
            println!(
                "{:<28}ratio: {:.1} in steps/s, {:.1} in tokens/s, {:.1} in simulated time",
                "",
                ours.per_s(ours.steps as f64) / theirs.per_s(theirs.steps as f64),
                ours.per_s(ours.output_tokens as f64) / theirs.per_s(theirs.output_tokens as f64),
                ours.per_s(ours.simulated_s) / theirs.per_s(theirs.simulated_s),
            );
        }
    }
}

/// The folder that holds `traces/`; a relative one starts at the root of the repository.
fn shared() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    root.join(std::env::var_os("RUNGWISE_SHARED").unwrap_or_else(|| "../shared".into()))
}

fn row(line: &str) -> Row {
    let fields: Vec<&str> = line.split(',').collect();
    let [arrival, prompt, output] = fields[..] else { panic!("three fields, but {line}") };
    Row {
        arrival_s: arrival.parse().expect("seconds"),
        prompt_tokens: prompt.parse().expect("tokens"),
        output_tokens: output.parse().expect("tokens"),
    }
}

fn fastest(run: impl Fn() -> Run) -> Run {
    (0..REPETITIONS).map(|_| run()).min_by_key(|run| run.wall).expect("at least one repetition")
}

fn print(name: &str, who: &str, run: &Run) {
    println!(
        "{name:<28}{who:<16}{:>9}{:>10.4}{:>12.3}{:>14.2}{:>12.0}",
        run.steps,
        run.wall.as_secs_f64(),
        run.per_s(run.steps as f64) / 1e6,
        run.per_s(run.output_tokens as f64) / 1e6,
        run.per_s(run.simulated_s),
    );
}

impl Run {
    fn per_s(&self, what: f64) -> f64 {
        what / self.wall.as_secs_f64()
    }
}
