//! The page of a proposal.

use std::io;

use super::document::{Block, Part, Section, Table};
use super::run::{all_figures, front_charts, provenance};
use crate::text::{self, number};
use crate::{CandidateReport, Difference, LadderChoice, ProposeQuestion, ProposeReport, Scale, Verdict};

/// The proposal as a part of a page.
///
/// # Errors
/// That of a drawing, which has no reason to fail.
pub fn proposal(name: &str, report: &ProposeReport) -> io::Result<Part> {
    let choices = choices(report);
    let candidates: Vec<CandidateReport> =
        choices.iter().map(|(name, choice)| CandidateReport { name: name.clone(), ..choice.figures.clone() }).collect();
    let all = Block::Folded("All figures".to_owned(), vec![Block::Table(all_figures(&candidates))]);
    let mut sections = vec![Section::brief("Choices", vec![Block::Table(table(&choices)), all])];
    sections.push(Section::new("Pareto front: service against memory and start-up", front_charts(&candidates)?));
    sections.push(Section::brief("What each rung is worth", vec![rungs(report)]));
    sections.push(Section::brief("How far the answer holds", vec![sensitivity(report)]));
    sections.push(Section::brief("Flags", flags(report)));
    sections.push(provenance(&report.profile));
    sections.push(Section::brief("Warnings", vec![Block::Warnings(report.warnings.clone())]));
    sections.push(Section::brief("How it was found", vec![Block::Table(search(name, report))]));
    let requests = report.scenario.requests.map(number::requests);
    let traffic: Vec<String> = requests.into_iter().chain([text::slo_line(&report.scenario)]).collect();
    let facts = [
        ("Scenario", report.scenario.name.clone()),
        ("Engine", text::engine_line(&report.engine)),
        ("Traffic", traffic.join("; ")),
        ("Asked for", asked(&report.asked)),
    ];
    Ok(Part {
        title: format!("Proposal for {}", report.scenario.name),
        verdict: report.verdict.sentence.clone(),
        facts: facts.map(|(name, text)| (name.to_owned(), text)).into(),
        sections,
    })
}

/// Objective and budgets in words.
fn asked(asked: &ProposeQuestion) -> String {
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let mut parts = vec![format!("objective {}", asked.objective.replace('_', " "))];
    parts.extend(asked.graph_memory_bytes.map(|limit| format!("graph memory <= {} GiB", number::fixed(gib(limit), 2))));
    parts.extend(asked.startup_s.map(|limit| format!("start-up <= {limit} s")));
    parts.extend(asked.descriptors.map(|limit| format!("descriptors <= {}", number::count(limit.into()))));
    if parts.len() == 1 {
        parts.push("no budget".to_owned());
    }
    parts.extend((!asked.also.is_empty()).then(|| format!("also varied: {}", asked.also.join(", "))));
    parts.join("; ")
}

/// Current, proposal, single change and front, each once, with names of their own.
fn choices(report: &ProposeReport) -> Vec<(String, &LadderChoice)> {
    let mut choices = vec![("current".to_owned(), &report.current)];
    let mut add = |name: String, choice| {
        let same = |(_, known): &&mut (String, &LadderChoice)| is_same(known, choice);
        match choices.iter_mut().find(same) {
            // What lies on the front under another name already is no second choice.
            Some(_) if name.starts_with("front") => {}
            Some((known, _)) => *known = format!("{known}, {name}"),
            None => choices.push((name, choice)),
        }
    };
    add("proposal".to_owned(), &report.proposal);
    if let Some(change) = &report.one_change {
        let sizes = [change.from, change.to].into_iter().flatten().map(|size| size.to_string());
        let sizes = sizes.collect::<Vec<_>>().join(" to ");
        add(format!("one change: {} {sizes}", change.kind), &change.choice);
    }
    for (place, choice) in report.front.iter().enumerate() {
        add(format!("front {}", place + 1), choice);
    }
    choices
}

fn is_same(one: &LadderChoice, other: &LadderChoice) -> bool {
    one.lists == other.lists && one.settings == other.settings
}

fn table(choices: &[(String, &LadderChoice)]) -> Table {
    let columns = [
        "choice",
        "lists",
        "settings",
        "goodput, requests/s",
        "throughput, requests/s",
        "TPOT p99, ms",
        "step time of a request, ms",
        "graphs, GiB",
        "start-up, s",
        "descriptors",
    ];
    let mut table = Table::of_words("Ladders with what they come to", &columns);
    for (place, (name, choice)) in choices.iter().enumerate() {
        let figures = &choice.figures;
        let lists = choice.lists.iter().map(|list| format!("{} {}", list.phase, number::sizes(&list.sizes, 60)));
        table.row([
            format!("{} {name}", super::letter(place)),
            lists.collect::<Vec<_>>().join("\n"),
            choice.settings.join("\n"),
            number::row(&[figures.request_goodput], Scale::Plain).concat(),
            number::row(&[figures.request_throughput], Scale::Plain).concat(),
            number::row(&[figures.p99_tpot_ms], Scale::Plain).concat(),
            number::row(&[choice.step_ms_per_request], Scale::Plain).concat(),
            number::row(&[figures.graph_memory_bytes], Scale::Gib).concat(),
            number::row(&[figures.startup_s], Scale::Plain).concat(),
            number::row(&[figures.descriptors_captured], Scale::Plain).concat(),
        ]);
    }
    table
}

