//! Our side: the engine, its graphs, its prices and all metrics.

use std::path::Path;
use std::time::{Duration, Instant};

use calibrate::profile::Profile;
use sim::engine::scheduler::Stepping;
use sim::metrics::{Metrics, Summary};
use sim::scenario::Scenario;
use sim::server::{Replica, RunEnd, Setup};
use sim::time::SimTime;

use super::Run;

const PROFILE: &str = "a100-llama-3-8b";

/// A server that is ready, and the file that it is to serve.
pub(super) struct Ours {
    scenario: Scenario,
    setup: Setup,
}

impl Ours {
    pub(super) fn new(file: &Path, rate_multiplier: u32) -> Self {
        let text = format!(
            "schema = 1\nname = \"peer\"\n[server.vllm]\nversion = \"0.33.0\"\nrunner = \"v2\"\nmax_num_seqs = 128\n\
             max_num_batched_tokens = 4096\nmax_model_len = 8192\nenable_prefix_caching = false\n\
             async_scheduling = false\n[profile]\nbuiltin = \"{PROFILE}\"\n[traffic.arrivals.trace]\nfile = \"{}\"\n\
             rate_multiplier = {rate_multiplier}\n[slo]\nttft = \"1s\"\ntpot = \"50ms\"\n",
            file.display()
        );
        let scenario = Scenario::parse(&text, "peer.toml", Path::new("")).expect("a valid scenario");
        let profile = Profile::builtin(PROFILE).expect("a built-in profile");
        let setup = Setup::prepare(&scenario.candidates[0].options, &profile).expect("a server that starts");
        Self { scenario, setup }
    }

    /// Blocks of the KV pool, 16 tokens each.
    pub(super) fn kv_blocks(&self) -> usize {
        self.setup.kv_pool.num_gpu_blocks as usize
    }

    /// The mean time of a step.
    pub(super) fn mean_step_ms(&self) -> f64 {
        let steps = self.serve().2.steps;
        steps.ms_per_step(steps.duration).expect("a run with steps")
    }

    pub(super) fn run(&self) -> Run {
        let (wall, end, summary) = self.serve();
        Run {
            wall,
            steps: end.steps,
            output_tokens: summary.latency.output_tokens,
            simulated_s: end.at.since(SimTime::ZERO).as_s(),
        }
    }

    fn serve(&self) -> (Duration, RunEnd, Summary) {
        let Self { scenario, setup } = self;
        let start = Instant::now();
        let traffic = scenario.traffic.open(scenario.traffic.seed).expect("traffic");
        let mut metrics = Metrics::new(scenario.slo, scenario.warm_up, &setup.cost, &setup.options);
        let replica = Replica::new(setup.schedulers(Stepping::Fast), &setup.graphs, &setup.cost);
        let end = replica.serve(traffic, &mut metrics).expect("a run that ends");
        let summary = metrics.finish();
        (start.elapsed(), end, summary)
    }
}
