//! `steps.parquet`: one row a step.

use super::column::{Column, Kind};
use super::row::Row;
use crate::{CostTerms, StepRecord};

/// The columns of `steps.parquet`: `candidate`, `seed`, then the fields of [`StepRecord`] in their order. The prefills are two
/// lists of equal length, their chunks and their contexts.
#[must_use]
pub fn step_columns() -> Vec<Column> {
    use Kind::{Count32, Count64, Counts32, Flag, Text, Whole};
    let mut columns: Vec<Column> = [
        ("candidate", Text),
        ("seed", Count64),
        ("step", Count64),
        ("start_ns", Count64),
        ("end_ns", Count64),
        ("rank", Count32),
        ("mode", Text),
        ("descriptor.mode", Text),
        ("descriptor.tokens", Count32),
        ("descriptor.requests", Count32),
        ("descriptor.uniform", Count32),
        ("descriptor.max_query", Count32),
        ("descriptor.loras", Count32),
        ("descriptor.ubatches", Count32),
        ("descriptor.prefix_chunks", Count32),
        ("real_rows", Count32),
        ("padded_rows", Count32),
        ("prefills.chunk", Counts32),
        ("prefills.context", Counts32),
        ("decode_requests", Count32),
        ("decode_context", Count64),
        ("sampled", Count32),
        ("drafts", Count32),
        ("accepted", Count32),
        ("active_loras", Count32),
        ("running", Count32),
        ("waiting", Count32),
        ("preempted", Count32),
        ("kv_used_blocks", Count64),
        ("kv_total_blocks", Count64),
        ("fallback", Text),
        ("relaxed", Flag),
        ("artifact", Text),
        ("saved_ns", Whole),
    ]
    .map(|(name, kind)| Column::new(name, kind))
    .into();
    columns.extend(CostTerms::default().named().map(|(name, _)| Column::new(format!("cost.{name}"), Count64)));
    columns.extend(["outside_range", "derived"].map(|name| Column::new(name, Flag)));
    columns
}

/// One step, in the order of the columns.
pub(super) fn fill(row: &mut Row<'_>, candidate: &str, seed: u64, step: &StepRecord) {
    row.text(candidate).count64(seed).count64(step.step).count64(step.start_ns).count64(step.end_ns);
    row.count32(step.rank).text(&*step.mode);
    let graph = step.descriptor.as_ref();
    row.text(graph.map(|graph| &*graph.mode))
        .count32(graph.map(|graph| graph.tokens))
        .count32(graph.and_then(|graph| graph.requests))
        .count32(graph.and_then(|graph| graph.uniform))
        .count32(graph.and_then(|graph| graph.max_query))
        .count32(graph.map(|graph| graph.loras))
        .count32(graph.map(|graph| graph.ubatches))
        .count32(graph.and_then(|graph| graph.prefix_chunks));
    row.count32(step.real_rows)
        .count32(step.padded_rows)
        .counts32(step.prefills.iter().map(|[chunk, _]| *chunk))
        .counts32(step.prefills.iter().map(|[_, context]| *context))
        .count32(step.decode_requests)
        .count64(step.decode_context)
        .count32(step.sampled)
        .count32(step.drafts)
        .count32(step.accepted)
        .count32(step.active_loras)
        .count32(step.running)
        .count32(step.waiting)
        .count32(step.preempted)
        .count64(step.kv_used_blocks)
        .count64(step.kv_total_blocks)
        .text(step.fallback.as_deref())
        .flag(step.relaxed)
        .text(&*step.artifact)
        .whole(step.saved_ns);
    for (_, ns) in step.cost.named() {
        row.count64(ns);
    }
    row.flag(step.outside_range).flag(step.derived);
}
