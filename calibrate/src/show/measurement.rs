//! What a profile states about its measurement, as text for people.

use std::io::{self, Write};

use crate::counted::counted;
use crate::layout::row;
use crate::profile::{AnyGroup, Figure, Interval, Measured, Measurement, PaddingCost};

/// How the profile was measured, in rows like those of the header above it.
pub(super) fn run(measurement: &Measurement, out: &mut impl Write) -> io::Result<()> {
    let version = &measurement.calibrate_version;
    row("measured ", &format!("{} in {} s, by calibrate {version}", measurement.date, measurement.took_s), out)?;
    row("options  ", &measurement.options, out)?;
    let stated = |text: &Option<String>| text.clone().unwrap_or_else(|| "not stated".to_owned());
    let (cuda, capability) = (stated(&measurement.cuda_version), stated(&measurement.compute_capability));
    row("CUDA     ", &format!("{cuda} (compute capability: {capability})"), out)?;
    if let Some([low, high]) = measurement.sm_clock_mhz {
        row("SM clock ", &format!("{low} to {high} MHz"), out)?;
    }
    row("GEMM     ", &measurement.gemm_backend, out)?;
    if measurement.tensor_parallel > 1 {
        let ranks = measurement.tensor_parallel;
        row(
            "shard    ",
            &format!("one of {ranks} tensor-parallel ranks; collectives between them are not measured"),
            out,
        )?;
    }
    if let Some(layers) = measurement.weight_layers {
        row("weights  ", &format!("{} of weights, which all share", counted(layers, "layer")), out)?;
    }
    for warning in &measurement.warnings {
        let advice = warning.advice.as_ref().map_or_else(String::new, |advice| format!("; {advice}"));
        row("warning  ", &format!("{}: {}{advice}", warning.code, warning.what), out)?;
    }
    measurement
        .not_measured
        .iter()
        .try_for_each(|left_out| row("not measured: ", &format!("{}; {}", left_out.what, left_out.why), out))
}

/// Intervals and protocol of a group, in rows like those of its origin.
pub(super) fn group(group: &AnyGroup<'_>, out: &mut impl Write) -> io::Result<()> {
    let Some(measured) = group.measured else { return Ok(()) };
    for figure in group.figures.figures() {
        let intervals = measured.of(figure.name);
        if let Some(stated) = interval(&figure, intervals) {
            row("    95 %     ", &stated, out)?;
        }
    }
    protocol(measured, out)
}

fn interval(figure: &Figure, intervals: &[Interval]) -> Option<String> {
    let name = figure.name;
    if let [Interval { low, high, samples }] = intervals {
        return Some(format!("{name} {low} to {high} ({samples} samples)"));
    }
    let mut shares: Vec<f64> =
        figure.values.iter().zip(intervals).map(|(&value, interval)| interval.half_width_percent(value)).collect();
    shares.sort_by(f64::total_cmp);
    let (middle, widest) = (shares.get(shares.len() / 2)?, shares.last()?);
    let fewest = intervals.iter().map(|interval| interval.samples).min()?;
    Some(format!("{name} +-{middle:.1} % at the middle knot, +-{widest:.1} % at most (at least {fewest} samples)"))
}

fn protocol(Measured { protocol, held_out, padding, .. }: &Measured, out: &mut impl Write) -> io::Result<()> {
    if let Some(protocol) = protocol {
        let text = format!(
            "{} rounds after {} warm-up visits, {} outliers kept, drift {}, stopped by: {}",
            protocol.rounds, protocol.warm_up_visits, protocol.outliers, protocol.drift_ratio, protocol.stopped_by
        );
        row("    protocol ", &text, out)?;
    }
    if let Some(held_out) = held_out {
        let text = format!(
            "{} sizes left out one after the other: median error {} %, at most {} % at {}",
            held_out.sizes, held_out.median_percent, held_out.worst_percent, held_out.worst_at
        );
        row("    held out ", &text, out)?;
    }
    if let Some(PaddingCost { us_per_row, low, high, samples, to_rows }) = padding {
        let text = format!(
            "{us_per_row} us a row between edges, {low} to {high} (95 %, {samples} samples), up to {to_rows} rows"
        );
        row("    padding  ", &text, out)?;
    }
    Ok(())
}
