//! What a measured profile says about its own measurement: every result that rests on it says so too.

use calibrate::profile::{Kind, Profile};
use reports::Warning;

/// What was amiss while the profile was measured, and what its figures do not hold.
#[must_use]
pub fn about_measurement(profile: &Profile) -> Vec<Warning> {
    let double = profile.groups().iter().any(|(_, provenance)| provenance.kind == Kind::Double).then(|| {
        let message = "the profile was made by the test double of the driver: its figures are not measurements";
        Warning::general("profile_double", message)
    });
    let ranks = profile.tensor_parallel();
    let shard = (ranks > 1).then(|| {
        let message = format!(
            "the profile is of one of {ranks} tensor-parallel ranks, measured alone: collectives between them are not \
             measured, so every step is too short"
        );
        Warning::general("collectives_not_measured", message)
    });
    let run = profile.measurement.as_ref();
    let shared = run.and_then(|run| run.weight_layers).map(|own| {
        let layers = profile.identity.model.layers;
        let message = format!(
            "when the profile was measured {layers} layers shared the weights of {own}, for all would not have fitted: a step \
             may have found in the cache what a server reads from memory"
        );
        Warning::general("profile_shared_weights", message)
    });
    let kept = run.into_iter().flat_map(|run| &run.warnings).map(|warning| {
        let advice = warning.advice.as_ref().map_or_else(String::new, |advice| format!("; {advice}"));
        let message = format!("when the profile was measured: {}{advice}", warning.what);
        Warning::general(format!("profile_{}", warning.code), message)
    });
    let alone = about_captures(profile);
    double.into_iter().chain(shard).chain(shared).chain(alone).chain(kept).collect()
}

/// Seconds of captures that calibrate measured are the driver's: it runs no engine, whose part the engine half may declare.
fn about_captures(profile: &Profile) -> Option<Warning> {
    let is_measured = matches!(profile.machine.capture.provenance.kind, Kind::Measured | Kind::Double);
    let is_declared = profile.engine.startup.figures.per_capture_s.is_some();
    (is_measured && !is_declared).then(|| {
        let message = "the profile's seconds of a capture are those of the driver and of launching: an engine's warm-up steps \
                       and Python come on top of each, so start-up is longer than shown; once known, declare them as \
                       per_capture_s of [engine.startup]";
        Warning::general("captures_without_engine", message)
    })
}
