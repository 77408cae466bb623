//! What the lines of a start say of captures and of the memory that graphs hold.
//!
//! A log has one number for all graphs of a mode, so a figure is the mean of them, and the first capture's extra is in it.
//! Seconds are whole ones: the last is not over when the bar is full, so they may be one more.

use calibrate::profile::{Kind, Profile};
use kernels::units::Bytes;

use super::host::Finding;
use super::log::EngineLog;

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
    let captured = |full: bool| {
        let mut of_mode = logs.iter().flat_map(|log| &log.captured).filter(|(is_full, ..)| *is_full == full);
        of_mode.next_back().map(|&(_, graphs, seconds)| (f64::from(graphs), seconds))
    };
    let (full, piecewise) = (captured(true), captured(false));
    let of_mode = |captured: Option<(f64, f64)>| match captured {
        Some((graphs, seconds)) => Finding::Fitted {
            value: seconds / graphs,
            interval: [seconds / graphs, (seconds + 1.0) / graphs],
            samples: graphs as u64,
            why: format!("{graphs} captures in {seconds} s, the first one's extra among them"),
        },
        None => silent(NO_CAPTURES),
    };
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
    let graphs: f64 = [full, piecewise].into_iter().flatten().map(|(graphs, _)| graphs).sum();
    let executable_bytes = match gib {
        _ if !is_planned(machine.pool.provenance.kind) => silent(MEASURED),
        Some(gib) if graphs > 0.0 && gib > 0.0 => executables(gib, graphs, profile),
        _ => silent("no line of what graphs hold beside one of captures"),
    };
    let captures_s: f64 = [full, piecewise].into_iter().flatten().map(|(_, seconds)| seconds).sum();
    let init_s = logs.iter().filter_map(|log| log.init_s).next_back();
    let without_captures_s = init_s.map(|init_s| init_s - captures_s).filter(|rest_s| *rest_s > 0.0);
    StartFindings { full_s, piecewise_s, per_capture_s, executable_bytes, without_captures_s }
}

/// What the log's captures take longer than the machine's.
fn per_capture(full: Option<(f64, f64)>, piecewise: Option<(f64, f64)>, profile: &Profile) -> Finding {
    let machine = &profile.machine.capture.figures;
    let of_mode = [full.zip(Some(machine.full_s)), piecewise.zip(Some(machine.piecewise_s))];
    let of_mode: Vec<(f64, f64, f64)> =
        of_mode.into_iter().flatten().map(|((graphs, seconds), each_s)| (graphs, seconds, graphs * each_s)).collect();
    let graphs: f64 = of_mode.iter().map(|(graphs, ..)| graphs).sum();
    if graphs == 0.0 {
        return Finding::Silent { why: NO_CAPTURES.to_owned() };
    }
    let more: f64 =
        of_mode.iter().map(|(_, seconds, machine_s)| seconds - machine_s).sum::<f64>() - machine.first_extra_s;
    let rounds = of_mode.len() as f64;
    Finding::Fitted {
        value: (more / graphs).max(0.0),
        interval: [(more / graphs).max(0.0), ((more + rounds) / graphs).max(0.0)],
        samples: graphs as u64,
        why: format!("{graphs} captures, less what calibrate measured for as many"),
    }
}

/// What is left of the graphs' memory beside the planned pool, shared out among descriptors.
fn executables(gib: f64, graphs: f64, profile: &Profile) -> Finding {
    let base = profile.machine.pool.figures.base;
    let all = gib * f64::from(1 << 30);
    let rest = all - base.0 as f64;
    if rest <= 0.0 {
        let why = format!("graphs hold {gib} GiB in all, less than the planned pool of {base}");
        return Finding::Bounded { most: all / graphs, samples: graphs as u64, why };
    }
    // The printed figure has two decimals.
    let off = 0.005 * f64::from(1 << 30) / graphs;
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
