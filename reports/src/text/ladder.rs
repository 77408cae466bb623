//! `sim ladder` as text: sizes, padding, descriptors in capture order.

use std::io::{self, Write};

use super::grid::{Align, Grid};
use super::prose::paragraph;
use super::{engine_line, number};
use crate::{DescriptorRecord, LadderCandidate, LadderReport, LadderSizes};

/// Writes the report of `sim ladder`, warnings left out.
///
/// # Errors
/// The I/O error of the sink, unchanged.
pub fn ladder(report: &LadderReport, sink: &mut impl Write) -> io::Result<()> {
    paragraph(sink, &engine_line(&report.engine), "", "  ")?;
    writeln!(sink)?;
    overview(&report.candidates, sink)?;
    for candidate in &report.candidates {
        writeln!(sink)?;
        detail(candidate, sink)?;
    }
    Ok(())
}

fn overview(candidates: &[LadderCandidate], sink: &mut impl Write) -> io::Result<()> {
    let columns = [
        ("candidate", Align::Left),
        ("cudagraph_mode", Align::Left),
        ("sizes", Align::Right),
        ("ceiling", Align::Right),
        ("FULL", Align::Right),
        ("PIECEWISE", Align::Right),
        ("descriptors", Align::Right),
        ("CUDA graphs", Align::Right),
        ("capture, s", Align::Right),
    ];
    let mut grid = Grid::new(&columns).wrap(0, 24);
    for LadderCandidate { name, cudagraph_mode, ceiling, counts, capture_s, .. } in candidates {
        let dash = || number::UNDEFINED.to_owned();
        grid.row([
            name.clone(),
            cudagraph_mode.clone(),
            number::count(counts.sizes),
            ceiling.map_or_else(dash, |ceiling| ceiling.to_string()),
            number::count(counts.full),
            number::count(counts.piecewise),
            number::count(counts.descriptors),
            counts.cuda_graphs.map_or_else(dash, number::count),
            number::option(*capture_s, 1),
        ]);
    }
    grid.write(sink)
}

fn detail(candidate: &LadderCandidate, sink: &mut impl Write) -> io::Result<()> {
    writeln!(sink, "{}", candidate.name)?;
    let resolved = &candidate.cudagraph_mode;
    match &candidate.requested_mode {
        Some(requested) if requested != resolved => {
            writeln!(sink, "  mode           {resolved} (asked for: {requested})")?;
        }
        _ => writeln!(sink, "  mode           {resolved}")?,
    }
    let indent = " ".repeat(17);
    if candidate.ladders.len() > 1 {
        for ladder in &candidate.ladders {
            let sizes = format!("{}: {}", ladder.unit, number::sizes(&ladder.sizes, usize::MAX));
            paragraph(sink, &sizes, &format!("  {:<13}  ", format!("{} sizes", ladder.phase)), &indent)?;
        }
    } else {
        let sizes = number::sizes(&candidate.capture_sizes, usize::MAX);
        paragraph(sink, &sizes, "  capture sizes  ", &indent)?;
    }
    if !candidate.padded.is_empty() {
        let spans: Vec<String> = candidate
            .padded
            .iter()
            .map(|span| format!("{}->{}", crate::rows::span([span.first, span.last]), span.padded))
            .collect();
        paragraph(sink, &spans.join(" "), "  padded to      ", &indent)?;
    }
    if candidate.compile_ranges.len() > 1 || !candidate.compile_sizes.is_empty() {
        let sizes = candidate.compile_sizes.iter().map(u32::to_string);
        let ranges = candidate.compile_ranges.iter().map(|&range| crate::rows::span(range));
        let versions: Vec<String> = sizes.chain(ranges).collect();
        paragraph(sink, &versions.join(" "), "  compiled for   ", &indent)?;
    }
    let not_priced =
        |sizes: &[u32]| format!("{} (apart from the rest, and not priced)", number::sizes(sizes, usize::MAX));
    if !candidate.encoder_budgets.is_empty() {
        paragraph(sink, &not_priced(&candidate.encoder_budgets), "  encoder        ", &indent)?;
    }
    if !candidate.decoder_replay_sizes.is_empty() {
        paragraph(sink, &not_priced(&candidate.decoder_replay_sizes), "  decoder replay ", &indent)?;
    }
    captures(&candidate.descriptors, sink)
}

