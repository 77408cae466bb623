//! A cost profile as a page: the calibration, whoever made it.

use std::path::Path;

use calibrate::graph_mode::Mode;
use calibrate::padding::TableStairs;
use calibrate::profile::{Attention, Curve, Grid, Group, Kind, Profile, Rungs, Surface};
use reports::Warning;
use reports::page::{
    AttentionGrid, HostCost, MeasuredRung, ModeRungs, Part, ProfilePage, ProfileStairs, StairEdge, Staircase,
};

use crate::commands::failure::Failure;
use crate::record;

/// Lines and columns of an attention table; from more knots a few are taken.
const KNOTS: usize = 9;

/// The profile as a part of a page.
///
/// # Errors
/// That of a drawing, which has no reason to fail.
pub(super) fn part(path: &Path, profile: &Profile) -> Result<Part, Failure> {
    let mut whole = Vec::new();
    calibrate::show::profile(profile, &mut whole).map_err(Failure::Stdout)?;
    let (attention, attention_notes) = attention(profile);
    let run = profile.measurement.as_ref();
    let page = ProfilePage {
        name: profile.name.clone(),
        facts: facts(path, profile),
        standing: standing(profile),
        dense: stairs(&profile.machine.dense, TableStairs::of_profile(profile).as_ref(), profile.captured_rows()),
        head: stairs(&profile.machine.head, None, Vec::new()),
        launches: launches(profile),
        rungs: run.map_or_else(Vec::new, |run| {
            [("FULL", &run.full), ("PIECEWISE", &run.piecewise)]
                .into_iter()
                .filter_map(|(mode, rungs)| Some(ModeRungs { mode: mode.to_owned(), rungs: measured(rungs.as_ref()?) }))
                .collect()
        }),
        graphs: graphs(profile),
        attention,
        attention_notes,
        groups: profile.each_group().iter().map(record::group).collect(),
        warnings: run.map_or_else(Vec::new, |run| {
            run.warnings
                .iter()
                .map(|kept| {
                    let advice = kept.advice.as_ref().map(|advice| format!("; {advice}")).unwrap_or_default();
                    Warning::general(kept.code.clone(), format!("{}{advice}", kept.what))
                })
                .collect()
        }),
        not_measured: run.map_or_else(Vec::new, |run| {
            run.not_measured.iter().map(|left_out| (left_out.what.clone(), left_out.why.clone())).collect()
        }),
        whole: String::from_utf8_lossy(&whole).into_owned(),
        sha256: record::sha256(profile.to_toml().as_bytes()),
    };
    page.part().map_err(Failure::Stdout)
}

fn facts(path: &Path, profile: &Profile) -> Vec<(String, String)> {
    let identity = &profile.identity;
    let mut facts = vec![
        ("Device", format!("{} (driver {})", identity.device, identity.driver.as_deref().unwrap_or("not stated"))),
        ("Model", identity.model_name.clone()),
        ("Engine", identity.engine.clone()),
        ("Host and device", profile.overlap.as_str().to_owned()),
    ];
    if let Some(run) = &profile.measurement {
        facts
            .push(("Measured", format!("{} by calibrate {}, in {:.0} s", run.date, run.calibrate_version, run.took_s)));
        facts.push(("Options", run.options.clone()));
        facts.push(("Products by", run.gemm_backend.clone()));
        facts.extend(run.sm_clock_mhz.map(|[low, high]| ("SM clock", format!("{low:.0} to {high:.0} MHz"))));
        facts.extend(run.cuda_version.clone().map(|version| ("CUDA", version)));
    }
    facts.push(("File", path.display().to_string()));
    facts.into_iter().map(|(name, text)| (name.to_owned(), text)).collect()
}

/// How far it can be believed, in a sentence.
fn standing(profile: &Profile) -> String {
    let groups = profile.groups();
    let count = |kind: Kind| groups.iter().filter(|(_, origin)| origin.kind == kind).count();
    if count(Kind::Double) > 0 {
        return "Made by the test double of the driver: no figure here is a measurement.".to_owned();
    }
    let counts: Vec<String> =
        Kind::ALL.into_iter().filter(|kind| count(*kind) > 0).map(|kind| format!("{} {kind}", count(kind))).collect();
    let measured = match &profile.measurement {
        Some(run) if run.warnings.is_empty() => "Measured by calibrate, without warnings".to_owned(),
        Some(run) => format!("Measured by calibrate, with {} warnings", run.warnings.len()),
        None => "Not measured by calibrate".to_owned(),
    };
    format!("{measured}. Of {} groups of figures: {}.", groups.len(), counts.join(", "))
}

