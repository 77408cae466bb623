//! Every misuse of the rule table, performed on purpose.
//!
//! One misuse a process: a driver that faults takes its process with it, and a context that is lost is lost for good. The
//! parent is `rule_probe`.

mod calls;
mod capturing;
mod functions;
mod graphs;
mod stage;

pub use stage::NotTried;

use crate::driver_rules::{CaptureAfter, Misuse};
use stage::{Driver, Stage};

/// What a misuse came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Performed {
    /// What the call returned.
    pub status: u32,
    /// What became of the capture.
    pub capture: CaptureAfter,
    /// Whether the context still works.
    pub context_survives: bool,
}

/// The status of the misuse and what became of the capture.
type Tried = Result<(u32, CaptureAfter), NotTried>;

/// Performs one misuse on the device of this index, as CUDA counts.
///
/// # Errors
/// It could not be performed.
pub fn perform(misuse: Misuse, device: u32) -> Result<Performed, NotTried> {
    let driver = Driver::load()?;
    // The one misuse that must come before everything else.
    let before_init = (misuse == Misuse::CallBeforeInit).then(|| driver.count_devices());
    let stage = Stage::open(driver, device.cast_signed(), misuse == Misuse::LazyLoadInCapture)?;
    let (status, capture) = match before_init {
        Some(status) => (status, CaptureAfter::None),
        None => try_misuse(&stage, misuse)?,
    };
    Ok(Performed { status, capture, context_survives: stage.works() })
}

fn try_misuse(stage: &Stage, misuse: Misuse) -> Tried {
    let groups = [calls::attempt, capturing::attempt, graphs::attempt];
    let tried = groups.into_iter().find_map(|group| group(stage, misuse));
    tried.unwrap_or(Err(NotTried::NoCase("nothing is written that performs it")))
}
