//! Launches and replays of this model's steps, and the memory of its graphs.

use std::io::{self, Write};

use kernels::units::Bytes;

use crate::graph_mode::Mode;
use crate::layout::{heading, item, number, sentence};
use crate::profile::{Group, Profile};

/// The interval of a figure in words; nothing where none is stated.
fn between<T>(group: &Group<T>, figure: &str) -> String {
    let intervals = group.measured.as_ref().map_or(&[][..], |measured| measured.of(figure));
    match intervals {
        [interval] => format!(" ({} to {})", number(interval.low), number(interval.high)),
        _ => String::new(),
    }
}

pub(super) fn launches(profile: &Profile, out: &mut impl Write) -> io::Result<()> {
    let (machine, engine) = (&profile.machine, &profile.engine);
    let (launch_us, replay) = (machine.launch.figures.launch_us, machine.replay.figures);
    let (ops, dispatch) = (engine.ops.figures, engine.dispatch.figures);
    heading("Launches and replays: host time", out)?;
    item("launch", &format!("{} us{}", number(launch_us), between(&machine.launch, "launch_us")), out)?;
    let (fixed, node) = (between(&machine.replay, "fixed_us"), between(&machine.replay, "node_us"));
    let (fixed_us, node_us) = (number(replay.fixed_us), number(replay.node_us));
    item("replay", &format!("{fixed_us} us{fixed}, and for each node {node_us} us{node}"), out)?;
    let update = machine.update.figures;
    let (fixed, node) = (between(&machine.update, "update_us"), between(&machine.update, "node_us"));
    let nodes = match update.node_us {
        0.0 => String::new(),
        node_us => format!(", and for each node {} us{node}", number(node_us)),
    };
    item("update", &format!("{} us{fixed}{nodes}", number(update.update_us)), out)?;
    let nodes_us = f64::from(ops.graph_nodes) * replay.node_us;
    let pieces = f64::from(profile.identity.model.attention_layers() + 1);
    let attention_us = f64::from(ops.attention_launches) * (launch_us + dispatch.compiled_us);
    let (full_us, piecewise_us) = (replay.fixed_us + nodes_us, pieces * replay.fixed_us + nodes_us + attention_us);
    sentence("One step of this model on the engine:", out)?;
    item("FULL", &format!("{} us (nodes: {})", number(full_us), ops.graph_nodes), out)?;
    let attention = format!("attention launches: {}", ops.attention_launches);
    item("PIECEWISE", &format!("{} us (pieces: {pieces}, {attention})", number(piecewise_us)), out)?;
    let kind = engine.dispatch.provenance.kind;
    for (name, ops, dispatch_us) in
        [("compiled", ops.compiled, dispatch.compiled_us), ("eager", ops.eager, dispatch.eager_us)]
    {
        let (launches_us, dispatch_us) = (f64::from(ops) * launch_us, f64::from(ops) * dispatch_us);
        let (sum, launches, dispatch) = (number(launches_us + dispatch_us), number(launches_us), number(dispatch_us));
        item(name, &format!("{sum} us (launches: {ops}, {launches} us; {kind} dispatch {dispatch} us)"), out)?;
    }
    Ok(())
}

pub(super) fn memory(profile: &Profile, out: &mut impl Write) -> io::Result<()> {
    let pool = profile.machine.pool.figures;
    let top = profile.captured_rows().last().copied().unwrap_or(512.0);
    heading("Memory and time of captures", out)?;
    let whole = Bytes(pool.base.0 + (pool.per_row.0 as f64 * top) as u64);
    let (base, per_row) = (pool.base, pool.per_row);
    item("pool", &format!("{base}, and {per_row} a row of the largest rung: {whole} at {top:.0} rows"), out)?;
    let capture = profile.machine.capture.figures;
    for (mode, bytes, seconds) in [
        (Mode::Full, pool.full_executable, capture.full_s),
        (Mode::Piecewise, pool.piecewise_executable, capture.piecewise_s),
    ] {
        let standing = if profile.is_captured(mode) { "" } else { " (not captured: made of the other mode's figures)" };
        let (time, unit) = if seconds < 1.0 { (seconds * 1e3, "ms") } else { (seconds, "s") };
        item(&mode.to_string(), &format!("{bytes} and {} {unit} for each rung{standing}", number(time)), out)?;
    }
    Ok(())
}
