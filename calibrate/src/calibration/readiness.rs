//! Whether a machine can be measured now.

use std::thread;
use std::time::Duration;

use super::Ended;
use crate::device::Session;
use crate::exit::Exit;
use crate::measure::{Limits, still_memory};
use crate::self_check::{self, Stopped};
use crate::state::Concern;

/// Readings of free memory, and the time between two of them.
const READINGS: usize = 6;
const PAUSE: Duration = Duration::from_millis(50);
/// Concerns under which no figure would hold.
const UNFIT: [&str; 1] = ["throttled"];

/// Refuses to measure where a concern forbids it; all others are kept as warnings.
///
/// # Errors
/// The concern.
pub(crate) fn refuse_unfit(concerns: &[Concern]) -> Result<(), Ended> {
    match concerns.iter().find(|concern| UNFIT.contains(&concern.code)) {
        Some(concern) => Err(Ended::Unfit(concern.clone())),
        None => Ok(()),
    }
}

/// That nobody else takes or gives back the device's memory now.
///
/// # Errors
/// Somebody does, or the device fails.
pub(crate) fn memory_stands_still(session: &mut Session) -> Result<(), Ended> {
    let mut free = Vec::with_capacity(READINGS);
    for reading in 0..READINGS {
        if reading > 0 {
            thread::sleep(PAUSE);
        }
        free.push(session.memory()?.0);
    }
    Ok(still_memory(&free, Limits::default().memory)?)
}

/// That every kernel is there, and that a tiny model's replays give the bits of its eager steps: seconds that keep a broken
/// installation from becoming a profile.
///
/// # Errors
/// They do not, or the device fails.
pub(crate) fn kernels_work(session: &mut Session) -> Result<(), Ended> {
    match self_check::graphs_alone(session) {
        Ok((verdict, _)) if verdict.exit() == Exit::Ok => Ok(()),
        Ok((_, lines)) => Err(Ended::Wrong(lines)),
        Err(Stopped::Device(error)) => Err(error.into()),
        Err(Stopped::Output(error)) => Err(Ended::Wrong(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_are_held_down_forbid_measuring() {
        let concern = |code| Concern { code, what: "what".to_owned(), advice: "advice".to_owned() };
        assert!(refuse_unfit(&[concern("power_limit"), concern("wsl"), concern("other_processes")]).is_ok());
        let error = refuse_unfit(&[concern("wsl"), concern("throttled")]).unwrap_err();
        assert_eq!(error.exit(), Exit::TooNoisy);
    }
}