/// A table of the profile as stairs; `None` of a curve that is none.
fn stairs(group: &Group<Curve>, of_padding: Option<&TableStairs>, rungs: Vec<f64>) -> Option<ProfileStairs> {
    let Curve::Table(table) = &group.figures else { return None };
    let own = TableStairs::of(group, table.x().last().copied().unwrap_or(0.0).min(1_024.0));
    let found = of_padding.or(own.as_ref());
    let knots = table.x().iter().zip(table.y()).map(|(at, us)| [*at, *us]).collect();
    let Some(found) = found else {
        let note = "The table has too few knots for stairs.".to_owned();
        return Some(ProfileStairs {
            stairs: Staircase { knots, edges: Vec::new() },
            rungs,
            note,
            ..Default::default()
        });
    };
    let edges = found.stairs.edges.iter().map(|edge| StairEdge {
        below: edge.below,
        above: edge.above,
        jump_us: edge.jump,
        percent: found.percent(edge),
    });
    let treads = found.stairs.treads.iter().map(|tread| {
        let [first, last] = tread.range;
        [first, last, tread.line.at(first), tread.line.slope]
    });
    Some(ProfileStairs {
        stairs: Staircase { knots, edges: edges.collect() },
        rungs,
        treads: treads.collect(),
        note: note(found),
    })
}

fn note(found: &TableStairs) -> String {
    let row = found.row_us.map(|us| {
        let interval = found.row_interval.map(|it| format!(" ({:.3} to {:.3})", it.low, it.high)).unwrap_or_default();
        format!("One row of padding costs {us:.3} us between edges{interval}; each edge that it crosses costs its jump on top.")
    });
    let scatter = found.scatter.map(|share| {
        format!(
            "The profile states no errors of these times: they are taken to be {:.2} %, the scatter of neighbours.",
            100.0 * share
        )
    });
    row.into_iter().chain(scatter).collect::<Vec<_>>().join(" ")
}

fn launches(profile: &Profile) -> Vec<HostCost> {
    let (machine, engine) = (&profile.machine, &profile.engine);
    let (launch_us, replay, update) =
        (machine.launch.figures.launch_us, machine.replay.figures, machine.update.figures);
    let (ops, dispatch) = (engine.ops.figures, engine.dispatch.figures);
    let nodes_us = f64::from(ops.graph_nodes) * replay.node_us;
    let pieces = profile.identity.model.attention_layers() + 1;
    let attention_us = f64::from(ops.attention_launches) * (launch_us + dispatch.compiled_us);
    let plain = |what: &str, us: f64, interval: Option<[f64; 2]>, kind: Kind| HostCost {
        what: what.to_owned(),
        us,
        interval,
        note: kind.to_string(),
    };
    let step = |what: &str, us: f64, note: String| HostCost { what: what.to_owned(), us, interval: None, note };
    vec![
        plain("launch", launch_us, interval(&machine.launch, "launch_us"), machine.launch.provenance.kind),
        plain(
            "replay, whatever the graph",
            replay.fixed_us,
            interval(&machine.replay, "fixed_us"),
            machine.replay.provenance.kind,
        ),
        plain(
            "replay, for each node",
            replay.node_us,
            interval(&machine.replay, "node_us"),
            machine.replay.provenance.kind,
        ),
        plain(
            "update of an executable",
            update.update_us,
            interval(&machine.update, "update_us"),
            machine.update.provenance.kind,
        ),
        plain(
            "update, for each node",
            update.node_us,
            interval(&machine.update, "node_us"),
            machine.update.provenance.kind,
        ),
        step("a step, FULL", replay.fixed_us + nodes_us, format!("{} nodes", ops.graph_nodes)),
        step(
            "a step, PIECEWISE",
            f64::from(pieces) * replay.fixed_us + nodes_us + attention_us,
            format!("{pieces} pieces, {} attention launches", ops.attention_launches),
        ),
        step(
            "a step, compiled eager",
            f64::from(ops.compiled) * (launch_us + dispatch.compiled_us),
            format!("{} launches, {} dispatch", ops.compiled, engine.dispatch.provenance.kind),
        ),
        step(
            "a step, eager",
            f64::from(ops.eager) * (launch_us + dispatch.eager_us),
            format!("{} launches, {} dispatch", ops.eager, engine.dispatch.provenance.kind),
        ),
    ]
}

