//! Infinite-server occupancy of recorded traffic: every request decodes its output at one token per fixed time, nobody
//! waits. In continuous time by a sweep, and from the event loop with a flat step.

use std::fmt::Write;

use calibrate::profile::Profile;
use sim::observe::Event;
use sim::time::SimTime;
use sim::traffic::Request;

use crate::house::{House, Law, Watched};
use crate::profiles::flat;
use crate::traces::{requests, shared_trace};

/// Time spent at each number of live requests.
#[derive(Default)]
struct Occupancy {
    ns_at: Vec<u64>,
}

impl Occupancy {
    fn add(&mut self, live: u32, ns: u64) {
        let live = live as usize;
        self.ns_at.resize(self.ns_at.len().max(live + 1), 0);
        self.ns_at[live] += ns;
    }

    fn total_ns(&self) -> u64 {
        self.ns_at.iter().sum()
    }

    fn mean(&self) -> f64 {
        let weighted: f64 = self.ns_at.iter().zip(0_u32..).map(|(&ns, live)| ns as f64 * f64::from(live)).sum();
        weighted / self.total_ns() as f64
    }

    /// The smallest number of live requests that holds for at least 95 % of the time, idle time included.
    fn p95(&self) -> u32 {
        let mut seen = 0.0;
        let reaches = |ns: &u64| {
            seen += *ns as f64;
            seen >= 0.95 * self.total_ns() as f64
        };
        self.ns_at.iter().position(reaches).expect("all of the time is enough") as u32
    }

    fn max(&self) -> u32 {
        self.ns_at.iter().rposition(|&ns| ns > 0).expect("some time passes") as u32
    }

    /// Shares of the busy time under a ladder: above its ceiling, exact; and the mean padding at or below the ceiling.
    fn under(&self, ladder: &[u32]) -> Shares {
        let (mut busy, mut above, mut exact, mut padding) = (0.0, 0.0, 0.0, 0.0);
        for (&ns, live) in self.ns_at.iter().zip(0_u32..).skip(1) {
            let ns = ns as f64;
            busy += ns;
            match ladder.iter().find(|&&size| size >= live) {
                None => above += ns,
                Some(&size) => {
                    exact += if size == live { ns } else { 0.0 };
                    padding += ns * f64::from(size - live);
                }
            }
        }
        Shares { above: above / busy, exact: exact / busy, mean_pad: padding / (busy - above) }
    }
}

struct Shares {
    above: f64,
    exact: f64,
    mean_pad: f64,
}

/// Continuous time: each request lives for output times TPOT from its arrival.
fn continuous(requests: &[Request], tpot_ns: u64) -> Occupancy {
    let mut changes: Vec<(u64, i32)> = Vec::new();
    for request in requests {
        changes.push((request.arrival.0, 1));
        changes.push((request.arrival.0 + u64::from(request.output_tokens) * tpot_ns, -1));
    }
    changes.sort_unstable();
    let mut occupancy = Occupancy::default();
    let (mut live, mut since) = (0_u32, 0);
    for (at, change) in changes {
        occupancy.add(live, at - since);
        live = live.strict_add_signed(change);
        since = at;
    }
    occupancy
}

/// Watches the device: the requests of each step for as long as it runs, none in between.
#[derive(Default)]
struct Steps {
    occupancy: Occupancy,
    until: SimTime,
}

impl Law for Steps {
    fn see(&mut self, event: &Event<'_>) -> Result<(), String> {
        if let Event::StepScheduled(step) = event {
            self.occupancy.add(0, step.span.device_start.since(self.until).0);
            self.occupancy.add(step.plan.shape.requests, step.span.end.since(step.span.device_start).0);
            self.until = step.span.end;
        }
        Ok(())
    }
}

/// The same requests through the event loop, prompts of one token, every step one TPOT.
fn stepped(requests: &[Request], tpot_ns: u64) -> Occupancy {
    let rows = requests.iter().fold("at,prompt,output\n".to_owned(), |mut rows, request| {
        writeln!(rows, "{},1,{}", request.arrival.0, request.output_tokens).expect("a string takes any text");
        rows
    });
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("trace.csv"), rows).expect("writes");
    let text = "schema = 1\nname = \"occupancy\"\n[profile]\nbuiltin = \"textbook\"\n[server.vllm]\n\
                max_num_seqs = 1024\n\
                max_num_batched_tokens = 8192\nmax_model_len = 131072\nnum_gpu_blocks_override = 10000000\n\
                async_scheduling = false\n[traffic.arrivals.trace]\nfile = \"trace.csv\"\nformat = \"csv\"\n\
                time_unit = \"ns\"\ncolumns = { arrival = \"at\", prompt = \"prompt\", output = \"output\" }\n";
    let house = House::open(text, folder.path(), flat(tpot_ns as f64 / 1e3)).expect("a scenario");
    let mut steps = Watched(Steps::default());
    let outcome = house.serve(0, &mut steps).expect("the trace is served");
    assert_eq!(outcome.summary.latency.completed, requests.len() as u64);
    steps.0.occupancy
}

/// One row of the published table.
struct Row {
    trace: &'static str,
    tpot_ms: u64,
    live: (f64, u32, u32),
    default_ladder: (f64, f64),
    above_32: f64,
    textbook: (f64, f64, f64),
    /// Allowed relative distance of the stepped mean.
    within: f64,
}

