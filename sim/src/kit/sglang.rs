//! SGLang's kit: each set of flags in a server of its own, and its benchmark client against it.
//!
//! The client draws requests itself: Poisson arrivals, and lengths uniform between a share of a maximum and that maximum.

use super::requests::{Lengths, Requests};
use super::{Flagged, KitFile, RUNS, SCRIPT, client, lines};
use crate::engine::options::EngineOptions;
use crate::engine::sglang::options::{SchedulerOptions, SglangOptions};
use crate::flags::{Target, shell};
use crate::scenario::Scenario;
use crate::traffic::{Arrivals, TrafficKind};

/// The script, and the requests for whoever can replay them.
pub(super) fn files(
    scenario: &Scenario,
    sets: &[Flagged<'_>],
    target: Target,
    requests: &[Requests],
    not_reproduced: &mut Vec<String>,
) -> Vec<KitFile> {
    what_the_client_draws(scenario, &requests[0], not_reproduced);
    by_hand(sets, not_reproduced);
    let mut files = vec![KitFile { name: SCRIPT.to_owned(), text: script(scenario, sets, target, requests) }];
    files.extend(requests.iter().map(Requests::file));
    files
}

fn script(scenario: &Scenario, sets: &[Flagged<'_>], target: Target, requests: &[Requests]) -> String {
    let mut bench = client_options(scenario, &requests[0]);
    bench.extend(client::goodput(&scenario.slo));
    let seeds: Vec<String> = requests.iter().map(|drawn| drawn.seed.to_string()).collect();
    let runs: Vec<String> = (1..=RUNS).map(|run| run.to_string()).collect();
    let head = format!(
        "#!/bin/sh\n\
         # Serves each set of flags with {target} and measures it, {RUNS} times for each seed.\n\
         # MODEL is what the server loads; SERVER_FLAGS is what it needs beside these flags.\n\
         set -eu\n\
         : \"${{MODEL:?name the model that the server loads}}\"\n\
         mkdir -p results\n\
         server=\n\
         trap 'test -z \"$server\" || kill \"$server\"' EXIT\n\n\
         # measure NAME VARIABLES FLAGS...\n\
         measure() {{\n    \
             name=$1; variables=$2; shift 2\n    \
             env $variables python -m sglang.launch_server --model-path \"$MODEL\" \"$@\" ${{SERVER_FLAGS:-}} > \"results/$name.log\" 2>&1 &\n    \
             server=$!\n    \
             until curl -sf http://127.0.0.1:30000/health > /dev/null; do\n        \
                 kill -0 \"$server\" || {{ echo \"the server of $name ended: see results/$name.log\" >&2; exit 1; }}\n        \
                 sleep 2\n    \
             done\n    \
             for seed in {}; do\n        \
                 for run in {}; do\n            \
                     python -m sglang.bench_serving --backend sglang --port 30000 --seed \"$seed\" \\\n                \
                         {} \\\n                \
                         --tag \"$name\" --output-file \"results/$name-$seed-$run.jsonl\"\n        \
                 done\n    \
             done\n    \
             kill \"$server\"\n    \
             wait \"$server\" || true\n    \
             server=\n\
         }}\n\n",
        seeds.join(" "),
        runs.join(" "),
        shell::line(&bench)
    );
    let call = |Flagged { set, advice }: &Flagged<'_>| {
        let variables: Vec<String> = advice.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let head = vec!["measure".to_owned(), set.name.clone(), variables.join(" ")];
        shell::line(&[head, server_flags(&set.options), advice.command.clone()].concat())
    };
    head + &lines(sets.iter().map(call))
}

/// The client's options, as near to the traffic as they come.
fn client_options(scenario: &Scenario, requests: &Requests) -> Vec<String> {
    let (prompts, outputs) = (requests.prompts(), requests.outputs());
    let longest = |lengths: Lengths| format!("{:.0}", (lengths.mean * (1.0 + outputs.half_width)).max(1.0));
    let mut words: Vec<String> = ["--dataset-name", "random-ids", "--random-input-len"].map(str::to_owned).into();
    words.extend([longest(prompts), "--random-output-len".to_owned(), longest(outputs)]);
    let shortest = (1.0 - outputs.half_width) / (1.0 + outputs.half_width);
    words.extend(["--random-range-ratio".to_owned(), format!("{shortest:.3}")]);
    words.extend(["--num-prompts".to_owned(), requests.count().to_string()]);
    match (requests.concurrency, client::mean_rate(scenario, requests)) {
        (Some(clients), _) => {
            words.extend(["--request-rate", "inf", "--max-concurrency"].map(str::to_owned));
            words.push(clients.to_string());
        }
        (None, Some(rate)) => words.extend(["--request-rate".to_owned(), client::significant(rate)]),
        (None, None) => words.extend(["--request-rate", "inf"].map(str::to_owned)),
    }
    words
}

/// How the client's own requests depart from the scenario's.
fn what_the_client_draws(scenario: &Scenario, requests: &Requests, not_reproduced: &mut Vec<String>) {
    let (prompts, outputs) = (requests.prompts(), requests.outputs());
    if prompts.half_width > 0.0 || outputs.half_width > 0.0 {
        not_reproduced.push(format!(
            "The client draws lengths uniformly and with one ratio for prompts and outputs: means are kept ({:.0} and {:.0} \
             tokens), and of the outputs' spread what a uniform distribution has room for.",
            prompts.mean, outputs.mean
        ));
    }
    let is_poisson = matches!(
        scenario.traffic.kind,
        TrafficKind::Synthetic { arrivals: Arrivals::Poisson { .. } | Arrivals::ClosedLoop { .. }, .. }
    );
    if !is_poisson {
        not_reproduced.push(
            "The client's arrivals are a Poisson process at the mean rate: bursts, quiet times and the times of a trace are \
             lost."
                .to_owned(),
        );
    }
    if requests.shares_prefixes() {
        not_reproduced.push("The client's prompts share no heads.".to_owned());
    }
    not_reproduced.push(
        "requests-*.jsonl holds the requests of the simulation, exact to the token, for a client that replays rows of \
         timestamp (seconds), input_length, output_length and hash_ids."
            .to_owned(),
    );
}

/// The server's own flags, those that the engine would not set by itself.
fn server_flags(options: &EngineOptions) -> Vec<String> {
    let EngineOptions::Sglang(SglangOptions { scheduler, kv, parallel, .. }) = options else { return Vec::new() };
    let default = SchedulerOptions::default();
    let mut words = Vec::new();
    let mut value = |name: &str, value: Option<String>| {
        words.extend(value.map(|value| [format!("--{name}"), value]).into_iter().flatten());
    };
    let number = |number: Option<u32>| number.map(|number| number.to_string());
    value("context-length", Some(scheduler.context_length.to_string()));
    value("max-running-requests", number(scheduler.max_running_requests));
    value("chunked-prefill-size", scheduler.chunked_prefill_size.map(|size| size.to_string()));
    value(
        "max-prefill-tokens",
        number(Some(scheduler.max_prefill_tokens).filter(|it| *it != default.max_prefill_tokens)),
    );
    value("page-size", number(Some(scheduler.page_size).filter(|it| *it != default.page_size)));
    let conservativeness = scheduler.schedule_conservativeness;
    let differs = (conservativeness - default.schedule_conservativeness).abs() > f64::EPSILON;
    value("schedule-conservativeness", differs.then(|| conservativeness.to_string()));
    value("mem-fraction-static", kv.mem_fraction_static.map(|share| share.to_string()));
    value("max-total-tokens", number(kv.max_total_tokens));
    let ranks = |count: u32| number(Some(count).filter(|&count| count > 1));
    value("tp-size", ranks(parallel.tp_size));
    value("pp-size", ranks(parallel.pp_size));
    value("dp-size", ranks(parallel.dp_size));
    let switches = [
        ("--enable-mixed-chunk", scheduler.enable_mixed_chunk),
        ("--disable-overlap-schedule", scheduler.disable_overlap_schedule),
        ("--disable-radix-cache", scheduler.disable_radix_cache),
        ("--enable-dp-attention", parallel.enable_dp_attention),
        ("--enable-two-batch-overlap", parallel.enable_two_batch_overlap),
    ];
    words.extend(switches.into_iter().filter(|(_, on)| *on).map(|(flag, _)| flag.to_owned()));
    words
}

/// What of the server no flag of this kit sets.
fn by_hand(sets: &[Flagged<'_>], not_reproduced: &mut Vec<String>) {
    let EngineOptions::Sglang(options) = &sets[0].set.options else { return };
    if let Some(drafts) = options.speculative {
        not_reproduced.push(format!(
            "Speculative decoding is yours to turn on in SERVER_FLAGS, with --speculative-num-draft-tokens {}.",
            drafts.num_draft_tokens
        ));
    }
    if options.graphs.enable_lora {
        not_reproduced.push("LoRA is yours to turn on in SERVER_FLAGS.".to_owned());
    }
}
