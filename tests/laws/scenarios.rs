//! Random valid scenarios, as the text of a scenario file.

use std::fmt;
use std::fmt::Write;

use calibrate::profile::Overlap;
use proptest::collection::vec;
use proptest::option::{self, weighted};
use proptest::prelude::*;
use proptest::sample::select;
use tempfile::TempDir;

use crate::house::House;
use crate::profiles;

/// The name of the trace that a case may bring along.
const TRACE_FILE: &str = "trace.csv";

/// One random scenario: the text of its file, its trace if it has one, and its profile.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) text: String,
    pub(crate) trace: Option<String>,
    pub(crate) profile: &'static str,
    pub(crate) overlap: Overlap,
    /// Drafts per request.
    pub(crate) drafts: u32,
    /// Requests ask for adapters.
    pub(crate) adapters: bool,
}

/// A failing case prints as files that can be saved and run.
impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "profile {} {:?}\n{}", self.profile, self.overlap, self.text)?;
        self.trace.as_ref().map_or(Ok(()), |trace| write!(f, "\n{TRACE_FILE}:\n{trace}"))
    }
}

impl Case {
    /// Makes the case ready to run in this process.
    pub(crate) fn open(&self) -> Result<House, String> {
        let folder = self.folder()?;
        let mut house = House::open(&self.text, folder.path(), profiles::builtin(self.profile, self.overlap))?;
        house.keep(folder);
        Ok(house)
    }

    /// A folder with the scenario as `scenario.toml`, its trace, and its profile as `profile.toml`.
    pub(crate) fn folder(&self) -> Result<TempDir, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text);
        write("scenario.toml", &self.text).map_err(|error| error.to_string())?;
        if let Some(trace) = &self.trace {
            write(TRACE_FILE, trace).map_err(|error| error.to_string())?;
        }
        Ok(folder)
    }

    /// The same folder with the case's own profile beside the scenario.
    pub(crate) fn folder_with_profile(&self) -> Result<TempDir, String> {
        let folder = self.folder()?;
        let profile = profiles::builtin(self.profile, self.overlap);
        profile.save(&folder.path().join("profile.toml")).map_err(|error| error.to_string())?;
        Ok(folder)
    }
}

/// Random scenarios of every kind that the event loop knows.
pub(crate) fn cases() -> impl Strategy<Value = Case> {
    let profile = select(vec![
        "textbook",
        "textbook-weight-bound",
        "a100-llama-3-8b",
        "h200-llama-3.1-8b",
        "rtx4090-llama-3.1-8b",
    ]);
    let overlap = select(vec![Overlap::Pipelined, Overlap::Additive]);
    (server(), traffic(), carried(), vec(candidate(), 1..4), ending(), profile, overlap).prop_map(
        |(server, traffic, carried, candidates, ending, profile, overlap)| {
            let mut text = "schema = 1\nname = \"random\"\n[profile]\nbuiltin = \"textbook\"\n".to_owned();
            server.write(&mut text);
            traffic.write(server.max_model_len, &mut text);
            carried.write(&server, &mut text);
            ending.write(traffic.requests, &mut text);
            for (number, candidate) in candidates.iter().enumerate() {
                let _ = write!(text, "[[candidate]]\nname = \"{number}\"\n");
                candidate.write(&server, &mut text);
            }
            let trace = traffic.trace_file(server.max_model_len);
            Case { text, trace, profile, overlap, drafts: server.drafts, adapters: server.loras.is_some() }
        },
    )
}

/// What a server is started with.
#[derive(Clone, Debug)]
struct Server {
    version: &'static str,
    runner: &'static str,
    support: &'static str,
    max_num_seqs: u32,
    max_num_batched_tokens: u32,
    max_model_len: u32,
    drafts: u32,
    loras: Option<u32>,
    lines: String,
}

