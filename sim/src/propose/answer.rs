//! What is told of a search: checked on other seeds than it saw.

use reports::{CandidateReport, LadderChoice, LadderSizes, ProposeVerdict, RungWorth, Sensitivity, SingleChange};

use super::decision::{Candidates, KEEP};
use super::error::ProposeError;
use super::ladders::{Ladders, List};
use super::neighbours::Change;
use super::objective::best_of;
use super::search::{Found, Note, Question, Tried, front, spread};
use super::sensitivity::{self, sensitivity};
use super::trials::{Trial, Trials};
use super::verdict::Outcome;
use super::worth::worths;
use crate::engine::options::EngineOptions;

/// Most ladders of the front that are checked.
const FRONT_MAX: usize = 10;
/// Seeds of the check that the sensitivity is looked at on.
const SENSITIVITY_SEEDS: usize = 4;

/// What is told, apart from flags and context.
#[derive(Clone, Debug)]
pub struct Answer {
    /// In short.
    pub verdict: ProposeVerdict,
    /// The ladders in force.
    pub current: LadderChoice,
    /// The ladders proposed.
    pub proposal: LadderChoice,
    /// The flags of the proposal.
    pub options: EngineOptions,
    /// The runs of the proposal, seed by seed.
    pub runs: Vec<CandidateReport>,
    /// Those of the ladders in force.
    pub current_runs: Vec<CandidateReport>,
    /// Pareto front.
    pub front: Vec<LadderChoice>,
    /// By rung.
    pub rungs: Vec<RungWorth>,
    /// The best single change.
    pub one_change: Option<SingleChange>,
    /// How far things may move.
    pub sensitivity: Vec<Sensitivity>,
}

/// Checks what a search found on `seeds`, and explains it; `settings` are what the proposals set beside their ladders. Parts that the search was ended before are empty.
///
/// # Errors
/// [`ProposeError`].
pub fn answer(
    trials: &Trials<'_>,
    question: &Question<'_>,
    found: &Found,
    settings: &[String],
    seeds: &[u64],
    note: &Note<'_>,
) -> Result<Answer, ProposeError> {
    let best = found.best.ok_or_else(|| nothing_fits(question, found))?;
    note("the check on other seeds");
    let in_force = &found.tried[0];
    let current = checked(trials, in_force, "current", seeds)?;
    let proposed = checked(trials, &found.tried[best], "proposal", seeds)?;
    let candidates = Candidates {
        objective: question.objective,
        is_within: question.limits.allow(&in_force.trial.runs[0]),
        is_same: best == 0,
        has_graphs: !found.tried[best].ladders.is_empty(),
        current: &current,
        proposed: &proposed,
    };
    let verdict = candidates.verdict();
    let keeps = verdict.kind == KEEP;
    let (place, runs) = if keeps { (0, current.clone()) } else { (best, proposed) };
    let tried = &found.tried[place];
    let options = if keeps { question.current.clone() } else { tried.options.clone() };
    let choice =
        |tried: &Tried, name: &str, runs: &[CandidateReport]| chosen(&tried.ladders, name, runs, Some(&current));
    let mut proposal = choice(tried, "proposal", &runs);
    if !keeps {
        proposal.settings = settings.to_vec();
    }
    let mut front = pareto(trials, question, found, seeds, &current)?;
    for choice in &mut front {
        choice.settings = settings.to_vec();
    }
    note("what each rung is worth");
    let steps = trials.shapes(&options, seeds)?;
    let base = if keeps { question.current } else { question.base };
    let rungs = match steps.filter(|_| !trials.stop.is_asked()) {
        Some(steps) => worths(trials, base, &tried.ladders, &runs, &steps, seeds)?,
        None => Vec::new(),
    };
    note("the best single change");
    let one_change = one_change(trials, question, found, seeds, &current)?;
    note("how far the load may move");
    let subject = sensitivity::Answer {
        current: question.current,
        base: question.base,
        proposal: &tried.ladders,
        objective: question.objective,
        limits: &question.limits,
    };
    let sensitivity = if trials.stop.is_asked() {
        Vec::new()
    } else {
        sensitivity(trials, &subject, &seeds[..seeds.len().min(SENSITIVITY_SEEDS)])?
    };
    Ok(Answer {
        verdict,
        current: chosen(&in_force.ladders, "current", &current, None),
        proposal,
        options,
        runs,
        current_runs: current,
        front,
        rungs,
        one_change,
        sensitivity,
    })
}

