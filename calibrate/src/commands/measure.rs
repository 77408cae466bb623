//! `calibrate --device GPU`: measures it, and writes a profile.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;
use std::time::SystemTime;

use kernels::units::{Bytes, Requests};

use super::Failure;
use super::aloud::Aloud;
use super::found::Found;
use crate::calibration::{self, About, Calibration, Ended, Paces, RunTime};
use crate::command_line::{CapturedMode, GpuOptions, MeasuringOptions};
use crate::counted::counted;
use crate::destination::Destination;
use crate::device::{Attribute, Blaslt, Card, Images, Interrupts, Session};
use crate::exit::Exit;
use crate::graph_mode::Mode;
use crate::host::HostState;
use crate::model::{Limits, Model};
use crate::padding::TableStairs;
use crate::partial::{PartialResults, Piece, RunFacts};
use crate::plan::{self, BLOCK_SIZE, Part, Plan, PlanRequest};
use crate::probe::PaceWork;
use crate::profile::{self, KeptWarning, Profile};
use crate::progress::Display;
use crate::served_model::{ModelRequest, ServedModel};
use crate::state::{Concern, MachineState};
use crate::stderr;
use crate::visible::VisibleDevice;

/// What is compared in the end.
const DRIFT_CHECK: usize = 1;
/// A run keeps its limit to this share; beyond it, it says so.
const TIME_TOLERANCE: f64 = 0.1;

pub(super) fn run(options: &GpuOptions, out: &mut impl Write) -> Result<Exit, Failure> {
    let out = &mut Aloud(out);
    let measuring = &options.measuring;
    let request = ModelRequest {
        name: &measuring.model,
        ranks: measuring.tp_shard.unwrap_or(1),
        shapes_only: measuring.shapes_only,
    };
    let model = ServedModel::find(&request)?;
    let found = Found::look()?;
    let time = RunTime::start(found.library.host_clock());
    let device = found.choose(options.device.as_ref())?;
    let named = || Destination::named_after(&device.name, &model.name, model.ranks);
    let destination = options.out.as_deref().map_or_else(named, Destination::at);
    let file = destination.file();
    destination.check().map_err(|source| Failure::File { path: file.to_owned(), source })?;
    found.introduce(out)?;
    let (major, minor) = device.compute_capability;
    writeln!(out, "device   {device}, compute capability {major}.{minor}, {}", device.memory)?;
    let images = found.images(device, options)?;
    writeln!(out, "kernels  {images}")?;
    let state = found.state(device);
    let concerns = state.concerns();
    write!(out, "{state}")?;
    out.flush()?;
    calibration::refuse_unfit(&concerns)?;
    let machine = Machine { found: &found, device, images: &images, state: &state, concerns: &concerns, time };
    let mut kept = 0;
    let measured = measure(&machine, measuring, &model, &destination, &mut kept, out);
    let written = measured.and_then(|profile| Ok((destination.write(&profile)?, profile)));
    let (earlier, profile) = written.map_err(|failure| failure.after(kept))?;
    // Only now: until the profile is there, they are all that is left of minutes of measuring.
    destination.remove_partial();
    writeln!(out)?;
    summary(&profile, out)?;
    if let Some(earlier) = earlier {
        writeln!(out, "earlier  {}: what {} held before", earlier.display(), file.display())?;
    }
    writeln!(out, "profile  {}", file.display())?;
    writeln!(out, "\nsim run {} --profile {}", measuring.engine.scenario(), quoted(file))?;
    Ok(Exit::Ok)
}

/// What is measured on.
struct Machine<'a> {
    found: &'a Found,
    device: &'a VisibleDevice,
    images: &'a Images,
    state: &'a MachineState,
    concerns: &'a [Concern],
    /// Of the whole run.
    time: RunTime,
}