fn server() -> impl Strategy<Value = Server> {
    let who = (
        select(vec!["0.31.0", "0.33.0"]),
        select(vec!["v1", "v2"]),
        select(vec!["ALWAYS", "ALWAYS", "UNIFORM_BATCH", "UNIFORM_SINGLE_TOKEN_DECODE", "NEVER"]),
        any::<bool>(),
    );
    let sizes = (
        prop_oneof![1_u32..5, 1_u32..49],
        prop_oneof![0_u32..16, 16_u32..256, 256_u32..1024],
        8_u32..320,
        select(vec![1_u32, 3, 16, 32]),
        // The pool: from one longest request up, ample, or what the device memory leaves.
        prop_oneof![3 => (0.0..2.0).prop_map(Some), 1 => Just(Some(200.0)), 1 => Just(None)],
    );
    let rules = (
        prop::bool::weighted(0.75),
        weighted(0.4, 0.0..1.0),
        any::<bool>(),
        weighted(0.4, 0.0..0.4),
        prop::bool::weighted(0.6),
        weighted(0.3, 2_u32..5),
        weighted(0.2, 0.05..1.0),
        weighted(0.2, 0.05..1.0),
    );
    let methods = vec!["ngram", "draft_model", "eagle", "mtp", "medusa"];
    let features = (
        any::<bool>(),
        select(vec!["fcfs", "fcfs", "priority"]),
        weighted(0.35, (1_u32..5, select(methods), option::of(1_u32..5000), weighted(0.3, 0_u32..5))),
        weighted(0.25, 1_u32..4),
    );
    (who, sizes, rules, features).prop_map(|((version, runner, support, asynchronous), sizes, rules, features)| {
        let (caching, policy, drafter, loras) = features;
        let (max_num_seqs, extra_tokens, max_model_len, block_size, pool) = sizes;
        let (chunked, threshold, adaptive, watermark, reserve, interval, scheduled, active) = rules;
        let drafts = drafter.map_or(0, |(drafts, ..)| drafts);
        // 0.31.0 has these drafters on runner V1 only.
        let older = version == "0.31.0" && drafter.is_some_and(|(_, method, ..)| ["ngram", "medusa"].contains(&method));
        let runner = if older { "v1" } else { runner };
        // Room for a whole decode batch with its drafts, and for what a drafter adds.
        let batch = max_num_seqs * (1 + 2 * drafts);
        let least = if chunked { batch } else { batch.max(max_model_len) };
        let max_num_batched_tokens = least + extra_tokens;
        let share = |share: f64, of: u32| ((share * f64::from(of)) as u32).max(1);
        let mut lines = format!(
            "block_size = {block_size}\nenable_chunked_prefill = {chunked}\nasync_scheduling = {asynchronous}\n\
             scheduler_reserve_full_isl = {reserve}\nenable_prefix_caching = {caching}\npolicy = \"{policy}\"\n"
        );
        let mut line = |text: String| {
            lines.push_str(&text);
            lines.push('\n');
        };
        if let Some((drafts, method, time_us, fewer)) = drafter {
            line(format!("num_speculative_tokens = {drafts}\nspec_method = \"{method}\""));
            if let Some(time_us) = time_us {
                line(format!("drafting_time = \"{time_us}us\""));
            }
            if let Some(fewer) = fewer {
                line(format!("dynamic_sd_schedule = [[1, 3, {drafts}], [4, 9999, {fewer}]]"));
            }
        }
        if let Some(loras) = loras {
            line(format!("max_loras = {loras}"));
        }
        if let Some(pool) = pool {
            let needed = max_model_len.div_ceil(block_size);
            line(format!("num_gpu_blocks_override = {}", needed + 1 + (pool * f64::from(needed)) as u32));
        }
        if let Some(threshold) = threshold {
            line(format!("long_prefill_token_threshold = {}", share(threshold, max_model_len)));
            line(format!("long_prefill_token_threshold_adaptive = {adaptive}"));
        }
        if let Some(watermark) = watermark {
            line(format!("watermark = {watermark:.3}"));
        }
        if let Some(interval) = interval {
            line(format!("prefill_schedule_interval = {interval}"));
        }
        if let Some(scheduled) = scheduled {
            let least = if chunked { 1 + drafts } else { max_model_len.max(1 + drafts) };
            line(format!("max_num_scheduled_tokens = {}", share(scheduled, max_num_batched_tokens).max(least)));
        }
        if let Some(active) = active {
            line(format!("max_num_active_seqs = {}", share(active, max_num_seqs)));
        }
        Server { version, runner, support, max_num_seqs, max_num_batched_tokens, max_model_len, drafts, loras, lines }
    })
}