/// The runs of a server on the check's seeds; where the search was ended, those that it was chosen by.
fn checked(
    trials: &Trials<'_>,
    tried: &Tried,
    name: &str,
    seeds: &[u64],
) -> Result<Vec<CandidateReport>, ProposeError> {
    let trial = trials.run(&tried.options, name, seeds)?;
    Ok(trial.map_or_else(|| tried.trial.runs.clone(), |trial: Trial| trial.runs))
}

fn nothing_fits(question: &Question<'_>, found: &Found) -> ProposeError {
    let limits = &question.limits;
    let needed_s = found.without_graphs_startup_s;
    let budget = limits.startup_s.map_or(String::new(), |most| format!("{most:.1} s"));
    ProposeError::NothingFits { what: "of start-up", needed: format!("{needed_s:.1} s"), budget }
}

fn chosen(
    ladders: &Ladders,
    name: &str,
    runs: &[CandidateReport],
    current: Option<&[CandidateReport]>,
) -> LadderChoice {
    let named: Vec<CandidateReport> =
        runs.iter().map(|run| CandidateReport { name: name.to_owned(), ..run.clone() }).collect();
    LadderChoice::over_seeds(lists(ladders), Vec::new(), &named, current).expect("runs of one server, at least one")
}

fn lists(ladders: &Ladders) -> Vec<LadderSizes> {
    let sizes = |(list, sizes): (List, &[u32])| LadderSizes {
        phase: list.phase().into(),
        unit: list.unit().name().into(),
        sizes: sizes.to_vec(),
    };
    ladders.lists().into_iter().map(sizes).collect()
}

/// Ladders that no other within the limits beats in the objective with as little memory and start-up, from no graphs up.
fn pareto(
    trials: &Trials<'_>,
    question: &Question<'_>,
    found: &Found,
    seeds: &[u64],
    current: &[CandidateReport],
) -> Result<Vec<LadderChoice>, ProposeError> {
    let places = spread(&front(&found.tried, question.objective, &question.limits), FRONT_MAX);
    let mut choices = Vec::with_capacity(places.len());
    for place in places {
        if trials.stop.is_asked() {
            break;
        }
        let tried = &found.tried[place];
        let name = format!("{} sizes", tried.ladders.len());
        let name = if tried.ladders.is_empty() { "no graphs" } else { &name };
        let runs = checked(trials, tried, name, seeds)?;
        choices.push(chosen(&tried.ladders, name, &runs, Some(current)));
    }
    Ok(choices)
}

/// The best single change to the ladders in force that takes no more memory than they do; `None` if none is better.
fn one_change(
    trials: &Trials<'_>,
    question: &Question<'_>,
    found: &Found,
    seeds: &[u64],
    current: &[CandidateReport],
) -> Result<Option<SingleChange>, ProposeError> {
    let contest: Vec<(usize, &[CandidateReport])> = found
        .changes
        .iter()
        .map(|&(_, place)| (place, found.tried[place].trial.runs.as_slice()))
        .filter(|(_, runs)| question.limits.allow(&runs[0]))
        .collect();
    let memory = |run: &CandidateReport| run.graph_memory_bytes.mean().unwrap_or(0.0) as u64;
    let Some(best) = best_of(question.objective, &contest, memory) else { return Ok(None) };
    let tried = &found.tried[best];
    let Some(trial) = trials.run(&tried.options, "one change", seeds)? else { return Ok(None) };
    let change = found.changes.iter().find(|(_, place)| *place == best).map(|(change, _)| *change);
    let is_better = matches!(Outcome::of(question.objective, current, &trial.runs), Outcome::Better(..));
    let choice = chosen(&tried.ladders, "one change", &trial.runs, Some(current));
    Ok(change.filter(|_| is_better).map(|change| {
        let (kind, list, from, to) = match change {
            Change::Drop(list, size) => ("drop", list, Some(size), None),
            Change::Shift(list, from, to) => ("shift", list, Some(from), Some(to)),
            Change::Add(list, size) => ("add", list, None, Some(size)),
        };
        SingleChange { kind: kind.into(), phase: list.phase().into(), from, to, choice }
    }))
}
