//! Logs of the simulation's own servers, whose costs are planted: what was planted comes back, or it is bounded from above.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use calibrate::profile::{Kind, Overlap, Profile};
use kernels::random::Random;

use super::agreement::refuse_faster;
use super::cells::device_us;
use super::finding::Finding;
use super::host::HostFindings;
use super::log::EngineLog;
use super::steps::{Server, of_log};
use super::{Fitted, Onto, StepFile, fit};
use crate::cost::{CostModel, EngineSide, Execution, StepCost};
use crate::engine::scheduler::Stepping;
use crate::fit::measured_step::{Clock, MeasuredStep};
use crate::observe::{Event, Observer};
use crate::scenario::Scenario;
use crate::server::{Replica, Setup};

const SEEDS: u64 = 20;
/// An interval of 95 % holds the planted figure in 19 of 20 logs on average; in fewer than this it is too narrow.
const HELD_LEAST: usize = 18;

/// Batches of up to 16 replay FULL graphs, larger ones run the compiled model without any.
fn scenario(asynchronous: bool) -> Scenario {
    let text = format!(
        "schema = 1\nname = \"planted\"\n[server.vllm]\nversion = \"0.33.0\"\nmax_num_seqs = 128\nmax_num_batched_tokens = 2048\n\
         max_model_len = 4096\nattention_support = \"ALWAYS\"\nasync_scheduling = {asynchronous}\n\
         cudagraph_capture_sizes = [1, 2, 4, 8, 16]\n[profile]\nbuiltin = \"h200-llama-3.1-8b\"\n[traffic]\nseed = 7\n\
         requests = 160\n[traffic.arrivals.gamma]\nrate = 14.0\nburstiness = 0.4\n[traffic.lengths.lognormal]\n\
         prompt = {{ mean = 400.0, sigma = 0.8, min = 2, max = 2000 }}\noutput = {{ mean = 180.0, sigma = 0.6, min = 7, max = 900 }}\n\
         [[candidate]]\nname = \"small\"\n"
    );
    Scenario::parse(&text, "planted.toml", Path::new(".")).expect("valid")
}

/// Writes the lines that vLLM would.
struct Writer {
    log: String,
    noise: Random,
}

impl Observer for Writer {
    fn observe(&mut self, event: &Event<'_>) -> io::Result<()> {
        let Event::StepScheduled(step) = event else { return Ok(()) };
        let (work, blocks) = (step.work, f64::from(step.usable_blocks));
        // A hundredth to either side, and now and then a step that something else holds up.
        let noise = 1.0 + 0.015 * self.noise.signed();
        let noise = if self.noise.below(300) == 0 { 4.0 * noise } else { noise };
        writeln!(
            self.log,
            "(EngineCore_DP0 pid=1) INFO 07-08 00:00:02 [core.py:359] Iteration({}): {} context requests, {} context tokens, {} \
             generation requests, {} generation tokens, iteration elapsed time: {:.2} ms, GPU KV cache usage: {:.1}%",
            step.step,
            work.requests - work.decode_requests,
            work.chunk_tokens,
            work.decode_requests,
            u64::from(work.tokens) - work.chunk_tokens,
            step.span.duration.0 as f64 / 1e6 * noise,
            100.0 * (blocks - f64::from(step.free_blocks)) / blocks
        )
        .map_err(io::Error::other)
    }
}

/// The profile that logs are fitted onto, and the same with planted costs.
fn profiles(planted: fn(&mut Profile)) -> [Profile; 2] {
    let given = Profile::builtin("h200-llama-3.1-8b").expect("built in");
    let mut truth = given.clone();
    truth.engine.dispatch.figures.compiled_us_range = None;
    planted(&mut truth);
    [given, truth]
}

fn logged(truth: &Profile, scenario: &Scenario, seed: u64) -> EngineLog {
    let setup = Setup::prepare(&scenario.candidates[0].options, truth).expect("starts");
    let mut writer = Writer { log: String::new(), noise: Random::named("noise", seed) };
    let traffic = scenario.traffic.open(seed).expect("opens");
    Replica::new(setup.schedulers(Stepping::Plain), &setup.graphs, &setup.cost)
        .serve(traffic, &mut writer)
        .expect("serves");
    let tokens = u64::from(setup.kv_pool.num_gpu_blocks) * 16;
    writeln!(writer.log, "INFO 04-16 16:58:43 [kv_cache_utils.py:1314] GPU KV cache size: {tokens} tokens")
        .expect("text");
    EngineLog::of_text(&writer.log).expect("a log")
}

