//! The laws on SGLang servers: whatever does not depend on the engine, and its own rules of size and update, each counted
//! again by plain means.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use calibrate::profile::{Overlap, Profile};
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestRunner};
use sim::engine::plan::{GraphPlan, LadderUnit};
use sim::engine::shape::{FallbackCause, RuntimeMode};
use sim::engine::step::StepExtent;
use sim::observe::{Event, StepScheduled};
use sim::server::Setup;
use sim::time::SimTime;

use crate::house::{House, Law, Seen, Watched, require};

/// A small server under load, as the text of a scenario.
pub(crate) fn texts() -> impl Strategy<Value = String> {
    let sizes = |largest: u32| weighted(0.7, vec(1..largest, 1..6));
    let graphs = (
        select(vec!["full", "breakable", "disabled"]),
        select(vec!["breakable", "breakable", "disabled"]),
        sizes(24),
        sizes(200),
        any::<bool>(),
        prop::bool::weighted(0.2),
    );
    let scheduler = (
        select(vec![1_u32, 4, 16]),
        weighted(0.8, 2_u32..64),
        weighted(0.5, 1_u32..24),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        // The pool: from hardly more than one request up.
        prop_oneof![320_u32..700, 700_u32..3000],
    );
    let traffic = (1_u32..40, 10.0..2000.0_f64, 0_u32..1000, weighted(0.3, 1_u32..12));
    (graphs, scheduler, traffic).prop_map(|(graphs, scheduler, (requests, rate, seed, clients))| {
        let (decode, prefill, decode_sizes, prefill_sizes, dedup, exact) = graphs;
        let (page_size, chunk, rows, mixed, in_turn, uncached, pool) = scheduler;
        let mut text = format!(
            "schema = 1\nname = \"random\"\n[profile]\nbuiltin = \"textbook\"\n[server.sglang]\ncontext_length = 300\n\
             page_size = {page_size}\nenable_mixed_chunk = {mixed}\ndisable_overlap_schedule = {in_turn}\n\
             disable_radix_cache = {uncached}\nmax_total_tokens = {pool}\nchunked_prefill_size = {}\n\
             cuda_graph_backend_decode = \"{decode}\"\ncuda_graph_backend_prefill = \"{prefill}\"\n\
             enable_cuda_graph_dedup = {dedup}\ndisable_cuda_graph_padding = {exact}\n",
            chunk.map_or("-1".to_owned(), |pages| (pages.max(16 / page_size) * page_size).to_string())
        );
        if let Some(rows) = rows {
            let _ = writeln!(text, "max_running_requests = {rows}");
        }
        for (key, mut sizes) in [("cuda_graph_bs_decode", decode_sizes), ("cuda_graph_bs_prefill", prefill_sizes)]
            .into_iter()
            .filter_map(|(key, sizes)| Some((key, sizes?)))
        {
            sizes.sort_unstable();
            sizes.dedup();
            let _ = writeln!(text, "{key} = {sizes:?}");
        }
        let arrivals = match clients {
            Some(clients) => format!("closed_loop]\nconcurrency = {clients}"),
            None => format!("poisson]\nrate = {rate:.3}"),
        };
        let _ = write!(
            text,
            "[traffic]\nseed = {seed}\nrequests = {requests}\n[traffic.arrivals.{arrivals}\n\
             [traffic.lengths.uniform]\nprompt = [1, 200]\noutput = [1, 90]\n"
        );
        text
    })
}

/// What is counted again of one run.
struct Recount<'a> {
    graphs: &'a GraphPlan,
    pieces: u64,
    now: SimTime,
    usable: u32,
    /// Requests that have arrived and not finished, with the output tokens that they have.
    live: BTreeMap<u32, u64>,
    finished: u64,
    refused: u64,
    /// Per phase (prefill, decode): the size that its shared executables stand for.
    stands_for: [Option<u32>; 2],
    updates: u64,
    steps: u64,
    graph_steps: u64,
    peak_running: u32,
}

