//! The records of `sim sweep`: what a sweep is, what each point came to, and which point is best.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::figures::figure;
use crate::{Better, CandidateReport, Difference, Figure, FigureSpec, RunReport, Verdict};

/// Version of the sweep's files that this crate writes. It rises when a field changes its meaning or goes away.
pub const SWEEP_SCHEMA: u32 = 1;

/// `manifest.json`: everything that decides what a sweep computes. Results belong together if their manifests are equal
/// but for the shard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepManifest {
    /// Version of the sweep's files: [`SWEEP_SCHEMA`].
    pub schema: u32,
    /// Version of Rungwise that runs the points.
    pub version: String,
    /// The scenario that is varied.
    pub scenario: SweptFile,
    /// Every profile that points are priced with.
    pub profiles: Vec<SweptFile>,
    /// Every recorded trace that points play.
    pub traces: Vec<SweptFile>,
    /// What is varied; the last one varies fastest.
    pub axes: Vec<SweepAxis>,
    /// The points drawn from the grid; null if the whole grid runs.
    pub sample: Option<SweepSample>,
    /// Points of the whole sweep, all shards together.
    pub points: u64,
    /// The candidates of every point, in the scenario's order.
    pub candidates: Vec<String>,
    /// Seeds of the traffic: the same at every point and for every candidate.
    pub seeds: Vec<u64>,
    /// The part that runs here; null if all of it does.
    pub shard: Option<SweepShard>,
}

/// A file by name and content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweptFile {
    /// The scenario's own name; the name or path that the scenario or the command line gives to a profile or trace.
    pub name: String,
    /// SHA-256 of its content, lower-case hexadecimal.
    pub sha256: String,
}

/// One key of the scenario and its values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepAxis {
    /// The key, as a dotted path from the top of the scenario.
    pub key: String,
    /// Its values, in the order given.
    pub values: Vec<Value>,
}

/// Points drawn at random from the grid, none twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepSample {
    /// How many.
    pub points: u64,
    /// Seed of the draw.
    pub seed: u64,
}

/// A part of the points: those whose number leaves `index` when divided by `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepShard {
    /// Which part, from 0.
    pub index: u64,
    /// How many parts there are.
    pub of: u64,
}

/// One line of `reports.jsonl`: a point and the full report of its run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepPoint {
    /// Number of the point, from 0, the same whatever the shards.
    pub point: u64,
    /// What it sets, an entry for each axis.
    pub settings: Vec<SweepSetting>,
    /// The answer of `sim run` for the scenario with these settings; its hash is that of the scenario before them.
    pub report: RunReport,
    /// The objectives of every candidate and seed, for comparisons between points; empty for one seed.
    pub by_seed: Vec<Vec<Objectives>>,
}

/// One value of one axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepSetting {
    /// The key.
    pub key: String,
    /// Its value at this point.
    pub value: Value,
}

/// The figures that points are ranked by, under the names and in the units of `sim run`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Objectives {
    /// Completed requests that meet every SLO, per second; null without an SLO.
    pub request_goodput: Figure,
    /// Output tokens of completed requests per second.
    pub output_throughput: Figure,
    /// 99th percentile of the time to first token, ms.
    pub p99_ttft_ms: Figure,
    /// 99th percentile of the time per output token after the first, ms.
    pub p99_tpot_ms: Figure,
    /// 99th percentile of the end-to-end latency, ms.
    pub p99_e2el_ms: Figure,
}

/// A figure that points are ranked by: its name, and how it is read.
pub(crate) type Objective = (&'static str, fn(&Objectives) -> &Figure);

/// The figures that points are ranked by, in the order of importance.
pub(crate) const OBJECTIVES: [Objective; 5] = [
    ("request_goodput", |figures| &figures.request_goodput),
    ("output_throughput", |figures| &figures.output_throughput),
    ("p99_ttft_ms", |figures| &figures.p99_ttft_ms),
    ("p99_tpot_ms", |figures| &figures.p99_tpot_ms),
    ("p99_e2el_ms", |figures| &figures.p99_e2el_ms),
];

/// What `sim sweep` and `sim merge` answer: the best points, and every point in brief.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepReport {
    /// What was swept.
    pub manifest: SweepManifest,
    /// The best point and candidate for each objective that is defined anywhere; the first of equals.
    pub best: Vec<BestPoint>,
    /// Every point that ran here, in order.
    pub points: Vec<PointReport>,
}

/// The best of all points and candidates for one objective.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BestPoint {
    /// The figure, named as in `sim run`.
    pub objective: String,
    /// Number of the point.
    pub point: u64,
    /// The candidate.
    pub candidate: String,
    /// The figure there.
    pub value: Figure,
    /// How many others, each a point and a candidate, these seeds do not tell from it; null for one seed.
    pub not_distinguishable: Option<u64>,
}

/// One point in brief.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointReport {
    /// Number of the point.
    pub point: u64,
    /// What it sets, an entry for each axis.
    pub settings: Vec<SweepSetting>,
    /// The objectives of every candidate, in the manifest's order.
    pub candidates: Vec<Objectives>,
    /// The best candidate for the first objective that is defined here; null where none is.
    pub lead: Option<Lead>,
}

/// The best candidate of one point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lead {
    /// The figure that decides.
    pub objective: String,
    /// The best candidate; the first of equals.
    pub candidate: String,
    /// The next best; null for a single candidate.
    pub next: Option<String>,
    /// The best minus the next, seed by seed; null for one seed.
    pub difference: Option<Difference>,
}

