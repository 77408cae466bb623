//! One candidate's ladder as one record.

use calibrate::profile::Profile;
use reports::{DescriptorRecord, LadderCandidate, LadderCounts, LadderSizes, PaddedSpan};

use super::step::descriptor;
use crate::cost::startup::capture_s;
use crate::engine::options::EngineOptions;
use crate::engine::plan::{GraphPlan, Ladder};
use crate::engine::shape::RuntimeMode;

/// What the engine would capture; seconds and CUDA graphs need a profile.
#[must_use]
pub fn ladder(name: &str, options: &EngineOptions, plan: &GraphPlan, profile: Option<&Profile>) -> LadderCandidate {
    let captured = plan.capture_order();
    let compiled = plan.compiled();
    let other = plan.other_graphs();
    let count = |mode| captured.iter().filter(|key| key.mode == mode).count() as u64;
    LadderCandidate {
        name: name.to_owned(),
        requested_mode: options.requested_mode(),
        cudagraph_mode: plan.mode_name(),
        capture_sizes: plan.capture_sizes().to_vec(),
        ladders: ladders(plan),
        ceiling: plan.capture_sizes().last().copied(),
        padded: if plan.has_one_ladder() {
            PaddedSpan::of_table(padded_table(plan.capture_sizes()))
        } else {
            Vec::new()
        },
        descriptors: captured.iter().filter_map(descriptor).collect::<Vec<DescriptorRecord>>(),
        compile_ranges: compiled.iter().flat_map(|all| all.ranges()).map(|range| [range.first, range.last]).collect(),
        compile_sizes: compiled.iter().flat_map(|all| all.sizes()).collect(),
        encoder_budgets: other
            .and_then(|other| other.encoder.as_ref())
            .map_or(Vec::new(), |own| own.budgets().to_vec()),
        decoder_replay_sizes: other
            .and_then(|other| other.replay.as_ref())
            .map_or(Vec::new(), |own| own.sizes().to_vec()),
        counts: LadderCounts {
            sizes: plan.capture_sizes().len() as u64,
            descriptors: captured.len() as u64,
            full: count(RuntimeMode::Full),
            piecewise: count(RuntimeMode::Piecewise),
            cuda_graphs: profile.map(|profile| plan.cuda_graphs(profile.identity.model.attention_layers())),
        },
        capture_s: profile.map(|profile| capture_s(profile, captured)),
    }
}

/// The sizes that each kind of step pads to.
#[must_use]
pub fn ladders(plan: &GraphPlan) -> Vec<LadderSizes> {
    let report = |ladder: Ladder| LadderSizes {
        phase: ladder.phase.into(),
        unit: ladder.unit.name().into(),
        sizes: ladder.sizes,
    };
    plan.ladders().into_iter().map(report).collect()
}

/// Every step size up to the ceiling with the captured size that it is padded to.
fn padded_table(capture_sizes: &[u32]) -> impl Iterator<Item = (u32, u32)> {
    let starts = std::iter::once(0).chain(capture_sizes.iter().copied());
    starts.zip(capture_sizes).flat_map(|(below, &size)| (below + 1..=size).map(move |tokens| (tokens, size)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_up_to_the_ceiling_is_in_the_table_once() {
        let table: Vec<(u32, u32)> = padded_table(&[1, 2, 4, 8]).collect();
        assert_eq!(table, [(1, 1), (2, 2), (3, 4), (4, 4), (5, 8), (6, 8), (7, 8), (8, 8)]);
        assert_eq!(padded_table(&[]).count(), 0);
    }
}
