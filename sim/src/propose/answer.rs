//! What is told of a search: checked on other seeds than it saw.

use calibrate::profile::{Kind, Profile};
use reports::{CandidateReport, LadderChoice, LadderSizes, ProposeVerdict, RungWorth, Sensitivity, SingleChange};

use super::decision::{Best, Candidates, KEEP, NO_GRAPHS};
use super::error::ProposeError;
use super::ladders::{Ladders, List};
use super::neighbours::Change;
use super::objective::{Quantity, best_of};
use super::search::{Found, Note, Question, RUNGS_MAX, Tried, front, spread};
use super::sensitivity::{self, sensitivity};
use super::trials::Trials;
use super::verdict::Outcome;
use super::worth::worths;
use crate::engine::options::EngineOptions;
use crate::scenario::Slo;

/// Most ladders of the front that are checked.
const FRONT_MAX: usize = 6;
/// Seeds of the check that the sensitivity is looked at on.
const SENSITIVITY_SEEDS: usize = 3;

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
    /// The seeds that all figures are from.
    pub seeds: Vec<u64>,
    /// Pareto front.
    pub front: Vec<LadderChoice>,
    /// By rung.
    pub rungs: Vec<RungWorth>,
    /// The best single change.
    pub one_change: Option<SingleChange>,
    /// How far things may move.
    pub sensitivity: Vec<Sensitivity>,
}

/// What a search found.
#[derive(Clone, Copy, Debug)]
pub struct Findings<'a> {
    /// For the server whose ladders are the best.
    pub found: &'a Found,
    /// What that server sets beside its ladders, as `key = value`.
    pub settings: &'a [String],
    /// For the server as it is: the same where nothing is set.
    pub as_it_is: &'a Found,
}

/// Checks what a search found on `seeds`, and explains it. Where the search was ended before the check, all figures are from
/// the seeds of the search; other parts that it was ended before are empty.
///
/// # Errors
/// [`ProposeError`].
pub fn answer(
    trials: &Trials<'_>,
    question: &Question<'_>,
    findings: &Findings<'_>,
    seeds: &[u64],
    note: &Note<'_>,
) -> Result<Answer, ProposeError> {
    let Findings { found, settings, as_it_is } = *findings;
    let best = found.best.ok_or_else(|| nothing_fits(question, found))?;
    let (in_force, chosen_one) = (&found.tried[0], &found.tried[best]);
    note("the check on other seeds");
    let checked = both(trials, in_force, chosen_one, seeds)?;
    let is_checked = checked.is_some();
    let [current, proposed] = checked.unwrap_or_else(|| [in_force.trial.runs.clone(), chosen_one.trial.runs.clone()]);
    let seeds = if is_checked { seeds } else { question.seeds };
    let candidates = Candidates {
        objective: question.objective,
        has_slo: trials.slo != Slo::default(),
        settings,
        is_within: question.limits.allow(&in_force.trial.runs[0]),
        best: match best {
            0 if found.tried.len() == 1 => Best::Untried,
            0 => Best::InForce,
            _ => Best::Other,
        },
        has_graphs: !chosen_one.ladders.is_empty(),
        current: &current,
        proposed: &proposed,
    };
    let mut verdict = candidates.verdict();
    let keeps = verdict.kind == KEEP;
    let front = if is_checked { pareto(trials, question, findings, seeds, [&current, &proposed])? } else { Vec::new() };
    let (tried, runs) = if keeps { (in_force, current.clone()) } else { (chosen_one, proposed) };
    let options = if keeps { question.current.clone() } else { tried.options.clone() };
    let mut proposal = chosen(&tried.ladders, "proposal", &runs, Some(&current));
    if !keeps {
        // Without graphs there is one mode.
        let is_kept = |setting: &&String| !tried.ladders.is_empty() || !setting.contains("cudagraph_mode");
        proposal.settings = settings.iter().filter(is_kept).cloned().collect();
    }
    let mut answer = Answer {
        verdict: verdict.clone(),
        current: chosen(&in_force.ladders, "current", &current, None),
        proposal,
        options: options.clone(),
        seeds: seeds.to_vec(),
        front,
        rungs: Vec::new(),
        one_change: None,
        sensitivity: Vec::new(),
    };
    if !is_checked {
        return Ok(answer);
    }
    note("what each rung is worth");
    let base = if keeps { question.current } else { question.base };
    // A ladder in force may be longer than any that is proposed: its rungs are in the run's own table.
    let steps = if tried.ladders.len() > RUNGS_MAX { None } else { trials.shapes(&options, seeds)? };
    if let Some(steps) = steps {
        answer.rungs = worths(trials, base, &tried.ladders, &runs, &steps, seeds)?;
    }
    note("the best single change");
    answer.one_change = one_change(trials, question, as_it_is, seeds, &current)?;
    note("how far the load may move");
    if !trials.stop.is_asked() {
        let subject = sensitivity::Answer {
            current: question.current,
            base,
            proposal: &tried.ladders,
            objective: question.objective,
            limits: &question.limits,
        };
        answer.sensitivity = sensitivity(trials, &subject, &seeds[..seeds.len().min(SENSITIVITY_SEEDS)])?;
    }
    if !keeps {
        verdict.sentence.extend(up_to_which_launch_cost(&verdict, &answer.sensitivity));
        verdict.sentence.extend(on_planned_launches(&verdict, trials.profile));
        verdict.sentence.extend(from_which_rate(&answer.sensitivity));
    }
    Ok(Answer { verdict, ..answer })
}

