//! A profile with what logs say of its engine half.

use calibrate::profile::{Group, Kind, PlanningRange, Profile, ProfileError, Provenance};

use super::finding::{Finding, rounded};
use super::host::HostFindings;
use super::start::{StartFindings, bytes};

/// The profile with its fitted figures; `cited` are the logs.
///
/// # Errors
/// If the figures make no profile.
pub fn profile(
    given: &Profile,
    host: &HostFindings,
    start: &StartFindings,
    cited: &str,
) -> Result<Profile, ProfileError> {
    let mut profile = given.clone();
    dispatch(&mut profile, [&host.compiled_us, &host.eager_us], cited);
    host_group(&mut profile, host, cited);
    start_groups(&mut profile, start, cited);
    // What nobody could read is no profile.
    Profile::from_toml(&profile.to_toml(), "the fitted profile")
}

/// What a finding says, for a provenance.
fn words(name: &str, finding: &Finding) -> Option<String> {
    match finding {
        Finding::Fitted { interval: [low, high], samples, why, .. } => {
            let (low, high) = (rounded(*low), rounded(*high));
            Some(format!("{name} fitted to {samples} steps, 95 % interval {low} to {high}: {why}"))
        }
        Finding::Read { range: [least, most], samples, why, .. } => {
            let (least, most) = (rounded(*least), rounded(*most));
            let over = if least < most { format!("{least} to {most} over their sizes") } else { "one size".to_owned() };
            Some(format!("{name} from {samples} steps, {over}: {why}"))
        }
        Finding::Bounded { most, why, .. } => {
            Some(format!("{name} not identifiable, upper bound {}: {why}", rounded(*most)))
        }
        Finding::Silent { .. } => None,
    }
}

/// Says where the figures of a group come from: derived where one is fitted, as before where all are planned or bounded.
fn state<T>(group: &mut Group<T>, findings: &[(&str, &Finding)], cited: &str) {
    let said: Vec<String> = findings.iter().filter_map(|(name, finding)| words(name, finding)).collect();
    if said.is_empty() {
        return;
    }
    let said = said.join("; ");
    let kept: Vec<&str> = findings.iter().filter(|(_, finding)| !finding.is_figure()).map(|(name, _)| *name).collect();
    let old = &group.provenance;
    if findings.iter().any(|(_, finding)| finding.is_figure()) {
        let planned = old.range.as_ref().map_or(String::new(), |range| format!(", planned in {range}"));
        let rest = match &kept[..] {
            [] => String::new(),
            kept => format!("; {} as before, from {}{planned}", kept.join(", "), old.source),
        };
        group.provenance = Provenance {
            kind: Kind::Derived,
            source: cited.to_owned(),
            licence: None,
            method: Some(format!("{said}{rest}")),
            valid: Some("for this server and its flags, and for batches like those of the log".to_owned()),
            range: None,
        };
        group.measured = None;
    } else {
        let provenance = &mut group.provenance;
        provenance.source = format!("{}; bounded by {cited}", provenance.source);
        let at = if provenance.kind == Kind::Declared { &mut provenance.range } else { &mut provenance.method };
        *at = Some(at.as_ref().map_or_else(|| said.clone(), |range| format!("{range}; {said}")));
    }
}

/// Of a figure that no log tells.
fn untold() -> Finding {
    Finding::Silent { why: String::new() }
}

/// Whether a group may be changed: what was measured or published stays.
fn is_open<T>(group: &Group<T>) -> bool {
    matches!(group.provenance.kind, Kind::Declared | Kind::Derived)
}

/// Drops what logs say of figures that somebody measured or published.
pub fn keep_closed(host: &mut HostFindings, given: &Profile) {
    let closed = || Finding::Silent { why: "the profile's figure was measured or published, and stays".to_owned() };
    if !is_open(&given.engine.dispatch) {
        (host.compiled_us, host.eager_us) = (closed(), closed());
    }
    if !is_open(&given.engine.host) {
        (host.step_overhead_us, host.per_request_us) = (closed(), closed());
    }
}

