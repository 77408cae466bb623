//! The same requests through the simulated server, and what they see there.

use std::io;

use calibrate::profile::Profile;

use super::ValidateError;
use super::outcome::{Outcome, RequestTimes, Tick};
use super::step_times::DecodeTick;
use crate::cost::StepWork;
use crate::engine::options::EngineOptions;
use crate::engine::scheduler::Stepping;
use crate::engine::shape::StepShape;
use crate::metrics::{Metrics, Summary};
use crate::observe::{Event, Observer};
use crate::record::RequestRecorder;
use crate::scenario::{Slo, WarmUp};
use crate::server::{Replica, Setup};
use crate::time::SimTime;
use crate::traffic::{Request, RequestStream};

/// Ticks that are kept; whatever comes after belongs to the last: twelve days of seconds.
const TICKS_MAX: usize = 1 << 20;

/// What the simulated server did.
#[derive(Debug)]
pub struct Predicted {
    /// What its requests and its ticks saw.
    pub outcome: Outcome,
    /// All that is counted of a run.
    pub summary: Summary,
    /// Preemptions.
    pub preemptions: u64,
    /// Steps that computed prompts.
    pub mixed_steps: u64,
    /// Most requests running in any step.
    pub running_most: u32,
    /// Requests that the engine refused.
    pub refused: u64,
}

/// Serves `requests`, in order of arrival, and reads the server's counters every `tick_s` seconds.
///
/// # Errors
/// The engine would not start, or the simulation cannot go on.
pub fn simulate(
    run: &str,
    options: &EngineOptions,
    profile: &Profile,
    requests: Vec<Request>,
    tick_s: f64,
) -> Result<Predicted, ValidateError> {
    let setup = prepare(run, options, profile)?;
    let metrics = Metrics::new(Slo::default(), WarmUp::None, &setup.cost, options);
    let mut observer = (metrics, Counters::new(tick_s));
    let replica = Replica::new(setup.schedulers(Stepping::Fast), &setup.graphs, &setup.cost);
    let end = replica.serve(RequestStream::listed(requests), &mut observer)?;
    let (metrics, counters) = observer;
    let refused = counters.refused;
    let (mixed_steps, running_most) = (counters.mixed_steps, counters.running_most);
    let outcome = counters.outcome();
    Ok(Predicted {
        outcome,
        summary: metrics.finish(),
        preemptions: end.preemptions,
        mixed_steps,
        running_most,
        refused,
    })
}

/// Prices decode steps of batches that a series describes.
#[derive(Debug)]
pub struct DecodePricer {
    setup: Setup,
}

impl DecodePricer {
    /// The server of `options`, priced by `profile`.
    ///
    /// # Errors
    /// The engine would not start.
    pub fn new(run: &str, options: &EngineOptions, profile: &Profile) -> Result<Self, ValidateError> {
        let setup = prepare(run, options, profile)?;
        Ok(Self { setup })
    }

    /// Milliseconds of a decode step of the requests that ran in a tick, with the KV blocks that they held; `None` where those
    /// are not known. Between two numbers of requests the price lies between both.
    #[must_use]
    pub fn ms(&self, tick: &DecodeTick) -> Option<f64> {
        let pool = &self.setup.kv_pool;
        let block_tokens = f64::from(pool.block_size);
        let blocks = tick.kv_share? * f64::from(pool.num_gpu_blocks.saturating_sub(1));
        // The last block of a request is half full in the mean.
        let context_tokens = blocks * block_tokens - tick.running * (block_tokens - 1.0) / 2.0;
        let low = self.batch_ms(tick.running.floor(), context_tokens / tick.running);
        let high = self.batch_ms(tick.running.ceil(), context_tokens / tick.running);
        Some(low + (high - low) * tick.running.fract())
    }

    fn batch_ms(&self, requests: f64, context_tokens: f64) -> f64 {
        let number = requests.max(1.0) as u32;
        let shape = StepShape {
            requests: number,
            tokens: number,
            max_query: 1,
            uniform_v1: true,
            uniform_v2: Some(1),
            ..StepShape::default()
        };
        let work = StepWork {
            tokens: number,
            requests: number,
            sampled: number,
            decode_requests: number,
            decode_context_tokens: (f64::from(number) * context_tokens.max(1.0)).round() as u64,
            ..StepWork::default()
        };
        let cost = &self.setup.cost;
        let price = cost.price(&work, &self.setup.graphs.dispatch(&shape));
        price.period(cost.overlap, self.setup.options.asynchronous()).as_ms()
    }
}

