//! `sim validate` as text: run by run, measured beside predicted.

use std::io::{self, Write};

use super::grid::{Align, Grid};
use super::prose::paragraph;
use super::{engine_line, number};
use crate::{DecodeErrors, FigureValidation, PredictedEvents, RunValidation, StepTimeValidation, ValidateReport};

/// Writes the report of `sim validate`.
///
/// # Errors
/// The I/O error of the sink, unchanged.
pub fn validate(report: &ValidateReport, sink: &mut impl Write) -> io::Result<()> {
    for (place, run) in report.runs.iter().enumerate() {
        if place > 0 {
            writeln!(sink)?;
        }
        one(run, sink)?;
    }
    Ok(())
}

fn one(run: &RunValidation, sink: &mut impl Write) -> io::Result<()> {
    let requests = if run.requests > 0 { format!(", {}", number::requests(run.requests)) } else { String::new() };
    paragraph(sink, &format!("{}: {} on {}{requests}", run.run, run.model, run.device), "", "  ")?;
    let simulated = run.simulated.as_ref().map(|engine| format!("; simulated: {}", engine_line(engine)));
    paragraph(sink, &format!("ran: {}{}", run.ran, simulated.unwrap_or_default()), "  ", "    ")?;
    if let Some(carry) = &run.carried_by {
        paragraph(sink, &format!("tables of another card carried over by {carry}"), "  ", "    ")?;
    }
    if let Some(reason) = &run.reason {
        paragraph(sink, reason, "  ", "    ")?;
    }
    if !run.figures.is_empty() {
        writeln!(sink)?;
        figures(&run.figures, sink)?;
    }
    if let Some(errors) = &run.decode_errors {
        decode(errors, sink)?;
    }
    if !run.step_times.is_empty() {
        writeln!(sink)?;
        step_times(&run.step_times, sink)?;
    }
    if let Some(events) = &run.predicted {
        writeln!(sink)?;
        predicted(events, sink)?;
    }
    if !run.costs.is_empty() {
        writeln!(sink)?;
        let mut grid = Grid::new(&[("priced", Align::Left), ("from", Align::Left)]).wrap(1, 80);
        run.costs.iter().for_each(|cost| grid.row([cost.part.clone(), cost.from.clone()]));
        grid.write(sink)?;
        writeln!(sink)?;
    }
    run.notes.iter().try_for_each(|note| paragraph(sink, note, "- ", "  "))?;
    if !run.figures.is_empty() {
        NOTES.iter().try_for_each(|note| paragraph(sink, note, "- ", "  "))?;
        verdict(run, sink)?;
    }
    Ok(())
}

const NOTES: [&str; 1] = [
    "Not measured: steps, preemptions, prefix hits, which graphs ran, host time. TTFT counts from when the scheduler got a \
     request; percentiles are interpolated linearly; running and waiting are read at the end of each tick.",
];

fn percent(share: f64, decimals: usize) -> String {
    let text = number::fixed(share * 100.0, decimals);
    if share > 0.0 && text.bytes().any(|byte| (b'1'..=b'9').contains(&byte)) {
        format!("+{text} %")
    } else {
        format!("{text} %")
    }
}

fn figures(figures: &[FigureValidation], sink: &mut impl Write) -> io::Result<()> {
    let columns = [
        ("figure", Align::Left),
        ("measured", Align::Right),
        ("predicted", Align::Right),
        ("difference", Align::Right),
        ("target", Align::Right),
        ("", Align::Left),
    ];
    let mut grid = Grid::new(&columns);
    for figure in figures {
        let decimals = decimals(figure);
        let difference = if figure.is_share { percent(figure.difference, 2) } else { signed(figure.difference) };
        let target = figure.target.map_or_else(String::new, |target| {
            if figure.is_share { format!("{} %", number::fixed(target * 100.0, 0)) } else { number::fixed(target, 0) }
        });
        grid.row([
            format!("{}, {}", figure.figure, figure.unit),
            number::fixed(figure.measured, decimals),
            number::fixed(figure.predicted, decimals),
            difference,
            target,
            figure.met.map_or("", |met| if met { "met" } else { "MISSED" }).to_owned(),
        ]);
    }
    grid.write(sink)
}