impl Server {
    fn write(&self, text: &mut String) {
        let Self { version, runner, support, max_num_seqs, max_num_batched_tokens, max_model_len, lines, .. } = self;
        let _ = write!(
            text,
            "[server.vllm]\nversion = \"{version}\"\nrunner = \"{runner}\"\nattention_support = \"{support}\"\n\
             max_num_seqs = {max_num_seqs}\nmax_num_batched_tokens = {max_num_batched_tokens}\n\
             max_model_len = {max_model_len}\n{lines}"
        );
    }
}

/// One set of graph flags; sizes as shares of the token budget.
#[derive(Clone, Debug)]
struct Flags {
    mode: Option<&'static str>,
    ladder: Option<Vec<f64>>,
    ceiling: Option<f64>,
    interactivity: bool,
    enforce_eager: bool,
}

fn candidate() -> impl Strategy<Value = Flags> {
    let modes = vec!["NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"];
    // Small sizes are where steps are; a size above the budget is dropped by the engine.
    let size = prop_oneof![3 => 0.0..0.1, 1 => 0.1..1.2];
    let ladder = weighted(0.7, vec(size, 1..12));
    (weighted(0.8, select(modes)), ladder, weighted(0.2, 0.02..1.2), any::<bool>(), prop::bool::weighted(0.05))
        .prop_map(|(mode, ladder, ceiling, interactivity, enforce_eager)| Flags {
            mode,
            ladder,
            ceiling,
            interactivity,
            enforce_eager,
        })
}

impl Flags {
    fn write(&self, server: &Server, text: &mut String) {
        let tokens = |share: f64| ((share * f64::from(server.max_num_batched_tokens)) as u32).max(1);
        if let Some(mode) = self.mode {
            // Full graphs for every batch are refused on a backend without any.
            let mode = if mode == "FULL" && server.support == "NEVER" { "PIECEWISE" } else { mode };
            let _ = writeln!(text, "cudagraph_mode = \"{mode}\"");
        }
        match (&self.ladder, self.ceiling) {
            (Some(ladder), _) => {
                let mut sizes: Vec<u32> = ladder.iter().map(|&share| tokens(share)).collect();
                // Runner V1 refuses a ladder that has no room for one request with its drafts.
                sizes.extend((server.drafts > 0).then_some(1 + server.drafts));
                let _ = writeln!(text, "cudagraph_capture_sizes = {sizes:?}");
            }
            (None, Some(ceiling)) => {
                let _ = writeln!(text, "max_cudagraph_capture_size = {}", tokens(ceiling).max(1 + server.drafts));
            }
            (None, None) => {}
        }
        if self.interactivity {
            text.push_str("performance_mode = \"interactivity\"\n");
        }
        if self.enforce_eager {
            text.push_str("enforce_eager = true\n");
        }
    }
}

/// What requests carry beside their lengths, and how many of their drafts are accepted.
#[derive(Clone, Debug)]
struct Carried {
    urgent: Option<f64>,
    adapters: (u32, f64, f64),
    /// Length of a shared prefix as a share of the longest request, and how many there are; a second level behind it.
    prefixes: Option<(f64, f64, u32, u32)>,
    accepted: Vec<u32>,
    recorded: bool,
}

fn carried() -> impl Strategy<Value = Carried> {
    let adapters = (1_u32..8, 0.0..1.0, 0.0..2.0);
    let prefixes = weighted(0.5, (0.1..1.0, 0.02..0.8, 1_u32..4, 1_u32..4));
    (weighted(0.4, 0.05..0.95), adapters, prefixes, vec(0_u32..6, 1..7), any::<bool>()).prop_map(
        |(urgent, adapters, prefixes, accepted, recorded)| Carried { urgent, adapters, prefixes, accepted, recorded },
    )
}

