//! `sim propose` as text: the answer first, then what it rests on, then what to paste.

mod choices;
mod flags;
mod load;
mod measure;
mod worth;

use std::io::{self, Write};

use self::measure::Measure;
use super::prose::paragraph;
use super::provenance::provenance;
use super::run::interval_and_verdict;
use super::{engine_line, number, slo_line};
use crate::{Figure, LadderChoice, ProposeReport, Scale, SingleChange};

/// The figures that decide, in this order where the objective leaves ladders equal.
const DECIDING: [Measure; 3] = [Measure::Figure("request_goodput"), Measure::Figure("p99_tpot_ms"), Measure::StepTime];

/// What decides where steps are given without requests.
const STEP_MEAN: Measure = Measure::Figure("mean_step_ms");

/// Writes the report of `sim propose`, warnings left out.
///
/// # Errors
/// The I/O error of the sink, unchanged.
pub fn propose(report: &ProposeReport, sink: &mut impl Write) -> io::Result<()> {
    paragraph(sink, &report.verdict.sentence, "", "  ")?;
    if report.search.interrupted {
        writeln!(
            sink,
            "The search was ended before it was done: this is the best so far, and what was not reached is left out."
        )?;
    }
    writeln!(sink)?;
    head(report, sink)?;
    choices::choices(report, sink)?;
    worth::rungs(report, sink)?;
    writeln!(sink)?;
    one_change(report, sink)?;
    load::sensitivity(&report.sensitivity, sink)?;
    flags::flags(&report.flags, sink)?;
    writeln!(sink)?;
    searched(report, sink)?;
    writeln!(sink)?;
    provenance(&report.profile, sink)?;
    writeln!(sink)?;
    notes(report, sink)
}

fn head(report: &ProposeReport, sink: &mut impl Write) -> io::Result<()> {
    let scenario = &report.scenario;
    paragraph(sink, &scenario.name, "", "  ")?;
    paragraph(sink, &engine_line(&report.engine), "", "  ")?;
    let requests = scenario.requests.map(|requests| format!("{} requests", number::count(requests)));
    let parts: Vec<String> = requests.into_iter().chain([slo_line(scenario)]).collect();
    paragraph(sink, &parts.join("; "), "", "  ")?;
    let asked = &report.asked;
    let objective = match asked.objective.as_ref() {
        "goodput" => "most goodput",
        "p99_tpot" => "lowest p99 TPOT",
        "device_time" => "least time in steps",
        other => other,
    };
    let mut parts = vec![format!("asked for: {objective}")];
    parts.extend(asked.graph_memory_bytes.map(|limit| format!("graph memory <= {}", memory(limit))));
    parts.extend(asked.startup_s.map(|limit| format!("start-up <= {limit} s")));
    parts.extend(asked.descriptors.map(|limit| format!("descriptors <= {}", number::count(limit.into()))));
    if parts.len() == 1 {
        parts.push("no budget".to_owned());
    }
    parts.extend((!asked.also.is_empty()).then(|| format!("also varied: {}", asked.also.join(", "))));
    paragraph(sink, &parts.join("; "), "", "  ")
}

/// GiB, or MiB where those would be few.
fn memory(bytes: u64) -> String {
    let mib = bytes as f64 / f64::from(1 << 20);
    if mib < 1024.0 {
        format!("{} MiB", number::fixed(mib, 1))
    } else {
        format!("{} GiB", number::fixed(mib / 1024.0, 2))
    }
}

/// Whether steps were given, and no request.
fn is_of_steps(report: &ProposeReport) -> bool {
    report.scenario.requests.is_none_or(|requests| requests == 0)
}

/// The figures that ladders are compared by, the one that decides first.
fn deciding(report: &ProposeReport) -> Vec<Measure> {
    if is_of_steps(report) { vec![STEP_MEAN] } else { order(&report.asked.objective).into() }
}

/// The deciding figures, the objective first.
fn order(objective: &str) -> [Measure; 3] {
    let first = match objective {
        "p99_tpot" => 1,
        "device_time" => 2,
        _ => 0,
    };
    let mut order = DECIDING;
    order[..=first].rotate_right(1);
    order
}

fn one_change(report: &ProposeReport, sink: &mut impl Write) -> io::Result<()> {
    let Some(change) = &report.one_change else {
        let none = if report.search.interrupted {
            "none was found before the search was ended"
        } else {
            "none; no size added, dropped or shifted gains without taking more memory"
        };
        return paragraph(sink, &format!("Best single change to the current ladders: {none}."), "", "  ");
    };
    let mut line = format!("Best single change to the current ladders: {}", change_in_words(change));
    let found = differences(&change.choice, &report.current, &deciding(report));
    if !found.is_empty() {
        line = format!("{line}: {}", found.join("; "));
    }
    paragraph(sink, &format!("{line}."), "", "  ")
}

