//! Criterion, and beside it the fastest run of each kind, for ratios.

use std::time::Duration;

use criterion::{Criterion, SamplingMode, Throughput};
use sim::engine::scheduler::Stepping;

use super::work::{Watched, Work};

/// Criterion with what it is used for here.
pub(crate) struct Bench<'a> {
    criterion: &'a mut Criterion,
}

/// The fastest run of a kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timed {
    /// Seconds it took.
    pub seconds: f64,
    /// Steps with tokens.
    pub steps: u64,
    /// Requests offered.
    pub requests: u32,
}

impl Timed {
    /// Millions of steps a second.
    pub(crate) fn million_steps_per_s(&self) -> f64 {
        self.steps as f64 / self.seconds / 1e6
    }

    /// Nanoseconds a step, prompts included.
    pub(crate) fn ns_per_step(&self) -> f64 {
        self.seconds * 1e9 / self.steps as f64
    }

    /// Nanoseconds a request, all its steps included.
    pub(crate) fn ns_per_request(&self) -> f64 {
        self.seconds * 1e9 / f64::from(self.requests)
    }
}

impl<'a> Bench<'a> {
    /// Measures with `criterion`.
    pub(crate) fn new(criterion: &'a mut Criterion) -> Self {
        Self { criterion }
    }

    /// Times runs of `work`; `None` where a filter leaves them out.
    pub(crate) fn measure(
        &mut self,
        group: &str,
        name: &str,
        work: &Work,
        stepping: Stepping,
        watched: Watched,
    ) -> Option<Timed> {
        // Both ways of stepping take the same steps.
        let seconds = self.fastest(group, name, work.steps, || work.run(stepping, watched).0)?;
        Some(Timed { seconds, steps: work.steps, requests: work.requests })
    }

    /// Times the requests of `work` alone; seconds, `None` where a filter leaves them out.
    pub(crate) fn drain(&mut self, group: &str, name: &str, work: &Work) -> Option<f64> {
        self.fastest(group, name, work.requests.into(), || work.drain())
    }

    /// Seconds of the fastest run, each of so many steps or requests.
    fn fastest(&mut self, group: &str, name: &str, elements: u64, mut run: impl FnMut() -> Duration) -> Option<f64> {
        let mut fastest: Option<Duration> = None;
        let mut group = self.criterion.benchmark_group(group);
        group.sampling_mode(SamplingMode::Flat).throughput(Throughput::Elements(elements));
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|runs| {
                let mut sum = Duration::ZERO;
                for _ in 0..runs {
                    let time = run();
                    fastest = Some(fastest.map_or(time, |fastest| fastest.min(time)));
                    sum += time;
                }
                sum
            });
        });
        group.finish();
        fastest.map(|time| time.as_secs_f64())
    }
}
