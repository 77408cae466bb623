//! Latency of requests: time to first token, per output token, between tokens, end to end.

use super::attainment::Attainment;
use super::cut::Cut;
use super::distribution::{Distribution, Spread};
use crate::engine::request::{RequestId, Slot};
use crate::engine::step::StepOutcome;
use crate::observe::{Beat, Event, Stretch};
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

/// Follows the live requests, by slot. Requests in lockstep are followed together: each of their outputs is one beat of
/// their rank, and a request's tokens follow from the beats since it joined.
#[derive(Debug, Default)]
pub struct RequestClock {
    live: Vec<Live>,
    /// By rank.
    ranks: Vec<Beats>,
}

#[derive(Clone, Copy, Debug)]
struct Live {
    counts: bool,
    arrival: SimTime,
    prompt_tokens: u32,
    output_tokens: u32,
    first: SimTime,
    last: SimTime,
    /// In lockstep: the number of the first beat that it is in.
    since_beat: Option<u64>,
}

/// The lockstep of one rank.
#[derive(Clone, Debug, Default)]
struct Beats {
    /// Outputs so far that brought tokens in lockstep, or would have brought them.
    count: u64,
    /// The last of them: who is in lockstep got a token then.
    last: SimTime,
    /// Who has joined and with which beat, some of whom have left: their slots may be others' by now.
    listed: Vec<(Slot, u64)>,
    members: usize,
    /// Members that were sent after the warm-up cut.
    counted: u64,
}

/// One output of one request.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    /// The request.
    pub id: RequestId,
    /// Its slot.
    pub slot: Slot,
    /// It was sent after the warm-up cut.
    pub counts: bool,
    /// The time since its previous token; none for its first.
    pub gap: Option<SimDuration>,
    /// The whole request, if these tokens were its last.
    pub finished: Option<FinishedRequest>,
}

impl RequestClock {
    /// A request was sent; `counts`: after the warm-up cut.
    pub fn arrived(&mut self, slot: usize, request: &Request, counts: bool) {
        let live = Live {
            counts,
            arrival: request.arrival,
            prompt_tokens: request.prompt_tokens,
            output_tokens: 0,
            first: SimTime::ZERO,
            last: SimTime::ZERO,
            since_beat: None,
        };
        if slot >= self.live.len() {
            self.live.resize(slot + 1, live);
        }
        self.live[slot] = live;
    }

    /// The output of a step of one rank was applied: calls `told` for every request in [`StepOutcome::delivered`], and
    /// returns the time since the last token of the others in lockstep, and how many of them count.
    pub fn applied(
        &mut self,
        at: SimTime,
        rank: u32,
        outcome: &StepOutcome,
        mut told: impl FnMut(Delivery),
    ) -> (SimDuration, u64) {
        let rank = rank as usize;
        if rank >= self.ranks.len() {
            self.ranks.resize(rank + 1, Beats::default());
        }
        let beats = &mut self.ranks[rank];
        if outcome.lockstep_ended {
            beats.end(&mut self.live);
        }
        for &slot in &outcome.joined {
            beats.join(slot, &mut self.live);
        }
        beats.count += u64::from(outcome.is_beat);
        for delivered in &outcome.delivered {
            let live = &mut self.live[delivered.slot.0 as usize];
            let gap = if let Some(since) = live.since_beat.take() {
                live.output_tokens += (beats.count - since) as u32;
                beats.members -= 1;
                beats.counted -= u64::from(live.counts);
                Some(at.since(beats.last))
            } else {
                let is_first = live.output_tokens == 0;
                live.output_tokens += delivered.tokens;
                if is_first {
                    live.first = at;
                    None
                } else {
                    Some(at.since(live.last))
                }
            };
            live.last = at;
            let finished = delivered.finished.then(|| live.finished(delivered.id));
            told(Delivery { id: delivered.id, slot: delivered.slot, counts: live.counts, gap, finished });
        }
        if !outcome.is_beat {
            return (SimDuration::ZERO, 0);
        }
        let gap = at.since(beats.last.min(at));
        beats.last = at;
        (gap, beats.counted)
    }

    /// So many outputs of one rank in a row brought a token to everybody in lockstep, and to nobody else, the last of them
    /// at `last`; returns when the token before them came.
    pub fn passed(&mut self, rank: u32, outputs: u64, last: SimTime) -> SimTime {
        let beats = &mut self.ranks[rank as usize];
        beats.count += outputs;
        std::mem::replace(&mut beats.last, last)
    }

    /// Requests of a rank in lockstep that count.
    #[must_use]
    pub fn counted(&self, rank: u32) -> u64 {
        self.ranks.get(rank as usize).map_or(0, |beats| beats.counted)
    }
}

impl Beats {
    fn join(&mut self, slot: Slot, live: &mut [Live]) {
        let request = &mut live[slot.0 as usize];
        request.since_beat = Some(self.count);
        self.members += 1;
        self.counted += u64::from(request.counts);
        if self.listed.len() > 2 * self.members + 64 {
            self.listed.retain(|(slot, since)| live[slot.0 as usize].since_beat == Some(*since));
        }
        self.listed.push((slot, self.count));
    }

