//! The rungs of a run in few lines: those that served most, those that lost, those that never fired.

use std::io::{self, Write};

use super::grid::{Align, Grid};
use super::number;
use super::prose::paragraph;
use crate::{CandidateReport, Figure, RungReport, Scale};

/// Rungs shown per candidate.
const SHOWN: usize = 6;

/// Spans of neighbouring rungs named per candidate; the JSON has every rung.
const SPANS_SHOWN: usize = 6;

/// Writes the rungs of all candidates that captured any.
pub(super) fn rungs(candidates: &[CandidateReport], sink: &mut impl Write) -> io::Result<()> {
    if candidates.iter().all(|candidate| candidate.rungs.is_empty()) {
        return Ok(());
    }
    writeln!(sink)?;
    let columns = [
        ("Rungs that served most steps", Align::Left),
        ("mode", Align::Left),
        ("size", Align::Right),
        ("steps", Align::Right),
        ("% of steps", Align::Right),
        ("exact, %", Align::Right),
        ("padded / real, %", Align::Right),
        ("saved, ms", Align::Right),
    ];
    let shown: Vec<(&CandidateReport, &RungReport)> = candidates
        .iter()
        .flat_map(|candidate| busiest(candidate).into_iter().take(SHOWN).map(move |rung| (candidate, rung)))
        .collect();
    let column = |scale: Scale, get: &dyn Fn(&CandidateReport, &RungReport) -> Figure| {
        let figures: Vec<Figure> =
            shown.iter().map(|(candidate, rung)| number::without_interval(&get(candidate, rung))).collect();
        number::row(&figures, scale)
    };
    let cells = [
        column(Scale::Plain, &|_, rung| rung.steps),
        column(Scale::Percent, &|candidate, rung| ratio(&rung.steps, &candidate.steps)),
        column(Scale::Percent, &|_, rung| ratio(&rung.exact_steps, &rung.steps)),
        column(Scale::Percent, &|_, rung| ratio(&rung.padded_rows, &rung.real_rows)),
        column(Scale::Plain, &|_, rung| rung.saved_ms),
    ];
    let mut grid = Grid::new(&columns).wrap(0, 30);
    let mut previous = None;
    for (index, (candidate, rung)) in shown.iter().enumerate() {
        // A candidate is named once, beside its first rung.
        let first = previous.replace(&candidate.name) != Some(&candidate.name);
        let name = if first { candidate.name.clone() } else { String::new() };
        let key = [name, kind(rung), rung.size.to_string()];
        grid.row(key.into_iter().chain(cells.iter().map(|column| column[index].clone())));
    }
    grid.write(sink)?;
    for candidate in candidates.iter().filter(|candidate| !candidate.rungs.is_empty()) {
        summary(candidate, sink)?;
    }
    Ok(())
}

/// Rungs with steps, most steps first; ties in ladder order.
fn busiest(candidate: &CandidateReport) -> Vec<&RungReport> {
    let mut rungs: Vec<&RungReport> = candidate.rungs.iter().filter(|rung| fired(rung)).collect();
    rungs.sort_by(|a, b| mean(&b.steps).total_cmp(&mean(&a.steps)));
    rungs
}

fn ratio(part: &Figure, whole: &Figure) -> Figure {
    Figure::from(part.mean().zip(whole.mean()).map(|(part, whole)| part / whole))
}

fn summary(candidate: &CandidateReport, sink: &mut impl Write) -> io::Result<()> {
    paragraph(sink, &format!("{}: {}", candidate.name, in_words(candidate)), "", "  ")
}

/// How many rungs of a candidate served, which of them lost, and which never did.
pub(crate) fn in_words(candidate: &CandidateReport) -> String {
    let served = candidate.rungs.iter().filter(|rung| fired(rung)).count();
    let mut parts = vec![format!("{served} of {} rungs served", candidate.rungs.len())];
    let losing = spans(&candidate.rungs, |rung| mean(&rung.saved_ms) < 0.0);
    parts.extend(losing.map(|losing| format!("replay lost on {losing}")));
    let dead = spans(&candidate.rungs, |rung| !fired(rung));
    parts.extend(dead.map(|dead| format!("dead: {dead}")));
    parts.join("; ")
}

fn fired(rung: &RungReport) -> bool {
    mean(&rung.steps) > 0.0
}

fn mean(figure: &Figure) -> f64 {
    figure.mean().unwrap_or(0.0)
}

/// The mode, and the phase where there are graphs for each: `FULL decode`.
pub(crate) fn kind(rung: &RungReport) -> String {
    mode_and_phase(&rung.mode, rung.phase.as_deref())
}

/// As [`kind`], for whatever has a mode and perhaps a phase.
pub(super) fn mode_and_phase(mode: &str, phase: Option<&str>) -> String {
    phase.map_or_else(|| mode.to_owned(), |phase| format!("{mode} {phase}"))
}

/// Chosen rungs as spans of neighbours in the ladder, the widest of them by name: `FULL 304 to 512 (14), PIECEWISE 24`.
/// `None` if nothing is chosen.
fn spans(ladder: &[RungReport], chosen: impl Fn(&RungReport) -> bool) -> Option<String> {
    let mut spans: Vec<(&RungReport, &RungReport, usize)> = Vec::new();
    let mut previous_chosen = false;
    for rung in ladder {
        let is_chosen = chosen(rung);
        if is_chosen {
            match spans.last_mut() {
                Some((first, last, count)) if previous_chosen && kind(first) == kind(rung) => {
                    *last = rung;
                    *count += 1;
                }
                _ => spans.push((rung, rung, 1)),
            }
        }
        previous_chosen = is_chosen;
    }
    let least_shown = {
        let mut counts: Vec<usize> = spans.iter().map(|(_, _, count)| *count).collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts.get(SPANS_SHOWN - 1).copied().unwrap_or(0)
    };
    // Ties are cut in ladder order.
    let (mut shown, mut left_out) = (Vec::new(), 0);
    for span in spans {
        if span.2 >= least_shown && shown.len() < SPANS_SHOWN {
            shown.push(span);
        } else {
            left_out += span.2;
        }
    }
    let mut words: Vec<String> = shown
        .into_iter()
        .map(|(first, last, count)| match count {
            1 => format!("{} {}", kind(first), first.size),
            _ => format!("{} {} to {} ({count})", kind(first), first.size, last.size),
        })
        .collect();
    if left_out > 0 {
        words.push(format!("{left_out} more"));
    }
    (!words.is_empty()).then(|| words.join(", "))
}
