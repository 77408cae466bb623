//! Law 12: queues whose answer is known.

use std::fmt::Write;
use std::path::Path;

use calibrate::profile::{Overlap, Profile};
use sim::observe::Event;
use sim::time::{SimDuration, SimTime};

use crate::house::{House, Law, Seen, Watched, for_all, require};
use crate::profiles::flat;
use crate::sums::close;

/// A scenario of a server that never lacks memory; `traffic` is its tables of arrivals and lengths.
fn scenario(seqs: u32, asynchronous: bool, seed: u64, requests: u32, traffic: &str) -> String {
    let mut text = "schema = 1\nname = \"theory\"\n[profile]\nbuiltin = \"textbook\"\n[server.vllm]\n".to_owned();
    write!(
        text,
        "max_num_seqs = {seqs}\nmax_num_batched_tokens = 4096\nmax_model_len = 4096\n\
         async_scheduling = {asynchronous}\n\
         num_gpu_blocks_override = 1000000\n[traffic]\nseed = {seed}\nrequests = {requests}\n{traffic}"
    )
    .expect("a string takes any text");
    text
}

fn open(text: &str, profile: Profile) -> House {
    House::open(text, Path::new(""), profile).unwrap_or_else(|fault| panic!("{fault}\n{text}"))
}

/// Poisson arrivals, one request at a time, every step the same: the M/D/1 queue. Mean wait by Pollaczek and Khinchine,
/// ρ/(2(1−ρ))·s; a request finds the server idle with probability 1 − ρ.
#[test]
fn law_12_one_request_at_a_time_is_an_m_d_1_queue() {
    const SEEDS: u64 = 16;
    const STEP_MS: f64 = 10.0;
    for (load, asynchronous, overlap, first_seed) in [
        (0.3, false, Overlap::Additive, 100),
        (0.5, true, Overlap::Pipelined, 200),
        (0.7, false, Overlap::Pipelined, 300),
        (0.85, true, Overlap::Additive, 400),
    ] {
        let (mut waits, mut idle) = (Vec::new(), Vec::new());
        for seed in 0..SEEDS {
            let rate = load * 1e3 / STEP_MS;
            let traffic = format!(
                "[traffic.arrivals.poisson]\nrate = {rate}\n[traffic.lengths.fixed]\nprompt = 1\noutput = 1\n\
                 [warm_up]\nrequests = 1000\n"
            );
            let text = scenario(1, asynchronous, first_seed + seed, 21_000, &traffic);
            let house = open(&text, Profile { overlap, ..flat(STEP_MS * 1e3) });
            let mut sojourns = Watched(Sojourns::default());
            let outcome = house.serve(0, &mut sojourns).expect("the queue is served");
            let latency = &outcome.summary.latency;
            waits.push(latency.ttft.expect("finished").mean_ms - STEP_MS);
            let after_cut = &sojourns.0.spans[1000..];
            let unhindered = after_cut.iter().filter(|span| span.as_ms() <= STEP_MS).count();
            idle.push(unhindered as f64 / after_cut.len() as f64);
        }
        let wait_ms = load / (2.0 * (1.0 - load)) * STEP_MS;
        assert_mean(&format!("M/D/1 wait at load {load}, ms"), &waits, wait_ms);
        assert_mean(&format!("M/D/1 share that need not wait at load {load}"), &idle, 1.0 - load);
    }
}

/// The mean over seeds lies within four of its own standard errors of what theory says, and those are small.
fn assert_mean(what: &str, samples: &[f64], expected: f64) {
    let n = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / n;
    let error = (samples.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>() / (n - 1.0) / n).sqrt();
    println!("{what}: {mean:.5} +- {error:.5}, theory {expected:.5}");
    assert!(error < 0.02 * expected, "{what}: a standard error of {error} says nothing about {expected}");
    assert!((mean - expected).abs() <= 4.0 * error, "{what}: {mean} +- {error}, theory {expected}");
}

/// Requests' times from arrival to last token, in order of arrival.
#[derive(Default)]
struct Sojourns {
    arrivals: Vec<SimTime>,
    spans: Vec<SimDuration>,
    /// The integral of the number of live requests over time, in request-nanoseconds, and how far it goes.
    live_ns: u128,
    live: u32,
    until: SimTime,
    /// Changes of the number of live requests, to be put in order of time.
    changes: Vec<(SimTime, i32)>,
}

impl Sojourns {
    fn integrate(&mut self) {
        self.changes.sort_unstable();
        for (at, change) in std::mem::take(&mut self.changes) {
            self.live_ns += u128::from(self.live) * u128::from(at.since(self.until).0);
            self.until = at;
            self.live = self.live.strict_add_signed(change);
        }
    }
}

