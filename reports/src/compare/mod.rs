//! Two runs compared seed by seed, candidate by candidate: `sim report --compare`.

mod seeds;
mod threshold;

use serde::{Deserialize, Serialize};

use crate::text::{change, number};
use crate::{Better, Difference, FIGURES, FigureSpec, Name, RunReport, ScenarioReport, Verdict, Warning};

pub use seeds::{FiguresError, SeedFigures};
pub use threshold::{Limit, Threshold, ThresholdError};

/// What two runs differ in, as one JSON document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparisonReport {
    /// The run that is subtracted.
    pub baseline: ComparedRun,
    /// The run compared with it.
    pub candidate: ComparedRun,
    /// The seeds that both ran, ascending. One seed: differences are exact, and speak of that traffic only.
    pub seeds: Vec<u64>,
    /// What makes the two hard to compare.
    pub warnings: Vec<Warning>,
    /// One entry for each pair of candidates.
    pub pairs: Vec<ComparedPair>,
    /// Candidates of the baseline that are compared with none.
    pub only_in_baseline: Vec<String>,
    /// Candidates of the other run that are compared with none.
    pub only_in_candidate: Vec<String>,
    /// What came of each threshold (`--fail-if`), for each pair.
    pub thresholds: Vec<ThresholdReport>,
}

/// One of the two runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparedRun {
    /// Its folder, as it was named.
    pub folder: String,
    /// Version of Rungwise that ran it.
    pub version: String,
    /// The scenario.
    pub scenario: ScenarioReport,
    /// Engine and version.
    pub engine: String,
    /// Name of the cost profile.
    pub profile: String,
    /// SHA-256 of the profile, lower-case hexadecimal.
    pub profile_sha256: String,
    /// All its seeds.
    pub seeds: Vec<u64>,
}

/// A candidate of one run beside one of the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparedPair {
    /// Name in the baseline.
    pub baseline: String,
    /// Name in the other run.
    pub candidate: String,
    /// Every figure that both define at every seed and that has a better side, in the order of the tables.
    pub figures: Vec<ComparedFigure>,
}

/// One figure of a pair.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparedFigure {
    /// Its name.
    pub figure: Name,
    /// Mean over the common seeds in the baseline, in the figure's unit.
    pub baseline: f64,
    /// Mean over the common seeds in the other run, in the figure's unit.
    pub candidate: f64,
    /// Candidate minus baseline, seed by seed.
    pub difference: Difference,
}

/// One threshold for one pair.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThresholdReport {
    /// The threshold as it was written.
    pub threshold: String,
    /// The figure.
    pub figure: String,
    /// Name of the candidate in the baseline.
    pub baseline: String,
    /// Name of the candidate in the other run.
    pub candidate: String,
    /// By how much the candidate is worse, in the figure's unit; negative: better.
    pub worse_by: f64,
    /// The same in percent of the baseline; null where that is zero.
    pub worse_by_percent: Option<f64>,
    /// `kept`, `regressed`, or `unproven`: worse by more than the threshold in the mean, but these seeds do not tell the two
    /// apart.
    pub outcome: Name,
}

/// A run with its figures seed by seed.
#[derive(Clone, Debug)]
pub struct RunBySeed<'a> {
    /// Its folder, as it was named.
    pub folder: String,
    /// Its run.json.
    pub report: &'a RunReport,
    /// Its figures.csv.
    pub figures: Vec<SeedFigures>,
}

/// Why two runs cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CompareError {
    /// Why.
    pub message: String,
    /// What to do.
    pub help: String,
}

impl CompareError {
    fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: help.into() }
    }
}

impl ComparisonReport {
    /// Compares two runs. `names` are pairs of candidates to be compared, (baseline, other); without any, candidates of the
    /// same name are.
    ///
    /// # Errors
    /// [`CompareError`]: no seed or no candidate in common, another number of requests, a name that is not there, or a figure
    /// with a threshold that is not defined.
    pub fn between(
        baseline: &RunBySeed<'_>,
        candidate: &RunBySeed<'_>,
        names: &[(String, String)],
        thresholds: &[Threshold],
    ) -> Result<Self, CompareError> {
        let runs = [ComparedRun::of(baseline), ComparedRun::of(candidate)];
        same_requests(&runs)?;
        let seeds: Vec<u64> = {
            let mut common: Vec<u64> =
                runs[0].seeds.iter().copied().filter(|seed| runs[1].seeds.contains(seed)).collect();
            common.sort_unstable();
            common
        };
        if seeds.is_empty() {
            return Err(CompareError::new(
                format!(
                    "no seed is common to both: {} ran {}, {} ran {}",
                    runs[0].folder,
                    listed(&runs[0].seeds),
                    runs[1].folder,
                    listed(&runs[1].seeds)
                ),
                "run both with the same --seed and --seeds: only the same traffic can be compared",
            ));
        }
        let are_named = !names.is_empty();
        let names = pairs_of(baseline, candidate, names)?;
        let pairs = names
            .iter()
            .map(|(one, other)| pair(baseline, candidate, one, other, &seeds))
            .collect::<Result<Vec<_>, _>>()?;
        let thresholds = pairs
            .iter()
            .flat_map(|pair| thresholds.iter().map(move |threshold| threshold.judge(pair)))
            .collect::<Result<Vec<_>, _>>()?;
        let left = |report: &RunReport, used: &dyn Fn(&str) -> bool| -> Vec<String> {
            // Who names pairs knows what is left out.
            if are_named {
                return Vec::new();
            }
            report.candidates.iter().map(|one| one.name.clone()).filter(|name| !used(name)).collect()
        };
        let only_in_baseline = left(baseline.report, &|name| names.iter().any(|(one, _)| one == name));
        let only_in_candidate = left(candidate.report, &|name| names.iter().any(|(_, other)| other == name));
        let warnings = warnings(&runs, &seeds);
        let [baseline, candidate] = runs;
        Ok(Self { baseline, candidate, seeds, warnings, pairs, only_in_baseline, only_in_candidate, thresholds })
    }