/// The stated interval of a single figure.
fn interval<T>(group: &Group<T>, figure: &str) -> Option<[f64; 2]> {
    match group.measured.as_ref()?.of(figure) {
        [interval] => Some([interval.low, interval.high]),
        _ => None,
    }
}

fn graphs(profile: &Profile) -> Vec<(String, String)> {
    let (pool, capture) = (profile.machine.pool.figures, profile.machine.capture.figures);
    let mut lines = vec![
        ("shared pool".to_owned(), format!("{}, and {} a row of the largest rung", pool.base, pool.per_row)),
        ("first capture".to_owned(), format!("{:.3} s on top", capture.first_extra_s)),
    ];
    for (mode, bytes, seconds) in [
        (Mode::Full, pool.full_executable, capture.full_s),
        (Mode::Piecewise, pool.piecewise_executable, capture.piecewise_s),
    ] {
        let standing = if profile.is_captured(mode) { "" } else { " (not captured: made of the other mode's figures)" };
        lines.push((format!("a {mode} rung"), format!("{bytes} and {seconds:.4} s{standing}")));
    }
    lines
}

fn measured(rungs: &Rungs) -> Vec<MeasuredRung> {
    let of = |place: usize| {
        let at = |column: &[f64]| column.get(place).copied().unwrap_or(0.0);
        MeasuredRung {
            rows: at(&rungs.rows),
            nodes: at(&rungs.nodes),
            capture_ms: at(&rungs.capture_ms),
            instantiate_ms: at(&rungs.instantiate_ms),
            pool_growth_bytes: at(&rungs.pool_growth_bytes),
            replay_host_us: at(&rungs.replay_host_us),
            replay_device_us: at(&rungs.replay_device_us),
            eager_host_us: at(&rungs.eager_host_us),
            eager_device_us: at(&rungs.eager_device_us),
        }
    };
    (0..rungs.rows.len()).map(of).collect()
}

fn attention(profile: &Profile) -> (Vec<AttentionGrid>, Vec<String>) {
    let Some(group) = profile.attention() else { return (Vec::new(), Vec::new()) };
    let Attention { decode, prefill, mixed, separate_kernels, padded_request_us, shared_us } = &group.figures;
    let (mut grids, mut notes) = (Vec::new(), Vec::new());
    for (surface, name) in [(decode, "Decode: requests"), (prefill, "Prefill: tokens of a chunk")] {
        match surface {
            Surface::Constant(us) => notes.push(format!("{name}: {} ms whatever the step.", us / 1e3)),
            Surface::Grid(grid) => grids.push(few(grid, name)),
        }
    }
    let mixed = match (mixed, separate_kernels) {
        (Some(_), _) => "from their own table",
        (None, true) => "the sum, their kernels being separate",
        (None, false) => "the sum as a stand-in: one kernel serves both, and was not measured so",
    };
    let shared = if *shared_us > 0.0 { format!(", less {shared_us} us that both hold") } else { String::new() };
    notes.push(format!("Mixed steps: {mixed}{shared}. A padded request: {padded_request_us} us."));
    (grids, notes)
}

/// A grid on its first and last knots and some between them.
fn few(grid: &Grid, name: &str) -> AttentionGrid {
    let [lines, contexts] = grid.axes().map(|axis| {
        let knots = axis.knots();
        match knots.len() {
            count if count <= KNOTS => knots.to_vec(),
            count => (0..KNOTS).map(|place| knots[place * (count - 1) / (KNOTS - 1)]).collect(),
        }
    });
    let ms = |line: f64| contexts.iter().map(|&context| grid.at(line, context).value / 1e3).collect();
    AttentionGrid { name: name.to_owned(), ms: lines.iter().map(|&line| ms(line)).collect(), lines, contexts }
}
