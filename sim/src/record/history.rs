//! The histories of one candidate's runs as one record.

use std::collections::BTreeMap;

use reports::{BatchCount, CandidateHistory, Timeline, TimelineBin};

use super::step::mode;
use crate::engine::shape::RuntimeMode;
use crate::metrics::history;
use crate::metrics::history::{BatchKey, BatchTally, Bin, History};

/// One candidate over its seeds, in order. The timeline is that of the first; without one it is empty.
#[must_use]
pub fn history(candidate: &str, seeds: &[u64], runs: &[&History]) -> CandidateHistory {
    let mut batches: BTreeMap<BatchKey, BatchTally> = BTreeMap::new();
    for (key, tally) in runs.iter().flat_map(|run| &run.batches) {
        batches.entry(*key).or_default().add(tally);
    }
    CandidateHistory {
        candidate: candidate.to_owned(),
        seeds: runs.len() as u64,
        batches: batches.iter().map(batch).collect(),
        timeline: timeline(
            seeds.first().copied().unwrap_or_default(),
            runs.first().and_then(|run| run.timeline.as_ref()).unwrap_or(&history::Timeline::default()),
        ),
    }
}

fn batch((key, tally): (&BatchKey, &BatchTally)) -> BatchCount {
    BatchCount {
        rows: key.rows,
        mode: mode(key.rung.map_or(RuntimeMode::None, |rung| rung.mode)),
        phase: key.rung.and_then(|rung| rung.phase).map(|phase| phase.name().into()),
        rung: key.rung.map(|rung| rung.size),
        fallback: key.cause.map(|cause| cause.to_string().into()),
        steps: tally.steps,
        padded_rows: tally.padded_rows,
        saved_ns: tally.saved_ns,
    }
}

fn timeline(seed: u64, timeline: &history::Timeline) -> Timeline {
    let bin_s = timeline.bin_ns as f64 / 1e9;
    let bin = |(index, bin): (usize, &Bin)| TimelineBin {
        start_s: index as f64 * bin_s,
        steps: bin.steps,
        mean_rows: (bin.steps > 0).then(|| bin.rows as f64 / bin.steps as f64),
        max_rows: bin.rows_max,
        no_graph: bin.no_graph,
        above_ceiling: bin.above_ceiling,
        max_running: bin.running_max,
        max_waiting: bin.waiting_max,
        max_kv_share: bin.kv_share_max,
        preempted: bin.preempted,
    };
    Timeline { seed, bin_s, bins: timeline.bins.iter().enumerate().map(bin).collect() }
}
