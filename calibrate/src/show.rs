//! Profiles as text for people.

mod measurement;

use std::io::{self, Write};

use crate::counted::counted;
use crate::layout::{heading, row, sentence};
use crate::profile::{Attention, Curve, Kind, Overlap, PlanningRange, Profile, Provenance, Surface};

/// What stands above lines of profiles.
pub(crate) fn line_heads(out: &mut impl Write) -> io::Result<()> {
    columns(["profile", "device", "model", "groups of figures by origin"], out)
}

/// One line: name, device, model, and how many groups are of which origin.
pub(crate) fn line(profile: &Profile, out: &mut impl Write) -> io::Result<()> {
    let groups = profile.groups();
    let counts = Kind::ALL.into_iter().filter_map(|kind| {
        let count = groups.iter().filter(|(_, provenance)| provenance.kind == kind).count();
        (count > 0).then(|| format!("{count} {kind}"))
    });
    let counts = counts.collect::<Vec<_>>().join(", ");
    let identity = &profile.identity;
    columns([&profile.name, &identity.device, &identity.model_name, &counts], out)
}

fn columns([name, device, model, counts]: [&str; 4], out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{name:<22} {device:<24} {model:<26} {counts}")
}

/// Everything a reader needs to judge a profile: what it is about, then group by group the figures and their origin.
///
/// # Errors
/// The I/O error of the sink, unchanged.
pub fn profile(profile: &Profile, out: &mut impl Write) -> io::Result<()> {
    header(profile, out)?;
    for group in profile.each_group() {
        heading(&format!("{}: {}", group.name, group.provenance.kind), out)?;
        for figure in figures(profile, group.name) {
            sentence(&figure, out)?;
        }
        measurement::group(&group, out)?;
        origin(group.provenance, out)?;
    }
    Ok(())
}

fn header(profile: &Profile, out: &mut impl Write) -> io::Result<()> {
    let identity = &profile.identity;
    let model = &identity.model;
    let or_unstated = |text: &Option<String>| text.clone().unwrap_or_else(|| "not stated".to_owned());
    row("profile  ", &profile.name, out)?;
    row("device   ", &format!("{} (driver: {})", identity.device, or_unstated(&identity.driver)), out)?;
    row("host CPU ", &or_unstated(&identity.host_cpu), out)?;
    row("engine   ", &format!("{} (version: {})", identity.engine, or_unstated(&identity.engine_version)), out)?;
    let geometry = format!(
        "{}: {}, hidden {}, {} query and {} KV heads; weights {}, KV {} per token",
        identity.model_name,
        counted(model.layers, "layer"),
        model.hidden,
        model.query_heads,
        model.kv_heads,
        model.weights_bytes(),
        model.kv_bytes_per_token(),
    );
    row("model    ", &geometry, out)?;
    let overlap = match profile.overlap {
        Overlap::Pipelined => "pipelined: a step takes about the longer of host and device time",
        Overlap::Additive => "additive: a step takes host plus device time",
    };
    row("overlap  ", overlap, out)?;
    profile.measurement.as_ref().map_or(Ok(()), |measurement| measurement::run(measurement, out))
}

fn origin(provenance: &Provenance, out: &mut impl Write) -> io::Result<()> {
    let rows = [
        ("source", Some(&provenance.source)),
        ("licence", provenance.licence.as_ref()),
        ("method", provenance.method.as_ref()),
        ("valid", provenance.valid.as_ref()),
        ("range", provenance.range.as_ref()),
    ];
    for (name, text) in rows {
        if let Some(text) = text {
            row(&format!("    {name:<8} "), text, out)?;
        }
    }
    Ok(())
}

fn figures(profile: &Profile, table: &str) -> Vec<String> {
    let (machine, engine) = (&profile.machine, &profile.engine);
    match table {
        "machine.memory" => vec![machine.memory.figures.total.to_string()],
        "machine.dense" => {
            curve(&machine.dense.figures, "rows", &[1.0, 64.0, 72.0, 128.0, 136.0, 256.0, 512.0, 8192.0])
        }
        "machine.head" => curve(&machine.head.figures, "sequences", &[1.0, 64.0, 256.0]),
        "machine.launch" => vec![format!("{} us per launch", machine.launch.figures.launch_us)],
        "machine.replay" => {
            let replay = &machine.replay.figures;
            vec![format!("{} us per replay, {} us per node", replay.fixed_us, replay.node_us)]
        }
        "machine.update" => {
            let update = &machine.update.figures;
            let nodes = if update.node_us == 0.0 { String::new() } else { format!(", {} us per node", update.node_us) };
            vec![format!("{} us per update{nodes}", update.update_us)]
        }
        "machine.pool" => {
            let pool = &machine.pool.figures;
            let (full, piecewise) = (pool.full_executable, pool.piecewise_executable);
            vec![
                format!("pool {} and {} per row of the largest rung", pool.base, pool.per_row),
                format!("executables {full} per FULL descriptor, {piecewise} per PIECEWISE descriptor"),
            ]
        }
        "machine.capture" => {
            let capture = &machine.capture.figures;
            let (full, piecewise, first) = (capture.full_s, capture.piecewise_s, capture.first_extra_s);
            vec![format!("{full} s per FULL, {piecewise} s per PIECEWISE descriptor, {first} s more for the first")]
        }
        "machine.bandwidth" => {
            let read = machine.bandwidth.as_ref().map(|group| format!("{} GB/s", group.figures.read_gb_per_s));
            read.into_iter().collect()
        }
        "machine.eager_gap" => machine.eager_gap.iter().flat_map(|group| gap(&group.figures)).collect(),
        "machine.piecewise_gap" => machine.piecewise_gap.iter().flat_map(|group| gap(&group.figures)).collect(),
        "machine.attention" => machine.attention.iter().flat_map(|group| attention(&group.figures)).collect(),
        "engine.attention" => engine.attention.iter().flat_map(|group| attention(&group.figures)).collect(),
        _ => engine_figures(profile, table),
    }
}

