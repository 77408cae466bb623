//! What a measured profile says about its own measurement: every result that rests on it says so too.

use calibrate::profile::{Kind, Profile};
use reports::Warning;

/// What was amiss while the profile was measured, and what its figures do not hold.
pub(super) fn about_measurement(profile: &Profile) -> Vec<Warning> {
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
    let kept = run.into_iter().flat_map(|run| &run.warnings).map(|warning| {
        let advice = warning.advice.as_ref().map_or_else(String::new, |advice| format!("; {advice}"));
        let message = format!("when the profile was measured: {}{advice}", warning.what);
        Warning::general(format!("profile_{}", warning.code), message)
    });
    double.into_iter().chain(shard).chain(kept).collect()
}