impl Carried {
    fn write(&self, server: &Server, text: &mut String) {
        if let Some(urgent) = self.urgent {
            let (urgent, other) = (urgent, 1.0 - urgent);
            let _ = writeln!(
                text,
                "[[traffic.priorities]]\npriority = -1\nshare = {urgent}\n\
                 [[traffic.priorities]]\npriority = 3\nshare = {other}"
            );
        }
        if server.loras.is_some() {
            let (count, without, zipf) = self.adapters;
            let _ = writeln!(
                text,
                "[traffic.adapters]\ncount = {count}\nwithout = {without:.3}\npopularity = {{ zipf = {zipf:.3} }}"
            );
        }
        if let Some((share, length, count, within)) = self.prefixes {
            let length = tokens(length, server.max_model_len);
            let _ = writeln!(
                text,
                "[[traffic.prefixes]]\nshare = {share:.3}\ntokens = {length}\ncount = {count}\n\
                 within = [{{ tokens = {length}, count = {within} }}]"
            );
        }
        if server.drafts > 0 {
            let rates: Vec<f64> = (1..).zip(&self.accepted).map(|(position, _)| 0.9_f64.powi(position)).collect();
            let _ = if self.recorded {
                writeln!(text, "[traffic.acceptance]\ncycle = {:?}", self.accepted)
            } else {
                writeln!(text, "[traffic.acceptance]\nrates = {rates:?}")
            };
        }
    }
}

/// Arrivals as they are written, lengths as shares of the longest request.
#[derive(Clone, Debug)]
struct Demand {
    seed: u32,
    requests: u32,
    arrivals: Arrivals,
    lengths: Lengths,
}

#[derive(Clone, Debug)]
enum Arrivals {
    Table(String),
    /// Gaps of a trace, in milliseconds, with its lengths: arrivals and lengths both come from it.
    Trace(Vec<(u32, f64, u32)>),
}

#[derive(Clone, Debug)]
enum Lengths {
    Fixed(f64, u32),
    Uniform([f64; 2], [u32; 2]),
    LogNormal(f64, f64, u32),
    Histogram(Vec<(f64, u32, u32)>),
}

fn traffic() -> impl Strategy<Value = Demand> {
    let rate = || prop_oneof![1.0..20.0, 20.0..400.0];
    let arrivals = prop_oneof![
        rate().prop_map(|rate| Arrivals::Table(format!("[traffic.arrivals.poisson]\nrate = {rate:.3}"))),
        rate().prop_map(|rate| Arrivals::Table(format!("[traffic.arrivals.constant]\nrate = {rate:.3}"))),
        (rate(), 0.1..3.0, any::<bool>()).prop_map(|(rate, burstiness, rescale)| Arrivals::Table(format!(
            "[traffic.arrivals.gamma]\nrate = {rate:.3}\nburstiness = {burstiness:.3}\nrescale = {rescale}"
        ))),
        (rate(), 0.0..5.0, 1_u32..2000, 1_u32..2000).prop_map(|(on, off, on_ms, off_ms)| Arrivals::Table(format!(
            "[traffic.arrivals.on_off]\non = \"{on_ms}ms\"\noff = \"{off_ms}ms\"\n\
             rate_on = {on:.3}\nrate_off = {off:.3}"
        ))),
        (1_u32..64).prop_map(|clients| {
            Arrivals::Table(format!("[traffic.arrivals.closed_loop]\nconcurrency = {clients}"))
        }),
        vec((0_u32..300, 0.0..1.2, 1_u32..80), 1..80).prop_map(Arrivals::Trace),
    ];
    let prompt = || prop_oneof![0.0..0.3, 0.3..1.0];
    let lengths = prop_oneof![
        (prompt(), 1_u32..60).prop_map(|(prompt, output)| Lengths::Fixed(prompt, output)),
        (prompt(), 0.0..0.8, 1_u32..10, 0_u32..100).prop_map(|(least, more, output, longer)| Lengths::Uniform(
            [least, least + more],
            [output, output + longer]
        )),
        (0.01..0.5, 0.1..1.5, 1_u32..60).prop_map(|(p50, sigma, output)| Lengths::LogNormal(p50, sigma, output)),
        vec((prompt(), 1_u32..80, 1_u32..10), 1..6).prop_map(Lengths::Histogram),
    ];
    (0_u32..1000, prop_oneof![1_u32..20, 20_u32..120], arrivals, lengths)
        .prop_map(|(seed, requests, arrivals, lengths)| Demand { seed, requests, arrivals, lengths })
}

