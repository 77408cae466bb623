//! A graph of one launch, again and again.

use kernels::launch::Launch;

use super::error::ProbeError;
use crate::device::{Executable, Session};

/// So many nodes, uploaded. The kernel must have run before.
pub(super) fn graph_of(session: &mut Session, launch: &Launch, count: u32) -> Result<Executable, ProbeError> {
    let mut capture = session.capture([])?;
    for _ in 0..count {
        capture.launch(launch)?;
    }
    let (session, graph) = capture.end();
    let executable = session.instantiate(&graph?)?;
    session.upload(&executable)?;
    session.synchronize()?;
    Ok(executable)
}
