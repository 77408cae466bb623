//! Fast stepping is plain stepping: every field of every step and request, and every figure of the report.

use std::cell::RefCell;
use std::fmt::Write;
use std::io;
use std::path::Path;

use calibrate::profile::{Overlap, Profile};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestRunner};
use reports::{RequestLog, StepLog};
use sim::engine::scheduler::Stepping;
use sim::observe::{Event, Observer, Stretch};
use sim::record::{self, RequestLogger, StepLogger};

use crate::house::{House, Seen, for_all, require};
use crate::{profiles, sglang};

/// The logs and the report of a run, as text.
struct Run {
    steps: String,
    requests: String,
    report: String,
    count: u64,
    gained: Gained,
}

/// What fast stepping did not have to walk.
#[derive(Default)]
struct Gained {
    tokens_in_lockstep: u64,
    quiet_steps: u64,
    preemptions: u64,
}

impl Observer for Gained {
    fn observe(&mut self, event: &Event<'_>) -> io::Result<()> {
        match event {
            Event::StepScheduled(step) => self.tokens_in_lockstep += u64::from(step.plan.lockstep),
            Event::RequestPreempted { .. } => self.preemptions += 1,
            _ => {}
        }
        Ok(())
    }

    fn observe_stretch(&mut self, stretch: &Stretch<'_>) -> io::Result<()> {
        self.quiet_steps += stretch.beats.len() as u64;
        Ok(())
    }
}

impl Gained {
    fn add_to(&self, seen: &mut Seen) {
        seen.add("tokens in lockstep", self.tokens_in_lockstep);
        seen.add("quiet steps", self.quiet_steps);
        seen.add("preemptions", self.preemptions);
    }
}

fn run(house: &House, candidate: usize, stepping: Stepping) -> Result<Run, String> {
    let (scenario, setup) = (&house.scenario, &house.setups[candidate]);
    let name = &scenario.candidates[candidate].name;
    let header = record::step_header(scenario, &house.profile, "law", scenario.traffic.seed, name, setup);
    let told = |error: io::Error| error.to_string();
    let mut steps = StepLog::new(Vec::new());
    steps.header(&header).map_err(told)?;
    let requests = RequestLog::new(Vec::new()).map_err(told)?;
    let requests = RequestLogger::new(requests, name, scenario.traffic.seed, scenario.slo);
    let mut logs = ((StepLogger::new(steps, setup), requests), Gained::default());
    let outcome = house.serve_stepping(candidate, stepping, &mut logs)?;
    let (logs, gained) = logs;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("logs are text");
    Ok(Run {
        steps: text(logs.0.into_log().finish().map_err(told)?),
        requests: text(logs.1.into_log().finish().map_err(told)?),
        report: format!("{:?} {}", outcome.end, serde_json::to_string(&outcome.report).expect("a report is JSON")),
        count: outcome.end.steps,
        gained,
    })
}

/// The first line that differs.
fn same(what: &str, plain: &str, fast: &str) -> Result<(), String> {
    let differs = plain.lines().zip(fast.lines()).find(|(plain, fast)| plain != fast);
    require(plain == fast, || {
        format!("{what} differ:\nplain {:?}\nfast  {:?}", differs.map(|d| d.0), differs.map(|d| d.1))
    })
}

/// Runs a candidate both ways; the fast run.
fn alike(house: &House, candidate: usize) -> Result<Run, String> {
    let plain = run(house, candidate, Stepping::Plain)?;
    let fast = run(house, candidate, Stepping::Fast)?;
    same("steps", &plain.steps, &fast.steps)?;
    same("requests", &plain.requests, &fast.requests)?;
    same("reports", &plain.report, &fast.report)?;
    Ok(fast)
}