fn measure(
    machine: &Machine<'_>,
    options: &MeasuringOptions,
    served: &ServedModel,
    destination: &Destination,
    kept: &mut usize,
    out: &mut impl Write,
) -> Result<Profile, Failure> {
    let piece = Piece {
        date: profile::beginning(SystemTime::now())?,
        options: typed_options(),
        took_s: 0.0,
        warnings: machine.concerns.iter().map(KeptWarning::from).collect(),
        pace: None,
    };
    let Machine { found, device, images, time, .. } = *machine;
    let interrupts = Interrupts::listen();
    let card = Card::at(found.library, device.index)?;
    let mut session = Session::open(card, |module| images.of(module))?;
    calibration::memory_stands_still(&mut session)?;
    let is_double = found.library.double_version().is_some();
    if !is_double {
        // The double computes nothing unless it is given an executor: its tests check kernels by themselves.
        calibration::kernels_work(&mut session)?;
    }
    let library = Blaslt::open(&session).ok();
    let (free, total) = session.memory()?;
    let others = machine.state.held_by_others(Bytes(total.0.saturating_sub(free.0)));
    let seen = plan::Device { free, total, others, cache: l2_cache(&card)? };
    let request = PlanRequest {
        ladder: options.ladder.clone(),
        engine: options.engine,
        modes: modes(&options.modes),
        is_quick: options.quick,
        time_limit: options.time_limit,
        memory_limit: options.memory_limit,
    };
    let plan = Plan::of(&request, &served.geometry, served.ranks, &seen).map_err(Ended::from)?;
    let model = load(&mut session, served, &plan, library)?;
    let gemm_backend = model.gemm_backend().to_string();
    explain(served, &plan, &gemm_backend, out)?;
    let multiprocessors = card.attribute(Attribute::Multiprocessors)?;
    let facts = facts(machine, served, &plan, &gemm_backend)
        .with("multiprocessors", multiprocessors.to_string())
        .with("device memory", total.to_string())
        .with(
            "memory at most (--memory-limit)",
            options.memory_limit.map_or("all".to_owned(), |most| most.to_string()),
        );
    let mut partial = begun(&destination.partial(), facts, options.resume)?;
    partial.begin(piece);
    let pace_work = PaceWork::new(&mut session).map_err(Ended::from)?;
    let display = Display::new(Part::ALL.len() + DRIFT_CHECK, options.no_progress);
    let mut calibration = Calibration {
        session: &mut session,
        model,
        plan: &plan,
        partial,
        display,
        interrupts,
        time,
        paces: Paces::default(),
        pace_work,
    };
    let results = calibration.run().inspect_err(|_| calibration.display.clear());
    *kept = calibration.kept();
    let mut pieces = calibration.partial.pieces().to_vec();
    drop(calibration);
    let results = results?;
    session.close()?;
    let took = time.elapsed();
    if let Some(piece) = pieces.last_mut() {
        piece.took_s = took.as_secs_f64();
    }
    let about = About {
        name: destination
            .file()
            .file_stem()
            .map_or_else(|| "profile".to_owned(), |stem| stem.to_string_lossy().into_owned()),
        device: device.name.clone(),
        is_double,
        driver: machine.state.gpu.driver.clone().ok(),
        cuda_version: found.library.version().to_string(),
        compute_capability: device.compute_capability,
        host_cpu: machine.state.host.cpu.model.clone().ok(),
        engine: options.engine.name(),
        memory: total,
        gemm_backend,
        model: served,
        plan: &plan,
        pieces: &pieces,
    };
    if took > plan.time().mul_f64(1.0 + TIME_TOLERANCE) {
        stderr::line(format_args!(
            "it took {:.1} s, longer than the {} of its limit: captures and the least rounds of every timing need that",
            took.as_secs_f64(),
            humantime::format_duration(plan.time())
        ));
    }
    Ok(calibration::profile(&about, &results)?)
}

/// The results of a run that begins, or goes on where that is asked for and possible.
fn begun(path: &Path, facts: RunFacts, is_resumed: bool) -> Result<PartialResults, Ended> {
    match (is_resumed, path.exists()) {
        (true, true) => return Ok(PartialResults::resume(path, &facts)?),
        (true, false) => {
            stderr::line(format_args!("nothing is kept in {}: everything is measured", path.display()));
        }
        (false, true) => stderr::line(format_args!(
            "{} holds results of a run that was ended, and is replaced by the first new one: --resume would go on with it",
            path.display()
        )),
        (false, false) => {}
    }
    Ok(PartialResults::new(path, facts))
}

/// A cache that is not told is taken for a large one.
fn l2_cache(card: &Card) -> Result<Bytes, Failure> {
    const UNKNOWN: u64 = 64 << 20;
    let bytes = u64::try_from(card.attribute(Attribute::CacheBytes)?).unwrap_or(0);
    Ok(Bytes(if bytes == 0 { UNKNOWN } else { bytes }))
}

