//! The proposal as flags of the engine versions asked for.

use reports::{FlagsFile, FlagsReport};

use super::super::failure::Failure;
use crate::engine::options::EngineOptions;
use crate::flags::{Target, advise};

/// Flags for each target, in order; the server's own version where none is named. Settings other than sizes are to be added
/// by hand: each has a note.
///
/// # Errors
/// A target of another engine.
pub(super) fn flags(
    options: &EngineOptions,
    settings: &[String],
    targets: &[Target],
    kv_tokens: Option<u64>,
) -> Result<Vec<FlagsReport>, Failure> {
    let own = [Target::of(options)];
    let targets = if targets.is_empty() { &own[..] } else { targets };
    let of = |&target: &Target| {
        let advice = advise(options, target, kv_tokens).map_err(|fault| Failure::Usage {
            message: format!("--engine-version {}: {fault}", target.name()),
            help: Some("leave it out for the version of the scenario".to_owned()),
        })?;
        let settings = settings.iter().map(|setting| format!("the proposal also needs {setting}"));
        Ok(FlagsReport {
            target: target.to_string(),
            environment: advice.environment.iter().map(|(name, value)| format!("{name}={value}")).collect(),
            exact: advice.checked.captured().map(|_| advice.checked.is_same()),
            file: advice.file.map(|file| FlagsFile { name: file.name, text: file.text }),
            shell: advice.shell,
            json: advice.json,
            notes: advice.notes.into_iter().chain(settings).collect(),
        })
    };
    targets.iter().map(of).collect()
}
