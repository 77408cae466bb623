//! Latency of requests: time to first token, per output token, between tokens, end to end.

use super::attainment::Attainment;
use super::cut::Cut;
use super::distribution::{Distribution, Spread};
use crate::engine::request::RequestId;
use crate::engine::step::Delivered;
use crate::observe::Event;
use crate::scenario::Slo;
use crate::time::{SimDuration, SimTime};
use crate::traffic::Request;

/// The times of one finished request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FinishedRequest {
    /// Its number, in order of arrival.
    pub id: RequestId,
    /// When it was sent.
    pub arrival: SimTime,
    /// Prompt tokens.
    pub prompt_tokens: u32,
    /// Tokens it received.
    pub output_tokens: u32,
    /// First token minus arrival.
    pub ttft: SimDuration,
    /// `(e2el - ttft) / (output_tokens - 1)`, rounded to a nanosecond; zero for a single token.
    pub tpot: SimDuration,
    /// Last token minus arrival.
    pub e2el: SimDuration,
}

/// Follows the live requests, by slot.
#[derive(Debug, Default)]
pub struct RequestClock {
    live: Vec<Live>,
}

#[derive(Clone, Copy, Debug)]
struct Live {
    arrival: SimTime,
    prompt_tokens: u32,
    output_tokens: u32,
    first: SimTime,
    last: SimTime,
}

impl RequestClock {
    /// A request was sent.
    pub fn arrived(&mut self, slot: usize, request: &Request) {
        let live = Live {
            arrival: request.arrival,
            prompt_tokens: request.prompt_tokens,
            output_tokens: 0,
            first: SimTime::ZERO,
            last: SimTime::ZERO,
        };
        if slot >= self.live.len() {
            self.live.resize(slot + 1, live);
        }
        self.live[slot] = live;
    }

    /// When the request in `slot` was sent.
    #[must_use]
    pub fn arrival(&self, slot: usize) -> SimTime {
        self.live[slot].arrival
    }

    /// Tokens were delivered: returns the time since the request's previous token (none for its first), and the whole
    /// request if these were its last.
    pub fn delivered(&mut self, at: SimTime, delivered: &Delivered) -> (Option<SimDuration>, Option<FinishedRequest>) {
        let live = &mut self.live[delivered.slot.0 as usize];
        let gap = if live.output_tokens == 0 {
            live.first = at;
            None
        } else {
            Some(at.since(live.last))
        };
        live.last = at;
        live.output_tokens += delivered.tokens;
        let finished = delivered.finished.then(|| live.finished(delivered.id));
        (gap, finished)
    }
}

impl Live {
    fn finished(&self, id: RequestId) -> FinishedRequest {
        let (ttft, e2el) = (self.first.since(self.arrival), self.last.since(self.arrival));
        let later_tokens = u64::from(self.output_tokens.saturating_sub(1));
        let decode_ns = (e2el - ttft).0;
        let tpot = (decode_ns + later_tokens / 2).checked_div(later_tokens).unwrap_or_default();
        FinishedRequest {
            id,
            arrival: self.arrival,
            prompt_tokens: self.prompt_tokens,
            output_tokens: self.output_tokens,
            ttft,
            tpot: SimDuration(tpot),
            e2el,
        }
    }
}

/// Collects the latencies of the requests after the warm-up cut.
#[derive(Debug)]
pub struct LatencyRecorder {
    slo: Slo,
    cut: Cut,
    clock: RequestClock,
    ttft: Distribution,
    tpot: Distribution,
    itl: Distribution,
    e2el: Distribution,
    ttft_before_cut: Distribution,
    attainment: Attainment,
    refused: u64,
    sent: u64,
    last_sent: SimTime,
    prompt_tokens: u64,
    output_tokens: u64,
    last_output: SimTime,
}

/// What the latencies of a run came to.
#[derive(Clone, Debug)]
pub struct Latency {
    /// The objectives that the requests were judged by.
    pub slo: Slo,
    /// From the start (or the warm-up cut) to the last output, in seconds.
    pub duration_s: f64,
    /// Requests sent, refused ones included.
    pub sent: u64,
    /// From the start (or the warm-up cut) to the last request sent, in seconds.
    pub sending_s: f64,
    /// Requests that finished.
    pub completed: u64,
    /// Requests that the engine refused.
    pub refused: u64,
    /// Prompt tokens of the finished requests.
    pub prompt_tokens: u64,
    /// Tokens that the finished requests received.
    pub output_tokens: u64,
    /// Finished requests that met the objectives.
    pub attainment: Attainment,
    /// Time to first token.
    pub ttft: Option<Spread>,
    /// Time per output token, over requests of more than one.
    pub tpot: Option<Spread>,
    /// Time between deliveries; one delivery of several tokens counts once.
    pub itl: Option<Spread>,
    /// End-to-end latency.
    pub e2el: Option<Spread>,
    /// Finished requests that the warm-up cut leaves out.
    pub completed_before_cut: u64,
    /// Their time to first token.
    pub ttft_before_cut: Option<Spread>,
    /// Requests sent before the warm-up cut, refused ones included.
    pub requests_before_cut: u64,
    /// Where the warm-up cut fell, in seconds.
    pub from_s: f64,
}

