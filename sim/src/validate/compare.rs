//! Measured beside predicted, figure by figure, with the targets that a prediction should meet.

use std::collections::HashMap;

use reports::{DecodeErrors, FigureValidation, StepTimeValidation};

use super::outcome::{Outcome, RequestTimes, most, percentile};
use super::step_times::{Price, StepTime, by_running, saturated_and_drain, unpriced};

/// Running requests of one bin of step times.
const BIN: u32 = 8;

/// The largest share by which the decode times of single requests may be wrong in the mean.
const DECODE_TARGET: f64 = 0.05;

/// How far a figure may be off.
#[derive(Clone, Copy)]
enum Target {
    /// Not judged.
    None,
    /// A share of the measured value.
    Share(f64),
    /// So much in the figure's own unit.
    Units(f64),
}

fn figure(
    name: &'static str,
    unit: &'static str,
    [measured, predicted]: [Option<f64>; 2],
    target: Target,
) -> Option<FigureValidation> {
    let (measured, predicted) = (measured?, predicted?);
    let (difference, is_share, target) = match target {
        Target::None => (predicted / measured - 1.0, true, None),
        Target::Share(share) => (predicted / measured - 1.0, true, Some(share)),
        Target::Units(units) => (predicted - measured, false, Some(units)),
    };
    Some(FigureValidation {
        figure: name.into(),
        unit: unit.into(),
        measured,
        predicted,
        difference,
        is_share,
        target,
        met: target.map(|target| difference.abs() <= target),
    })
}

/// Wall time, throughput, latencies and running requests: for a run priced by kernel tables.
#[must_use]
pub fn figures(measured: &Outcome, predicted: &Outcome) -> Vec<FigureValidation> {
    let both = |of: &dyn Fn(&Outcome) -> Option<f64>| [of(measured), of(predicted)];
    let ttft = |share| both(&|outcome: &Outcome| percentile(&outcome.ttft_ms(), share));
    let tpot = |share| both(&|outcome: &Outcome| percentile(&outcome.tpot_ms(), share));
    let latencies = [
        figure("wall", "s", both(&|outcome| Some(outcome.wall_s())), Target::Share(0.01)),
        figure("output", "tokens/s", both(&|outcome| Some(outcome.output_throughput())), Target::Share(0.01)),
        figure("TTFT median", "ms", ttft(0.5), Target::Share(0.01)),
        figure("TTFT p99", "ms", ttft(0.99), Target::Share(0.02)),
        figure("TPOT median", "ms", tpot(0.5), Target::Share(0.01)),
        figure("TPOT p99", "ms", tpot(0.99), Target::Share(0.02)),
    ];
    latencies.into_iter().flatten().filter(is_finite).chain(queue_figures(measured, predicted)).collect()
}

/// Whether it can be compared: shares of nothing, and rates of a run that took no time, are no numbers.
fn is_finite(figure: &FigureValidation) -> bool {
    [figure.measured, figure.predicted, figure.difference].iter().all(|value| value.is_finite())
}

/// Who runs and who waits: all that can be judged of a run whose step times are its own.
#[must_use]
pub fn queue_figures(measured: &Outcome, predicted: &Outcome) -> Vec<FigureValidation> {
    let both = |of: &dyn Fn(&Outcome) -> Option<f64>| [of(measured), of(predicted)];
    let running = |outcome: &Outcome| outcome.of_ticks(|tick| tick.running);
    let waiting = |outcome: &Outcome| outcome.of_ticks(|tick| tick.waiting);
    let figures = [
        figure("running, most", "requests", both(&|outcome| most(&running(outcome))), Target::Units(1.0)),
        figure("running, median", "requests", both(&|outcome| percentile(&running(outcome), 0.5)), Target::None),
        figure("waiting, most", "requests", both(&|outcome| most(&waiting(outcome))), Target::None),
        figure("waiting, median", "requests", both(&|outcome| percentile(&waiting(outcome), 0.5)), Target::None),
        figure("queue empty after", "s", both(&|outcome| Some(outcome.queue_empty_s())), Target::None),
    ];
    figures.into_iter().flatten().filter(is_finite).collect()
}

/// Decode time per token of each request, predicted against measured. `None` where no request has two tokens.
#[must_use]
pub fn decode_errors(measured: &Outcome, predicted: &Outcome) -> Option<DecodeErrors> {
    // The simulated server may refuse some.
    let served: HashMap<u64, &RequestTimes> =
        predicted.requests.iter().map(|request| (request.place, request)).collect();
    let both = measured.requests.iter().filter_map(|request| Some((request, *served.get(&request.place)?)));
    let errors: Vec<f64> =
        both.filter_map(|(a, b)| Some(b.tpot_ms()? / a.tpot_ms()? - 1.0)).filter(|e| e.is_finite()).collect();
    let sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    (!errors.is_empty()).then(|| DecodeErrors {
        requests: errors.len() as u64,
        mean_absolute: mean(&sizes),
        median_absolute: percentile(&sizes, 0.5).unwrap_or_default(),
        most_absolute: most(&sizes).unwrap_or_default(),
        mean: mean(&errors),
        target: DECODE_TARGET,
        met: mean(&sizes) <= DECODE_TARGET,
    })
}

/// Milliseconds per decode step: by running requests, and while the queue was full against its drain. `price` prices the
/// batches of measured ticks.
#[must_use]
pub fn step_times(measured: &Outcome, predicted: &Outcome, price: &Price<'_>) -> Vec<StepTimeValidation> {
    let row = |name: String, [measured, predicted]: [StepTime; 2]| {
        let ratio = measured.ms().zip(predicted.ms()).map(|(measured, predicted)| predicted / measured - 1.0);
        let (priced_ms, priced_difference) = measured.priced().unzip();
        StepTimeValidation {
            ticks: name,
            measured_ticks: measured.ticks(),
            predicted_ticks: predicted.ticks(),
            measured_ms: measured.ms(),
            predicted_ms: predicted.ms(),
            difference: ratio,
            priced_ms,
            priced_difference,
        }
    };
    let bins = [by_running(measured, BIN, price), by_running(predicted, BIN, &unpriced)];
    let number = bins.iter().map(Vec::len).max().unwrap_or_default();
    let of_bin = |place: usize| bins.each_ref().map(|bins| bins.get(place).cloned().unwrap_or_default());
    let by_bin = (0..number).map(|place| {
        let first = place as u32 * BIN + 1;
        row(format!("{first} to {} running", first + BIN - 1), of_bin(place))
    });
    let phases = [saturated_and_drain(measured, price), saturated_and_drain(predicted, &unpriced)];
    let of_phase = |place: usize| phases.each_ref().map(|parts| parts[place].clone());
    let rows = by_bin
        .chain([row("somebody waits".to_owned(), of_phase(0)), row("nobody waits any more".to_owned(), of_phase(1))]);
    rows.filter(|row| row.measured_ticks + row.predicted_ticks > 0).collect()
}
