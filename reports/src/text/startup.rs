//! `sim startup` as text: the parts side by side, then each candidate phase by phase.

use std::io::{self, Write};

use super::grid::{Align, Grid};
use super::prose::paragraph;
use super::provenance::provenance;
use super::{engine_line, number};
use crate::{CaptureReport, StartMemory, StartupCandidate, StartupReport};

/// Writes the report of `sim startup`, warnings left out.
///
/// # Errors
/// The I/O error of the sink, unchanged.
pub fn startup(report: &StartupReport, sink: &mut impl Write) -> io::Result<()> {
    paragraph(sink, &engine_line(&report.engine), "", "  ")?;
    writeln!(sink)?;
    overview(&report.candidates, sink)?;
    for candidate in &report.candidates {
        writeln!(sink)?;
        detail(candidate, sink)?;
    }
    writeln!(sink)?;
    provenance(&report.profile, sink)?;
    writeln!(sink)?;
    paragraph(
        sink,
        "Times count from the loaded model: process start and weight loading are the same for every candidate.",
        "- ",
        "  ",
    )?;
    let [about_memory, with_warm_up] = if report.engine.name == "sglang" { SGLANG_NOTES } else { VLLM_NOTES };
    let is_without = report.warnings.iter().any(|warning| warning.code == WITHOUT_ENGINE);
    let about_captures = if is_without { WITHOUT_WARM_UP_NOTE } else { with_warm_up };
    [about_memory, about_captures].iter().try_for_each(|note| paragraph(sink, note, "- ", "  "))
}

/// The code of the warning that the profile's captures lack the engine's part.
const WITHOUT_ENGINE: &str = "captures_without_engine";

const WITHOUT_WARM_UP_NOTE: &str =
    "The seconds of a capture are the driver's alone, as the warning says; the first capture of a start takes longer.";

const VLLM_NOTES: [&str; 2] = [
    "The profiling run is the model's first, so it is also what compiles the model: a start-up log shows compilation \
     before the size of the KV cache.",
    "The seconds of a capture hold its one warm-up run; the first capture of a start takes longer.",
];

const SGLANG_NOTES: [&str; 2] = [
    "The KV pool is a share of the device, taken before any capture: graphs and activations are paid from the rest.",
    "The seconds of a capture are the profile's, its two warm-up runs included; the first capture of a start takes longer.",
];

fn gib(bytes: u64) -> String {
    number::fixed(bytes as f64 / f64::from(1 << 30), 2)
}

fn blocks(blocks: Option<u32>) -> String {
    blocks.map_or_else(|| number::UNDEFINED.to_owned(), |blocks| number::count(blocks.into()))
}

fn overview(candidates: &[StartupCandidate], sink: &mut impl Write) -> io::Result<()> {
    let columns = [
        ("candidate", Align::Left),
        ("start-up, s", Align::Right),
        ("graphs", Align::Right),
        ("graph memory, GiB", Align::Right),
        ("estimated, GiB", Align::Right),
        ("set aside, GiB", Align::Right),
        ("KV blocks", Align::Right),
    ];
    let mut grid = Grid::new(&columns).wrap(0, 24);
    for StartupCandidate { name, startup_s, captures, memory, .. } in candidates {
        grid.row([
            name.clone(),
            number::fixed(*startup_s, 1),
            number::count(captures.len() as u64),
            gib(memory.graph_memory_bytes),
            memory.graph_estimate_bytes.map_or_else(|| number::UNDEFINED.to_owned(), gib),
            gib(memory.graph_set_aside_bytes),
            number::count(memory.kv_blocks.into()),
        ]);
    }
    grid.write(sink)
}

fn detail(candidate: &StartupCandidate, sink: &mut impl Write) -> io::Result<()> {
    let columns = [
        (candidate.name.as_str(), Align::Left),
        ("at, s", Align::Right),
        ("takes, s", Align::Right),
        ("what", Align::Left),
    ];
    let mut grid = Grid::new(&columns).wrap(0, 24);
    for phase in &candidate.phases {
        grid.row([
            phase.phase.replace('_', " ").replace("kv", "KV"),
            number::fixed(phase.at_s, 2),
            number::fixed(phase.seconds, 2),
            phase.detail.clone(),
        ]);
    }
    grid.write(sink)?;
    captures(&candidate.captures, sink)?;
    memory(&candidate.memory, sink)
}

/// The captures in order; neighbours that differ in their size alone share a line.
fn captures(captures: &[CaptureReport], sink: &mut impl Write) -> io::Result<()> {
    if captures.is_empty() {
        return Ok(());
    }
    writeln!(sink, "  captured in this order, tokens: seconds each, growth of the pool and executables each, MiB")?;
    let mib = |bytes: u64| number::fixed(bytes as f64 / f64::from(1 << 20), 2);
    let alike = |a: &CaptureReport, b: &CaptureReport| {
        let kind = |capture: &CaptureReport| {
            let seconds = number::fixed(capture.seconds, 3);
            (capture.descriptor.mode.clone(), seconds, capture.pool_bytes, capture.executables_bytes)
        };
        kind(a) == kind(b)
    };
    for group in captures.chunk_by(alike) {
        let first = &group[0];
        let tokens: Vec<String> = group.iter().map(|capture| capture.descriptor.tokens.to_string()).collect();
        let line = format!(
            "{} {}: {} s, pool {}, executables {}",
            first.descriptor.mode,
            tokens.join(" "),
            number::fixed(first.seconds, 3),
            mib(first.pool_bytes),
            mib(first.executables_bytes)
        );
        paragraph(sink, &line, "    ", "      ")?;
    }
    Ok(())
}

fn memory(memory: &StartMemory, sink: &mut impl Write) -> io::Result<()> {
    let estimate = memory
        .graph_estimate_bytes
        .map_or_else(|| "not estimated by the engine".to_owned(), |bytes| format!("estimated {}", gib(bytes)));
    let lines = [
        format!(
            "GiB of {}: weights {}, activations {}, KV pool {}, graphs {} (pool {}, executables {}; {estimate}, set aside \
             {})",
            gib(memory.device_bytes),
            gib(memory.weights_bytes),
            gib(memory.activation_bytes),
            gib(memory.kv_bytes),
            gib(memory.graph_memory_bytes),
            gib(memory.graph_pool_bytes),
            gib(memory.graph_executables_bytes),
            gib(memory.graph_set_aside_bytes),
        ),
        format!(
            "KV blocks: {} in force; {} without graphs, {} less the estimate, {} less what the graphs hold",
            number::count(memory.kv_blocks.into()),
            blocks(memory.kv_blocks_without_graphs),
            blocks(memory.kv_blocks_less_estimate),
            blocks(memory.kv_blocks_less_actual),
        ),
    ];
    lines.iter().try_for_each(|line| paragraph(sink, line, "  ", "    "))
}