/// A lockstep that ends in a schedule without tokens: found by the long run.
#[test]
fn a_lockstep_that_ends_without_tokens_is_told() {
    let text = "schema = 1\nname = \"random\"\n[profile]\nbuiltin = \"textbook\"\n[server.vllm]\nversion = \"0.31.0\"\n\
        runner = \"v1\"\nattention_support = \"ALWAYS\"\nmax_num_seqs = 2\nmax_num_batched_tokens = 18\n\
        max_model_len = 55\nblock_size = 3\nasync_scheduling = false\nscheduler_reserve_full_isl = false\n\
        policy = \"priority\"\nnum_gpu_blocks_override = 20\n[traffic]\nseed = 13\nrequests = 54\n\
        [traffic.arrivals.poisson]\nrate = 13.205\n[traffic.lengths.lognormal]\n\
        prompt = { p50 = 1, sigma = 0.100, max = 75 }\noutput = { p50 = 22, sigma = 0.7, max = 200 }\n\
        [[traffic.priorities]]\npriority = -1\nshare = 0.2599627538938085\n[[traffic.priorities]]\npriority = 3\n\
        share = 0.7400372461061915\n[[candidate]]\nname = \"0\"\n";
    let profile = Profile::builtin("textbook").expect("built in");
    let house = House::open(text, Path::new(""), profile).expect("a scenario");
    alike(&house, 0).expect("alike");
}

/// `PROPTEST_CASES=10000 cargo test --release -p sim --test laws fast_steps -- --nocapture` is the long run.
#[test]
fn fast_steps_are_plain_steps() {
    let needed = ["steps", "tokens in lockstep", "quiet steps", "preemptions"];
    for_all("fast steps", 192, &needed, |case, seen| {
        let house = case.open()?;
        for candidate in 0..house.setups.len() {
            let fast = alike(&house, candidate)?;
            seen.add("steps", fast.count);
            fast.gained.add_to(seen);
        }
        Ok(())
    });
}

/// SGLang servers with what the scheduler can keep in lockstep, and what it has to walk.
fn sglang_texts() -> impl Strategy<Value = String> {
    // A server that reserves little retracts.
    let conservativeness = prop_oneof![0.01..0.2_f64, 0.2..1.2_f64];
    let flags = (prop::bool::weighted(0.2), prop::bool::weighted(0.2), 1_u32..120, conservativeness);
    let prefixes = prop::option::weighted(0.4, (0.1..1.0, 8_u32..150, 1_u32..4));
    let end = select(vec!["", "", "", "output_end = \"ignore_eos\"\n", "output_end.eos.max_new_tokens = 60\n"]);
    (sglang::texts(), flags, prefixes, end).prop_map(
        |(text, (mixed, dedup, shortest, conservativeness), prefixes, end)| {
            let text = if mixed { text } else { text.replace("mixed_chunk = true", "mixed_chunk = false") };
            let text = if dedup { text } else { text.replace("graph_dedup = true", "graph_dedup = false") };
            let mut text = text
                .replace("page_size", &format!("schedule_conservativeness = {conservativeness:.3}\npage_size"))
                .replace("output = [1, 90]", &format!("output = [{shortest}, {}]", shortest + 40))
                .replace("[traffic]\n", &format!("[traffic]\n{end}"));
            if let Some((share, tokens, count)) = prefixes {
                let _ = write!(
                    text,
                    "[[traffic.prefixes]]\nshare = {share:.3}\ntokens = {tokens}\ncount = {count}\n\
                 within = [{{ tokens = 20, count = 2 }}]\n"
                );
            }
            text
        },
    )
}

/// The same on SGLang servers, by as many cases.
#[test]
fn fast_steps_are_plain_steps_on_sglang_servers() {
    let mut config = Config { failure_persistence: None, rng_seed: RngSeed::Fixed(29), ..Config::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 192;
    }
    let seen = RefCell::new(Seen::default());
    let profile = select(vec!["textbook", "h200-llama-3.1-8b"]);
    let overlap = select(vec![Overlap::Pipelined, Overlap::Additive]);
    let outcome = TestRunner::new(config).run(&(sglang_texts(), profile, overlap), |(text, profile, overlap)| {
        let check = || {
            let house = House::open(&text, Path::new(""), profiles::builtin(profile, overlap))?;
            let fast = alike(&house, 0)?;
            let seen = &mut *seen.borrow_mut();
            seen.add("steps", fast.count);
            fast.gained.add_to(seen);
            Ok(())
        };
        check().map_err(|fault: String| TestCaseError::fail(format!("{fault}\n{profile} {overlap:?}\n{text}")))
    });
    if let Err(error) = outcome {
        panic!("fast steps differ on an SGLang server: {error}");
    }
    seen.borrow().finish("fast steps of SGLang", &["steps", "tokens in lockstep", "quiet steps", "preemptions"]);
}
