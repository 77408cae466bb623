//! One candidate's expectations as one record.

use std::collections::BTreeSet;

use calibrate::profile::Profile;
use reports::{
    BudgetCounts, EncoderCounts, PriceCandidate, PriceRung, ReplayCounts, ReplaySizeCounts, Saving, StepTimes,
};

use super::step::mode;
use crate::cost::Execution;
use crate::engine::plan::Rung;
use crate::engine::shape::RuntimeMode;
use crate::price::{BatchSum, EncoderSum, Expectation, ReplaySum, RungSum, break_even_padded_rows};
use crate::server::Setup;

/// The expectations of one candidate.
#[must_use]
pub fn price(name: &str, setup: &Setup, profile: &Profile, sums: &Expectation) -> PriceCandidate {
    let steps = sums.steps as f64;
    let mean_ms = |total_ns: u128| total_ns as f64 / steps / 1e6;
    let eager_kind_ns = match setup.cost.eager() {
        Execution::Eager => sums.eager_ns,
        _ => sums.compiled_ns,
    };
    let saving = |ns: u128| Saving {
        ms: (eager_kind_ns as f64 - ns as f64) / steps / 1e6,
        percent: 100.0 * (eager_kind_ns as f64 - ns as f64) / eager_kind_ns as f64,
    };
    let graphs = sums.all_rungs();
    let over_graph_steps = |total: f64| (graphs.steps > 0).then(|| total / graphs.steps as f64);
    let ratio = |part: u128, whole: u128| (whole > 0).then(|| part as f64 / whole as f64);
    let replay = if setup.graphs.capture_order().iter().any(|key| key.mode == RuntimeMode::Full) {
        Some(Execution::Full)
    } else {
        setup.graphs.capture_order().first().map(|_| Execution::Piecewise)
    };
    PriceCandidate {
        name: name.to_owned(),
        capture_sizes: setup.graphs.capture_sizes().to_vec(),
        cudagraph_mode: setup.graphs.mode_name(),
        step_ms: StepTimes {
            eager: Some(mean_ms(sums.eager_ns)),
            compiled_eager: setup.graphs.compiled().map(|_| mean_ms(sums.compiled_ns)),
            graph: mean_ms(sums.dispatched_ns),
            best_of_both: mean_ms(sums.best_ns),
        },
        saving_against: setup.cost.eager().to_string().into(),
        saving_graph: saving(sums.dispatched_ns),
        saving_best_of_both: saving(sums.best_ns),
        mean_batch_rows: sums.real_rows as f64 / steps,
        mean_rung_rows: ratio(graphs.real_rows + graphs.padded_rows, graphs.steps),
        mean_padded_rows: graphs.padded_rows as f64 / steps,
        padding_ratio: ratio(graphs.padded_rows, graphs.real_rows),
        waste_share: ratio(graphs.padded_rows, graphs.real_rows + graphs.padded_rows),
        mean_padding_over_batch: over_graph_steps(sums.padding_over_batch),
        mean_padding_over_rung: over_graph_steps(sums.padding_over_rung),
        exact_hit_rate: ratio(graphs.exact_steps, graphs.steps),
        fallback_rate: (sums.steps - graphs.steps) as f64 / steps,
        break_even_padded_rows: replay.and_then(|replay| break_even_padded_rows(profile, &setup.cost, replay)),
        losing_share: sums.losing_steps as f64 / steps,
        losing_batches: ranges(&sums.losing_batches),
        outside_range_share: sums.outside_steps as f64 / steps,
        rungs: sums.rungs.iter().map(|(&rung, sum)| price_rung(rung, sum, steps)).collect(),
        encoder: sums.encoder.as_ref().map(encoder_counts),
        decoder_replay: sums.replay.as_ref().map(replay_counts),
    }
}

fn price_rung(rung: Rung, sum: &RungSum, steps: f64) -> PriceRung {
    let inside = |total: f64| (sum.steps > 0).then(|| total / sum.steps as f64);
    PriceRung {
        mode: mode(rung.mode),
        phase: rung.phase.map(|phase| phase.name().into()),
        size: rung.size,
        share_of_steps: sum.steps as f64 / steps,
        mean_padded_rows: inside(sum.padded_rows as f64),
        exact_share: inside(sum.exact_steps as f64),
        padded_rows: sum.padded_rows as f64 / steps,
        real_rows: sum.real_rows as f64 / steps,
        mean_saving_ms: inside(sum.saved_ns as f64 / 1e6),
    }
}

fn encoder_counts(sums: &EncoderSum) -> EncoderCounts {
    let all = BatchSum::of_all(&sums.budgets);
    let budget = |(&budget, sum): (&u32, &BatchSum)| BudgetCounts {
        budget,
        batches: counted(sum.batches),
        images: counted(sum.images),
        real_tokens: counted(sum.real_tokens),
        padded_tokens: counted(sum.padded_tokens),
    };
    EncoderCounts {
        images: counted(sums.images),
        images_without_graph: counted(sums.images_without_graph),
        batches: counted(all.batches),
        real_tokens: counted(all.real_tokens),
        padded_tokens: counted(all.padded_tokens),
        waste_share: all.waste_share(),
        budgets: sums.budgets.iter().map(budget).collect(),
    }
}

fn replay_counts(sums: &ReplaySum) -> ReplayCounts {
    let all = BatchSum::of_all(&sums.sizes);
    let size = |(&size, sum): (&u32, &BatchSum)| ReplaySizeCounts {
        size,
        batches: counted(sum.batches),
        real_tokens: counted(sum.real_tokens),
        padded_tokens: counted(sum.padded_tokens),
    };
    ReplayCounts {
        off: sums.off.map(|reason| reason.code().into()),
        full_graph_steps: counted(sums.full_graph_steps),
        batches: counted(all.batches),
        batches_without_graph: counted(sums.batches_without_graph),
        unsettled_steps: counted(sums.unsettled_steps),
        trimmed_steps: counted(sums.trimmed_steps),
        trimmed_tokens: counted(sums.trimmed_tokens),
        real_tokens: counted(all.real_tokens),
        padded_tokens: counted(all.padded_tokens),
        waste_share: all.waste_share(),
        sizes: sums.sizes.iter().map(size).collect(),
    }
}

/// A count as reports hold it; absurd ones stop at the largest.
fn counted(count: u128) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Ascending numbers as inclusive ranges.
fn ranges(numbers: &BTreeSet<u32>) -> Vec<[u32; 2]> {
    let mut ranges: Vec<[u32; 2]> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some([_, last]) if *last + 1 == number => *last = number,
            _ => ranges.push([number, number]),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_join_into_ranges() {
        assert_eq!(ranges(&BTreeSet::from([9, 10, 11, 17, 19, 20])), [[9, 11], [17, 17], [19, 20]]);
        assert!(ranges(&BTreeSet::new()).is_empty());
    }
}