/// Capture sizes in one line, each ladder cut to about `width`: `decode 1-8, prefill 4-512 tokens` where kinds of step
/// have ladders of their own.
pub(super) fn ladders(ladders: &[LadderSizes], capture_sizes: &[u32], width: usize) -> String {
    if ladders.len() < 2 {
        return number::sizes(capture_sizes, width);
    }
    let each =
        |ladder: &LadderSizes| format!("{} ({}) {}", ladder.phase, ladder.unit, number::sizes(&ladder.sizes, width));
    ladders.iter().map(each).collect::<Vec<_>>().join("; ")
}

/// The descriptors in capture order. Neighbours of one kind share a line, and so do neighbouring sizes that are captured
/// for the same counts of LoRA adapters.
fn captures(descriptors: &[DescriptorRecord], sink: &mut impl Write) -> io::Result<()> {
    if descriptors.is_empty() {
        return Ok(());
    }
    let adapters = descriptors.iter().any(|descriptor| descriptor.loras != 0);
    let prefixes = descriptors.iter().any(|descriptor| descriptor.prefix_chunks.is_some());
    let each = match (adapters, prefixes) {
        (true, true) => ", LoRA counts and chunks of cached prefix in turn",
        (true, false) => ", LoRA counts in turn",
        (false, true) => ", chunks of cached prefix in turn",
        (false, false) => "",
    };
    let heading = "captured in this order, tokens (tokens/requests where the key names another count)";
    writeln!(sink, "  {heading}{each}:")?;
    for group in descriptors.chunk_by(|a, b| kind(a) == kind(b)) {
        let sizes: Vec<&[DescriptorRecord]> = group.chunk_by(|a, b| tokens(a) == tokens(b)).collect();
        for line in sizes.chunk_by(|a, b| loras(a).eq(loras(b)) && prefix_chunks(a).eq(prefix_chunks(b))) {
            let tokens: Vec<String> = line.iter().map(|size| tokens(&size[0])).collect();
            let mut heading = kind(&group[0]);
            if adapters {
                heading = format!("{heading} loras={}", listed_once(loras(line[0])));
            }
            if line[0].iter().any(|descriptor| descriptor.prefix_chunks.is_some()) {
                heading = format!("{heading} prefix_chunks={}", listed_once(prefix_chunks(line[0])));
            }
            paragraph(sink, &format!("{heading}: {}", tokens.join(" ")), "    ", "      ")?;
        }
    }
    Ok(())
}

/// The counts of LoRA adapters of some descriptors.
fn loras(descriptors: &[DescriptorRecord]) -> impl Iterator<Item = u32> {
    descriptors.iter().map(|descriptor| descriptor.loras)
}

/// The chunks of cached prefix of some descriptors, 0 where a graph takes none.
fn prefix_chunks(descriptors: &[DescriptorRecord]) -> impl Iterator<Item = u32> {
    descriptors.iter().map(|descriptor| descriptor.prefix_chunks.unwrap_or(0))
}

/// Each count where it comes first, with commas.
fn listed_once(counts: impl Iterator<Item = u32>) -> String {
    let mut listed = Vec::new();
    for count in counts.map(|count| count.to_string()) {
        if !listed.contains(&count) {
            listed.push(count);
        }
    }
    listed.join(",")
}

/// What neighbouring descriptors share: everything but their size, adapters and cached prefix.
fn kind(descriptor: &DescriptorRecord) -> String {
    let mut parts = vec![descriptor.mode.to_string()];
    parts.extend(descriptor.uniform.map(|uniform| format!("uniform={uniform}")));
    parts.extend(descriptor.max_query.map(|max_query| format!("max_query={max_query}")));
    parts.extend((descriptor.ubatches > 1).then(|| format!("ubatches={}", descriptor.ubatches)));
    parts.join(" ")
}

fn tokens(descriptor: &DescriptorRecord) -> String {
    match descriptor.requests {
        Some(requests) if requests != descriptor.tokens => format!("{}/{requests}", descriptor.tokens),
        _ => descriptor.tokens.to_string(),
    }
}