fn engine_figures(profile: &Profile, table: &str) -> Vec<String> {
    let engine = &profile.engine;
    match table {
        "engine.ops" => {
            let ops = &engine.ops.figures;
            let (eager, compiled) = (ops.eager, ops.compiled);
            let (nodes, attention) = (ops.graph_nodes, ops.attention_launches);
            vec![format!("{eager} eager, {compiled} compiled, {nodes} graph nodes, {attention} attention launches")]
        }
        "engine.dispatch" => {
            let dispatch = &engine.dispatch.figures;
            let planned = |range: Option<PlanningRange>| {
                range.map_or_else(String::new, |range| format!(" ({} to {})", range.low, range.high))
            };
            let (eager, compiled) = (planned(dispatch.eager_us_range), planned(dispatch.compiled_us_range));
            let (eager_us, compiled_us) = (dispatch.eager_us, dispatch.compiled_us);
            vec![format!("{eager_us} us{eager} per eager, {compiled_us} us{compiled} per compiled operation")]
        }
        "engine.host" => {
            let host = &engine.host.figures;
            let (step, request, padding) = (host.step_overhead_us, host.per_request_us, host.padding_bookkeeping_us);
            vec![format!("{step} us per step, {request} us per request, {padding} us per step that runs a graph")]
        }
        "engine.activation" => {
            let activation = &engine.activation.figures;
            vec![format!("{} and {} per row of the largest step", activation.base, activation.per_row)]
        }
        "engine.startup" => {
            let startup = &engine.startup.figures;
            let per_capture = startup.per_capture_s.map(|seconds| format!("{seconds} s more for each capture"));
            let phases = vec![
                format!(
                    "compile: trace {} s, then {} s cold or {} s warm for each range or size",
                    startup.trace_s, startup.compile_cold_s, startup.compile_warm_s
                ),
                format!(
                    "memory profiling {} s and {} s a sampled graph; warm-up of kernels {} s, of the sampler {} s; other {} s",
                    startup.memory_profiling_s,
                    startup.graph_sample_s,
                    startup.kernel_warm_up_s,
                    startup.sampler_warm_up_s,
                    startup.other_s
                ),
            ];
            phases.into_iter().chain(per_capture).collect()
        }
        _ => Vec::new(),
    }
}

fn curve(curve: &Curve, quantity: &str, at: &[f64]) -> Vec<String> {
    let shape = match curve {
        Curve::Constant(us) => return vec![format!("{us} us whatever the {quantity}")],
        Curve::Line(line) => {
            let (slope, [first, last]) = (line.slope, line.valid);
            format!("line of {slope} us per row, {first} to {last} {quantity}")
        }
        Curve::Table(table) => {
            let (x, measured_to) = (table.x(), table.measured_to());
            let derived = measured_to.map_or_else(String::new, |last| format!(", derived beyond {last}"));
            format!("{} knots, {} to {} {quantity}{derived}", x.len(), x[0], x[x.len() - 1])
        }
    };
    let inside = at.iter().map(|&x| (x, curve.at(x))).filter(|(_, reading)| reading.outside.is_none());
    let values = inside.map(|(x, reading)| format!("{x}: {:.3}", reading.value / 1e3)).collect::<Vec<_>>();
    vec![shape, format!("ms at {quantity}: {}", values.join(", "))]
}

/// What a gap is at its ends: tens or hundreds of microseconds, that hardly change with rows.
fn gap(gap: &Curve) -> Vec<String> {
    let at = |x: f64| format!("{:.1} us at {x}", gap.within(x));
    match gap {
        Curve::Table(table) => {
            let (x, last) = (table.x(), table.x().len() - 1);
            vec![format!("{} knots: {}, {} rows", x.len(), at(x[0]), at(x[last]))]
        }
        Curve::Line(_) | Curve::Constant(_) => curve(gap, "rows", &[]),
    }
}

fn attention(attention: &Attention) -> Vec<String> {
    let mixed = match (&attention.mixed, attention.separate_kernels) {
        (Some(_), _) => "from their own table",
        (None, true) => "as the sum of two kernels",
        (None, false) => "as the sum, a stand-in that is flagged",
    };
    let shared = match attention.shared_us {
        0.0 => String::new(),
        us => format!(", less {us} us that both hold"),
    };
    vec![
        surface(&attention.decode, "decode", "requests"),
        surface(&attention.prefill, "prefill", "chunk tokens"),
        format!("mixed steps {mixed}{shared}; {} us per padded request", attention.padded_request_us),
    ]
}

fn surface(surface: &Surface, name: &str, quantity: &str) -> String {
    match surface {
        Surface::Constant(us) => format!("{name}: {us} us whatever the step"),
        Surface::Grid(grid) => {
            let ([x, y], last_us) = (grid.axes(), grid.at(grid.axes()[0].last(), grid.axes()[1].last()).value);
            format!(
                "{name}: {} to {} {quantity} x {} to {} tokens of context, up to {:.3} ms",
                x.knots()[0],
                x.last(),
                y.knots()[0],
                y.last(),
                last_us / 1e3
            )
        }
    }
}
