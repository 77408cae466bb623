//! Misuses that can wreck a context are never performed where somebody else could be hit.

use std::fmt;

use miette::Diagnostic;

use crate::state::{MachineState, Virtualization};

/// Why faulting rules are not tried on this device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shared {
    /// Other processes use the card.
    Processes(Vec<u32>),
    /// NVML does not tell whether others use the card.
    Unseen(String),
    /// CUDA's multi-process service: one context for several processes.
    Mps,
    /// A virtual GPU, or a host of such.
    Virtual,
}

impl fmt::Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("rules that can wreck a context are not tried here: ")?;
        match self {
            Self::Processes(pids) => {
                let pids: Vec<_> = pids.iter().map(ToString::to_string).collect();
                write!(f, "other processes use the card ({})", pids.join(", "))
            }
            Self::Unseen(why) => write!(f, "whether others use the card cannot be seen ({why})"),
            Self::Mps => f.write_str("CUDA's multi-process service is there, and shares one context"),
            Self::Virtual => f.write_str("this is a virtual GPU, whose card others share"),
        }
    }
}

impl std::error::Error for Shared {}

impl Diagnostic for Shared {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(match self {
            Self::Processes(_) => {
                "end them, choose another GPU (`--device`), or try only the rules that return a code (`--probe-rules`)"
            }
            Self::Unseen(_) | Self::Mps | Self::Virtual => {
                "use a whole GPU that nobody else has, or try only the rules that return a code (`--probe-rules`)"
            }
        }))
    }
}

/// Whether a fault here would be a fault of others as well, so that not even a misuse that drivers are known to refuse may be
/// tried if it could fault (MPS documentation, "memory protection" and "error containment").
pub(crate) fn shares_faults(state: &MachineState) -> bool {
    state.host.surroundings.mps.is_some()
}

/// Refuses unless the state shows that nobody else can be hit.
///
/// # Errors
/// Somebody could be.
pub(crate) fn refuse_beside_others(state: &MachineState) -> Result<(), Shared> {
    if shares_faults(state) {
        return Err(Shared::Mps);
    }
    match &state.gpu.virtualization {
        Ok(Virtualization::Vgpu | Virtualization::VgpuHost) => return Err(Shared::Virtual),
        Ok(_) => {}
        Err(why) => return Err(Shared::Unseen(why.to_string())),
    }
    let processes = state.gpu.processes.as_deref().map_err(|why| Shared::Unseen(why.to_string()))?;
    let own = std::process::id();
    let others: Vec<_> = processes.iter().map(|process| process.pid).filter(|pid| *pid != own).collect();
    if others.is_empty() { Ok(()) } else { Err(Shared::Processes(others)) }
}
