//! From the ladders in force to the best ones found.

use std::collections::BTreeSet;

use rayon::iter::{IntoParallelIterator, IntoParallelRefIterator, ParallelIterator};
use reports::{CandidateReport, Figure};

use super::error::ProposeError;
use super::ladders::Ladders;
use super::landscape::{Landscape, Loads};
use super::limits::Limits;
use super::neighbours::{Change, Neighbour, neighbours};
use super::objective::{Objective, best_of};
use super::shapes::ShapeHistogram;
use super::trials::{Trial, Trials};
use super::verdict::Outcome;
use super::worth::served;
use crate::engine::options::EngineOptions;
use crate::server::Setup;

/// Most rungs of a proposal, all lists together.
pub const RUNGS_MAX: usize = 64;
/// The numbers of rungs of which the optimum is simulated.
const RUNGS_TRIED: [usize; 12] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, RUNGS_MAX];
/// Rounds of optimum and simulation at most: a histogram that goes to and fro does so between ladders that were tried.
const ROUNDS_MAX: u32 = 4;
/// Rounds of single changes at most.
const CHANGE_ROUNDS_MAX: u32 = 4;
/// Single changes simulated in a round: the cheapest ones for the histogram, as many that drop a rung as others.
const CHANGES_TRIED: usize = 6;
/// Ladders of the front that are tried on more seeds in the end.
const FINALISTS_MAX: usize = 6;

/// What is asked.
#[derive(Debug)]
pub struct Question<'a> {
    /// The server in force.
    pub current: &'a EngineOptions,
    /// What proposals are laid over: the same, with a mode that has graphs.
    pub base: &'a EngineOptions,
    /// What is best.
    pub objective: Objective,
    /// What may be taken.
    pub limits: Limits,
    /// The traffic's seeds that the search goes by.
    pub seeds: &'a [u64],
    /// Those that the best of the best are chosen on: the same and more.
    pub final_seeds: &'a [u64],
    /// Whether only ladders are looked at that differ from those in force in one rung.
    pub one_change: bool,
}

/// A server that was simulated.
#[derive(Debug)]
pub struct Tried {
    /// Its lists.
    pub ladders: Ladders,
    /// Its flags.
    pub options: EngineOptions,
    /// What became of it on the seeds of the search.
    pub trial: Trial,
}

/// All that a search found.
#[derive(Debug)]
pub struct Found {
    /// Everything simulated; the ladders in force come first.
    pub tried: Vec<Tried>,
    /// The best of them within the limits, by place; `None` if none keeps within them.
    pub best: Option<usize>,
    /// Single changes to the ladders in force that take no more memory, with the place of what comes of them.
    pub changes: Vec<(Change, usize)>,
    /// What the sizes cost.
    pub landscape: Landscape,
    /// The steps of the best one.
    pub loads: Loads,
    /// Start-up of a server without graphs, in seconds.
    pub without_graphs_startup_s: f64,
    /// Rounds.
    pub rounds: u32,
    /// The search was ended before it was done.
    pub interrupted: bool,
}

/// How far a search is.
pub type Note<'a> = dyn Fn(&str) + Sync + 'a;

/// Looks for the best ladders.
///
/// # Errors
/// [`ProposeError`]: the server in force does not start, the traffic cannot be read, or the search was ended before anything
/// was known.
pub fn search(trials: &Trials<'_>, question: &Question<'_>, note: &Note<'_>) -> Result<Found, ProposeError> {
    note("the ladders in force");
    let setup = Setup::prepare(question.current, trials.profile)?;
    let in_force = Ladders::of(&setup.graphs);
    let trial = trials.run_setup(&setup, "current", question.seeds)?.ok_or(ProposeError::EndedEarly)?;
    let histogram = trials.shapes(question.current, question.seeds)?.ok_or(ProposeError::EndedEarly)?;
    if histogram.steps() == 0 {
        return Err(ProposeError::NoSteps);
    }
    let landscape = Landscape::survey(question.base, trials.profile, &in_force, most(question.base))?;
    let without_graphs = Setup::prepare(&in_force.none().applied(question.base), trials.profile)?;
    let tried = vec![Tried { ladders: in_force.clone(), options: question.current.clone(), trial }];
    let loads = landscape.loads(&histogram)?;
    let mut search = Search {
        trials,
        question,
        setup,
        known: BTreeSet::from([in_force.clone()]),
        found: Found {
            tried,
            best: None,
            changes: Vec::new(),
            landscape,
            loads,
            without_graphs_startup_s: without_graphs.startup.total_s(),
            rounds: 0,
            interrupted: false,
        },
    };
    if question.base != question.current {
        search.known.clear();
        search.try_all(vec![in_force.clone()])?;
    }
    search.changes_to_current(note)?;
    if !question.one_change {
        let setup = &search.setup;
        let alive = alive(&in_force, setup, &histogram);
        search.try_all(vec![in_force.none(), alive])?;
        search.optima(note)?;
        search.single_changes(note)?;
    }
    search.finals(note)?;
    search.found.interrupted = trials.stop.is_asked();
    Ok(search.found)
}