impl<'a> Recount<'a> {
    fn new(setup: &'a Setup) -> Self {
        let smallest = |decode: bool| {
            let graphs = setup.graphs.capture_order().iter();
            let alike = graphs.filter(|graph| graph.uniform.is_some() == decode);
            alike.filter(|graph| graph.mode == RuntimeMode::Piecewise).map(|graph| graph.tokens).min()
        };
        Self {
            graphs: &setup.graphs,
            pieces: u64::from(setup.attention_layers) + 1,
            now: SimTime::ZERO,
            usable: setup.kv_pool.num_gpu_blocks,
            live: BTreeMap::new(),
            finished: 0,
            refused: 0,
            stands_for: [smallest(false), smallest(true)],
            updates: 0,
            steps: 0,
            graph_steps: 0,
            peak_running: 0,
        }
    }

    /// The rule in one line per phase: the first listed size that holds the step, with padding at all, and for prompts
    /// not beyond twice the step.
    fn padded(&self, step: &StepScheduled<'_>, exact: bool) -> Option<u32> {
        let shape = &step.plan.shape;
        let phase = if shape.prefilling { "prefill" } else { "decode" };
        let ladder = self.graphs.ladders().into_iter().find(|ladder| ladder.phase == phase)?;
        let need = if ladder.unit == LadderUnit::Requests { shape.requests } else { shape.tokens };
        let size = ladder.sizes.into_iter().find(|&size| size >= need)?;
        let allowed = if shape.prefilling { size <= 2 * need } else { !exact || size == need };
        allowed.then_some(size)
    }

    fn check_step(&mut self, step: &StepScheduled<'_>, setup: &Setup) -> Result<(), String> {
        let options = setup.options.sglang().expect("an SGLang server");
        let descriptor = &step.dispatch.descriptor;
        let expected = self.padded(step, options.graphs.disable_cuda_graph_padding);
        let graph = descriptor.mode != RuntimeMode::None;
        require(graph == expected.is_some(), || format!("step {}: {descriptor:?}, by rule {expected:?}", step.step))?;
        require(graph == step.dispatch.cause.is_none(), || format!("step {}: {:?}", step.step, step.dispatch))?;
        let rows = expected.unwrap_or(step.work.tokens);
        require(descriptor.tokens == rows, || format!("step {}: {} rows, not {rows}", step.step, descriptor.tokens))?;
        require(step.dispatch.padded_rows(&step.plan.shape) == rows - step.work.tokens, || {
            format!("step {}: padding of {rows} rows", step.step)
        })?;
        let off = self.graphs.capture_order().is_empty();
        require(off == (step.dispatch.cause == Some(FallbackCause::GraphsOff)), || {
            format!("step {}: {:?} with graphs off: {off}", step.step, step.dispatch.cause)
        })?;
        let mut updates = 0;
        if self.graphs.shared_graphs(1).is_some() && descriptor.mode == RuntimeMode::Piecewise {
            let before = &mut self.stands_for[usize::from(!step.plan.shape.prefilling)];
            updates = if *before == Some(descriptor.tokens) { 0 } else { self.pieces };
            *before = Some(descriptor.tokens);
        }
        require(u64::from(step.cost.updates) == updates, || {
            format!("step {}: {} updates, by count {updates}", step.step, step.cost.updates)
        })?;
        self.updates += updates;
        self.steps += 1;
        self.graph_steps += u64::from(graph);
        self.peak_running = self.peak_running.max(step.running);
        require(step.usable_blocks == self.usable && step.free_blocks <= self.usable, || {
            format!(
                "step {}: {} free of {}, a pool of {}",
                step.step, step.free_blocks, step.usable_blocks, self.usable
            )
        })?;
        require(u64::from(step.running) + u64::from(step.waiting) == self.live.len() as u64, || {
            format!("step {}: {} + {} of {} live", step.step, step.running, step.waiting, self.live.len())
        })?;
        let at = step.span.scheduled;
        require(at >= self.now && step.span.end >= at, || format!("step {}: time falls to {at}", step.step))?;
        self.now = at;
        Ok(())
    }
}

/// A recount with what it is counted on.
struct Recounted<'a> {
    setup: &'a Setup,
    count: Recount<'a>,
}

