//! Cost profiles with a known answer.

use calibrate::profile::{Curve, Overlap, Profile};

/// A profile in which every step takes `step_us`, whatever it holds and whatever runs it, and graphs take no memory.
pub(crate) fn flat(step_us: f64) -> Profile {
    let mut profile = Profile::builtin("textbook").expect("a built-in profile");
    profile.machine.dense.figures = Curve::Constant(step_us);
    make_graphs_free(&mut profile);
    profile
}

/// Takes away all that a graph could change: rows, launches, bookkeeping and padded requests cost the same or nothing,
/// and graphs take no memory. Attention, head and overhead of the real requests stay as they are.
pub(crate) fn make_graphs_free(profile: &mut Profile) {
    let (machine, engine) = (&mut profile.machine, &mut profile.engine);
    machine.dense.figures = Curve::Constant(machine.dense.figures.at(8.0).value);
    machine.launch.figures.launch_us = 0.0;
    machine.replay.figures.fixed_us = 0.0;
    machine.replay.figures.node_us = 0.0;
    engine.dispatch.figures.eager_us = 0.0;
    engine.dispatch.figures.compiled_us = 0.0;
    engine.host.figures.padding_bookkeeping_us = 0.0;
    if let Some(attention) = engine.attention.as_mut().or(machine.attention.as_mut()) {
        attention.figures.padded_request_us = 0.0;
    }
    let pool = &mut machine.pool.figures;
    for bytes in [&mut pool.base, &mut pool.per_row, &mut pool.full_executable, &mut pool.piecewise_executable] {
        bytes.0 = 0;
    }
}

/// A built-in profile with the given overlap.
pub(crate) fn builtin(name: &str, overlap: Overlap) -> Profile {
    Profile { overlap, ..Profile::builtin(name).expect("a built-in profile") }
}