    /// The thresholds that were exceeded.
    pub fn regressions(&self) -> impl Iterator<Item = &ThresholdReport> {
        self.thresholds.iter().filter(|threshold| threshold.outcome == "regressed")
    }

    /// The answer in one sentence for each pair: the first figure of the tables that both define, with its verdict.
    #[must_use]
    pub fn verdict(&self) -> String {
        let mut sentences: Vec<String> = self.pairs.iter().filter_map(ComparedPair::verdict).collect();
        if self.seeds.len() == 1 {
            sentences.push(format!(
                "Only seed {} is common to both: differences are exact there and have no interval.",
                self.seeds[0]
            ));
        }
        let regressed = self.regressions().count();
        match (self.thresholds.len(), regressed) {
            (0, _) => {}
            (_, 0) => sentences.push("No limit was exceeded.".to_owned()),
            (_, 1) => sentences.push("One limit was exceeded.".to_owned()),
            (_, count) => sentences.push(format!("{count} limits were exceeded.")),
        }
        sentences.join(" ")
    }
}

impl ComparedPair {
    /// The first figure of the tables with its verdict, as a sentence; `None` where no figure is defined.
    fn verdict(&self) -> Option<String> {
        let first = self.figures.first()?;
        let spec = crate::figures::figure(&first.figure);
        let name = if self.baseline == self.candidate {
            format!("\u{201c}{}\u{201d}", self.candidate)
        } else {
            format!("\u{201c}{}\u{201d} against \u{201c}{}\u{201d}", self.candidate, self.baseline)
        };
        let verdict = match first.difference.verdict {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::Equal => "equal",
            Verdict::NotDistinguishable => "not distinguishable",
        };
        let what = spec.label.split(", ").next().unwrap_or(spec.label);
        let share = change(first.difference.mean, first.baseline);
        let share = share.map(|share| format!(" ({share})")).unwrap_or_default();
        Some(format!("{name}: {what} {verdict}{share}."))
    }
}

impl ComparedFigure {
    /// The mean difference in percent of the baseline; `None` where that is zero.
    #[must_use]
    pub fn percent(&self) -> Option<f64> {
        (self.baseline != 0.0).then(|| 100.0 * self.difference.mean / self.baseline.abs())
    }
}

impl ComparedRun {
    fn of(run: &RunBySeed<'_>) -> Self {
        let report = run.report;
        Self {
            folder: run.folder.clone(),
            version: report.version.clone(),
            scenario: report.scenario.clone(),
            engine: format!("{} {}", report.engine.name, report.engine.version),
            profile: report.profile.name.clone(),
            profile_sha256: report.profile.sha256.clone(),
            seeds: report.seeds.clone().unwrap_or_else(|| vec![report.seed]),
        }
    }
}

fn same_requests([one, other]: &[ComparedRun; 2]) -> Result<(), CompareError> {
    if one.scenario.requests == other.scenario.requests {
        return Ok(());
    }
    let count = |run: &ComparedRun| run.scenario.requests.map_or("no requests".to_owned(), number::requests);
    Err(CompareError::new(
        format!(
            "the runs are not of the same traffic: {} was offered {}, {} {}",
            one.folder,
            count(one),
            other.folder,
            count(other)
        ),
        "run both with the same --requests",
    ))
}