impl Demand {
    fn write(&self, max_model_len: u32, text: &mut String) {
        let _ = writeln!(text, "[traffic]\nseed = {}", self.seed);
        match &self.arrivals {
            Arrivals::Trace(_) => {
                let _ = writeln!(
                    text,
                    "[traffic.arrivals.trace]\nfile = \"{TRACE_FILE}\"\nformat = \"csv\"\ntime_unit = \"ms\"\n\
                     columns = {{ arrival = \"at\", prompt = \"prompt\", output = \"output\" }}"
                );
            }
            Arrivals::Table(table) => {
                let _ = writeln!(text, "requests = {}\n{table}", self.requests);
                self.lengths.write(max_model_len, text);
            }
        }
    }

    fn trace_file(&self, max_model_len: u32) -> Option<String> {
        let Arrivals::Trace(rows) = &self.arrivals else { return None };
        let mut at = 0;
        Some(rows.iter().fold("at,prompt,output\n".to_owned(), |mut file, &(gap, prompt, output)| {
            at += gap;
            let _ = writeln!(file, "{at},{},{output}", tokens(prompt, max_model_len));
            file
        }))
    }
}

impl Lengths {
    fn write(&self, max_model_len: u32, text: &mut String) {
        let of = |share: f64| tokens(share, max_model_len);
        let _ = match self {
            Self::Fixed(prompt, output) => {
                writeln!(text, "[traffic.lengths.fixed]\nprompt = {}\noutput = {output}", of(*prompt))
            }
            Self::Uniform([least, most], output) => {
                writeln!(
                    text,
                    "[traffic.lengths.uniform]\nprompt = [{}, {}]\noutput = {output:?}",
                    of(*least),
                    of(*most)
                )
            }
            Self::LogNormal(p50, sigma, output) => writeln!(
                text,
                "[traffic.lengths.lognormal]\nprompt = {{ p50 = {}, sigma = {sigma:.3}, max = {} }}\n\
                 output = {{ p50 = {output}, sigma = 0.7, max = 200 }}",
                of(*p50),
                max_model_len + 20
            ),
            Self::Histogram(rows) => rows.iter().try_for_each(|&(prompt, output, count)| {
                writeln!(
                    text,
                    "[[traffic.lengths.histogram]]\nprompt = {}\noutput = {output}\ncount = {count}",
                    of(prompt)
                )
            }),
        };
    }
}

fn tokens(share: f64, max_model_len: u32) -> u32 {
    ((share * f64::from(max_model_len)) as u32).max(1)
}

/// Objectives and a warm-up cut, or neither.
#[derive(Clone, Debug)]
struct Ending {
    slo_ms: Option<(u32, u32)>,
    warm_up: Option<WarmUp>,
}

#[derive(Clone, Debug)]
enum WarmUp {
    Ms(u32),
    Requests(u32),
}

fn ending() -> impl Strategy<Value = Ending> {
    let warm_up = prop_oneof![(1_u32..3000).prop_map(WarmUp::Ms), (1_u32..30).prop_map(WarmUp::Requests)];
    (option::of((1_u32..3000, 1_u32..200)), weighted(0.3, warm_up))
        .prop_map(|(slo_ms, warm_up)| Ending { slo_ms, warm_up })
}

impl Ending {
    fn write(&self, requests: u32, text: &mut String) {
        if let Some((ttft, tpot)) = self.slo_ms {
            let _ = write!(text, "[slo]\nttft = \"{ttft}ms\"\ntpot = \"{tpot}ms\"\n");
        }
        let _ = match self.warm_up {
            Some(WarmUp::Ms(ms)) => write!(text, "[warm_up]\ntime = \"{ms}ms\"\n"),
            // A cut that leaves nothing to measure is refused.
            Some(WarmUp::Requests(count)) if requests > 1 => {
                write!(text, "[warm_up]\nrequests = {}\n", count.min(requests - 1))
            }
            _ => Ok(()),
        };
    }
}