fn rungs(report: &ProposeReport) -> Block {
    if report.rungs.is_empty() {
        return Block::Text("The proposal has no rung whose worth was found.".to_owned());
    }
    let columns = [
        "rung",
        "steps, %",
        "rows of its steps",
        "goodput with it",
        "TPOT p99 with it, ms",
        "step time of a request with it, ms",
        "mean step with it, ms",
        "memory, MiB",
        "start-up, s",
    ];
    let mut table = Table::of_words("With each rung minus without it", &columns);
    for rung in &report.rungs {
        let difference = |found: &Option<Difference>| found.as_ref().map_or_else(String::new, in_words);
        table.row([
            format!("{} {}", rung.phase, rung.size),
            number::fixed(100.0 * rung.share_of_steps, 2),
            rung.rows.map_or_else(String::new, |[first, last]| format!("{first} to {last}")),
            difference(&rung.request_goodput),
            difference(&rung.p99_tpot_ms),
            difference(&rung.step_ms_per_request),
            difference(&rung.mean_step_ms),
            number::fixed(rung.memory_bytes as f64 / f64::from(1 << 20), 1),
            number::fixed(rung.startup_s, 2),
        ]);
    }
    Block::Table(table)
}

fn in_words(difference: &Difference) -> String {
    let verdict = match difference.verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::Equal => return "equal".to_owned(),
        Verdict::NotDistinguishable => "not distinguishable",
    };
    format!("{:+.4}, {verdict}", difference.mean)
}

fn sensitivity(report: &ProposeReport) -> Block {
    if report.sensitivity.is_empty() {
        return Block::Text("It was not tried.".to_owned());
    }
    let mut table = Table::of_words(
        "The proposal against the current ladders as one thing moves",
        &["what", "factor", "verdict there", "regret, %", "holds between"],
    );
    for what in &report.sensitivity {
        for (place, point) in what.points.iter().enumerate() {
            let first = |text: String| if place == 0 { text } else { String::new() };
            table.row([
                first(what.what.replace('_', " ")),
                point.factor.to_string(),
                point.verdict.replace('_', " "),
                number::fixed(100.0 * point.regret, 2),
                first(format!("{} and {}", what.holds[0], what.holds[1])),
            ]);
        }
    }
    Block::Table(table)
}

fn flags(report: &ProposeReport) -> Vec<Block> {
    let mut blocks = Vec::new();
    for flags in &report.flags {
        let exact = match flags.exact {
            Some(true) => ": by its own rules the engine makes exactly these graphs of them",
            Some(false) => ": the engine makes other graphs of them",
            None => "",
        };
        blocks.push(Block::Text(format!("{}{exact}.", flags.target)));
        let mut lines: Vec<String> = flags.environment.clone();
        lines.push(if flags.shell.is_empty() { "(no flag is needed)".to_owned() } else { flags.shell.clone() });
        lines.extend(flags.file.as_ref().map(|file| format!("\n# {}\n{}", file.name, file.text)));
        blocks.push(Block::Lines(lines.join("\n")));
        blocks.extend(flags.notes.iter().cloned().map(Block::Text));
    }
    if blocks.is_empty() {
        blocks.push(Block::Text("No engine version was asked for.".to_owned()));
    }
    blocks
}

fn search(name: &str, report: &ProposeReport) -> Table {
    let list = |seeds: &[u64]| seeds.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let search = &report.search;
    let mut table = Table::of_words("The search", &["", "value"]);
    let ended = if search.interrupted { "ended before it was done: the best so far" } else { "done" };
    for (name, value) in [
        ("ladders simulated", number::count(search.ladders)),
        ("runs", number::count(search.runs)),
        ("rounds", search.rounds.to_string()),
        ("search", ended.to_owned()),
        ("seeds of the search", list(&search.seeds)),
        ("seeds of the figures", list(&search.check_seeds)),
        ("scenario, SHA-256", report.scenario.sha256.clone()),
        ("profile, SHA-256", report.profile.sha256.clone()),
        ("file", name.to_owned()),
    ] {
        table.row([name.to_owned(), value]);
    }
    table
}
