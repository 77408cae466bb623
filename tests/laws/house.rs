//! A scenario made ready to run inside the test, and the loop over random ones.

use std::cell::RefCell;
use std::error::Error;
use std::io;
use std::path::Path;

use calibrate::profile::Profile;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestRunner};
use reports::CandidateReport;
use sim::engine::scheduler::Stepping;
use sim::engine::vllm::options::VllmOptions;
use sim::metrics::{Metrics, Summary};
use sim::observe::{Event, Observer};
use sim::record;
use sim::scenario::Scenario;
use sim::server::{Replica, RunEnd, Setup};
use tempfile::TempDir;

use crate::scenarios::{Case, cases};

/// One scenario with its profile and its candidates, ready.
pub(crate) struct House {
    pub(crate) scenario: Scenario,
    pub(crate) profile: Profile,
    pub(crate) setups: Vec<Setup>,
    /// What the traffic is read from, as long as the house stands.
    folder: Option<TempDir>,
}

/// What one candidate's run came to.
pub(crate) struct Outcome {
    pub(crate) end: RunEnd,
    pub(crate) summary: Summary,
    pub(crate) report: CandidateReport,
}

/// The options of the vLLM server that a law is about.
pub(crate) fn vllm(setup: &Setup) -> &VllmOptions {
    setup.options.vllm().expect("a vLLM server")
}

impl House {
    /// Reads a scenario as `sim run` does, priced with `profile`. Relative paths start at `folder`.
    pub(crate) fn open(text: &str, folder: &Path, profile: Profile) -> Result<Self, String> {
        let scenario = Scenario::parse(text, "law.toml", folder).map_err(|error| chain(&error))?;
        scenario.simulable().map_err(|error| chain(&error))?;
        let prepare = |options| Setup::prepare(options, &profile).map_err(|error| chain(&error));
        let setups =
            scenario.candidates.iter().map(|candidate| prepare(&candidate.options)).collect::<Result<_, _>>()?;
        Ok(Self { scenario, profile, setups, folder: None })
    }

    /// Makes every candidate ready again after a change of the profile or of a vLLM server's flags.
    pub(crate) fn prepare_again(&mut self, change: impl Fn(&mut VllmOptions)) -> Result<(), String> {
        for (candidate, setup) in self.scenario.candidates.iter_mut().zip(&mut self.setups) {
            if let Some(options) = candidate.options.vllm_mut() {
                change(options);
            }
            *setup = Setup::prepare(&candidate.options, &self.profile).map_err(|error| chain(&error))?;
        }
        Ok(())
    }

    /// Keeps the folder that the traffic is read from.
    pub(crate) fn keep(&mut self, folder: TempDir) {
        self.folder = Some(folder);
    }

    /// Runs one candidate, every step walked plainly; `observer` is told everything.
    pub(crate) fn serve(&self, candidate: usize, observer: &mut impl Observer) -> Result<Outcome, String> {
        self.serve_stepping(candidate, Stepping::Plain, observer)
    }

    /// Runs one candidate; `observer` is told everything.
    pub(crate) fn serve_stepping(
        &self,
        candidate: usize,
        stepping: Stepping,
        observer: &mut impl Observer,
    ) -> Result<Outcome, String> {
        let setup = &self.setups[candidate];
        let scenario = &self.scenario;
        let traffic = scenario.traffic.open(scenario.traffic.seed).map_err(|error| chain(&error))?;
        let metrics = Metrics::new(scenario.slo, scenario.warm_up, &setup.cost, &setup.options);
        let mut observers = (metrics, observer);
        let replica = Replica::new(setup.schedulers(stepping), &setup.graphs, &setup.cost);
        let end = replica.serve(traffic, &mut observers).map_err(|error| chain(&error))?;
        let summary = observers.0.finish();
        let report = record::candidate(&scenario.candidates[candidate].name, setup, &summary);
        Ok(Outcome { end, summary, report })
    }
}

/// The whole story of an error.
fn chain(error: &dyn Error) -> String {
    let mut story = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        story = format!("{story}: {error}");
        cause = error.source();
    }
    story
}

/// A check that follows a run and stops it at the first event that breaks a law.
pub(crate) trait Law {
    /// Looks at one event.
    fn see(&mut self, event: &Event<'_>) -> Result<(), String>;
}

/// A law as an observer: a broken one ends the run.
pub(crate) struct Watched<L>(pub(crate) L);

impl<L: Law> Observer for Watched<L> {
    fn observe(&mut self, event: &Event<'_>) -> io::Result<()> {
        self.0.see(event).map_err(io::Error::other)
    }
}

/// Fails with a message unless `holds`.
pub(crate) fn require(holds: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(message()) }
}

/// What a law saw, so that a law that saw nothing cannot pass unnoticed.
#[derive(Default)]
pub(crate) struct Seen {
    counts: Vec<(&'static str, u64)>,
}

impl Seen {
    /// Adds to one count.
    pub(crate) fn add(&mut self, what: &'static str, count: u64) {
        match self.counts.iter_mut().find(|(name, _)| *name == what) {
            Some((_, total)) => *total += count,
            None => self.counts.push((what, count)),
        }
    }

    /// Adds what every run has.
    pub(crate) fn add_run(&mut self, outcome: &Outcome) {
        self.add("runs", 1);
        self.add("requests", u64::from(outcome.end.requests_offered));
        self.add("steps", outcome.end.steps);
    }

    /// Prints the counts and insists that each of `needed` is above zero.
    pub(crate) fn finish(&self, law: &str, needed: &[&str]) {
        let words: Vec<String> = self.counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
        println!("{law}: {}", words.join(", "));
        for name in needed {
            let seen = self.counts.iter().any(|(known, count)| known == name && *count > 0);
            assert!(seen, "{law}: the scenarios never had any {name}");
        }
    }
}

/// Holds a law against random scenarios. The name's number is the seed, so that laws see different scenarios; counts
/// named in `needed` must come out above zero.
pub(crate) fn for_all(law: &str, count: u32, needed: &[&str], check: impl Fn(&Case, &mut Seen) -> Result<(), String>) {
    let mut config = Config { failure_persistence: None, max_shrink_iters: 400, ..Config::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = count;
    }
    if std::env::var_os("PROPTEST_RNG_SEED").is_none() {
        config.rng_seed = RngSeed::Fixed(law.bytes().fold(0, |seed, byte| seed * 31 % 1_000_003 + u64::from(byte)));
    }
    let seen = RefCell::new(Seen::default());
    let outcome = TestRunner::new(config).run(&cases(), |case| {
        let seen = &mut *seen.borrow_mut();
        seen.add("scenarios", 1);
        check(&case, seen).map_err(TestCaseError::fail)
    });
    if let Err(error) = outcome {
        panic!("{law} is broken: {error}");
    }
    seen.borrow().finish(law, needed);
}
