//! Where the time of a step goes, and what a ladder takes before the first request.

use std::io;

use super::{drawn, named, others};
use crate::figures::figure;
use crate::page::chart::{Bar, Stack, stacks};
use crate::page::document::{Block, Figure, Section, Table};
use crate::text::number;
use crate::{CandidateReport, RunReport};

/// Device terms, then host terms: the figure and its name.
const DEVICE: [(&str, &str); 5] = [
    ("cost.dense_ms", "dense"),
    ("cost.attention_ms", "attention"),
    ("cost.head_ms", "head"),
    ("cost.drafting_ms", "drafting"),
    ("cost.gap_ms", "gaps"),
];
const HOST: [(&str, &str); 5] = [
    ("cost.launch_ms", "launch"),
    ("cost.step_overhead_ms", "step overhead"),
    ("cost.request_overhead_ms", "request overhead"),
    ("cost.bookkeeping_ms", "bookkeeping"),
    ("cost.update_ms", "updates"),
];
const STARTUP: [(&str, &str); 4] = [
    ("startup.memory_profiling_s", "memory profiling"),
    ("startup.compile_s", "compile"),
    ("startup.warm_up_s", "warm-up"),
    ("startup.capture_s", "capture"),
];

const BYTES_PER_GIB: f64 = (1_u64 << 30) as f64;

/// Cost terms, host and device apart.
pub(super) fn section(report: &RunReport) -> io::Result<Section> {
    let mut blocks = vec![
        Block::Figure(Box::new(terms(
            report,
            &DEVICE,
            "Device time of a step.",
            ["device time, ms a step", "nothing ran"],
            "Mean over all steps, term by term. Padding is in the dense term: a graph runs the rows of its rung.",
        )?)),
        Block::Figure(Box::new(terms(
            report,
            &HOST,
            "Host time of a step.",
            ["host time, ms a step", "nothing ran"],
            "Mean over all steps, term by term. Where launches run ahead of the device, host time counts only where it is the \
             longer of the two.",
        )?)),
    ];
    blocks.extend(others(report));
    Ok(Section::new("Where the time of a step goes", blocks))
}

/// Memory and start-up.
pub(super) fn memory(report: &RunReport) -> io::Result<Section> {
    let startup = terms(
        report,
        &STARTUP,
        "Start-up.",
        ["start-up, s", "no figure"],
        "What passes before the first request can be served, part by part.",
    )?;
    let mut blocks = vec![Block::Figure(Box::new(graphs(report)?)), Block::Figure(Box::new(startup))];
    blocks.extend(others(report));
    Ok(Section::new("Memory and start-up", blocks))
}

/// Bars of parts that sum to a whole.
fn terms(
    report: &RunReport,
    parts: &[(&str, &str)],
    caption: &str,
    [axis, absent]: [&str; 2],
    description: &str,
) -> io::Result<Figure> {
    let mean = |candidate: &CandidateReport, name: &str| (figure(name).get)(candidate).mean();
    let bars: Vec<Bar> = drawn(report)
        .map(|(place, candidate)| Bar {
            name: named(place, candidate),
            parts: parts
                .iter()
                .enumerate()
                .filter_map(|(part, (name, _))| Some((part, mean(candidate, name)?)))
                .collect(),
        })
        .collect();
    let names: Vec<&str> = parts.iter().map(|(_, name)| *name).collect();
    let mut table = Table::new(axis, &["candidate"]);
    table.columns.extend(names.iter().map(|name| (*name).to_owned()));
    for (place, candidate) in report.candidates.iter().enumerate() {
        let cells = parts.iter().map(|(name, _)| {
            let spec = figure(name);
            number::row(&[*(spec.get)(candidate)], spec.scale).concat()
        });
        table.row(std::iter::once(named(place, candidate)).chain(cells));
    }
    Ok(Figure {
        caption: caption.to_owned(),
        description: description.to_owned(),
        svg: stacks(&Stack { name: axis, parts: &names, groups: &[bars], absent })?,
        table,
    })
}

/// The model's figure beside the engine's own.
fn graphs(report: &RunReport) -> io::Result<Figure> {
    let gib = |figure: &crate::Figure| figure.mean().map(|bytes| bytes / BYTES_PER_GIB);
    let groups: Vec<Vec<Bar>> = drawn(report)
        .map(|(place, candidate)| {
            let model = gib(&candidate.graph_memory_bytes).map(|model| (0, model));
            let mut bars = vec![Bar { name: named(place, candidate), parts: model.into_iter().collect() }];
            if let Some(estimate) = gib(&candidate.graph_estimate_bytes) {
                bars.push(Bar { name: "engine's estimate".to_owned(), parts: vec![(1, estimate)] });
            }
            bars
        })
        .collect();
    let shown = [
        "descriptors_captured",
        "cuda_graphs",
        "graph_memory_bytes",
        "graph_estimate_bytes",
        "kv_tokens",
        "kv_tokens_lost",
        "peak_kv_usage",
        "preemptions",
    ]
    .map(figure);
    let mut table = Table::new("Graphs and the KV pool", &["candidate"]);
    table.columns.extend(shown.iter().map(|spec| spec.label.trim().to_owned()));
    for (place, candidate) in report.candidates.iter().enumerate() {
        let cells = shown.iter().map(|spec| number::row(&[*(spec.get)(candidate)], spec.scale).concat());
        table.row(std::iter::once(named(place, candidate)).chain(cells));
    }
    let names = ["graph memory as the model has it", "as the engine estimates it before capturing"];
    Ok(Figure {
        caption: "Device memory of the graphs.".to_owned(),
        description: "Memory that graphs hold is not there for the KV pool; fewer blocks mean more preemption."
            .to_owned(),
        svg: stacks(&Stack { name: "graph memory, GiB", parts: &names, groups: &groups, absent: "no figure" })?,
        table,
    })
}
