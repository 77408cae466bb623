//! What a profile states about its measurement, as text for people.

use std::io::{self, Write};

use crate::profile::{AnyGroup, Figure, Interval, Measured, Measurement, PaddingCost};

/// How the profile was measured, in rows like those of the header above it.
pub(super) fn run(measurement: &Measurement, out: &mut impl Write) -> io::Result<()> {
    let version = &measurement.calibrate_version;
    writeln!(out, "measured {} in {} s, by calibrate {version}", measurement.date, measurement.took_s)?;
    writeln!(out, "options  {}", measurement.options)?;
    let stated = |text: &Option<String>| text.clone().unwrap_or_else(|| "not stated".to_owned());
    let (cuda, capability) = (stated(&measurement.cuda_version), stated(&measurement.compute_capability));
    writeln!(out, "CUDA     {cuda} (compute capability: {capability})")?;
    if let Some([low, high]) = measurement.sm_clock_mhz {
        writeln!(out, "SM clock {low} to {high} MHz")?;
    }
    writeln!(out, "GEMM     {}", measurement.gemm_backend)?;
    if measurement.tensor_parallel > 1 {
        let ranks = measurement.tensor_parallel;
        writeln!(out, "shard    one of {ranks} tensor-parallel ranks; collectives between them are not measured")?;
    }
    if let Some(layers) = measurement.weight_layers {
        writeln!(out, "weights  {layers} layers have weights of their own, the others share them")?;
    }
    for warning in &measurement.warnings {
        let advice = warning.advice.as_ref().map_or_else(String::new, |advice| format!("; {advice}"));
        writeln!(out, "warning  {}: {}{advice}", warning.code, warning.what)?;
    }
    measurement
        .not_measured
        .iter()
        .try_for_each(|left_out| writeln!(out, "not measured: {}; {}", left_out.what, left_out.why))
}

/// Intervals and protocol of a group, in rows like those of its origin.
pub(super) fn group(group: &AnyGroup<'_>, out: &mut impl Write) -> io::Result<()> {
    let Some(measured) = group.measured else { return Ok(()) };
    for figure in group.figures.figures() {
        let intervals = measured.of(figure.name);
        if let Some(stated) = interval(&figure, intervals) {
            writeln!(out, "    95 %     {stated}")?;
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
        writeln!(
            out,
            "    protocol {} rounds after {} warm-up visits, {} outliers kept, drift {}, stopped by: {}",
            protocol.rounds, protocol.warm_up_visits, protocol.outliers, protocol.drift_ratio, protocol.stopped_by
        )?;
    }
    if let Some(held_out) = held_out {
        writeln!(
            out,
            "    held out {} sizes left out one after the other: median error {} %, at most {} % at {}",
            held_out.sizes, held_out.median_percent, held_out.worst_percent, held_out.worst_at
        )?;
    }
    if let Some(PaddingCost { us_per_row, low, high, samples, to_rows }) = padding {
        writeln!(
            out,
            "    padding  {us_per_row} us a row between edges, {low} to {high} (95 %, {samples} samples), up to {to_rows} rows"
        )?;
    }
    Ok(())
}