/// The largest size that the flags allow, where they name one.
fn most(options: &EngineOptions) -> Option<u32> {
    match options {
        EngineOptions::Vllm(options) => options.graphs.max_cudagraph_capture_size,
        EngineOptions::Sglang(_) => None,
    }
}

struct Search<'a> {
    trials: &'a Trials<'a>,
    question: &'a Question<'a>,
    /// The server in force.
    setup: Setup,
    known: BTreeSet<Ladders>,
    found: Found,
}

impl Search<'_> {
    /// The optimum by number of rungs, simulated, for the steps that the best one takes, until that is known.
    fn optima(&mut self, note: &Note<'_>) -> Result<(), ProposeError> {
        let budget = self.question.limits.of_graphs(&self.setup);
        while self.found.rounds < ROUNDS_MAX && !self.trials.stop.is_asked() {
            self.found.rounds += 1;
            note(&format!("the best ladders for these steps, round {}", self.found.rounds));
            let form = self.found.tried[0].ladders.clone();
            let best = self.found.loads.best(&form, &budget, RUNGS_MAX)?;
            let chosen = RUNGS_TRIED.into_iter().filter_map(|rungs| Some(best.get(rungs)?.as_ref()?.ladders.clone()));
            if self.try_all(chosen.collect())? == 0 {
                break;
            }
            self.look_at_best()?;
        }
        Ok(())
    }

    /// One rung more, less or elsewhere, as long as that makes the best one better.
    fn single_changes(&mut self, note: &Note<'_>) -> Result<(), ProposeError> {
        for round in 1..=CHANGE_ROUNDS_MAX {
            let Some(before) = self.found.best else { return Ok(()) };
            if self.trials.stop.is_asked() {
                return Ok(());
            }
            note(&format!("single changes, round {round}"));
            let budget = self.question.limits.of_graphs(&self.setup);
            let mut all = neighbours(&self.found.tried[before].ladders, &self.found.loads);
            all.retain(|neighbour| budget.allows(&self.found.loads.usage(&neighbour.ladders)));
            let (drops, others): (Vec<_>, Vec<_>) =
                all.into_iter().partition(|neighbour| matches!(neighbour.change, Change::Drop(..)));
            let chosen = drops.into_iter().take(CHANGES_TRIED).chain(others.into_iter().take(2 * CHANGES_TRIED));
            self.try_all(chosen.map(|neighbour| neighbour.ladders).collect())?;
            if self.found.best == Some(before) {
                return Ok(());
            }
            self.look_at_best()?;
        }
        Ok(())
    }

    /// What single changes to the ladders in force come to.
    fn changes_to_current(&mut self, note: &Note<'_>) -> Result<(), ProposeError> {
        note("single changes to the ladders in force");
        let in_force = &self.found.tried[0].ladders;
        let budget = self.question.limits.of_graphs(&self.setup);
        let most = self.found.loads.usage(in_force).memory();
        let fits = |neighbour: &Neighbour| {
            let usage = self.found.loads.usage(&neighbour.ladders);
            usage.memory() <= most && budget.allows(&usage)
        };
        let all = neighbours(in_force, &self.found.loads).into_iter().filter(fits);
        let (drops, others): (Vec<_>, Vec<_>) = all.partition(|neighbour| matches!(neighbour.change, Change::Drop(..)));
        let chosen = |all: Vec<Neighbour>| all.into_iter().take(CHANGES_TRIED);
        let chosen: Vec<Neighbour> = chosen(drops).chain(chosen(others)).collect();
        self.try_all(chosen.iter().map(|neighbour| neighbour.ladders.clone()).collect())?;
        let tried = &self.found.tried;
        let place = |ladders: &Ladders| tried.iter().position(|tried| tried.ladders == *ladders);
        self.found.changes =
            chosen.iter().filter_map(|neighbour| Some((neighbour.change, place(&neighbour.ladders)?))).collect();
        Ok(())
    }

    /// Tries the ladders of the front on more seeds: what a few seeds could not tell apart, or told apart by luck, is decided
    /// there.
    fn finals(&mut self, note: &Note<'_>) -> Result<(), ProposeError> {
        let Some(best) = self.found.best else { return Ok(()) };
        note("the best of the best");
        let mut finalists =
            spread(&front(&self.found.tried, self.question.objective, &self.question.limits), FINALISTS_MAX);
        finalists.push(best);
        if self.question.limits.allow(&self.found.tried[0].trial.runs[0]) {
            finalists.push(0);
        }
        finalists.sort_unstable();
        finalists.dedup();
        let run = |&place: &usize| self.trials.run(&self.found.tried[place].options, "", self.question.final_seeds);
        let trials: Vec<Option<Trial>> = finalists.par_iter().map(run).collect::<Result<_, _>>()?;
        let Some(trials) = trials.into_iter().collect::<Option<Vec<Trial>>>() else { return Ok(()) };
        let servers: Vec<(usize, &[CandidateReport])> =
            finalists.iter().zip(&trials).map(|(&place, trial)| (place, trial.runs.as_slice())).collect();
        let objective = self.question.objective;
        let Some(best) = best_of(objective, &servers, price) else { return Ok(()) };
        self.found.best = Some(cheapest_as_good(objective, &servers, best));
        // A single change stays one, whatever other rungs no step runs on.
        if self.question.one_change { Ok(()) } else { self.without_dead_rungs() }
    }

    /// Takes rungs out of the best ladders that no step runs on: whatever they gained (they take memory from the KV pool,
    /// which can keep requests out), no rung is for that.
    fn without_dead_rungs(&mut self) -> Result<(), ProposeError> {
        let Some(best) = self.found.best.filter(|&best| best > 0) else { return Ok(()) };
        let tried = &self.found.tried[best];
        let (ladders, options) = (tried.ladders.clone(), tried.options.clone());
        let Some(steps) = self.trials.shapes(&options, self.question.final_seeds)? else { return Ok(()) };
        let setup = Setup::prepare(&options, self.trials.profile)?;
        let alive = alive(&ladders, &setup, &steps);
        if alive == ladders {
            return Ok(());
        }
        self.try_all(vec![alive.clone()])?;
        let place = self.found.tried.iter().position(|tried| tried.ladders == alive);
        self.found.best = place.or(Some(best));
        Ok(())
    }

    /// Simulates those not yet known, takes note of the best, and says how many were new. A server that the engine refuses
    /// is left out.
    fn try_all(&mut self, ladders: Vec<Ladders>) -> Result<usize, ProposeError> {
        let new: Vec<Ladders> = ladders.into_iter().filter(|ladders| self.known.insert(ladders.clone())).collect();
        let tried: Vec<Option<Tried>> =
            new.into_par_iter().map(|ladders| self.try_one(ladders)).collect::<Result<_, ProposeError>>()?;
        let before = self.found.tried.len();
        self.found.tried.extend(tried.into_iter().flatten());
        self.found.best = self.best();
        Ok(self.found.tried.len() - before)
    }

    fn try_one(&self, ladders: Ladders) -> Result<Option<Tried>, ProposeError> {
        let options = ladders.applied(self.question.base);
        // What the engine refuses is no answer: another candidate is.
        let Ok(setup) = Setup::prepare(&options, self.trials.profile) else { return Ok(None) };
        let limits = &self.question.limits;
        let startup_s = setup.startup.total_s();
        if limits.graph_memory.is_some_and(|most| setup.graph_memory.total() > most)
            || limits.startup_s.is_some_and(|most| startup_s > most)
            || limits.descriptors.is_some_and(|most| setup.captures.len() as u32 > most)
        {
            return Ok(None);
        }
        let trial = self.trials.run_setup(&setup, "", self.question.seeds)?;
        Ok(trial.map(|trial| Tried { ladders, options, trial }))
    }

    fn best(&self) -> Option<usize> {
        best_within(&self.found.tried, self.question.objective, &self.question.limits)
    }

    /// Takes the steps of the best one.
    fn look_at_best(&mut self) -> Result<(), ProposeError> {
        let Some(best) = self.found.best else { return Ok(()) };
        let options = &self.found.tried[best].options;
        if let Some(histogram) = self.trials.shapes(options, self.question.seeds)? {
            self.found.loads = self.loads(&histogram)?;
        }
        Ok(())
    }

    fn loads(&self, histogram: &ShapeHistogram) -> Result<Loads, ProposeError> {
        Ok(self.found.landscape.loads(histogram)?)
    }
}