/// Fits the logs of all seeds and looks at each.
fn each_seed(planted: fn(&mut Profile), asynchronous: bool, mut look: impl FnMut(&Fitted<'_>)) {
    let ([given, truth], scenario) = (profiles(planted), scenario(asynchronous));
    let options = scenario.candidates[0].options.clone();
    let server = Server { plan: Setup::plan(&options, &given).expect("starts"), options };
    for seed in 0..SEEDS {
        let log = logged(&truth, &scenario, seed);
        let steps = of_log(&log, Some(&server), None).expect("steps").steps;
        let files = [StepFile { file: log.file.clone(), sha256: log.sha256.clone(), steps }];
        let onto = Onto { profile: &given, server: Some(&server), asynchronous };
        look(&fit(&onto, &files, &[log]).expect("a profile"));
    }
}

/// How often the interval of a fitted figure holds what was planted; the figure itself is never far.
#[derive(Default)]
struct Held(usize);

impl Held {
    #[track_caller]
    fn look(&mut self, finding: &Finding, planted: f64, share: f64) {
        let Finding::Fitted { value, interval: [low, high], .. } = finding else { panic!("{finding:?}") };
        assert!((value / planted - 1.0).abs() < share, "{value} for {planted}: {finding:?}");
        self.0 += usize::from((*low..=*high).contains(&planted));
    }

    #[track_caller]
    fn enough(&self, what: &str) {
        assert!(self.0 >= HELD_LEAST, "{what}: in {} of {SEEDS} logs", self.0);
    }
}

#[track_caller]
fn bounded(finding: &Finding, planted: f64) {
    let Finding::Bounded { most, .. } = finding else { panic!("{finding:?}") };
    assert!(*most >= planted, "{most} bounds {planted}");
}

/// Of steps without a graph.
fn median_errors(fitted: &Fitted<'_>) -> [f64; 2] {
    let of_kind = fitted.errors.iter().find(|errors| errors.execution == Some(Execution::CompiledEager));
    let errors = of_kind.expect("such steps judge");
    [&errors.before, &errors.after].map(|errors| calibrate::measure::median(errors))
}

#[test]
fn launches_that_hold_steps_up_come_back_and_hidden_preparation_is_bounded() {
    let mut held = Held::default();
    each_seed(
        |truth| truth.engine.dispatch.figures.compiled_us = 25.0,
        true,
        |fitted| {
            // Preparation hides behind the device: the launches' interval holds whatever it is, the value takes the planned one.
            held.look(&fitted.host.compiled_us, 25.0, 0.02);
            bounded(&fitted.host.step_overhead_us, 800.0);
            bounded(&fitted.host.per_request_us, 4.0);
            assert!(matches!(fitted.host.eager_us, Finding::Silent { .. }));
            let [before, after] = median_errors(fitted);
            assert!(after < 0.015 && before > 10.0 * after, "{before} {after}");
            assert!(!fitted.outliers.is_empty(), "some steps were held up");
            let engine = &fitted.profile.engine;
            assert_eq!(engine.dispatch.provenance.kind, Kind::Derived);
            assert_eq!(engine.host.provenance.kind, Kind::Declared);
            assert!(engine.host.provenance.range.as_ref().is_some_and(|range| range.contains("upper bound")));
        },
    );
    held.enough("compiled");
}

#[test]
fn hidden_launches_are_bounded_from_above_and_keep_their_planned_value() {
    each_seed(
        |truth| truth.engine.dispatch.figures.compiled_us = 4.0,
        true,
        |fitted| {
            bounded(&fitted.host.compiled_us, 4.0);
            bounded(&fitted.host.step_overhead_us, 800.0);
            let dispatch = &fitted.profile.engine.dispatch;
            assert_eq!(dispatch.provenance.kind, Kind::Declared, "no point value is made up");
            assert!(dispatch.provenance.range.as_ref().is_some_and(|range| range.contains("not identifiable")));
            assert!(dispatch.figures.compiled_us_range.expect("planned").high < 20.0, "the planning range is cut down");
        },
    );
}

#[test]
fn synchronous_steps_tell_preparation_and_launches_apart() {
    let [mut overhead, mut request, mut compiled] = [const { Held(0) }; 3];
    each_seed(
        |truth| {
            let host = &mut truth.engine.host.figures;
            (host.step_overhead_us, host.per_request_us) = (1500.0, 30.0);
            truth.engine.dispatch.figures.compiled_us = 25.0;
        },
        false,
        |fitted| {
            overhead.look(&fitted.host.step_overhead_us, 1500.0, 0.05);
            request.look(&fitted.host.per_request_us, 30.0, 0.25);
            compiled.look(&fitted.host.compiled_us, 25.0, 0.02);
        },
    );
    overhead.enough("overhead");
    request.enough("request");
    compiled.enough("compiled");
}

#[test]
fn a_host_that_holds_every_step_up_shows_all_its_costs() {
    let [mut overhead, mut request, mut compiled] = [const { Held(0) }; 3];
    each_seed(
        |truth| {
            let host = &mut truth.engine.host.figures;
            (host.step_overhead_us, host.per_request_us) = (9000.0, 60.0);
            truth.engine.dispatch.figures.compiled_us = 25.0;
        },
        true,
        |fitted| {
            overhead.look(&fitted.host.step_overhead_us, 9000.0, 0.02);
            request.look(&fitted.host.per_request_us, 60.0, 0.25);
            compiled.look(&fitted.host.compiled_us, 25.0, 0.04);
        },
    );
    overhead.enough("overhead");
    request.enough("request");
    compiled.enough("compiled");
}

/// Prices of decode batches, without an event loop: a line a batch, as the engine's own clock would have it.
fn prices(truth: &Profile, server: &Server, requests: u32, context: f64) -> (StepCost, u32, Execution) {
    let side = EngineSide::of(&server.options, &server.plan, truth);
    let model = CostModel::new(truth, &side);
    let (execution, rows) = server.dispatch(requests, 1);
    let step = MeasuredStep {
        line: 1,
        execution,
        rows,
        work: MeasuredStep::work(requests, context, 0, 0),
        us: 1.0,
        count: 1,
        clock: Clock::Period,
    };
    (step.price(&model), rows, execution)
}

fn server(profile: &Profile) -> Server {
    let options = scenario(true).candidates[0].options.clone();
    let plan = Setup::plan(&options, profile).expect("starts");
    Server { options, plan }
}

fn fitted_text(given: &Profile, server: Option<&Server>, text: &str, context: Option<f64>) -> HostFindings {
    let log = EngineLog::of_text(text).expect("a log");
    let steps = of_log(&log, server, context).expect("steps").steps;
    let files = [StepFile { file: log.file.clone(), sha256: log.sha256.clone(), steps }];
    fit(&Onto { profile: given, server, asynchronous: true }, &files, &[log]).expect("a profile").host
}

#[test]
fn forward_passes_that_are_waited_for_show_launches_and_no_preparation() {
    for (planted_us, is_hidden) in [(25.0, false), (4.0, true)] {
        let [given, mut truth] = profiles(|_| ());
        truth.engine.dispatch.figures.compiled_us = planted_us;
        let server = server(&given);
        let sizes = [1, 2, 4, 8, 16, 20, 28, 36, 44, 52, 60].map(|requests| {
            let (cost, ..) = prices(&truth, &server, requests, 700.0);
            let times = cost.times();
            let forward_ns = (times.device.0 - cost.head_ns).max(times.launch.0);
            format!("({requests}, 1000, {:.2})", forward_ns as f64 / 1e6)
        });
        let line = |sizes: &[String]| {
            let sizes = sizes.join(", ");
            format!(
                "INFO 11-29 16:40:40 [a.py:1] Batchsize forward time stats (batchsize, count, median_time(ms)): [{sizes}]\n"
            )
        };
        // Every line holds everything since the start: only the last counts. Sizes above the server's requests are no decodes.
        let last = [&sizes[..], &["(1500, 40, 61.0)".to_owned()]].concat();
        let text = line(&["(8, 2, 900.0)".to_owned()]) + &line(&last);
        let found = fitted_text(&given, Some(&server), &text, Some(700.0));
        assert!(matches!(found.step_overhead_us, Finding::Silent { .. }), "{found:?}");
        if is_hidden {
            bounded(&found.compiled_us, planted_us);
        } else {
            let Finding::Fitted { value, samples, .. } = found.compiled_us else { panic!("{found:?}") };
            assert!((value - planted_us).abs() < 0.05 && samples >= 3000, "{value} {samples}");
        }
    }
}

#[test]
fn decode_lines_of_sglang_show_what_runs_without_a_graph() {
    let [given, mut truth] = profiles(|_| ());
    truth.engine.dispatch.figures.eager_us = 33.0;
    let server = server(&given);
    let mut model = truth.clone();
    // The same batches run eagerly above 16 requests in SGLang, by operations of a model without compilation.
    model.engine.ops.figures.compiled = model.engine.ops.figures.eager;
    model.engine.dispatch.figures.compiled_us = 33.0;
    let mut text = "[2025-07-29 18:14:22 TP0] Capture target decode CUDA graph begin. backend=full, num_tokens_per_req=1, bs=[1, 2, \
                    4, 8, 16], avail mem=7.10 GB\n\
                    [2025-07-29 18:14:43 TP0] Capture target decode CUDA graph end. elapsed=1.50 s, mem usage=0.25 GB, avail \
                    mem=6.95 GB.\n"
        .to_owned();
    for requests in [5, 9, 14, 20, 30, 40, 50] {
        for jitter in 0..12 {
            let (cost, _, execution) = prices(&model, &server, requests, 800.0);
            let us = cost.period(Overlap::Pipelined, true).0 as f64 / 1e3 * (1.0 + 0.001 * f64::from(jitter % 5));
            let graph = if execution == Execution::Full { "True" } else { "False" };
            writeln!(
                text,
                "[2025-07-29 18:15:10 TP0] Decode batch, #running-req: {requests}, #token: {}, token usage: 0.40, cuda graph: \
                 {graph}, gen throughput (token/s): {:.2}, #queue-req: 0",
                requests * 800,
                f64::from(requests) / us * 1e6
            )
            .expect("text");
        }
    }
    let found = fitted_text(&given, None, &text, None);
    let Finding::Fitted { value, .. } = found.eager_us else { panic!("{found:?}") };
    assert!((value - 33.0).abs() < 0.4, "{value}");
    bounded(&found.step_overhead_us, 800.0);
    assert!(matches!(found.compiled_us, Finding::Silent { .. }));
}

/// Whatever a log ends with, and in which order its lines come.
#[test]
fn cut_reordered_and_interleaved_logs_are_read_as_far_as_they_go() {
    let [given, truth] = profiles(|truth| truth.engine.dispatch.figures.compiled_us = 25.0);
    let server = server(&given);
    let lines: Vec<String> = [8_u32, 12, 24, 40, 48, 56]
        .iter()
        .cycle()
        .take(60)
        .enumerate()
        .map(|(number, &requests)| {
            let (cost, ..) = prices(&truth, &server, requests, 700.0);
            format!(
                "(EngineCore_DP{} pid=1) INFO 07-08 00:00:02 [core.py:359] Iteration({number}): 0 context requests, 0 context tokens, \
                 {requests} generation requests, {requests} generation tokens, iteration elapsed time: {:.2} ms",
                number % 2,
                cost.period(Overlap::Pipelined, true).0 as f64 / 1e6
            )
        })
        .collect();
    let value = |text: &str| match fitted_text(&given, Some(&server), text, Some(700.0)).compiled_us {
        Finding::Fitted { value, .. } => value,
        other => panic!("{other:?}"),
    };
    let whole = lines.join("\n");
    let mut turned = lines.clone();
    turned.reverse();
    assert!((value(&whole) - value(&turned.join("\r\n"))).abs() < 0.05);
    // A line of one rank cut off by one of another is left out.
    let torn = lines.join("\n").replacen("generation tokens, iteration", "gener(EngineCore_DP1 pid=2) INFO", 1);
    assert!((value(&torn) - value(&whole)).abs() < 0.05);
    for cut in (0..whole.len()).step_by(97) {
        if let Ok(log) = EngineLog::of_text(&whole[..cut]) {
            let steps = of_log(&log, Some(&server), Some(700.0)).expect("steps").steps;
            let files = [StepFile { file: String::new(), sha256: String::new(), steps }];
            fit(&Onto { profile: &given, server: Some(&server), asynchronous: true }, &files, &[log])
                .expect("a profile");
        }
    }
}

#[test]
fn measured_groups_stay_and_the_same_log_gives_the_same_profile() {
    let text = include_str!("../../../../tests/calibrate/double.toml");
    let given = Profile::from_toml(text, "double.toml").expect("a profile");
    let lines = "Capturing CUDA graphs (decode, FULL): 100%|##########| 35/35 [00:17<00:00,  4.10it/s]\n\
                 CUDA graph pool memory: 1.68 GiB (actual), 0.67 GiB (estimated), difference: 1.01 GiB (60.0%).\n";
    let log = EngineLog::of_text(lines).expect("a start");
    let onto = Onto { profile: &given, server: None, asynchronous: true };
    let fitted = fit(&onto, &[], std::slice::from_ref(&log)).expect("a profile").profile;
    assert_eq!(fitted.machine, given.machine, "measured");
    let per_capture_s = fitted.engine.startup.figures.per_capture_s.expect("the engine's part");
    let machine_s = given.machine.capture.figures.full_s;
    assert!((per_capture_s - (17.0 / 35.0 - machine_s)).abs() < 2e-3, "{per_capture_s} beside {machine_s}");
    assert_eq!(fit(&onto, &[], &[log]).expect("a profile").profile.to_toml(), fitted.to_toml());
}

/// A short start, as of a small ladder: the bar is full before its clock has counted a second.
#[test]
fn captures_in_no_whole_second_are_bounded_and_make_a_profile() {
    let bar =
        |what: &str, clock: &str| format!("Capturing CUDA graphs ({what}): 100%|###| 6/6 [{clock}<00:00, 11.80it/s]\n");
    let start = |given: &Profile, text: &str| {
        let log = EngineLog::of_text(text).expect("a start");
        let logs = [log];
        fit(&Onto { profile: given, server: None, asynchronous: true }, &[], &logs)
            .map(|fitted| (fitted.start, fitted.profile))
    };
    let given = Profile::builtin("h200-llama-3.1-8b").expect("built in");
    let text = bar("mixed prefill-decode, PIECEWISE", "00:01") + &bar("decode, FULL", "00:00");
    let (found, profile) = start(&given, &text).expect("a profile");
    assert!(matches!(found.full_s, Finding::Bounded { most, .. } if (most - 1.0 / 6.0).abs() < 1e-9), "{found:?}");
    assert!(matches!(found.piecewise_s, Finding::Fitted { .. }), "{found:?}");
    let capture = &profile.machine.capture;
    assert_eq!(capture.figures.full_s.to_string(), "0.07", "planned, at less than the bound");
    assert!(capture.provenance.method.as_ref().is_some_and(|method| method.contains("full_s not identifiable")));
    // Both modes, and a planned figure above the bound.
    let mut slow = given.clone();
    slow.machine.capture.figures.full_s = 0.3;
    let both = bar("mixed prefill-decode, PIECEWISE", "00:00") + &bar("decode, FULL", "00:00");
    let (_, profile) = start(&slow, &both).expect("a profile");
    let capture = &profile.machine.capture;
    assert_eq!((capture.figures.full_s.to_string().as_str(), capture.provenance.kind), ("0.167", Kind::Declared));
    // Beside measured captures the engine's part is bounded, or nothing is left for it.
    let text = include_str!("../../../../tests/calibrate/double.toml");
    let mut measured = Profile::from_toml(text, "double.toml").expect("a profile");
    let (found, profile) = start(&measured, &bar("decode, FULL", "00:00")).expect("a profile");
    assert!(matches!(found.per_capture_s, Finding::Bounded { .. }), "{found:?}");
    assert_eq!(profile.engine.startup.figures.per_capture_s, measured.engine.startup.figures.per_capture_s);
    measured.machine.capture.figures.full_s = 1.0;
    measured.machine.capture.measured = None;
    let found =
        super::start::findings(&[EngineLog::of_text(&bar("decode, FULL", "00:00")).expect("a start")], &measured);
    assert!(matches!(found.per_capture_s, Finding::Silent { .. }), "{found:?}");
    // Hundredths of a second, shared out among many graphs, are no nothing.
    let sizes: Vec<String> = (1..=60).map(|size| size.to_string()).collect();
    let text = format!(
        "[2025-07-29 18:14:10] Capture cuda graph bs [{}]\n\
         [2025-07-29 18:14:20] Capture cuda graph end. Time elapsed: 0.01 s. mem usage=0.00 GB. avail mem=8.16 GB.\n",
        sizes.join(", ")
    );
    let (_, profile) = start(&given, &text).expect("a profile");
    assert_eq!(profile.machine.capture.figures.full_s.to_string(), "0.000167");
}

/// A log in which every step takes as long, graphs or none: nothing is left for launches beside the preparation.
#[test]
fn launches_for_which_nothing_is_left_are_bounded_and_never_zero() {
    let [given, _] = profiles(|_| ());
    let server = server(&given);
    let line = |number: u32, requests: u32, ms: f64| {
        format!(
            "(EngineCore_DP0 pid=1) INFO 07-08 00:00:02 [core.py:359] Iteration({number}): 0 context requests, 0 context tokens, \
             {requests} generation requests, {requests} generation tokens, iteration elapsed time: {ms:.2} ms\n"
        )
    };
    for asynchronous in [true, false] {
        let text: String = (0..240_u32)
            .map(|number| {
                let requests = [2, 4, 8, 12, 16, 24, 40, 56][number as usize % 8];
                let slower = if requests <= 16 { 55.0 } else { 50.0 };
                line(number, requests, slower + f64::from(number % 5) * 0.01)
            })
            .collect();
        let log = EngineLog::of_text(&text).expect("a log");
        let steps = of_log(&log, Some(&server), Some(700.0)).expect("steps").steps;
        let files = [StepFile { file: log.file.clone(), sha256: log.sha256.clone(), steps }];
        let onto = Onto { profile: &given, server: Some(&server), asynchronous };
        let fitted = fit(&onto, &files, &[log]).expect("a profile");
        let found = &fitted.host.compiled_us;
        assert!(matches!(found, Finding::Bounded { most, .. } if *most > 0.0), "{asynchronous}: {found:?}");
        let compiled_us = fitted.profile.engine.dispatch.figures.compiled_us;
        assert_eq!(compiled_us.to_string(), "10", "planned, not made up");
    }
}

/// Steps of eight requests that take so many times as long as the device works on them.
fn steps_of(onto: &Onto<'_>, execution: Execution, count: u64, share: f64) -> Vec<MeasuredStep> {
    let model = onto.model(onto.profile, &[]);
    let of_line = |line| MeasuredStep {
        line,
        execution,
        rows: 8,
        work: MeasuredStep::work(8, 600.0, 0, 0),
        us: 0.0,
        count: 1,
        clock: Clock::Period,
    };
    (1..=count).map(of_line).map(|step| MeasuredStep { us: share * device_us(&step, &model), ..step }).collect()
}

/// What is said of steps on FULL graphs, at 0.3 of the device's time, beside steps without any, at three times that.
fn fast_beside_slow(fast: u64, slow: u64) -> Result<Vec<String>, String> {
    let [given, _] = profiles(|_| ());
    let onto = Onto { profile: &given, server: None, asynchronous: true };
    let steps =
        [steps_of(&onto, Execution::CompiledEager, slow, 3.0), steps_of(&onto, Execution::Full, fast, 0.3)].concat();
    let file = StepFile { file: "steps.csv".to_owned(), sha256: String::new(), steps };
    refuse_faster(&onto, &[file]).map_err(|error| error.to_string())
}

#[test]
fn fast_steps_of_one_kind_do_not_hide_among_slow_ones_of_another() {
    for slow in [0, 3, 40] {
        let refused = fast_beside_slow(3, slow).expect_err("no device is so fast");
        assert!(
            refused.starts_with("steps.csv: its FULL steps are faster than the device: 0.30 "),
            "{slow}: {refused}"
        );
    }
    assert_eq!(fast_beside_slow(0, 40), Ok(Vec::new()));
    assert_eq!(fast_beside_slow(2, 40), Ok(Vec::new()), "two steps are no kind");
    let refused = fast_beside_slow(2, 0).expect_err("all that there is");
    assert!(refused.starts_with("steps.csv: its steps are faster than the device: 0.30 "), "{refused}");
}

#[test]
fn fast_steps_do_not_hide_in_many_files() {
    let [given, _] = profiles(|_| ());
    let onto = Onto { profile: &given, server: None, asynchronous: true };
    let file = |name: &str| {
        let steps =
            [steps_of(&onto, Execution::CompiledEager, 5, 3.0), steps_of(&onto, Execution::Full, 2, 0.3)].concat();
        StepFile { file: name.to_owned(), sha256: name.to_owned(), steps }
    };
    assert_eq!(refuse_faster(&onto, &[file("a.csv")]).expect("two are no kind"), Vec::<String>::new());
    let refused = refuse_faster(&onto, &[file("a.csv"), file("b.csv")]).expect_err("four are").to_string();
    assert!(refused.starts_with("a.csv, b.csv: its FULL steps are faster than the device: 0.30 "), "{refused}");
}

#[test]
fn a_kind_that_is_almost_too_fast_is_named() {
    let [given, _] = profiles(|_| ());
    let onto = Onto { profile: &given, server: None, asynchronous: true };
    let kinds = [(Execution::CompiledEager, 3.0), (Execution::Piecewise, 0.8), (Execution::Full, 1.0)];
    let steps = kinds.map(|(execution, share)| steps_of(&onto, execution, 5, share)).concat();
    let file = StepFile { file: "steps.csv".to_owned(), sha256: String::new(), steps };
    let doubts = refuse_faster(&onto, &[file]).expect("doubted");
    assert_eq!(doubts.len(), 1, "{doubts:?}");
    assert!(doubts[0].starts_with("steps.csv: its PIECEWISE steps take 0.80 of the time of "), "{doubts:?}");
}

#[test]
fn planned_captures_and_executables_are_those_of_the_start() {
    let given = Profile::builtin("h200-llama-3.1-8b").expect("built in");
    let lines = "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE): 100%|###| 51/51 [00:21<00:00,  4.77it/s]\n\
                 Capturing CUDA graphs (decode, FULL): 100%|##########| 35/35 [00:07<00:00,  4.10it/s]\n\
                 INFO 04-16 16:59:23 [a.py:1] CUDA graph pool memory: 1.68 GiB (actual), 0.67 GiB (estimated), difference: 1.01 GiB.\n\
                 INFO 04-16 16:59:24 [core.py:285] init engine (profile, create kv cache, warmup model) took 59.52 seconds\n";
    let log = EngineLog::of_text(lines).expect("a start");
    let onto = Onto { profile: &given, server: None, asynchronous: true };
    let logs = [log];
    let fitted = fit(&onto, &[], &logs).expect("a profile");
    let machine = &fitted.profile.machine;
    assert!(
        (machine.capture.figures.full_s - 0.2).abs() < 1e-9
            && (machine.capture.figures.piecewise_s - 0.412).abs() < 1e-9
    );
    assert_eq!((machine.capture.provenance.kind, machine.pool.provenance.kind), (Kind::Derived, Kind::Derived));
    let pool = machine.pool.figures;
    let all = pool.base.0 + 86 * pool.full_executable.0;
    assert!((all as f64 / f64::from(1 << 30) - 1.68).abs() < 1e-6, "{all}");
    assert_eq!(machine.dense, given.machine.dense);
    assert!((fitted.start.without_captures_s.expect("said") - 31.52).abs() < 1e-9);
}
