//! What most commands start from: a scenario, its profile, and its candidates made ready.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use calibrate::profile::{Profile, ProfileError};

use super::failure::Failure;
use crate::propose::error::ProposeError;
use crate::scenario::{Candidate, ProfileSource, Scenario};
use crate::server::{Setup, SetupError};
use crate::time::SimTime;

/// A scenario with the profile that prices it.
#[derive(Debug)]
pub(super) struct Inputs {
    /// The scenario.
    pub scenario: Scenario,
    /// The profile.
    pub profile: Profile,
    /// The profile as it was asked for: a built-in name or a path.
    pub profile_name: String,
}

impl Inputs {
    /// Reads the scenario and its profile, or the profile given instead.
    ///
    /// # Errors
    /// If either cannot be read or used.
    pub(super) fn load(scenario: &Path, profile: Option<&str>) -> Result<Self, Failure> {
        if let Some(given) = profile {
            let profile = named_profile(given)?;
            let scenario = Scenario::load_on(scenario, Some(&profile))?;
            return Ok(Self { scenario, profile, profile_name: given.to_owned() });
        }
        Self::of(Scenario::load(scenario)?)
    }

    /// A scenario that is read already, with its own profile.
    ///
    /// # Errors
    /// If the profile cannot be read or used.
    pub(super) fn of(scenario: Scenario) -> Result<Self, Failure> {
        let (profile, profile_name) = scenario_profile(&scenario)?;
        Ok(Self { scenario, profile, profile_name })
    }

    /// Makes sure that no result takes the place of a file that is read.
    ///
    /// # Errors
    /// The first of `results` that would.
    pub(super) fn check_results(&self, results: impl IntoIterator<Item = PathBuf>) -> Result<(), Failure> {
        let mut read = self.scenario.traffic.files();
        read.extend([Path::new(&self.scenario.file), Path::new(&self.profile_name)]);
        results.into_iter().try_for_each(|result| refuse_if_read(&result, &read))
    }

    /// Keeps only the named candidates, in the scenario's order; all of them without names.
    ///
    /// # Errors
    /// If the scenario has no candidate of some name.
    pub(super) fn select(&mut self, names: &[String]) -> Result<(), Failure> {
        let candidates = &mut self.scenario.candidates;
        if let Some(unknown) = names.iter().find(|&name| candidates.iter().all(|candidate| candidate.name != *name)) {
            let known: Vec<String> = candidates.iter().map(|candidate| format!("`{}`", candidate.name)).collect();
            return Err(Failure::Usage {
                message: format!("{} has no candidate named `{unknown}`", self.scenario.file),
                help: Some(format!("its candidates are {}", known.join(", "))),
            });
        }
        candidates.retain(|candidate| names.is_empty() || names.contains(&candidate.name));
        Ok(())
    }

    /// Makes one candidate ready.
    ///
    /// # Errors
    /// If the engine would refuse to start with it; the message points at the candidate.
    pub(super) fn prepare(&self, candidate: &Candidate) -> Result<Setup, Failure> {
        Setup::prepare(&candidate.options, &self.profile).map_err(|error| self.reject(candidate, &error))
    }

    /// Makes every candidate ready, in the scenario's order.
    ///
    /// # Errors
    /// As [`Inputs::prepare`], for the first that fails.
    pub(super) fn prepare_all(&self) -> Result<Vec<Setup>, Failure> {
        self.scenario.candidates.iter().map(|candidate| self.prepare(candidate)).collect()
    }

    /// Opens the traffic and takes its first request, so that a missing or foreign trace shows before any run.
    ///
    /// # Errors
    /// If the traffic cannot be simulated, or has no first request.
    pub(super) fn check_traffic(&self) -> Result<(), Failure> {
        let traffic = &self.scenario.traffic;
        self.scenario.simulable()?;
        let mut stream = traffic.open(traffic.seed)?;
        let first = match stream.concurrency() {
            Some(_) => stream.next_at(SimTime::ZERO),
            None => stream.next(),
        };
        first.transpose()?;
        Ok(())
    }

    /// Why there is no proposal to replace a candidate.
    #[must_use]
    pub(super) fn no_proposal(&self, candidate: &Candidate, error: ProposeError) -> Failure {
        match error {
            ProposeError::Setup(error) => self.reject(candidate, &error),
            ProposeError::Traffic(error) => error.into(),
            ProposeError::Server(error) => error.into(),
            ProposeError::EndedEarly => {
                Failure::Interrupted("the ladders in force were not simulated yet, so there is nothing to say")
            }
            other => Failure::NoProposal { help: Some(other.help()), message: other.to_string() },
        }
    }

    /// A refusal of one candidate, pointed at its place in the scenario.
    #[must_use]
    pub(super) fn reject(&self, candidate: &Candidate, error: &SetupError) -> Failure {
        let message = format!("candidate `{}`: {error}", candidate.name);
        self.scenario.reject(candidate.span.clone(), message, error.help()).into()
    }
}

/// Refuses a result that would take the place of one of the files that are read.
///
/// # Errors
/// If it would.
pub(super) fn refuse_if_read(result: &Path, read: &[&Path]) -> Result<(), Failure> {
    // What does not exist replaces nothing.
    let Ok(place) = result.canonicalize() else { return Ok(()) };
    match read.iter().find(|file| file.canonicalize().is_ok_and(|file| file == place)) {
        None => Ok(()),
        Some(_) => Err(Failure::Usage {
            message: format!("{} is read, and the result would take its place", result.display()),
            help: Some("write the result somewhere else".to_owned()),
        }),
    }
}

/// `--profile`: a built-in name, else a file.
///
/// # Errors
/// If there is no such profile, or it cannot be used.
pub(super) fn named_profile(given: &str) -> Result<Profile, ProfileError> {
    Profile::open(OsStr::new(given))
}

fn scenario_profile(scenario: &Scenario) -> Result<(Profile, String), Failure> {
    let profile = scenario.profile.open();
    match &scenario.profile {
        ProfileSource::Builtin(name) => match profile {
            Ok(profile) => Ok((profile, name.clone())),
            Err(error) => Err(scenario.reject(scenario.profile_span.clone(), error.to_string(), error.advice()).into()),
        },
        ProfileSource::File(path) => Ok((profile?, path.display().to_string())),
    }
}