fn change_in_words(change: &SingleChange) -> String {
    let what = match (change.from, change.to) {
        (Some(from), Some(to)) => format!("{} {from} to {to}", change.kind),
        (Some(size), None) | (None, Some(size)) => format!("{} {size}", change.kind),
        (None, None) => change.kind.to_string(),
    };
    if change.phase == "all" { what } else { format!("{what} among the {} sizes", change.phase) }
}

/// The differences of a choice to the current ladders in words, then its memory.
fn differences(choice: &LadderChoice, current: &LadderChoice, measures: &[Measure]) -> Vec<String> {
    let mut found: Vec<String> = measures
        .iter()
        .filter_map(|measure| {
            let words = measure.against_current(choice, current)?.replace('\n', " ");
            Some(format!("{} {words}", measure.label()))
        })
        .collect();
    let bytes = |choice: &LadderChoice| choice.figures.graph_memory_bytes.mean();
    if let (Some(now), Some(then)) = (bytes(current), bytes(choice)) {
        let [now, then] = [now, then].map(|bytes| number::row(&[Figure::from(bytes)], Scale::Gib).concat());
        found.push(format!("graph memory {now} GiB now, {then} GiB then"));
    }
    found
}

fn searched(report: &ProposeReport, sink: &mut impl Write) -> io::Result<()> {
    let search = &report.search;
    let plural =
        |count: u64, what: &str| format!("{} {what}{}", number::count(count), if count == 1 { "" } else { "s" });
    let ladders = plural(search.ladders, "ladder");
    if is_of_steps(report) {
        let line = format!("Searched on the given steps, which are priced and not simulated: {ladders}.");
        return paragraph(sink, &line, "", "  ");
    }
    let end = if search.interrupted { "ended early" } else { "until the histogram of steps stood still" };
    let line = format!(
        "Searched on {}: {ladders} in {}, {}, {end}.",
        seeds(&search.seeds),
        plural(search.runs, "run"),
        plural(search.rounds.into(), "round"),
    );
    let from = if search.check_seeds == search.seeds {
        "All figures here are from the same traffic.".to_owned()
    } else {
        format!("All figures here are from {}: traffic that the search did not see.", seeds(&search.check_seeds))
    };
    paragraph(sink, &format!("{line} {from}"), "", "  ")
}

fn seeds(seeds: &[u64]) -> String {
    let listed: Vec<String> = seeds.iter().map(ToString::to_string).collect();
    format!("seed{} {}", if seeds.len() == 1 { "" } else { "s" }, listed.join(", "))
}

fn notes(report: &ProposeReport, sink: &mut impl Write) -> io::Result<()> {
    let mut notes = vec![
        "Steps of a request: the time of all steps over the requests completed. Padded / rows run is a share of the rows \
         of graph steps; no graph is a share of all steps with tokens."
            .to_owned(),
    ];
    let seeds = report.search.check_seeds.len();
    if seeds > 1 {
        notes.push(format!(
            "± is half of the 95 % interval over {seeds} seeds (Student), of differences seed by seed on the same traffic; \
             not distinguishable means that it holds zero. It covers the traffic, not the costs: where one choice runs \
             graphs and the other does not, the launch costs decide; see how they were come by."
        ));
    } else {
        notes.push(
            "Nothing here is drawn at random: differences are exact for it, and may be others on other traffic."
                .to_owned(),
        );
    }
    notes.iter().try_for_each(|note| paragraph(sink, note, "- ", "  "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::figure;

    #[test]
    fn the_objective_comes_first_and_the_others_keep_their_order() {
        let names = |objective| order(objective).map(Measure::name);
        assert_eq!(names("goodput"), ["request_goodput", "p99_tpot_ms", "step_ms_per_request"]);
        assert_eq!(names("p99_tpot"), ["p99_tpot_ms", "request_goodput", "step_ms_per_request"]);
        assert_eq!(names("device_time"), ["step_ms_per_request", "request_goodput", "p99_tpot_ms"]);
    }

    #[test]
    fn every_figure_named_here_exists() {
        for measure in choices::OF_REQUESTS.iter().chain(&choices::OF_GRAPHS).chain(&DECIDING).chain([&STEP_MEAN]) {
            if let Measure::Figure(name) = measure {
                assert_eq!(figure(name).name, *name);
            }
        }
    }

    #[test]
    fn memory_is_readable_at_every_size() {
        assert_eq!([96 << 20, 1 << 30, 5 << 29].map(memory), ["96.0 MiB", "1.00 GiB", "2.50 GiB"]);
    }
}