/// The cheapest of some servers that the best one is not told apart from as better.
fn cheapest_as_good(objective: Objective, servers: &[(usize, &[CandidateReport])], best: usize) -> usize {
    let runs_of = |place: usize| servers.iter().find_map(|&(of, runs)| (of == place).then_some(runs));
    let Some(best_runs) = runs_of(best) else { return best };
    let is_as_good = |runs: &[CandidateReport]| !matches!(Outcome::of(objective, runs, best_runs), Outcome::Better(..));
    let as_good = servers.iter().filter(|(_, runs)| is_as_good(runs));
    as_good.min_by_key(|(place, runs)| (price(&runs[0]), *place)).map_or(best, |&(place, _)| place)
}

/// The ladders without the rungs that none of these steps runs on.
fn alive(ladders: &Ladders, setup: &Setup, steps: &ShapeHistogram) -> Ladders {
    let served = served(ladders, setup, steps);
    let dead = ladders.rungs().into_iter().filter(|rung| !served.contains_key(rung));
    dead.fold(ladders.clone(), |ladders, (list, size)| ladders.toggled(list, size))
}

/// The place of the best server within the limits. Of those that serve alike the one that takes least memory, then the one
/// with the fewest descriptors, then the first.
#[must_use]
pub fn best_within(tried: &[Tried], objective: Objective, limits: &Limits) -> Option<usize> {
    let within = tried.iter().enumerate().filter(|(_, tried)| limits.allow(&tried.trial.runs[0]));
    let servers: Vec<(usize, &[CandidateReport])> =
        within.map(|(place, tried)| (place, tried.trial.runs.as_slice())).collect();
    best_of(objective, &servers, price)
}

