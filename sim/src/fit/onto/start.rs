//! What the lines of a start say of captures and of the memory that graphs hold.
//!
//! A log has one number for all graphs of a mode, so a figure is the mean of them, and the first capture's extra is in it.
//! The seconds of a progress bar are whole ones: the last is not over when the bar is full, so they may be one more. Captures
//! in 0 seconds therefore took less than one, and their figure is bounded.

use calibrate::profile::{Kind, Profile};
use kernels::units::Bytes;

use super::finding::Finding;
use super::log::{Captured, EngineLog};

/// What a start says.
#[derive(Clone, Debug)]
pub struct StartFindings {
    /// Seconds of a FULL descriptor: of the machine's where those are planned, else what the engine adds to them.
    pub full_s: Finding,
    /// The same of a PIECEWISE one.
    pub piecewise_s: Finding,
    /// Seconds that the engine adds to the machine's, for a descriptor of either mode.
    pub per_capture_s: Finding,
    /// Bytes of executables of one descriptor, of either mode.
    pub executable_bytes: Finding,
    /// From profiling to the last warm-up without the captures, s: all parts of the start together.
    pub without_captures_s: Option<f64>,
}

const NO_CAPTURES: &str = "no line of captures that went through";
const MEASURED: &str = "measured by calibrate, and kept";

/// Reads the figures of a start. Of several starts the last of a log counts.
#[must_use]
pub fn findings(logs: &[EngineLog], profile: &Profile) -> StartFindings {
    let silent = |why: &str| Finding::Silent { why: why.to_owned() };
    let captured =
        |full: bool| logs.iter().flat_map(|log| &log.captured).rfind(|captured| captured.full == full).copied();
    let (full, piecewise) = (captured(true), captured(false));
    let of_mode = |captured: Option<Captured>| captured.map_or_else(|| silent(NO_CAPTURES), per_descriptor);
    let is_planned = |kind: Kind| kind == Kind::Declared;
    let machine = &profile.machine;
    let (full_s, piecewise_s, per_capture_s) = if full.or(piecewise).is_none() {
        (silent(NO_CAPTURES), silent(NO_CAPTURES), silent(NO_CAPTURES))
    } else if is_planned(machine.capture.provenance.kind) {
        (
            of_mode(full),
            of_mode(piecewise),
            silent("the machine's seconds are those of the log, the engine's part among them"),
        )
    } else {
        (silent(MEASURED), silent(MEASURED), per_capture(full, piecewise, profile))
    };
    let gib = logs.iter().filter_map(|log| log.graphs_gib).next_back();
    let graphs: f64 = [full, piecewise].into_iter().flatten().map(|captured| f64::from(captured.graphs)).sum();
    let executable_bytes = match gib {
        _ if !is_planned(machine.pool.provenance.kind) => silent(MEASURED),
        Some(gib) if graphs > 0.0 => executables(gib, graphs, profile),
        _ => silent("no line of what graphs hold beside one of captures"),
    };
    let captures_s: f64 = [full, piecewise].into_iter().flatten().map(|captured| captured.seconds).sum();
    let init_s = logs.iter().filter_map(|log| log.init_s).next_back();
    let without_captures_s = init_s.map(|init_s| init_s - captures_s).filter(|rest_s| *rest_s > 0.0);
    StartFindings { full_s, piecewise_s, per_capture_s, executable_bytes, without_captures_s }
}

/// Seconds of one descriptor, or the most that it took where the printed ones are too few to tell.
fn per_descriptor(Captured { graphs, seconds, off_s, .. }: Captured) -> Finding {
    let (count, samples) = (f64::from(graphs), u64::from(graphs));
    let most = (seconds + off_s) / count;
    if seconds > 0.0 {
        let why = format!("{graphs} captures in {seconds} s, the first one's extra among them");
        Finding::Fitted { value: seconds / count, interval: [seconds / count, most], samples, why }
    } else {
        let why = format!("{graphs} captures in {seconds} s, which may be up to {off_s} s");
        Finding::Bounded { most, samples, why }
    }
}

/// What the log's captures take longer than the machine's.
fn per_capture(full: Option<Captured>, piecewise: Option<Captured>, profile: &Profile) -> Finding {
    let machine = &profile.machine.capture.figures;
    let of_mode: Vec<(Captured, f64)> =
        [full.zip(Some(machine.full_s)), piecewise.zip(Some(machine.piecewise_s))].into_iter().flatten().collect();
    if of_mode.is_empty() {
        return Finding::Silent { why: NO_CAPTURES.to_owned() };
    }
    let sum = |of: fn(&(Captured, f64)) -> f64| of_mode.iter().map(of).sum::<f64>();
    let graphs = sum(|(captured, _)| f64::from(captured.graphs));
    let more = sum(|(captured, each_s)| captured.seconds - f64::from(captured.graphs) * each_s) - machine.first_extra_s;
    let most = (more + sum(|(captured, _)| captured.off_s)) / graphs;
    let samples = graphs as u64;
    let why = format!("{graphs} captures, less what calibrate measured for as many");
    if more > 0.0 {
        Finding::Fitted { value: more / graphs, interval: [more / graphs, most], samples, why }
    } else if most > 0.0 {
        Finding::Bounded { most, samples, why: format!("{why}: the printed seconds leave nothing that is sure") }
    } else {
        Finding::Silent { why: format!("{graphs} captures that took less than calibrate measured for as many") }
    }
}

/// What is left of the graphs' memory beside the planned pool, shared out among descriptors.
fn executables(gib: f64, graphs: f64, profile: &Profile) -> Finding {
    let base = profile.machine.pool.figures.base;
    let all = gib * f64::from(1 << 30);
    let rest = all - base.0 as f64;
    // The printed figure has two decimals.
    let off = 0.005 * f64::from(1 << 30) / graphs;
    if rest <= 0.0 {
        let why = format!("graphs hold {gib} GiB in all, no more than the planned pool of {base}");
        return Finding::Bounded { most: all / graphs + off, samples: graphs as u64, why };
    }
    Finding::Fitted {
        value: rest / graphs,
        interval: [(rest / graphs - off).max(0.0), all / graphs + off],
        samples: graphs as u64,
        why: format!(
            "{gib} GiB of {graphs} descriptors less the planned {base} of their pool; its rows are not known apart"
        ),
    }
}

/// Whole bytes.
#[must_use]
pub fn bytes(value: f64) -> Bytes {
    Bytes(value.max(0.0).round() as u64)
}