impl Law for Recounted<'_> {
    fn see(&mut self, event: &Event<'_>) -> Result<(), String> {
        let count = &mut self.count;
        match event {
            Event::RequestArrived { id, .. } => {
                require(count.live.insert(id.0, 0).is_none(), || format!("request {} arrives twice", id.0))?;
            }
            Event::RequestRefused { .. } => count.refused += 1,
            Event::StepScheduled(step) => count.check_step(step, self.setup)?,
            Event::StepApplied { at, outcome, .. } => {
                require(*at >= count.now, || format!("time falls to {at}"))?;
                count.now = *at;
                for delivered in &outcome.delivered {
                    let id = delivered.id.0;
                    let tokens = count.live.get_mut(&id).ok_or_else(|| format!("request {id} is not live"))?;
                    require(delivered.first == (*tokens == 0), || format!("request {id}: first token again"))?;
                    *tokens += u64::from(delivered.tokens);
                    if delivered.finished {
                        count.live.remove(&id);
                        count.finished += 1;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn check(text: &str, overlap: Overlap, seen: &mut Seen) -> Result<(), String> {
    let mut profile = Profile::builtin("a100-llama-3-8b").map_err(|error| error.to_string())?;
    profile.overlap = overlap;
    let house = House::open(text, Path::new(""), profile)?;
    let setup = &house.setups[0];
    let mut law = Watched(Recounted { setup, count: Recount::new(setup) });
    let outcome = house.serve(0, &mut law)?;
    let count = &law.0.count;
    let offered = u64::from(outcome.end.requests_offered);
    require(count.live.is_empty() && count.finished + count.refused == offered, || {
        format!("{} finished and {} refused of {offered}, {} live", count.finished, count.refused, count.live.len())
    })?;
    let report = serde_json::to_value(&outcome.report).map_err(|error| error.to_string())?;
    let figure = |name: &str| report[name].as_f64();
    require(figure("executable_updates") == Some(count.updates as f64), || {
        format!("{} updates reported, {} counted", report["executable_updates"], count.updates)
    })?;
    let rungs = report["rungs"].as_array().expect("a list");
    let on_rungs: f64 = rungs.iter().filter_map(|rung| rung["steps"].as_f64()).sum();
    require((on_rungs - count.graph_steps as f64).abs() < 0.5 && outcome.end.steps == count.steps, || {
        format!("{on_rungs} steps on rungs, {} counted; {} of {}", count.graph_steps, outcome.end.steps, count.steps)
    })?;
    let again = house.serve(0, &mut Watched(Recounted { setup, count: Recount::new(setup) }))?;
    require(again.report == outcome.report && again.end == outcome.end, || "the same run again differs".to_owned())?;
    seen.add_run(&outcome);
    seen.add("updates", count.updates);
    seen.add("graph steps", count.graph_steps);
    seen.add("steps without a graph", count.steps - count.graph_steps);
    seen.add("refused requests", count.refused);
    seen.add("retractions", outcome.end.preemptions);
    Ok(())
}

/// On every SGLang server: requests are served once and none is lost, time never falls, the padded size is the rule's,
/// padding is what is missing, the pool is constant, shared executables follow the last size, sums agree, and the same
/// run again gives the same report.
#[test]
fn the_laws_hold_on_sglang_servers() {
    let config = Config { failure_persistence: None, cases: 256, rng_seed: RngSeed::Fixed(23), ..Config::default() };
    let seen = std::cell::RefCell::new(Seen::default());
    let overlap = select(vec![Overlap::Pipelined, Overlap::Additive]);
    let outcome = TestRunner::new(config).run(&(texts(), overlap), |(text, overlap)| {
        check(&text, overlap, &mut seen.borrow_mut())
            .map_err(|fault| TestCaseError::fail(format!("{fault}\n{overlap:?}\n{text}")))
    });
    if let Err(error) = outcome {
        panic!("a law is broken on an SGLang server: {error}");
    }
    let needed = ["runs", "updates", "graph steps", "steps without a graph", "retractions"];
    seen.borrow().finish("laws on SGLang", &needed);
}

/// Every step is explained as it ran: with the lengths that its scheduler knew.
struct ExplainedAsRun<'a>(&'a GraphPlan);

impl Law for ExplainedAsRun<'_> {
    fn see(&mut self, event: &Event<'_>) -> Result<(), String> {
        let Event::StepScheduled(step) = event else { return Ok(()) };
        let (plan, extent) = (step.plan, StepExtent::of(step.plan));
        let explained = self.0.dispatch_extent(&plan.shape, extent);
        require(explained == *step.dispatch, || format!("{explained:?}, but {:?} ran", step.dispatch))?;
        let last = self.0.explain(&plan.shape, extent).last().map(|guard| guard.rule);
        require((last == Some("padded_size")) == step.dispatch.cause.is_none(), || format!("{last:?}: {step:?}"))
    }
}

/// Phases may capture one mode and size, and one size several cached prefixes: each is a key of its own, and every step
/// counts once on its rung and once on its artifact.
#[test]
fn steps_count_once_where_phases_and_prefixes_share_sizes() {
    let shared = "cuda_graph_backend_decode = \"breakable\"\ncuda_graph_bs_decode = [8, 64]\n\
                  cuda_graph_bs_prefill = [8, 64]\n";
    let prefixes = "chunked_prefill_size = 128\ncuda_graph_max_seq_len_prefill = 250\n\
                    cuda_graph_config = { prefill = { backend = \"full\", bs = [64, 128], full_prefill_max_req = 4, \
                    full_prefill_prefix_chunk_tokens = 64 } }\n";
    for (flags, longest, rungs_fired, variants_fired) in [(shared, 64, 3, 0), (prefixes, 300, 3, 2)] {
        let text = format!(
            "schema = 1\nname = \"shared sizes\"\n[profile]\nbuiltin = \"textbook\"\n[server.sglang]\n\
             context_length = 400\nmax_running_requests = 64\n{flags}[traffic]\nrequests = 60\n\
             [traffic.arrivals.poisson]\nrate = 60\n[traffic.lengths.uniform]\nprompt = [40, {longest}]\noutput = [10, 60]\n"
        );
        let profile = Profile::builtin("textbook").expect("built in");
        let house = House::open(&text, Path::new(""), profile).unwrap_or_else(|fault| panic!("{fault}\n{text}"));
        let mut law = Watched(ExplainedAsRun(&house.setups[0].graphs));
        let outcome = house.serve(0, &mut law).unwrap_or_else(|fault| panic!("{fault}\n{text}"));
        let graph_steps = outcome.summary.rungs.total().steps as f64;
        let report = serde_json::to_value(&outcome.report).expect("writes");
        let list = |name: &str| report[name].as_array().expect("a list").clone();
        let steps = |entry: &serde_json::Value| entry["steps"].as_f64().expect("a count");
        let fired = list("rungs").iter().filter(|rung| steps(rung) > 0.0).count();
        assert!(fired >= rungs_fired, "{fired} rungs fired");
        assert!(list("rungs").iter().all(|rung| rung["phase"] == "decode" || rung["phase"] == "prefill"));
        let on_artifacts: f64 = list("artifacts").iter().filter(|one| !one["descriptor"].is_null()).map(steps).sum();
        let on_rungs: f64 = list("rungs").iter().map(steps).sum();
        assert!((on_rungs - graph_steps).abs() < 0.5, "{on_rungs} on rungs of {graph_steps}");
        assert!((on_artifacts - graph_steps).abs() < 0.5, "{on_artifacts} on artifacts of {graph_steps}");
        let artifacts = list("artifacts");
        let names: BTreeSet<&str> = artifacts.iter().filter_map(|one| one["artifact"].as_str()).collect();
        assert_eq!(names.len(), artifacts.len(), "artifacts are told apart by their names");
        let with_prefix = |one: &&serde_json::Value| one["descriptor"]["prefix_chunks"].is_u64() && steps(one) > 0.0;
        assert!(artifacts.iter().filter(with_prefix).count() >= variants_fired, "{artifacts:?}");
    }
}
