//! One candidate as a view knows it: everything that its facts so far come to.

use std::collections::{BTreeMap, VecDeque};

use calibrate::stderr::printable;
use reports::{Name, SloReport, StepHeader, StepRecord};

use super::history::History;
use super::service::Service;
use super::tallies::Tallies;
use crate::watch::fact::Fact;

/// Steps that say whether a candidate runs without graphs just now.
pub const RECENT_STEPS: usize = 100;

/// One candidate.
#[derive(Clone, Debug, PartialEq)]
pub struct Lane {
    /// Its name, without control characters.
    pub name: String,
    /// The configured `cudagraph_mode`.
    pub cudagraph_mode: String,
    /// The sizes that it captures, ascending, tokens.
    pub capture_sizes: Vec<u32>,
    /// The largest size of each kind of step that it captures for.
    pub ceilings: Vec<Ceiling>,
    /// What its requests are judged by, as far as is known.
    pub slo: Option<SloReport>,
    /// Whether it is told what became of requests.
    pub knows_requests: bool,
    /// When the last fact was, in nanoseconds; never falls.
    pub clock_ns: u64,
    /// The last step.
    pub last: Option<StepRecord>,
    /// When the step begins that is told next, in nanoseconds; `None` where that is not known yet.
    pub next_step_ns: Option<u64>,
    /// The ranks after their last step.
    pub ranks: BTreeMap<u32, Rank>,
    /// Steps, counted.
    pub tallies: Tallies,
    /// Whether each of the last steps ran without a graph, the oldest first.
    recent: VecDeque<bool>,
    /// Batches, queue and KV cache over time.
    pub history: History,
    /// How its requests fared.
    pub service: Service,
    /// Times that a request lost its KV blocks.
    pub preemptions: u64,
    /// Whether a step verified drafts: then a request is not one row.
    pub has_drafts: bool,
    /// Whether this is all, and what is to be said of it.
    pub end: Option<End>,
}

/// The top of one ladder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ceiling {
    /// Which steps it is for: `decode`, `prefill`, or `all`.
    pub phase: Name,
    /// Its largest size.
    pub size: u32,
    /// Whether sizes count requests and not rows.
    pub of_requests: bool,
}

/// One rank after its last step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rank {
    /// Requests running.
    pub running: u32,
    /// Requests waiting.
    pub waiting: u32,
    /// KV blocks in use, blocks.
    pub kv_used_blocks: u64,
    /// KV blocks of the pool, blocks.
    pub kv_total_blocks: u64,
    /// The rung of the step; `None` without a graph.
    pub rung: Option<u32>,
    /// When the step ended, in nanoseconds.
    pub end_ns: u64,
}

/// The end of what a lane is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// What is missing behind it; `None` if it is whole.
    pub missing: Option<String>,
}

/// What a step was, for jumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// A step without a graph.
    pub fallback: bool,
    /// A step before which requests lost their KV blocks.
    pub preemption: bool,
    /// A step on another rung than the one before it of the same rank.
    pub rung_change: bool,
}

impl Lane {
    /// A candidate of which nothing has happened yet.
    #[must_use]
    pub fn new(header: &StepHeader, slo: Option<SloReport>, knows_requests: bool) -> Self {
        Self {
            name: printable(&header.candidate),
            cudagraph_mode: printable(&header.cudagraph_mode),
            capture_sizes: header.capture_sizes.clone(),
            ceilings: ceilings(header),
            slo,
            knows_requests,
            clock_ns: 0,
            last: None,
            next_step_ns: None,
            ranks: BTreeMap::new(),
            tallies: Tallies::default(),
            recent: VecDeque::with_capacity(RECENT_STEPS),
            history: History::default(),
            service: Service::default(),
            preemptions: 0,
            has_drafts: false,
            end: None,
        }
    }

    /// Takes note of a fact; says what it was if it was a step.
    pub fn apply(&mut self, fact: Fact) -> Option<Seen> {
        self.clock_ns = self.clock_ns.max(fact.at_ns());
        match fact {
            Fact::Step(step) => Some(self.apply_step(*step)),
            Fact::Request(request) => {
                self.service.add(&request, self.slo.as_ref());
                None
            }
        }
    }

    fn apply_step(&mut self, step: StepRecord) -> Seen {
        let rung = step.descriptor.as_ref().map(|descriptor| descriptor.tokens);
        let rank = Rank {
            running: step.running,
            waiting: step.waiting,
            kv_used_blocks: step.kv_used_blocks,
            kv_total_blocks: step.kv_total_blocks,
            rung,
            end_ns: step.end_ns,
        };
        self.next_step_ns = None;
        let before = self.ranks.insert(step.rank, rank);
        let seen = Seen {
            fallback: rung.is_none(),
            preemption: step.preempted > 0,
            rung_change: before.is_some_and(|before| before.rung != rung),
        };
        self.tallies.add(&step);
        self.has_drafts |= step.drafts > 0;
        self.preemptions += u64::from(step.preempted);
        if self.recent.len() == RECENT_STEPS {
            self.recent.pop_front();
        }
        self.recent.push_back(seen.fallback);
        let end_ns = step.end_ns;
        self.last = Some(step);
        let (waiting, kv_share) = (self.waiting(end_ns), self.kv_share(end_ns).unwrap_or_default());
        if let Some(step) = &self.last {
            self.history.add(step, waiting, kv_share);
        }
        seen
    }