impl LatencyRecorder {
    /// Judges requests by `slo`, those before the cut left out.
    #[must_use]
    pub fn new(slo: Slo, cut: Cut) -> Self {
        Self {
            slo,
            cut,
            clock: RequestClock::default(),
            ttft: Distribution::default(),
            tpot: Distribution::default(),
            itl: Distribution::default(),
            e2el: Distribution::default(),
            ttft_before_cut: Distribution::default(),
            attainment: Attainment::default(),
            refused: 0,
            sent: 0,
            last_sent: SimTime::ZERO,
            prompt_tokens: 0,
            output_tokens: 0,
            last_output: SimTime::ZERO,
        }
    }

    /// Takes note of arrivals, refusals and deliveries.
    pub fn record(&mut self, event: &Event<'_>) {
        match event {
            Event::RequestArrived { at, id, slot, request, .. } => {
                self.note_sent(*id, *at);
                self.clock.arrived(slot.0 as usize, request);
            }
            Event::RequestRefused { at, id, .. } => {
                self.note_sent(*id, *at);
                self.refused += u64::from(self.cut.keeps_request(*id, *at));
            }
            Event::StepApplied { at, outcome, .. } => {
                for delivered in &outcome.delivered {
                    self.deliver(*at, delivered);
                }
            }
            Event::RequestPreempted { .. } | Event::DummyStepRun { .. } | Event::StepScheduled(_) => {}
        }
    }

    fn note_sent(&mut self, id: RequestId, at: SimTime) {
        self.cut.request_sent(id, at);
        self.sent += u64::from(self.cut.keeps_request(id, at));
        self.last_sent = at;
    }

    /// Where the figures start.
    #[must_use]
    pub fn cut(&self) -> Cut {
        self.cut
    }

    fn deliver(&mut self, at: SimTime, delivered: &Delivered) {
        let counts = self.cut.keeps_request(delivered.id, self.clock.arrival(delivered.slot.0 as usize));
        let (gap, finished) = self.clock.delivered(at, delivered);
        if !counts {
            if let Some(request) = finished {
                self.ttft_before_cut.add(request.ttft);
            }
            return;
        }
        if let Some(gap) = gap {
            self.itl.add(gap);
        }
        if let Some(request) = finished {
            self.finish_request(&request);
            self.last_output = self.last_output.max(at);
        }
    }

    fn finish_request(&mut self, request: &FinishedRequest) {
        self.ttft.add(request.ttft);
        self.e2el.add(request.e2el);
        if request.output_tokens > 1 {
            self.tpot.add(request.tpot);
        }
        self.attainment.record(&self.slo, request.ttft, request.tpot, request.e2el);
        self.prompt_tokens += u64::from(request.prompt_tokens);
        self.output_tokens += u64::from(request.output_tokens);
    }

    /// The figures.
    #[must_use]
    pub fn finish(self) -> Latency {
        let from = self.cut.from().unwrap_or(self.last_output);
        Latency {
            slo: self.slo,
            duration_s: self.last_output.since(from.min(self.last_output)).as_s(),
            sent: self.sent,
            sending_s: self.last_sent.since(from.min(self.last_sent)).as_s(),
            completed: self.ttft.count(),
            refused: self.refused,
            prompt_tokens: self.prompt_tokens,
            output_tokens: self.output_tokens,
            attainment: self.attainment,
            ttft: self.ttft.spread(),
            tpot: self.tpot.spread(),
            itl: self.itl.spread(),
            e2el: self.e2el.spread(),
            completed_before_cut: self.ttft_before_cut.count(),
            ttft_before_cut: self.ttft_before_cut.spread(),
            requests_before_cut: self.cut.requests_before(),
            from_s: from.since(SimTime::ZERO).as_s(),
        }
    }
}

impl Latency {
    /// Finished requests that met every objective, per second; `None` without an objective.
    #[must_use]
    pub fn request_goodput(&self) -> Option<f64> {
        (self.slo != Slo::default()).then(|| self.per_second(self.attainment.all)).flatten()
    }

    /// Requests sent per second; `None` if all were sent at once.
    #[must_use]
    pub fn request_rate(&self) -> Option<f64> {
        (self.sending_s > 0.0).then(|| self.sent as f64 / self.sending_s)
    }

    /// Finished requests per second.
    #[must_use]
    pub fn request_throughput(&self) -> Option<f64> {
        self.per_second(self.completed)
    }

    /// Output tokens of finished requests per second.
    #[must_use]
    pub fn output_throughput(&self) -> Option<f64> {
        self.per_second(self.output_tokens)
    }

    /// A count per second of the run; `None` over no time at all.
    #[must_use]
    pub fn per_second(&self, count: u64) -> Option<f64> {
        (self.duration_s > 0.0).then(|| count as f64 / self.duration_s)
    }
}