/// From which rate on the ladders in force are the better ones.
fn from_which_rate(moved: &[Sensitivity]) -> Option<String> {
    let rate = moved.iter().find(|moved| moved.what == sensitivity::RATE)?;
    let worse = rate.points.iter().find(|point| point.factor > 1.0 && point.verdict == "worse")?;
    Some(format!(" At {} times the rate it is worse than the ladder in force.", worse.factor))
}

/// The runs of both servers on the check's seeds; `None` if the search was ended before the last of them.
fn both(
    trials: &Trials<'_>,
    in_force: &Tried,
    best: &Tried,
    seeds: &[u64],
) -> Result<Option<[Vec<CandidateReport>; 2]>, ProposeError> {
    let Some(current) = trials.run(&in_force.options, "current", seeds)? else { return Ok(None) };
    let proposed = trials.run(&best.options, "proposal", seeds)?;
    Ok(proposed.map(|proposed| [current.runs, proposed.runs]))
}

fn nothing_fits(question: &Question<'_>, found: &Found) -> ProposeError {
    let needed_s = found.without_graphs_startup_s;
    match question.limits.startup_s.filter(|&most_s| needed_s > most_s) {
        Some(most_s) => ProposeError::NothingFits { needed_s, most_s },
        None => ProposeError::NoChangeFits,
    }
}

/// Graphs spare launches: advice to do without rests on what those cost.
fn up_to_which_launch_cost(verdict: &ProposeVerdict, moved: &[Sensitivity]) -> Option<String> {
    let launches = moved.iter().find(|moved| moved.what == sensitivity::LAUNCH_COST)?;
    let most = launches.holds[1];
    let is_end = launches.points.last().is_some_and(|point| point.factor <= most);
    (verdict.kind == NO_GRAPHS).then(|| {
        if is_end {
            format!(" It holds even if launches cost {most} times what the profile says.")
        } else {
            format!(" It holds as long as launches cost no more than {most} times what the profile says.")
        }
    })
}

/// Nobody should turn graphs off because of a figure that nobody measured.
fn on_planned_launches(verdict: &ProposeVerdict, profile: &Profile) -> Option<String> {
    let is_planned = profile.engine.dispatch.provenance.kind == Kind::Declared;
    (verdict.kind == NO_GRAPHS && is_planned).then(|| {
        " That cost is planned here, not measured: fit it to your server's log (`sim fit --onto`) before you turn graphs off."
            .to_owned()
    })
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

/// Of the ladders of the search's front, the proposal and those in force: the ones that no other of them beats in all three
/// quantities, in memory and in start-up alike, by the figures of the check. From no graphs up; empty if the search was ended
/// before the last of them.
fn pareto(
    trials: &Trials<'_>,
    question: &Question<'_>,
    findings: &Findings<'_>,
    seeds: &[u64],
    [current, best]: [&[CandidateReport]; 2],
) -> Result<Vec<LadderChoice>, ProposeError> {
    let found = findings.found;
    let mut places = spread(&front(&found.tried, question.objective, &question.limits), FRONT_MAX);
    places.extend(found.best);
    if question.limits.allow(&found.tried[0].trial.runs[0]) {
        places.push(0);
    }
    places.sort_unstable();
    places.dedup();
    let mut checked: Vec<(usize, Vec<CandidateReport>)> = Vec::with_capacity(places.len());
    for place in places {
        let runs = match place {
            0 => current.to_vec(),
            place if Some(place) == found.best => best.to_vec(),
            _ => match trials.run(&found.tried[place].options, "front", seeds)? {
                Some(trial) => trial.runs,
                None => return Ok(Vec::new()),
            },
        };
        checked.push((place, runs));
    }
    let is_kept = |runs: &[CandidateReport]| !checked.iter().any(|(_, other)| beats(other, runs));
    let mut kept: Vec<&(usize, Vec<CandidateReport>)> = checked.iter().filter(|(_, runs)| is_kept(runs)).collect();
    kept.sort_by(|(_, one), (_, other)| memory(one).total_cmp(&memory(other)));
    Ok(kept
        .into_iter()
        .map(|(place, runs)| {
            let ladders = &found.tried[*place].ladders;
            let name = format!("{} sizes", ladders.len());
            let name = if ladders.is_empty() { "no graphs" } else { &name };
            let mut choice = chosen(ladders, name, runs, Some(current));
            if *place > 0 {
                choice.settings = findings.settings.to_vec();
            }
            choice
        })
        .collect())
}

fn memory(runs: &[CandidateReport]) -> f64 {
    runs[0].graph_memory_bytes.mean().unwrap_or(0.0)
}

/// Whether a server is nowhere worse than another, and somewhere better.
fn beats(one: &[CandidateReport], other: &[CandidateReport]) -> bool {
    let startup_s = |runs: &[CandidateReport]| runs[0].startup_s.mean().unwrap_or(0.0);
    let mut losses = vec![memory(one) - memory(other), startup_s(one) - startup_s(other)];
    losses.extend(
        Quantity::ALL
            .into_iter()
            .filter_map(|quantity| Some(quantity.loss(quantity.mean(other)?, quantity.mean(one)?))),
    );
    losses.iter().all(|&loss| loss <= 0.0) && losses.iter().any(|&loss| loss < 0.0)
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
