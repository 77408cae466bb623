//! What a profile is about and how far it can be believed.

use std::io::{self, Write};

use crate::layout::{heading, number, row, sentence};
use crate::profile::{AnyGroup, Kind, Profile};

pub(super) fn title(profile: &Profile, out: &mut impl Write) -> io::Result<()> {
    let identity = &profile.identity;
    row("Profile ", &profile.name, out)?;
    sentence(&format!("{} on {}, for {}", identity.model_name, identity.device, identity.engine), out)?;
    let Some(run) = &profile.measurement else {
        return sentence("not measured by calibrate: the origin of each group is below", out);
    };
    let driver = identity.driver.as_deref().unwrap_or("not stated");
    sentence(&format!("measured {} by calibrate {}, driver {driver}", run.date, run.calibrate_version), out)?;
    sentence(&format!("matrix products by {}", run.gemm_backend), out)?;
    if run.tensor_parallel > 1 {
        let ranks = run.tensor_parallel;
        sentence(&format!("one of {ranks} tensor-parallel ranks: collectives between them are not measured"), out)?;
    }
    if profile.groups().iter().any(|(_, provenance)| provenance.kind == Kind::Double) {
        sentence("made by the test double of the driver: no figure here is a measurement", out)?;
    }
    Ok(())
}

/// Intervals and held-out errors of what was measured.
pub(super) fn precision(profile: &Profile, out: &mut impl Write) -> io::Result<()> {
    let measured: Vec<AnyGroup<'_>> =
        profile.each_group().into_iter().filter(|group| group.measured.is_some()).collect();
    if measured.is_empty() {
        return Ok(());
    }
    heading("Precision: 95 % intervals, the widest of each group, and what was left out", out)?;
    for group in measured {
        let Some(stated) = group.measured else { continue };
        let widest = group.widest_interval_percent().map(|width| format!("+-{width:.1} %"));
        let held_out = stated.held_out.map(|held_out| {
            let (median, worst) = (number(held_out.median_percent), number(held_out.worst_percent));
            match held_out.worst_percent {
                ..0.00005 => "; left-out sizes exact".to_owned(),
                _ => format!("; left-out sizes {median} % off, at most {worst} % at {}", held_out.worst_at),
            }
        });
        let indistinct = group.indistinct();
        let indistinct =
            (!indistinct.is_empty()).then(|| format!("; not told from nothing: {}", indistinct.join(", ")));
        let rounds = stated.protocol.as_ref().map(|protocol| format!(", {} rounds", protocol.rounds));
        let text = [widest, rounds, held_out, indistinct].into_iter().flatten().collect::<String>();
        sentence(&format!("{}: {text}", group.name), out)?;
    }
    Ok(())
}

pub(super) fn warnings(profile: &Profile, out: &mut impl Write) -> io::Result<()> {
    let Some(run) = &profile.measurement else { return Ok(()) };
    if !run.warnings.is_empty() {
        heading("Warnings", out)?;
    }
    for warning in &run.warnings {
        let advice = warning.advice.as_ref().map_or_else(String::new, |advice| format!("; {advice}"));
        sentence(&format!("{}: {}{advice}", warning.code, warning.what), out)?;
    }
    if !run.not_measured.is_empty() {
        heading("Not measured", out)?;
    }
    run.not_measured.iter().try_for_each(|left_out| sentence(&format!("{}: {}", left_out.what, left_out.why), out))
}

/// Where each group comes from.
pub(super) fn origins(profile: &Profile, name: &str, out: &mut impl Write) -> io::Result<()> {
    heading("Origin of each group", out)?;
    for kind in Kind::ALL {
        let groups = profile.groups();
        let names: Vec<_> = groups.iter().filter(|(_, origin)| origin.kind == kind).map(|(name, _)| *name).collect();
        if !names.is_empty() {
            sentence(&format!("{kind}: {}", names.join(", ")), out)?;
        }
    }
    sentence(&format!("sources, methods and ranges: calibrate show {name}"), out)
}