/// What decides among servers that serve alike.
fn price(run: &CandidateReport) -> (u64, u64) {
    (whole(run.graph_memory_bytes), whole(run.descriptors_captured))
}

fn whole(figure: Figure) -> u64 {
    figure.mean().map_or(0, |value| value as u64)
}

/// The places of the servers within the limits that serve better than every one that takes no more memory, from no graphs
/// up; the one in force, unless it was tried again, is left out.
#[must_use]
pub fn front(tried: &[Tried], objective: Objective, limits: &Limits) -> Vec<usize> {
    let run = |place: usize| &tried[place].trial.runs[0];
    let startup_s = |place: usize| run(place).startup_s.mean().unwrap_or(0.0);
    let mut places: Vec<usize> = (1..tried.len()).filter(|&place| limits.allow(run(place))).collect();
    places.sort_by(|&one, &other| {
        price(run(one)).cmp(&price(run(other))).then(startup_s(one).total_cmp(&startup_s(other))).then(one.cmp(&other))
    });
    let mut kept: Vec<usize> = Vec::new();
    for place in places {
        // The latest of them takes most: it has to serve better than all that take less.
        let contest: Vec<(usize, &[CandidateReport])> =
            kept.iter().chain([&place]).map(|&place| (place, tried[place].trial.runs.as_slice())).collect();
        if kept.is_empty() || best_of(objective, &contest, price) == Some(place) {
            kept.push(place);
        }
    }
    kept
}

/// At most so many, first and last among them.
#[must_use]
pub fn spread(all: &[usize], most: usize) -> Vec<usize> {
    if all.len() <= most {
        return all.to_vec();
    }
    (0..most).map(|nth| all[nth * (all.len() - 1) / (most - 1)]).collect()
}