/// PIECEWISE first, as engines capture.
fn modes(asked: &[CapturedMode]) -> Vec<Mode> {
    let known = [(CapturedMode::Piecewise, Mode::Piecewise), (CapturedMode::Full, Mode::Full)];
    known.into_iter().filter(|(typed, _)| asked.contains(typed)).map(|(_, mode)| mode).collect()
}

fn load(session: &mut Session, served: &ServedModel, plan: &Plan, library: Option<Blaslt>) -> Result<Model, Ended> {
    let limits = Limits {
        rows: plan.rows(),
        requests: Requests(plan.rows().0),
        block_size: BLOCK_SIZE,
        blocks_per_request: plan.blocks_per_request(),
        cache_blocks: plan.cache_blocks(),
    };
    let own_layers = plan.memory.weight_layers;
    Ok(Model::load_sharing(session, served.geometry.clone(), served.constants, limits, library, own_layers)?)
}

/// What is going to be measured.
fn explain(served: &ServedModel, plan: &Plan, gemm_backend: &str, out: &mut impl Write) -> Result<(), Failure> {
    let rank = match served.ranks {
        1 => String::new(),
        ranks => format!(", one of {ranks} tensor-parallel ranks: collectives are not measured"),
    };
    writeln!(out, "model    {}{rank}", served.name)?;
    for reason in &served.differs {
        writeln!(out, "         only its shapes, in bf16: {reason}")?;
    }
    let (own, layers) = (plan.memory.weight_layers, served.geometry.layers);
    if own < layers {
        writeln!(out, "         {layers} layers share the weights of {own}, for all would not fit")?;
    }
    let modes: Vec<String> = plan.modes.iter().map(Mode::to_string).collect();
    writeln!(out, "ladder   {}; {}", plan.ladder, modes.join(" and "))?;
    writeln!(out, "products {gemm_backend}")?;
    writeln!(out, "memory   {}", plan.memory)?;
    writeln!(out, "time     {} s in all, if captures and the least rounds allow", plan.time().as_secs_f64())?;
    Ok(out.flush()?)
}

/// What must be the same for results to belong together.
fn facts(machine: &Machine<'_>, served: &ServedModel, plan: &Plan, gemm_backend: &str) -> RunFacts {
    let modes: Vec<String> = plan.modes.iter().map(Mode::to_string).collect();
    let driver = machine.state.gpu.driver.as_ref().map_or("not known", String::as_str);
    let facts = host_facts(&machine.state.host)
        .with("version of calibrate", env!("CARGO_PKG_VERSION"))
        .with("device (--device)", format!("{}, {}", machine.device.name, machine.device.uuid))
        .with("driver", format!("CUDA {}, {driver}", machine.found.library.version()))
        .with("kernels (--nvrtc)", machine.images.to_string())
        .with("matrix products (RUNGWISE_CUBLASLT)", gemm_backend)
        .with("model (--model)", &*served.name)
        .with("shapes only (--shapes-only)", if served.differs.is_empty() { "no" } else { "yes" })
        .with("tensor-parallel ranks (--tp-shard)", served.ranks.to_string())
        .with("ladder (--ladder, --engine)", plan.ladder.to_string())
        .with("modes (--modes)", modes.join(", "))
        .with("points (--quick)", if plan.is_quick { "quick" } else { "full" })
        .with("time (--time-limit)", humantime::format_duration(plan.time()).to_string())
        .with("layers with weights of their own (--memory-limit)", plan.memory.weight_layers.to_string());
    let geometry = served.geometry.named().into_iter();
    geometry.fold(facts, |facts, (name, value)| facts.with(&format!("the model's {name}"), value))
}

/// What of the host decides what launches cost.
fn host_facts(host: &HostState) -> RunFacts {
    let unknown = || "not known".to_owned();
    let governors = host.cpu.frequency.as_ref().map(|groups| {
        let distinct: BTreeSet<&str> = groups.iter().map(|group| group.governor.as_str()).collect();
        distinct.into_iter().collect::<Vec<_>>().join(", ")
    });
    RunFacts::default()
        .with("processor", host.cpu.model.clone().unwrap_or_else(|_| unknown()))
        .with("frequency governor", governors.unwrap_or_else(|_| unknown()))
        .with(
            "CPUs that calibrate may run on",
            host.affinity.as_ref().map_or_else(|_| unknown(), |cpus| cpus.len().to_string()),
        )
}

/// The options of the command line, as a profile repeats them; what is no Unicode is replaced.
fn typed_options() -> String {
    let options = std::env::args_os().skip(1).map(|option| option.to_string_lossy().into_owned());
    options.collect::<Vec<_>>().join(" ")
}