/// Puts points together, in their order, to the answer of a sweep.
#[derive(Debug)]
pub struct SweepCollector {
    report: SweepReport,
    by_seed: Vec<Vec<Vec<Objectives>>>,
}

impl Objectives {
    /// The objectives of one candidate.
    #[must_use]
    pub fn of(candidate: &CandidateReport) -> Self {
        Self {
            request_goodput: candidate.request_goodput,
            output_throughput: candidate.output_throughput,
            p99_ttft_ms: candidate.p99_ttft_ms,
            p99_tpot_ms: candidate.p99_tpot_ms,
            p99_e2el_ms: candidate.p99_e2el_ms,
        }
    }
}

impl SweepPoint {
    /// A point from the report over its seeds and the reports of every candidate and seed.
    #[must_use]
    pub fn new(point: u64, settings: Vec<SweepSetting>, report: RunReport, runs: &[Vec<CandidateReport>]) -> Self {
        let several = report.seeds.is_some();
        let of_seeds = |runs: &Vec<CandidateReport>| runs.iter().map(Objectives::of).collect();
        let by_seed = if several { runs.iter().map(of_seeds).collect() } else { Vec::new() };
        Self { point, settings, report, by_seed }
    }
}

impl SweepCollector {
    /// Of a sweep of which no point is known yet.
    #[must_use]
    pub fn new(manifest: SweepManifest) -> Self {
        let report = SweepReport { manifest, best: Vec::new(), points: Vec::new() };
        Self { report, by_seed: Vec::new() }
    }

    /// Adds the next point.
    pub fn add(&mut self, point: &SweepPoint) {
        let candidates: Vec<Objectives> = point.report.candidates.iter().map(Objectives::of).collect();
        let lead = lead(&self.report.manifest.candidates, &candidates, &point.by_seed);
        let settings = point.settings.clone();
        self.report.points.push(PointReport { point: point.point, settings, candidates, lead });
        self.by_seed.push(point.by_seed.clone());
    }

    /// The answer.
    #[must_use]
    pub fn finish(mut self) -> SweepReport {
        self.report.best = OBJECTIVES.iter().filter_map(|(name, get)| self.best(name, *get)).collect();
        self.report
    }

    fn best(&self, name: &str, get: fn(&Objectives) -> &Figure) -> Option<BestPoint> {
        let spec = figure(name);
        let points = self.report.points.iter().enumerate();
        let all =
            points.flat_map(|(place, point)| (0..point.candidates.len()).map(move |candidate| (place, candidate)));
        let value = |(place, candidate): (usize, usize)| *get(&self.report.points[place].candidates[candidate]);
        let best = first_best(spec, all.clone(), |at| value(at).mean())?;
        let samples = |(place, candidate): (usize, usize)| Some(samples(self.by_seed[place].get(candidate)?, get));
        let of_best = samples(best);
        let ties = of_best.map(|of_best| {
            let tied = all.filter(|&other| other != best).filter(|&other| {
                let difference =
                    samples(other).and_then(|other| Difference::paired(spec.better, &other?, of_best.as_ref()?));
                difference.is_some_and(|found| found.verdict != Verdict::Better && found.verdict != Verdict::Worse)
            });
            tied.count() as u64
        });
        Some(BestPoint {
            objective: name.to_owned(),
            point: self.report.points[best.0].point,
            candidate: self.report.manifest.candidates[best.1].clone(),
            value: value(best),
            not_distinguishable: ties,
        })
    }
}

/// The best candidate of a point against the next.
fn lead(names: &[String], candidates: &[Objectives], by_seed: &[Vec<Objectives>]) -> Option<Lead> {
    OBJECTIVES.iter().find_map(|(name, get)| {
        let spec = figure(name);
        let mean = |index: usize| get(&candidates[index]).mean();
        let best = first_best(spec, 0..candidates.len(), mean)?;
        let next = first_best(spec, (0..candidates.len()).filter(|&index| index != best), mean);
        let of_seeds = |index: usize| samples(by_seed.get(index)?, *get);
        let difference = next.and_then(|next| Difference::paired(spec.better, &of_seeds(next)?, &of_seeds(best)?));
        Some(Lead {
            objective: (*name).to_owned(),
            candidate: names[best].clone(),
            next: next.map(|next| names[next].clone()),
            difference,
        })
    })
}

/// The place with the best value, the first of equals; `None` if no place has one.
fn first_best<P: Copy>(
    spec: &FigureSpec,
    places: impl Iterator<Item = P>,
    value: impl Fn(P) -> Option<f64>,
) -> Option<P> {
    let mut best: Option<(P, f64)> = None;
    for (place, value) in places.filter_map(|place| Some((place, value(place)?))) {
        let better =
            best.is_none_or(|(_, known)| if spec.better == Better::Higher { value > known } else { value < known });
        if better {
            best = Some((place, value));
        }
    }
    best.map(|(place, _)| place)
}

/// One figure of every seed; `None` if a seed leaves it undefined.
fn samples(seeds: &[Objectives], get: fn(&Objectives) -> &Figure) -> Option<Vec<f64>> {
    seeds.iter().map(|figures| get(figures).mean()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_objective_is_a_figure_with_a_better_side() {
        for (name, _) in OBJECTIVES {
            assert_ne!(figure(name).better, Better::Neither, "{name}");
        }
    }
}