impl Law for Sojourns {
    fn see(&mut self, event: &Event<'_>) -> Result<(), String> {
        match event {
            Event::RequestArrived { at, .. } => {
                self.arrivals.push(*at);
                self.spans.push(SimDuration::ZERO);
                self.changes.push((*at, 1));
            }
            Event::RequestRefused { .. } => {
                self.arrivals.push(SimTime::ZERO);
                self.spans.push(SimDuration::ZERO);
            }
            Event::StepApplied { at, outcome, .. } => {
                for delivered in outcome.delivered.iter().filter(|delivered| delivered.finished) {
                    let id = delivered.id.0 as usize;
                    self.spans[id] = at.since(self.arrivals[id]);
                    self.changes.push((*at, -1));
                }
            }
            Event::RequestPreempted { .. } | Event::DummyStepRun { .. } | Event::StepScheduled(_) => {}
        }
        Ok(())
    }
}

/// Little's law holds exactly on every finished run: requests in the system, integrated over time, are the mean
/// end-to-end latency of the report times the requests.
#[test]
fn law_12_littles_law_holds_exactly() {
    for_all("law 12, Little", 96, &["requests"], |case, seen| {
        let mut house = case.open()?;
        house.scenario.warm_up = sim::scenario::WarmUp::None;
        for candidate in 0..house.setups.len() {
            let mut sojourns = Watched(Sojourns::default());
            let outcome = house.serve(candidate, &mut sojourns)?;
            sojourns.0.integrate();
            require(sojourns.0.live == 0, || "somebody is left".to_owned())?;
            let latency = &outcome.summary.latency;
            let served_ms = latency.e2el.map_or(0.0, |spread| spread.mean_ms * latency.completed as f64);
            close(Some(served_ms), Some(sojourns.0.live_ns as f64 / 1e6))?;
            seen.add_run(&outcome);
        }
        Ok(())
    });
}

/// Clients in a closed loop with equal requests move in step: their throughput is clients over output times step time,
/// to the nanosecond, scheduled either way.
#[test]
fn law_12_a_closed_loop_has_the_throughput_of_its_clients() {
    let mut seen = Seen::default();
    for (clients, output, asynchronous) in
        [(1, 1, false), (7, 10, false), (32, 3, true), (200, 25, false), (64, 64, true)]
    {
        let rounds = 12;
        let traffic = format!(
            "[traffic.arrivals.closed_loop]\nconcurrency = {clients}\n[traffic.lengths.fixed]\n\
             prompt = 5\noutput = {output}\n"
        );
        let text = scenario(256, asynchronous, 0, clients * rounds, &traffic);
        let house = open(&text, flat(4_000.0));
        let outcome = house.serve(0, &mut ()).expect("the loop is served");
        assert_eq!(outcome.end.at, SimTime(u64::from(rounds) * u64::from(output) * 4_000_000));
        assert_eq!(outcome.end.steps, u64::from(rounds * output));
        let throughput = f64::from(clients) / (f64::from(output) * 4e-3);
        close(outcome.summary.latency.request_throughput(), Some(throughput)).expect("the closed form");
        close(outcome.summary.latency.tpot.map(|tpot| tpot.mean_ms), (output > 1).then_some(4.0))
            .expect("the step time");
        seen.add_run(&outcome);
    }
    seen.finish("law 12, closed loop", &["runs"]);
}

/// With more clients than the server takes at a time the batch is always full: one token per sequence and step, and
/// clients wait for their turn as Little's law says, whatever the lengths.
#[test]
fn law_12_a_saturated_server_gives_a_token_per_sequence_and_step() {
    let traffic = "[traffic.arrivals.closed_loop]\nconcurrency = 40\n[traffic.lengths.uniform]\n\
         prompt = [1, 1]\noutput = [20, 60]\n";
    let house = open(&scenario(16, false, 3, 8_000, traffic), flat(2_000.0));
    let outcome = house.serve(0, &mut ()).expect("the loop is served");
    let latency = &outcome.summary.latency;
    let tokens_per_s = 16.0 / 2e-3;
    let served_per_s = latency.output_throughput().expect("the run took time");
    println!("law 12, saturated: {served_per_s:.2} tokens/s, theory {tokens_per_s:.2}");
    // Only the last requests run beside empty places: at most 60 of 20,000 steps.
    assert!((served_per_s / tokens_per_s - 1.0).abs() < 60.0 / 20_000.0);
    let mean_s = latency.e2el.expect("finished").mean_ms / 1e3;
    let in_system = latency.request_throughput().expect("the run took time") * mean_s;
    println!("law 12, saturated: {in_system:.3} requests in the system, 40 clients");
    assert!((in_system - 40.0).abs() < 40.0 * 60.0 / 20_000.0);
}