    /// The rung that fired last; `None` without a graph, or before any step.
    #[must_use]
    pub fn firing(&self) -> Option<u32> {
        self.last.as_ref()?.descriptor.as_ref().map(|descriptor| descriptor.tokens)
    }

    /// Of the last steps, those without a graph, and how many these are.
    #[must_use]
    pub fn recent_fallbacks(&self) -> (usize, usize) {
        (self.recent.iter().filter(|&&fallback| fallback).count(), self.recent.len())
    }

    /// At least half of the last [`RECENT_STEPS`] steps ran without a graph, although there are graphs.
    #[must_use]
    pub fn is_eager_storm(&self) -> bool {
        let (fallbacks, steps) = self.recent_fallbacks();
        !self.capture_sizes.is_empty() && steps == RECENT_STEPS && 2 * fallbacks >= steps
    }

    /// The ranks that have something to do at a time. All take every step together, so a rank that was not in the last one
    /// has nothing, and no rank has if the next step is yet to begin. A step that another rank is told of first, or that is
    /// scheduled before the last one has ended, lets a rank count for one step too many.
    fn at_work(&self, clock_ns: u64) -> impl Iterator<Item = &Rank> {
        let has_ended = self.end.as_ref().is_some_and(|end| end.missing.is_none());
        let rests = has_ended || self.next_step_ns.is_some_and(|start_ns| clock_ns < start_ns);
        let since_ns = self.last.as_ref().map_or(0, |step| step.start_ns);
        self.ranks.values().filter(move |rank| !rests && rank.end_ns >= since_ns)
    }

    /// Ranks that ran steps and have nothing to do at a time.
    #[must_use]
    pub fn idle_ranks(&self, clock_ns: u64) -> usize {
        self.ranks.len() - self.at_work(clock_ns).count()
    }

    /// Requests running at a time, on all ranks.
    #[must_use]
    pub fn running(&self, clock_ns: u64) -> u64 {
        self.at_work(clock_ns).map(|rank| u64::from(rank.running)).sum()
    }

    /// Requests waiting at a time, on all ranks.
    #[must_use]
    pub fn waiting(&self, clock_ns: u64) -> u64 {
        self.at_work(clock_ns).map(|rank| u64::from(rank.waiting)).sum()
    }

    /// KV blocks in use at a time and of the pool, on all ranks, blocks.
    #[must_use]
    pub fn kv_blocks(&self, clock_ns: u64) -> (u64, u64) {
        let used = self.at_work(clock_ns).map(|rank| rank.kv_used_blocks).fold(0, u64::saturating_add);
        let total = self.ranks.values().map(|rank| rank.kv_total_blocks).fold(0, u64::saturating_add);
        (used, total)
    }

    /// Share of the KV blocks in use at a time; `None` before any step.
    #[must_use]
    pub fn kv_share(&self, clock_ns: u64) -> Option<f64> {
        let (used, total) = self.kv_blocks(clock_ns);
        (total > 0).then(|| used as f64 / total as f64)
    }

    /// The rung that fired next above (or below) `from`, or `from` itself if there is none; to begin with the one that served
    /// most steps.
    #[must_use]
    pub fn neighbour(&self, from: Option<u32>, above: bool) -> Option<u32> {
        let rungs = &self.tallies.rungs;
        let Some(from) = from else {
            return rungs.iter().max_by_key(|(_, tally)| tally.steps).map(|(&rung, _)| rung);
        };
        let next = if above { rungs.range(from.saturating_add(1)..).next() } else { rungs.range(..from).next_back() };
        Some(next.map_or(from, |(&rung, _)| rung))
    }
}

/// The tops of all ladders, the lowest first; of a log that does not tell them apart, the largest size.
fn ceilings(header: &StepHeader) -> Vec<Ceiling> {
    let top = |phase: &Name, size: u32, of_requests| Ceiling { phase: phase.clone(), size, of_requests };
    if header.ladders.is_empty() {
        return header.capture_sizes.last().map(|&size| top(&"all".into(), size, false)).into_iter().collect();
    }
    let tops = header.ladders.iter().filter_map(|ladder| {
        let phase = printable(&ladder.phase).into();
        ladder.sizes.iter().max().map(|&size| top(&phase, size, ladder.unit == "requests"))
    });
    let mut ceilings: Vec<Ceiling> = tops.collect();
    ceilings.sort_by_key(|ceiling| ceiling.size);
    ceilings
}
