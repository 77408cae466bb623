//! `--watch`: the first seed of every candidate under the user's eyes, each on a thread of its own.

use std::thread;

use super::super::failure::Failure;
use super::super::watch::Clock;
use super::job::{Job, JobResult};
use super::jobs::Jobs;
use crate::record;
use crate::scenario::WarmUp;
use crate::watch::live::live;
use crate::watch::session::{SessionError, show};
use crate::watch::state::{Lane, Leaving, Playback, State, WarmUpCut};
use crate::watch::terminal::Screen;

/// Each candidate is simulated on a thread of its own, so that all keep up with the same clock.
const CANDIDATES_MAX: usize = 32;

const CLOSED: &str = "the view was closed before the run had ended; there is no report, and nothing was written";

impl Jobs<'_> {
    /// Runs every candidate with every seed, the first seed in a view that stays open until its user leaves; the results are
    /// those of [`Jobs::run`].
    ///
    /// # Errors
    /// As [`Jobs::run`]; if there is no terminal to draw on; if the user leaves before the run has ended.
    pub(super) fn run_watched(&self, seeds: &[u64], clock: Clock) -> Result<Vec<JobResult>, Failure> {
        if self.setups.len() > CANDIDATES_MAX {
            let message = format!("--watch: expected at most {CANDIDATES_MAX} candidates, found {}", self.setups.len());
            return Err(Failure::Usage { message, help: Some("choose some with --candidate NAME".to_owned()) });
        }
        let jobs = self.all(seeds);
        let (watched, others): (Vec<Job>, Vec<Job>) = jobs.iter().partition(|job| job.first_seed);
        let mut screen = Screen::open()?;
        let of_seeds = if seeds.len() > 1 { format!(", the first of {}", seeds.len()) } else { String::new() };
        let title = format!("{} · seed {}{of_seeds}", self.inputs.scenario.name, seeds[0]);
        let first = self.show(&watched, &title, clock, &mut screen);
        drop(screen);
        let mut results = first?;
        results.extend(self.run_all(&others)?);
        results.sort_by_key(|result| jobs.iter().position(|job| *job == result.job));
        Ok(results)
    }

    fn show(&self, jobs: &[Job], title: &str, clock: Clock, screen: &mut Screen) -> Result<Vec<JobResult>, Failure> {
        let scenario = &self.inputs.scenario;
        let slo = record::slo(&scenario.slo);
        let (profile, profile_name) = (&self.inputs.profile, &self.inputs.profile_name);
        thread::scope(|scope| {
            let (mut lanes, mut sources, mut runs) = (Vec::new(), Vec::new(), Vec::new());
            for &job in jobs {
                let (name, setup) = (&scenario.candidates[job.candidate].name, &self.setups[job.candidate]);
                let header = record::step_header(scenario, profile, profile_name, job.seed, name, setup);
                let (observer, source) = live(name, job.seed, scenario.slo, setup);
                lanes.push(Lane::new(&header, slo, true));
                sources.push(source);
                runs.push(scope.spawn(move || self.run_one(job, Some(observer))));
            }
            let mut state = clock.start(State::new(title, lanes), screen);
            state.warm_up = warm_up(scenario.warm_up);
            let seen = show(sources, state, screen);
            // The view has let go of all sources: whoever still runs stops at its next word.
            let results: Vec<Result<JobResult, Failure>> = runs
                .into_iter()
                .map(|run| run.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect();
            match seen {
                Ok(State { leaving: Some(Leaving::Quit), playback: Playback::Ended, .. })
                | Err(SessionError::Source(_)) => {}
                // A terminal that fails after it was taken over is gone, and so is the user.
                Ok(_) | Err(SessionError::Display(_)) => return Err(closed()),
            }
            // A run that fails closes the view, which stops the others: that one is to be reported.
            let mut stopped = None;
            let mut finished = Vec::with_capacity(results.len());
            for result in results {
                match result {
                    Ok(result) => finished.push(result),
                    Err(Failure::Interrupted(_)) => stopped = Some(Failure::Interrupted(CLOSED)),
                    Err(failure) => return Err(failure),
                }
            }
            stopped.map_or(Ok(finished), Err)
        })
    }
}

/// The cut as a view says it.
fn warm_up(warm_up: WarmUp) -> Option<WarmUpCut> {
    match warm_up {
        WarmUp::None => None,
        WarmUp::Time(time) => Some(WarmUpCut { requests: None, until_ns: Some(time.0) }),
        WarmUp::Requests(requests) => Some(WarmUpCut { requests: Some(requests), until_ns: None }),
    }
}

/// The failure of a run whose view has gone.
pub(super) fn closed() -> Failure {
    Failure::Interrupted(CLOSED)
}