/// Whole requests where both are whole, else as many digits as tell a hundredth of a percent.
fn decimals(figure: &FigureValidation) -> usize {
    let is_whole = |value: f64| value.fract() == 0.0;
    match figure.measured.abs() {
        _ if figure.unit == "requests" && is_whole(figure.measured) && is_whole(figure.predicted) => 0,
        size if size >= 10_000.0 => 1,
        size if size >= 1_000.0 => 2,
        _ => 3,
    }
}

fn signed(value: f64) -> String {
    let text = number::fixed(value, 0);
    if value > 0.5 { format!("+{text}") } else { text }
}

fn decode(errors: &DecodeErrors, sink: &mut impl Write) -> io::Result<()> {
    let text = format!(
        "decode time per token of single requests, {}: mean absolute error {} % (target {} %: {}), median {} %, most {} %, bias {}",
        number::requests(errors.requests),
        number::fixed(errors.mean_absolute * 100.0, 2),
        number::fixed(errors.target * 100.0, 0),
        if errors.met { "met" } else { "MISSED" },
        number::fixed(errors.median_absolute * 100.0, 2),
        number::fixed(errors.most_absolute * 100.0, 1),
        percent(errors.mean, 2),
    );
    paragraph(sink, &text, "", "  ")
}

fn step_times(times: &[StepTimeValidation], sink: &mut impl Write) -> io::Result<()> {
    let columns = [
        ("decode step, ms", Align::Left),
        ("measured", Align::Right),
        ("priced", Align::Right),
        ("difference", Align::Right),
        ("predicted", Align::Right),
        ("difference", Align::Right),
        ("ticks", Align::Right),
        ("predicted", Align::Right),
    ];
    let share = |share: Option<f64>| share.map_or_else(|| number::UNDEFINED.to_owned(), |share| percent(share, 1));
    let mut grid = Grid::new(&columns);
    for row in times {
        grid.row([
            row.ticks.clone(),
            number::option(row.measured_ms, 2),
            number::option(row.priced_ms, 2),
            share(row.priced_difference),
            number::option(row.predicted_ms, 2),
            share(row.difference),
            number::count(row.measured_ticks.into()),
            number::count(row.predicted_ticks.into()),
        ]);
    }
    grid.write(sink)?;
    let note = "Medians of ticks without prompts, a step being one output token for each request that runs. Priced: a decode \
                step of the measured tick's own batch, its requests and KV blocks; its difference is the median over ticks of \
                price / measured - 1, not that of the medians shown. Predicted: read from the predicted run's ticks, whose \
                batches are others.";
    paragraph(sink, note, "", "  ")
}

fn predicted(events: &PredictedEvents, sink: &mut impl Write) -> io::Result<()> {
    let largest = |mode: &str, largest: Option<u32>| match largest {
        Some(tokens) => format!("{mode} graphs fired up to {tokens}, none above"),
        None => format!("no {mode} graph fired"),
    };
    let text = format!(
        "predicted alone: {} steps, {} of them with prompts, {} without a graph; {} preemptions, after which {} tokens \
         were found again; {} prompt tokens found in shared heads; at most {} running in a step; {}; {}; {} steps priced \
         outside a table",
        number::count(events.steps),
        number::count(events.mixed_steps),
        number::count(events.eager_steps),
        number::count(events.preemptions),
        number::count(events.preempted_hit_tokens),
        number::count(events.prompt_hit_tokens),
        number::count(events.running_most),
        largest("FULL", events.largest_full),
        largest("PIECEWISE", events.largest_piecewise),
        number::count(events.outside_steps),
    );
    paragraph(sink, &text, "", "  ")
}

fn verdict(run: &RunValidation, sink: &mut impl Write) -> io::Result<()> {
    let missed = run.missed();
    let targets = if run.targets() == 1 { "1 target".to_owned() } else { format!("{} targets", run.targets()) };
    let queue_only = if run.is_fitted { "queue only, " } else { "" };
    let text = if missed.is_empty() {
        format!("verdict: every target is met ({queue_only}{targets})")
    } else {
        format!("verdict: MISSED {} of {targets}: {queue_only}{}", missed.len(), missed.join("; "))
    };
    paragraph(sink, &text, "", "  ")
}
