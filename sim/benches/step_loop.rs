//! How fast the event loop is: `cargo bench -p sim --bench step_loop`.
//!
//! One core, the public conversation trace clipped to 4,096 tokens (128 sequences, a budget of 4,096 tokens), a real
//! profile, metrics on. Prints steps per second, what metrics cost on the same work, peak memory, and the start-up of
//! the binary. The trace is read from `RUNGWISE_SHARED` (default `../shared`); without it a synthetic load of the same
//! rate and lengths stands in.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use calibrate::profile::Profile;
use sim::engine::scheduler::Stepping;
use sim::engine::shape::StepShape;
use sim::engine::vllm::options::{GraphOptions, KvOptions, Runner, SchedulerOptions, Version, VllmOptions};
use sim::engine::vllm::plan::GraphPlan;
use sim::metrics::Metrics;
use sim::observe::Observer;
use sim::scenario::Scenario;
use sim::server::{Replica, RunEnd, Setup};

/// Runs per figure; the fastest counts, as everything that disturbs a run makes it slower.
const REPETITIONS: usize = 7;

const SYNTHETIC: &str = "[traffic]\nseed = 7\nrequests = 19366\n[traffic.arrivals.poisson]\nrate = 5.53\n\
    [traffic.lengths.lognormal]\nprompt = { mean = 1154.7, sigma = 0.8083, max = 4096 }\n\
    output = { mean = 211.1, sigma = 0.6833, max = 1000 }\n";

fn main() {
    let trace = shared().join("traces/workloads/splitwise_conv_clip4096.csv");
    if trace.exists() {
        for multiplier in ["1.0", "4.0"] {
            let traffic = format!(
                "[traffic]\n[traffic.arrivals.trace]\nfile = {:?}\nrate_multiplier = {multiplier}\n",
                trace.display().to_string()
            );
            measure(&format!("splitwise_conv_clip4096, {multiplier} times its rate"), &traffic);
        }
    } else {
        println!("skipped: no {}", trace.display());
    }
    measure("synthetic load of the same rate and lengths", SYNTHETIC);
    println!("peak memory of this process: {:.1} MB", peak_memory_mb());
    start_up();
    for runner in [Runner::V1, Runner::V2] {
        dispatch(runner);
    }
}

/// The folder that holds `traces/`; a relative one starts at the workspace root.
fn shared() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    root.join(std::env::var_os("RUNGWISE_SHARED").unwrap_or_else(|| "../shared".into()))
}

fn measure(title: &str, traffic: &str) {
    println!("{title}:");
    for (name, asynchronous) in [("async", true), ("sync", false)] {
        let scenario = scenario(traffic, asynchronous);
        let profile = Profile::builtin("a100-llama-3-8b").expect("a built-in profile");
        let setup = Setup::prepare(&scenario.candidates[0].options, &profile).expect("a server that starts");
        let metrics = || Metrics::new(scenario.slo, scenario.warm_up, &setup.cost, asynchronous);
        let (bare_s, end) = fastest(&scenario, &setup, || ());
        let (full_s, _) = fastest(&scenario, &setup, metrics);
        println!(
            "  {name:5}: {} steps, {:.0} s simulated; with metrics {:.2} million steps/s ({:.2} us a step), without \
             {:.2}: ratio {:.2}",
            end.steps,
            end.at.since(sim::time::SimTime::ZERO).as_s(),
            end.steps as f64 / full_s / 1e6,
            full_s * 1e6 / end.steps as f64,
            end.steps as f64 / bare_s / 1e6,
            full_s / bare_s,
        );
    }
}

fn scenario(traffic: &str, asynchronous: bool) -> Scenario {
    let text = format!(
        "schema = 1\nname = \"step loop\"\n[server.vllm]\nmax_num_seqs = 128\nmax_num_batched_tokens = 4096\n\
         max_model_len = 8192\nenable_prefix_caching = false\nasync_scheduling = {asynchronous}\n\
         [profile]\nbuiltin = \"a100-llama-3-8b\"\n{traffic}[slo]\nttft = \"1s\"\ntpot = \"50ms\"\n"
    );
    Scenario::parse(&text, "step_loop.toml", Path::new("")).expect("a valid scenario")
}

fn fastest<O: Observer>(scenario: &Scenario, setup: &Setup, observer: impl Fn() -> O) -> (f64, RunEnd) {
    (0..REPETITIONS)
        .map(|_| {
            let traffic = scenario.traffic.open(scenario.traffic.seed).expect("traffic");
            let mut observer = observer();
            let start = Instant::now();
            let end = Replica::new(setup.schedulers(Stepping::Fast), &setup.graphs, &setup.cost)
                .serve(traffic, &mut observer);
            (start.elapsed().as_secs_f64(), end.expect("a run that ends"))
        })
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .expect("at least one repetition")
}

/// Peak resident memory in 10^6 bytes; 0 where the system does not say.
fn peak_memory_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
    kib.unwrap_or(0.0) * 1024.0 / 1e6
}

fn start_up() {
    let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/chunked.toml");
    let seconds = (0..REPETITIONS).map(|_| {
        let start = Instant::now();
        let output = Command::new(env!("CARGO_BIN_EXE_sim")).arg("check").arg(&scenario).output();
        assert!(output.expect("the binary starts").status.success());
        start.elapsed().as_secs_f64()
    });
    println!("start-up (`sim check` of five candidates): {:.3} s", seconds.fold(f64::INFINITY, f64::min));
}

/// What one dispatch costs, over a mix of decode and prefill steps.
fn dispatch(runner: Runner) {
    const ROUNDS: u32 = 100_000;
    let shapes: Vec<StepShape> =
        (0..64).map(|i| if i % 4 == 3 { prefill(40 + i * 11) } else { decode(1 + i * 3) }).collect();
    let options = VllmOptions {
        version: Version::V0_33_0,
        runner: Some(runner),
        scheduler: SchedulerOptions { max_num_batched_tokens: 8192, ..SchedulerOptions::default() },
        kv: KvOptions::default(),
        graphs: GraphOptions::default(),
    };
    let plan = GraphPlan::build(&options).expect("the engine's defaults");
    let round = |_| {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            for shape in &shapes {
                black_box(plan.dispatch(black_box(shape)));
            }
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS) / shapes.len() as f64
    };
    println!("dispatch, runner {runner}: {:.1} ns", (0..REPETITIONS).map(round).fold(f64::INFINITY, f64::min));
}

fn decode(requests: u32) -> StepShape {
    StepShape {
        requests,
        tokens: requests,
        max_query: 1,
        uniform_v1: true,
        uniform_v2: Some(1),
        ..StepShape::default()
    }
}

fn prefill(tokens: u32) -> StepShape {
    StepShape { requests: 4, tokens, max_query: tokens - 3, prefilling: true, ..StepShape::default() }
}
