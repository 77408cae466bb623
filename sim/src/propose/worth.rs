//! What each rung of a proposal is worth: the same without it, on the same requests.

use std::collections::BTreeMap;

use rayon::iter::{IntoParallelIterator, ParallelIterator};
use reports::{CandidateReport, LadderChoice, RungWorth, STEP_MS_PER_REQUEST};

use super::error::ProposeError;
use super::ladders::{Ladders, List};
use super::shapes::ShapeHistogram;
use super::trials::Trials;
use crate::engine::options::EngineOptions;
use crate::engine::shape::Descriptor;
use crate::server::Setup;

/// The steps of one rung.
#[derive(Clone, Copy, Debug, Default)]
pub struct Served {
    /// How many.
    pub steps: u64,
    /// Those in which everybody decodes.
    pub decode_steps: u64,
    /// Rows of the smallest and the largest.
    pub rows: Option<[u32; 2]>,
}

/// What each rung of `ladders` is worth, list by list, ascending: `runs` are those of the whole proposal on `seeds`, and
/// `steps` what it runs. Rungs that the search was ended before are left out.
///
/// # Errors
/// What a run can fail with.
pub fn worths(
    trials: &Trials<'_>,
    base: &EngineOptions,
    ladders: &Ladders,
    runs: &[CandidateReport],
    steps: &ShapeHistogram,
    seeds: &[u64],
) -> Result<Vec<RungWorth>, ProposeError> {
    let setup = Setup::prepare(&ladders.applied(base), trials.profile)?;
    let served = served(ladders, &setup, steps);
    let of_rung = |(list, size): (List, u32)| -> Result<Option<RungWorth>, ProposeError> {
        let without = ladders.toggled(list, size).applied(base);
        let Some(without) = trials.run(&without, "without", seeds)? else { return Ok(None) };
        let without = without.runs;
        let pair = LadderChoice::pair(&without, runs);
        let gained = |figure: &str| pair.differences.get(figure).copied();
        let served = served.get(&(list, size)).copied().unwrap_or_default();
        let more = |figure: fn(&CandidateReport) -> Option<f64>| {
            figure(&runs[0]).unwrap_or(0.0) - figure(&without[0]).unwrap_or(0.0)
        };
        Ok(Some(RungWorth {
            phase: list.phase().into(),
            size,
            share_of_steps: served.steps as f64 / steps.steps().max(1) as f64,
            rows: served.rows,
            decode_share: (served.steps > 0).then(|| served.decode_steps as f64 / served.steps as f64),
            request_goodput: gained("request_goodput"),
            p99_tpot_ms: gained("p99_tpot_ms"),
            step_ms_per_request: gained(STEP_MS_PER_REQUEST),
            mean_step_ms: gained("mean_step_ms"),
            memory_bytes: more(|run| run.graph_memory_bytes.mean()) as i64,
            startup_s: more(|run| run.startup_s.mean()),
        }))
    };
    let all: Vec<Option<RungWorth>> = ladders.rungs().into_par_iter().map(of_rung).collect::<Result<_, _>>()?;
    Ok(all.into_iter().flatten().collect())
}

/// Which steps run on which rung; a rung that none runs on is not there.
#[must_use]
pub fn served(ladders: &Ladders, setup: &Setup, steps: &ShapeHistogram) -> BTreeMap<(List, u32), Served> {
    let mut all: BTreeMap<(List, u32), Served> = BTreeMap::new();
    for sum in &steps.shapes {
        let shape = &sum.shape.shape;
        let graph = setup.graphs.dispatch_extent(shape, sum.shape.extent).descriptor;
        let Some(rung) = rung(ladders, &graph) else { continue };
        let served = all.entry(rung).or_default();
        served.steps += sum.count;
        served.decode_steps += if shape.prefilling { 0 } else { sum.count };
        let [least, most] = served.rows.unwrap_or([shape.tokens; 2]);
        served.rows = Some([least.min(shape.tokens), most.max(shape.tokens)]);
    }
    all
}

/// The list and size that a graph was captured for.
fn rung(ladders: &Ladders, graph: &Descriptor) -> Option<(List, u32)> {
    let (list, size) = match ladders {
        Ladders::Together(_) => (List::All, graph.tokens),
        Ladders::Apart { .. } => match graph.requests.filter(|_| graph.uniform.is_some()) {
            Some(requests) => (List::Decode, requests),
            None => (List::Prefill, graph.tokens),
        },
    };
    ladders.list(list).binary_search(&size).is_ok().then_some((list, size))
}