fn prepare(run: &str, options: &EngineOptions, profile: &Profile) -> Result<Setup, ValidateError> {
    Setup::prepare(options, profile).map_err(|source| ValidateError::Setup { run: run.to_owned(), source })
}

/// Follows a run as a server's own counters do: tick by tick, so that memory does not grow with steps.
struct Counters {
    recorder: RequestRecorder,
    requests: Vec<RequestTimes>,
    tick_s: f64,
    ticks: Vec<CountedTick>,
    mixed_steps: u64,
    running_most: u32,
    refused: u64,
}

/// What was counted in one tick.
#[derive(Clone, Copy, Debug, Default)]
struct CountedTick {
    output_tokens: f64,
    /// Requests running and waiting after the last schedule in it, if there was one.
    queues: Option<(u32, u32)>,
}

impl Counters {
    fn new(tick_s: f64) -> Self {
        Self {
            recorder: RequestRecorder::new("", 0, Slo::default()),
            requests: Vec::new(),
            tick_s,
            ticks: Vec::new(),
            mixed_steps: 0,
            running_most: 0,
            refused: 0,
        }
    }

    /// The place of the tick in which a time lies, its end included.
    fn place(&self, at_s: f64) -> usize {
        ((at_s / self.tick_s).ceil() as usize).clamp(1, TICKS_MAX) - 1
    }

    fn tick(&mut self, at: SimTime) -> &mut CountedTick {
        let place = self.place(at.since(SimTime::ZERO).as_s());
        if place >= self.ticks.len() {
            self.ticks.resize(place + 1, CountedTick::default());
        }
        &mut self.ticks[place]
    }

    /// The run as its counters tell it.
    fn outcome(mut self) -> Outcome {
        self.requests.sort_by_key(|request| request.place);
        let mut last = (0, 0);
        let counted = self.ticks.iter().map(|tick| {
            last = tick.queues.unwrap_or(last);
            Tick {
                seconds: self.tick_s,
                output_tokens: tick.output_tokens,
                running: f64::from(last.0),
                waiting: f64::from(last.1),
                ..Tick::default()
            }
        });
        let mut ticks: Vec<Tick> = counted.collect();
        for times in &self.requests {
            // Seconds are rounded: the last of them may come out behind the last tick.
            let place = self.place(times.first_token_s).min(ticks.len() - 1);
            ticks[place].prompt_tokens += f64::from(times.prompt_tokens);
        }
        // Nobody is left when the last token has come, as a server's last tick says too.
        if let Some(tick) = ticks.last_mut() {
            (tick.running, tick.waiting) = (0.0, 0.0);
        }
        Outcome { requests: self.requests, ticks }
    }
}

impl Observer for Counters {
    fn observe(&mut self, event: &Event<'_>) -> io::Result<()> {
        match event {
            Event::RequestRefused { .. } => self.refused += 1,
            Event::StepScheduled(step) => {
                self.tick(step.span.scheduled).queues = Some((step.running, step.waiting));
                self.running_most = self.running_most.max(step.running);
                self.mixed_steps += u64::from(!step.plan.prefills.is_empty());
            }
            Event::StepApplied { at, outcome, .. } => {
                let delivered: u32 = outcome.delivered.iter().map(|delivered| delivered.tokens).sum();
                self.tick(*at).output_tokens += f64::from(outcome.lockstep + delivered);
            }
            _ => {}
        }
        let requests = &mut self.requests;
        self.recorder.observe(event, |record| {
            if let (Some(ttft_ms), Some(e2el_ms)) = (record.ttft_ms, record.e2el_ms) {
                requests.push(RequestTimes {
                    place: record.id,
                    prompt_tokens: record.prompt_tokens,
                    output_tokens: record.output_tokens,
                    queued_s: record.arrival_s,
                    first_token_s: record.arrival_s + ttft_ms / 1e3,
                    last_token_s: record.arrival_s + e2el_ms / 1e3,
                });
            }
            Ok(())
        })
    }
}