const ROWS: [Row; 5] = [
    Row {
        trace: "azure2023_conv.csv",
        tpot_ms: 10,
        live: (11.6639, 18, 28),
        default_ladder: (0.144_187, 3.438_873),
        above_32: 0.0,
        textbook: (0.0, 0.137_441, 4.342_082),
        within: 0.005,
    },
    Row {
        trace: "azure2023_conv.csv",
        tpot_ms: 25,
        live: (29.1057, 41, 57),
        default_ladder: (0.126_432, 3.446_907),
        above_32: 0.310_482,
        textbook: (0.310_482, 0.061_209, 5.475_077),
        within: 0.005,
    },
    Row {
        trace: "azure2023_code.csv",
        tpot_ms: 10,
        live: (0.7153, 4, 28),
        default_ladder: (0.680_429, 0.630_574),
        above_32: 0.0,
        textbook: (0.0, 0.443_461, 1.117_149),
        within: 0.01,
    },
    Row {
        trace: "azure2023_code.csv",
        tpot_ms: 25,
        live: (1.7825, 9, 50),
        default_ladder: (0.519_081, 1.308_673),
        above_32: 0.001_560,
        textbook: (0.001_560, 0.365_941, 1.799_055),
        within: 0.01,
    },
    Row {
        trace: "mooncake_conversation_trace.jsonl",
        tpot_ms: 25,
        live: (28.9887, 42, 64),
        default_ladder: (0.127_147, 3.507_056),
        above_32: 0.301_014,
        textbook: (0.301_014, 0.057_844, 6.070_222),
        within: 0.005,
    },
];

/// The engine's own ladder for 256 sequences, 51 rungs.
fn default_ladder() -> Vec<u32> {
    let text = "schema = 1\nname = \"ladder\"\n[profile]\nbuiltin = \"textbook\"\n[server.vllm]\nmax_num_seqs = 256\n\
                max_num_batched_tokens = 8192\nmax_model_len = 16384\n[traffic]\nrequests = 1\n\
                [traffic.arrivals.constant]\nrate = 1\n[traffic.lengths.fixed]\nprompt = 1\noutput = 1\n";
    let profile = Profile::builtin("textbook").expect("a built-in profile");
    let house = House::open(text, std::path::Path::new(""), profile).expect("a scenario");
    let ladder = house.setups[0].graphs.capture_sizes().to_vec();
    assert_eq!(ladder.len(), 51);
    ladder
}

/// A figure as it was printed, to its last digit.
fn assert_digits(what: &str, found: f64, printed: f64, digits: i32) {
    assert!((found - printed).abs() <= 0.5001 * 10_f64.powi(-digits), "{what}: {found}, published {printed}");
}

#[test]
fn recorded_traffic_has_its_published_occupancy_in_continuous_time() {
    let ladder = default_ladder();
    for row in &ROWS {
        let Some(path) = shared_trace(row.trace) else { continue };
        let occupancy = continuous(&requests(&path), row.tpot_ms * 1_000_000);
        let what = format!("{} at {} ms", row.trace, row.tpot_ms);
        let (default, ceiling_32) = (occupancy.under(&ladder), occupancy.under(&(1..=32).collect::<Vec<_>>()));
        let textbook = occupancy.under(&[1, 4, 8, 16, 32]);
        println!(
            "{what}, continuous: live {:.4} / {} / {}, default ladder {:.6}, {:.6}, above 32 {:.6}, \
             textbook {:.6}, {:.6}, {:.6}",
            occupancy.mean(),
            occupancy.p95(),
            occupancy.max(),
            default.exact,
            default.mean_pad,
            ceiling_32.above,
            textbook.above,
            textbook.exact,
            textbook.mean_pad
        );
        let (mean, p95, max) = row.live;
        assert_digits(&what, occupancy.mean(), mean, 4);
        assert_eq!((occupancy.p95(), occupancy.max()), (p95, max), "{what}");
        assert_digits(&what, default.exact, row.default_ladder.0, 6);
        assert_digits(&what, default.mean_pad, row.default_ladder.1, 6);
        assert_digits(&what, ceiling_32.above, row.above_32, 6);
        assert_digits(&what, textbook.above, row.textbook.0, 6);
        assert_digits(&what, textbook.exact, row.textbook.1, 6);
        assert_digits(&what, textbook.mean_pad, row.textbook.2, 6);
    }
}

#[test]
fn recorded_traffic_has_its_published_occupancy_in_the_event_loop() {
    for row in &ROWS {
        let Some(path) = shared_trace(row.trace) else { continue };
        let occupancy = stepped(&requests(&path), row.tpot_ms * 1_000_000);
        let what = format!("{} at {} ms", row.trace, row.tpot_ms);
        let (mean, p95, max) = row.live;
        println!(
            "{what}, event loop: live {:.4} / {} / {}, published {mean} / {p95} / {max}, mean off by {:+.3} %",
            occupancy.mean(),
            occupancy.p95(),
            occupancy.max(),
            (occupancy.mean() / mean - 1.0) * 100.0
        );
        assert!((occupancy.mean() / mean - 1.0).abs() <= row.within, "{what}");
        assert!(occupancy.p95().abs_diff(p95) <= 1 && occupancy.max().abs_diff(max) <= 1, "{what}");
    }
}