    fn end(&mut self, live: &mut [Live]) {
        for (slot, _) in self.listed.drain(..) {
            let live = &mut live[slot.0 as usize];
            if let Some(since) = live.since_beat.take() {
                live.output_tokens += (self.count - since) as u32;
                live.last = self.last;
            }
        }
        (self.members, self.counted) = (0, 0);
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
    cut: Cut,
    clock: RequestClock,
    figures: Figures,
    refused: u64,
    sent: u64,
    last_sent: SimTime,
}

/// What the deliveries come to.
#[derive(Debug, Default)]
struct Figures {
    slo: Slo,
    ttft: Distribution,
    tpot: Distribution,
    itl: Distribution,
    e2el: Distribution,
    ttft_before_cut: Distribution,
    attainment: Attainment,
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
    /// Some percentiles are from bins: see [`Distribution`].
    pub is_binned: bool,
    /// Where the warm-up cut fell, in seconds.
    pub from_s: f64,
}

impl LatencyRecorder {
    /// Judges requests by `slo`, those before the cut left out.
    #[must_use]
    pub fn new(slo: Slo, cut: Cut) -> Self {
        Self {
            cut,
            clock: RequestClock::default(),
            figures: Figures { slo, ..Figures::default() },
            refused: 0,
            sent: 0,
            last_sent: SimTime::ZERO,
        }
    }

    /// Takes note of arrivals, refusals and deliveries.
    #[inline]
    pub fn record(&mut self, event: &Event<'_>) {
        match event {
            Event::RequestArrived { at, id, slot, request, .. } => {
                let counts = self.note_sent(*id, *at);
                self.clock.arrived(slot.0 as usize, request, counts);
            }
            Event::RequestRefused { at, id, .. } => self.refused += u64::from(self.note_sent(*id, *at)),
            Event::StepApplied { at, rank, outcome, .. } => self.apply(*at, *rank, outcome),
            Event::RequestPreempted { .. } | Event::DummyStepRun { .. } | Event::StepScheduled(_) => {}
        }
    }

    /// Takes note of a request that is sent; whether it counts.
    fn note_sent(&mut self, id: RequestId, at: SimTime) -> bool {
        let counts = self.cut.request_sent(id, at);
        self.sent += u64::from(counts);
        self.last_sent = at;
        counts
    }

    /// Where the figures start.
    #[must_use]
    pub fn cut(&self) -> &Cut {
        &self.cut
    }

    /// The figures.
    #[must_use]
    pub fn finish(self) -> Latency {
        let Self { cut, figures, .. } = self;
        let kept = [&figures.ttft, &figures.tpot, &figures.itl, &figures.e2el, &figures.ttft_before_cut];
        let is_binned = kept.into_iter().any(Distribution::is_binned);
        let from = cut.from().unwrap_or(figures.last_output);
        Latency {
            slo: figures.slo,
            duration_s: figures.last_output.since(from.min(figures.last_output)).as_s(),
            sent: self.sent,
            sending_s: self.last_sent.since(from.min(self.last_sent)).as_s(),
            completed: figures.ttft.count(),
            refused: self.refused,
            prompt_tokens: figures.prompt_tokens,
            output_tokens: figures.output_tokens,
            attainment: figures.attainment,
            ttft: figures.ttft.spread(),
            tpot: figures.tpot.spread(),
            itl: figures.itl.spread(),
            e2el: figures.e2el.spread(),
            completed_before_cut: figures.ttft_before_cut.count(),
            ttft_before_cut: figures.ttft_before_cut.spread(),
            requests_before_cut: cut.requests_before(),
            is_binned,
            from_s: from.since(SimTime::ZERO).as_s(),
        }
    }

    /// Takes note of the outputs of a stretch.
    pub fn record_stretch(&mut self, stretch: &Stretch<'_>) {
        let (rank, beats) = (stretch.first.rank, stretch.beats);
        let Some(Beat { applied_at, .. }) = beats.last() else { return };
        let mut before = self.clock.passed(rank, beats.len() as u64, *applied_at);
        let gaps = beats.iter().map(|beat| beat.applied_at.since(std::mem::replace(&mut before, beat.applied_at)));
        self.figures.itl.add_each(gaps, self.clock.counted(rank));
    }

    fn apply(&mut self, at: SimTime, rank: u32, outcome: &StepOutcome) {
        let figures = &mut self.figures;
        let (gap, in_lockstep) = self.clock.applied(at, rank, outcome, |delivery| figures.deliver(at, &delivery));
        if in_lockstep > 0 {
            figures.itl.add_many(gap, in_lockstep);
        }
    }
}

impl Figures {
    fn deliver(&mut self, at: SimTime, delivery: &Delivery) {
        let finished = delivery.finished;
        if !delivery.counts {
            if let Some(request) = finished {
                self.ttft_before_cut.add(request.ttft);
            }
            return;
        }
        if let Some(gap) = delivery.gap {
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