/// Puts the launches of the compiled model and of one without compilation into a profile.
pub(in crate::fit) fn dispatch(profile: &mut Profile, [compiled_us, eager_us]: [&Finding; 2], cited: &str) {
    let group = &mut profile.engine.dispatch;
    let findings = [("compiled_us", compiled_us), ("eager_us", eager_us)];
    group.figures.compiled_us = compiled_us.decided(group.figures.compiled_us);
    group.figures.eager_us = eager_us.decided(group.figures.eager_us);
    state(group, &findings, cited);
    let is_declared = group.provenance.kind == Kind::Declared;
    let figures = &mut group.figures;
    let cut = |range: Option<PlanningRange>, figure: f64, finding: &Finding| match (range, finding) {
        // Only planned figures have a range.
        _ if !is_declared => None,
        (Some(range), Finding::Bounded { most, .. }) => {
            let high = rounded(range.high.min(*most)).max(figure);
            let low = range.low.min(figure);
            (low < high).then_some(PlanningRange { low, high })
        }
        (range, _) => range,
    };
    figures.compiled_us_range = cut(figures.compiled_us_range, figures.compiled_us, compiled_us);
    figures.eager_us_range = cut(figures.eager_us_range, figures.eager_us, eager_us);
}

fn host_group(profile: &mut Profile, host: &HostFindings, cited: &str) {
    let group = &mut profile.engine.host;
    let rest = untold();
    let findings = [
        ("step_overhead_us", &host.step_overhead_us),
        ("per_request_us", &host.per_request_us),
        ("padding_bookkeeping_us", &rest),
    ];
    group.figures.step_overhead_us = host.step_overhead_us.decided(group.figures.step_overhead_us);
    group.figures.per_request_us = host.per_request_us.decided(group.figures.per_request_us);
    state(group, &findings, cited);
}

fn start_groups(profile: &mut Profile, start: &StartFindings, cited: &str) {
    let capture = &mut profile.machine.capture;
    let findings = [("full_s", &start.full_s), ("piecewise_s", &start.piecewise_s)];
    if capture.provenance.kind == Kind::Declared {
        let figures = &mut capture.figures;
        let (full_s, piecewise_s) = (figures.full_s, figures.piecewise_s);
        figures.full_s = start.full_s.decided(figures.full_s);
        figures.piecewise_s = start.piecewise_s.decided(figures.piecewise_s);
        // The seconds of a log have the first one's extra among them.
        let is_fitted = findings.iter().any(|(_, finding)| finding.is_figure());
        if is_fitted || figures.full_s < full_s || figures.piecewise_s < piecewise_s {
            figures.first_extra_s = 0.0;
        }
        state(capture, &findings, cited);
    }
    let per_capture_s = &mut profile.engine.startup.figures.per_capture_s;
    *per_capture_s = match (&start.per_capture_s, *per_capture_s) {
        // Nobody planned it, so a bound has nothing to cut down.
        (Finding::Bounded { .. }, None) => None,
        (Finding::Silent { .. }, planned) => planned,
        (finding, planned) => Some(finding.decided(planned.unwrap_or_default())),
    };
    let of_startup = [("per_capture_s", &start.per_capture_s), ("the other parts", &untold())];
    state(&mut profile.engine.startup, &of_startup, cited);
    let pool = &mut profile.machine.pool;
    if pool.provenance.kind == Kind::Declared {
        let planned = pool.figures.full_executable;
        let executable = bytes(start.executable_bytes.decided(planned.0 as f64));
        if executable != planned {
            (pool.figures.full_executable, pool.figures.piecewise_executable) = (executable, executable);
            // What the pool's rows take is not known apart: it is among the descriptors' shares.
            pool.figures.per_row = bytes(0.0);
        }
        state(pool, &[("executables", &start.executable_bytes), ("base_bytes", &untold())], cited);
    }
}
