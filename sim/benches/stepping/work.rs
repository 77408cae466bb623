//! What is run: a server and its traffic.

use std::fmt;
use std::fmt::Write as _;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use calibrate::profile::Profile;
use sim::engine::scheduler::Stepping;
use sim::metrics::Metrics;
use sim::observe::Observer;
use sim::scenario::Scenario;
use sim::server::{Replica, RunEnd, Setup};

/// The profile of all that is measured, but for decode steps beyond its tables and one more round of the conversation.
pub(crate) const PROFILE: &str = "a100-llama-3-8b";
/// The profile of that round: of a faster card, so steps are shorter and more of them only decode.
pub(crate) const FASTER_PROFILE: &str = "h200-llama-3.1-8b";

/// When the engine schedules a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheduling {
    /// While the step before it runs.
    Async,
    /// When the output of the step before it has been applied.
    Sync,
}

impl fmt::Display for Scheduling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Async { "async" } else { "sync" })
    }
}

/// Who is told the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watched {
    /// All that `sim run` reports.
    Metrics,
    /// Nobody.
    Nothing,
}

/// A server that is ready, and what it is to serve.
pub(crate) struct Work {
    scenario: Scenario,
    setup: Setup,
    /// Steps of one run.
    pub steps: u64,
    /// Requests of one run.
    pub requests: u32,
}

/// The public conversation trace, clipped to 4,096 tokens, if there.
pub(crate) fn conversation_trace() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let shared = root.join(std::env::var_os("RUNGWISE_SHARED").unwrap_or_else(|| "../shared".into()));
    let trace = shared.join("traces/workloads/splitwise_conv_clip4096.csv");
    trace.exists().then_some(trace)
}

impl Work {
    /// The conversation trace at a multiple of its rate.
    pub(crate) fn conversation(profile: &str, trace: &Path, rate_multiplier: u32, scheduling: Scheduling) -> Self {
        let trace = trace.display();
        Self::new(
            profile,
            &format!(
                "max_num_seqs = 128\nmax_num_batched_tokens = 4096\nmax_model_len = 8192\nasync_scheduling = {}\n",
                scheduling == Scheduling::Async
            ),
            &format!("[traffic.arrivals.trace]\nfile = \"{trace}\"\nrate_multiplier = {rate_multiplier}\n"),
        )
    }

    /// The same on an SGLang server, whose prefix cache nobody hits.
    pub(crate) fn sglang_conversation(trace: &Path, rate_multiplier: u32, scheduling: Scheduling) -> Self {
        let trace = trace.display();
        Self::serving(
            PROFILE,
            &format!(
                "[server.sglang]\nmax_running_requests = 128\nchunked_prefill_size = 4096\ncontext_length = 8192\n\
                 disable_overlap_schedule = {}\n",
                scheduling == Scheduling::Sync
            ),
            &format!("[traffic.arrivals.trace]\nfile = \"{trace}\"\nrate_multiplier = {rate_multiplier}\n"),
        )
    }

    /// Outputs of 128 tokens in the mean, about a hundred requests at a time; the engine's own ladder, or one of so many
    /// rungs.
    pub(crate) fn synthetic(requests: u32, rungs: Option<u32>) -> Self {
        let mut server = "max_num_seqs = 256\nmax_num_batched_tokens = 8192\nmax_model_len = 8192\n".to_owned();
        if let Some(rungs) = rungs {
            let sizes: Vec<u32> = (1..=rungs).map(|rung| rung * 512 / rungs).collect();
            let _ = writeln!(server, "cudagraph_capture_sizes = {sizes:?}");
        }
        Self::new(
            PROFILE,
            &server,
            &format!(
                "[traffic]\nseed = 7\nrequests = {requests}\n[traffic.arrivals.poisson]\nrate = 33\n\
                 [traffic.lengths.lognormal]\nprompt = {{ mean = 128, sigma = 0.5, max = 1024 }}\n\
                 output = {{ mean = 128, sigma = 0.5, max = 1024 }}\n"
            ),
        )
    }

    /// So many requests that begin together and get so many tokens each, with memory for all of them.
    pub(crate) fn decode(profile: &str, requests: u32, output_tokens: u32) -> Self {
        Self::new(
            profile,
            &format!(
                "max_num_seqs = {requests}\nmax_num_batched_tokens = 65536\nmax_model_len = {}\n\
                 num_gpu_blocks_override = {}\n",
                output_tokens + 16,
                requests * (output_tokens / 16 + 4)
            ),
            &format!(
                "[traffic]\nseed = 7\nrequests = {requests}\n[traffic.arrivals.closed_loop]\nconcurrency = {requests}\n\
                 [traffic.lengths.uniform]\nprompt = [1, 16]\noutput = [{output_tokens}, {output_tokens}]\n"
            ),
        )
    }

    /// A vLLM server with these flags.
    fn new(profile: &str, flags: &str, traffic: &str) -> Self {
        let server =
            format!("[server.vllm]\nversion = \"0.33.0\"\nrunner = \"v2\"\nenable_prefix_caching = false\n{flags}");
        Self::serving(profile, &server, traffic)
    }

    fn serving(profile: &str, server: &str, traffic: &str) -> Self {
        let text = format!(
            "schema = 1\nname = \"stepping\"\n{server}[profile]\nbuiltin = \"{profile}\"\n{traffic}\
             [slo]\nttft = \"1s\"\ntpot = \"50ms\"\n"
        );
        let scenario = Scenario::parse(&text, "stepping.toml", Path::new("")).expect("a valid scenario");
        let profile = Profile::builtin(profile).expect("a built-in profile");
        let setup = Setup::prepare(&scenario.candidates[0].options, &profile).expect("a server that starts");
        let mut work = Self { scenario, setup, steps: 0, requests: 0 };
        let (_, end) = work.run(Stepping::Fast, Watched::Nothing);
        (work.steps, work.requests) = (end.steps, end.requests_offered);
        work
    }

    /// One run, and the time that serving took.
    pub(crate) fn run(&self, stepping: Stepping, watched: Watched) -> (Duration, RunEnd) {
        match watched {
            Watched::Nothing => self.serve(stepping, &mut ()),
            Watched::Metrics => {
                let Self { scenario, setup, .. } = self;
                self.serve(stepping, &mut Metrics::new(scenario.slo, scenario.warm_up, &setup.cost, &setup.options))
            }
        }
    }

    /// The time that the requests alone take, without a server.
    pub(crate) fn drain(&self) -> Duration {
        let traffic = &self.scenario.traffic;
        let traffic = traffic.open(traffic.seed).expect("traffic");
        let start = Instant::now();
        for request in traffic {
            black_box(request.expect("a good row"));
        }
        start.elapsed()
    }

    fn serve(&self, stepping: Stepping, observer: &mut impl Observer) -> (Duration, RunEnd) {
        let traffic = &self.scenario.traffic;
        let traffic = traffic.open(traffic.seed).expect("traffic");
        let Setup { graphs, cost, .. } = &self.setup;
        let replica = Replica::new(self.setup.schedulers(stepping), graphs, cost);
        let start = Instant::now();
        let end = replica.serve(traffic, observer).expect("a run that ends");
        (start.elapsed(), end)
    }
}