/// A path as a shell takes it.
fn quoted(file: &Path) -> String {
    let text = file.display().to_string();
    let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+".contains(c));
    if is_plain { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// The figures that matter most, and what makes them suspect.
fn summary(profile: &Profile, out: &mut impl Write) -> io::Result<()> {
    let machine = &profile.machine;
    let (launch, replay) = (&machine.launch.figures, &machine.replay.figures);
    writeln!(
        out,
        "launch   {:.2} us; a replay {:.2} us and {:.3} us a node",
        launch.launch_us, replay.fixed_us, replay.node_us
    )?;
    let rows = profile.captured_rows();
    if let [first, .., last] = rows[..] {
        let dense = |rows: f64| machine.dense.figures.at(rows).value / 1e3;
        let (middle, row) = (rows[rows.len() / 2], if first > 1.0 { "rows" } else { "row" });
        let within = if middle < last { format!("{:.2} ms at {middle}, ", dense(middle)) } else { String::new() };
        let (first_ms, last_ms) = (dense(first), dense(last));
        writeln!(
            out,
            "step     {first_ms:.2} ms at {first} {row}, {within}{last_ms:.2} ms at {last}, without attention"
        )?;
    }
    if let Some(of_steps) = TableStairs::of_profile(profile) {
        padding(&of_steps, out)?;
    }
    let (pool, capture) = (&machine.pool.figures, &machine.capture.figures);
    let modes = [
        (Mode::Full, pool.full_executable, capture.full_s),
        (Mode::Piecewise, pool.piecewise_executable, capture.piecewise_s),
    ];
    let captured = modes.into_iter().filter(|(mode, ..)| profile.is_captured(*mode));
    let captured: Vec<String> = captured
        .map(|(mode, bytes, seconds)| format!("{bytes} and {:.2} ms a {mode} descriptor", seconds * 1e3))
        .collect();
    writeln!(out, "graphs   {}", captured.join(", "))?;
    let warnings = profile.measurement.iter().flat_map(|measurement| &measurement.warnings);
    let codes: Vec<&str> = warnings.map(|warning| warning.code.as_str()).collect();
    if !codes.is_empty() {
        writeln!(out, "warnings {}: kept in the profile, and repeated by every report that uses it", codes.join(", "))?;
    }
    Ok(())
}

/// What a padded row costs, and how many edges lie on the way.
fn padding(of_steps: &TableStairs, out: &mut impl Write) -> io::Result<()> {
    let edges = &of_steps.stairs.edges;
    let edges = match edges.iter().max_by(|one, other| one.jump.total_cmp(&other.jump)) {
        None => "no edge of tiles is proven".to_owned(),
        Some(largest) => format!(
            "{}, the highest {:+.1} % after {}",
            counted(edges.len(), "edge") + " of tiles",
            of_steps.percent(largest),
            counted(largest.below, "row")
        ),
    };
    let row = of_steps.row_us.map_or_else(String::new, |us| format!("{us:.3} us a row between edges; "));
    writeln!(out, "padding  {row}{edges}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tests::Made;

    #[test]
    fn paths_are_quoted_for_a_shell() {
        assert_eq!([quoted(Path::new("a-1.toml")), quoted(Path::new("my file"))], ["a-1.toml", "'my file'"]);
    }

    #[test]
    fn modes_are_captured_in_the_engines_order() {
        assert_eq!(modes(&[CapturedMode::Full, CapturedMode::Piecewise]), [Mode::Piecewise, Mode::Full]);
        assert_eq!(modes(&[CapturedMode::Full]), [Mode::Full]);
    }

    #[test]
    fn another_processor_governor_or_set_of_cpus_is_another_run() {
        let server = HostState::read(&Made::server().tree());
        assert_eq!(host_facts(&server), host_facts(&server.clone()));
        let mut other = server.clone();
        other.cpu.model = Ok("another".to_owned());
        assert_ne!(host_facts(&server), host_facts(&other));
        let mut other = server.clone();
        other.affinity = Ok([0, 1].into_iter().collect());
        assert_ne!(host_facts(&server), host_facts(&other));
        let mut other = server.clone();
        other.cpu.frequency.as_mut().expect("a server has governors")[0].governor = "schedutil".to_owned();
        assert_ne!(host_facts(&server), host_facts(&other));
        host_facts(&HostState::read(&Made::empty().tree()));
    }
}