/// What differs beside the candidates.
fn warnings([one, other]: &[ComparedRun; 2], seeds: &[u64]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut differs = |code: &str, what: &str, one: &str, other: &str, so: &str| {
        if one != other {
            warnings.push(Warning::general(code, format!("the {what} is not the same ({one} and {other}): {so}")));
        }
    };
    let short = |hash: &str| hash.chars().take(12).collect::<String>();
    differs(
        "other_scenario",
        "scenario file",
        &short(&one.scenario.sha256),
        &short(&other.scenario.sha256),
        "differences are of everything that was changed in it, not of the candidates alone",
    );
    differs(
        "other_profile",
        "cost profile",
        &format!("{} {}", one.profile, short(&one.profile_sha256)),
        &format!("{} {}", other.profile, short(&other.profile_sha256)),
        "differences are of the costs as well as of the candidates",
    );
    differs("other_engine", "engine", &one.engine, &other.engine, "differences are of the engines as well");
    differs(
        "other_version",
        "version of Rungwise",
        &one.version,
        &other.version,
        "differences may be those of the simulator",
    );
    for run in [one, other] {
        let left_out = run.seeds.len() - seeds.len();
        if left_out > 0 {
            let message = format!(
                "{} ran {} seeds, of which {left_out} are not in the other run and are left out",
                run.folder,
                run.seeds.len()
            );
            warnings.push(Warning::general("other_seeds", message));
        }
    }
    warnings
}

fn pairs_of(
    baseline: &RunBySeed<'_>,
    candidate: &RunBySeed<'_>,
    names: &[(String, String)],
) -> Result<Vec<(String, String)>, CompareError> {
    let has = |run: &RunBySeed<'_>, name: &str| run.report.candidates.iter().any(|one| one.name == name);
    let quoted = |run: &RunBySeed<'_>| {
        run.report.candidates.iter().map(|one| format!("`{}`", one.name)).collect::<Vec<_>>().join(", ")
    };
    for (one, other) in names {
        for (run, name) in [(baseline, one), (candidate, other)] {
            if !has(run, name) {
                return Err(CompareError::new(
                    format!("{} has no candidate named `{name}`", run.folder),
                    format!("its candidates are {}", quoted(run)),
                ));
            }
        }
    }
    if !names.is_empty() {
        return Ok(names.to_vec());
    }
    let common: Vec<(String, String)> = baseline
        .report
        .candidates
        .iter()
        .filter(|one| has(candidate, &one.name))
        .map(|one| (one.name.clone(), one.name.clone()))
        .collect();
    if common.is_empty() {
        return Err(CompareError::new(
            format!(
                "no candidate is common to both: {} has {}; {} has {}",
                baseline.folder,
                quoted(baseline),
                candidate.folder,
                quoted(candidate)
            ),
            "say which to compare: --candidate NAME=OTHER",
        ));
    }
    Ok(common)
}

fn pair(
    baseline: &RunBySeed<'_>,
    candidate: &RunBySeed<'_>,
    one: &str,
    other: &str,
    seeds: &[u64],
) -> Result<ComparedPair, CompareError> {
    let rows = [rows(baseline, one, seeds)?, rows(candidate, other, seeds)?];
    let figures = FIGURES
        .iter()
        .enumerate()
        .filter(|(_, spec)| spec.better != Better::Neither)
        .filter_map(|(place, spec)| figure(spec, place, &rows))
        .collect();
    Ok(ComparedPair { baseline: one.to_owned(), candidate: other.to_owned(), figures })
}

/// The rows of one candidate, one for each seed in order.
fn rows<'a>(run: &'a RunBySeed<'_>, name: &str, seeds: &[u64]) -> Result<Vec<&'a SeedFigures>, CompareError> {
    let row = |seed: &u64| {
        run.figures.iter().find(|row| row.candidate == name && row.seed == *seed).ok_or_else(|| {
            CompareError::new(
                format!(
                    "{}: figures.csv has no row of candidate `{name}` with seed {seed}, which run.json names",
                    run.folder
                ),
                "files of two runs are mixed, or one was edited: run it again with --out",
            )
        })
    };
    seeds.iter().map(row).collect()
}

fn figure(spec: &FigureSpec, place: usize, rows: &[Vec<&SeedFigures>; 2]) -> Option<ComparedFigure> {
    let values = |rows: &[&SeedFigures]| rows.iter().map(|row| row.figures[place]).collect::<Option<Vec<f64>>>();
    let (baseline, candidate) = (values(&rows[0])?, values(&rows[1])?);
    let difference = match (&baseline[..], &candidate[..]) {
        ([one], [other]) => Difference::exact(spec.better, *one, *other)?,
        _ => Difference::paired(spec.better, &baseline, &candidate)?,
    };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    Some(ComparedFigure {
        figure: spec.name.into(),
        baseline: mean(&baseline),
        candidate: mean(&candidate),
        difference,
    })
}

fn listed(seeds: &[u64]) -> String {
    let words: Vec<String> = seeds.iter().map(ToString::to_string).collect();
    match &words[..] {
        [one] => format!("seed {one}"),
        [first, .., last] if words.len() > 8 => format!("{} seeds from {first} to {last}", words.len()),
        _ => format!("seeds {}", words.join(", ")),
    }
}
