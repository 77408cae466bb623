//! Steps whose shapes are given: they are priced, not simulated, and take the same time whatever is captured.

use reports::{CandidateReport, Fallbacks, Figure};

use super::shapes::{OwnTimes, Shape, ShapeHistogram, ShapeSum};
use crate::engine::shape::{Descriptor, FallbackCause, RuntimeMode};
use crate::engine::step::StepExtent;
use crate::metrics::Metrics;
use crate::price::{expect, shape, work};
use crate::record;
use crate::scenario::{Slo, WarmUp};
use crate::server::Setup;
use crate::traffic::StepHistogram;

/// A histogram of rows as one of shapes, with what each step costs this server beside its graph.
#[must_use]
pub fn shapes(histogram: &StepHistogram, setup: &Setup) -> ShapeHistogram {
    let sum = |row: &crate::traffic::StepRow| {
        let (shape, work) = (shape(row, setup), work(row, setup));
        let times = setup.cost.price_eager(&work).times();
        let eager = Descriptor { mode: RuntimeMode::None, ..setup.graphs.dispatch(&shape).descriptor };
        let eager = setup.cost.graph_times(&Descriptor { tokens: row.tokens, ..eager }, row.requests);
        let of_all = |own: u64| u128::from(own) * u128::from(row.count);
        let own = OwnTimes {
            preparation_ns: of_all((times.preparation - eager.preparation).0),
            device_ns: of_all((times.device - eager.device).0),
        };
        ShapeSum { shape: Shape { shape, extent: StepExtent::default() }, count: row.count, own }
    };
    ShapeHistogram::of(histogram.rows.iter().map(sum).collect())
}

/// The figures of a server over a histogram: steps, their mean time, padding and fallbacks, memory and start-up. No
/// request is served, so all others are undefined.
#[must_use]
pub fn figures(histogram: &StepHistogram, setup: &Setup, name: &str) -> CandidateReport {
    let empty = Metrics::new(Slo::default(), WarmUp::None, &setup.cost, &setup.options).finish();
    let mut report = record::candidate(name, setup, &empty);
    let expected = expect(histogram, setup);
    let all = expected.all_rungs();
    let share = |part: u128, whole: u128| Figure::from((whole > 0).then(|| part as f64 / whole as f64));
    report.steps = Figure::from(u64::try_from(expected.steps).unwrap_or(u64::MAX));
    report.mean_step_ms = Figure::from(expected.dispatched_ns as f64 / expected.steps as f64 / 1e6);
    report.mean_batch_rows = share(expected.real_rows, expected.steps);
    report.exact_hit_rate = share(all.exact_steps, all.steps);
    report.padding_ratio = share(all.padded_rows, all.real_rows);
    report.waste_share = share(all.padded_rows, all.real_rows + all.padded_rows);
    report.fallback_rate = share(expected.steps - expected.graph_steps, expected.steps);
    report.steps_outside_range = Figure::from(u64::try_from(expected.outside_steps).unwrap_or(u64::MAX));
    report.fallbacks = fallbacks(histogram, setup);
    report
}

fn fallbacks(histogram: &StepHistogram, setup: &Setup) -> Fallbacks {
    let of = |cause: FallbackCause| {
        let caused = histogram.rows.iter().filter(|row| setup.graphs.dispatch(&shape(row, setup)).cause == Some(cause));
        Figure::from(caused.map(|row| row.count).sum::<u64>())
    };
    Fallbacks {
        above_ceiling: of(FallbackCause::AboveCeiling),
        no_key: of(FallbackCause::NoKey),
        mode_excluded: of(FallbackCause::ModeExcluded),
        encoder_inputs: of(FallbackCause::EncoderInputs),
        other_rank: of(FallbackCause::OtherRank),
        graphs_off: of(FallbackCause::GraphsOff),
    }
}
