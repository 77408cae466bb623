//! Every kernel against its reference: one line a kernel.

use kernels::check::{Case, CheckError, Margin, Size, cases};
use kernels::launch::Kernel;

use super::Stopped;
use super::finding::{Finding, Report};
use crate::device::{DeviceError, Session};
use crate::exit::Exit;

/// A case that did not pass.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {error}")]
struct CaseFailed {
    name: String,
    error: CheckError<DeviceError>,
}

/// Runs the cases of these sizes, kernel by kernel; true if the context is lost.
///
/// # Errors
/// The device cannot be used just now, or a line cannot be written.
pub(super) fn run(session: &mut Session, sizes: &[Size], report: &mut Report<'_>) -> Result<bool, Stopped> {
    let cases: Vec<Case> = cases().into_iter().filter(|case| sizes.contains(&case.size)).collect();
    for &kernel in Kernel::ALL {
        // The kernel that joins split attention is checked with the one that splits.
        let own: Vec<&Case> = cases.iter().filter(|case| case.kernels.contains(&kernel)).collect();
        let name = match own.len() {
            1 => format!("{} (1 case)", kernel.symbol()),
            count => format!("{} ({count} cases)", kernel.symbol()),
        };
        let mut worst = Margin::default();
        let mut failed = Vec::new();
        for case in &own {
            match case.run(&mut session.scratch()) {
                Ok(margin) => worst = worst.worse(margin),
                Err(CheckError::Machine(error)) if error.exit() != Exit::Unexpected => return Err(error.into()),
                Err(error) => {
                    let is_lost = matches!(&error, CheckError::Machine(DeviceError::Lost { .. }));
                    failed.push(CaseFailed { name: case.name.clone(), error });
                    if is_lost {
                        report.add(failure(&name, &failed))?;
                        return Ok(true);
                    }
                }
            }
        }
        if failed.is_empty() {
            report.add(Finding::ok(name, figure(worst, &own)))?;
        } else {
            report.add(failure(&name, &failed))?;
        }
    }
    Ok(false)
}

/// How close the results were, and how close they had to be.
fn figure(worst: Margin, cases: &[&Case]) -> String {
    match cases.iter().find_map(|case| case.tolerance()) {
        None => "as expected".into(),
        Some(limit) => format!(
            "norm off by {:.1e} (limit {:.1e}), an element by {:.1e} (limit {:.1e})",
            worst.relative_norm, limit.relative_norm, worst.element, limit.element
        ),
    }
}

/// The first few cases that failed, and how many there are.
fn failure(name: &str, failed: &[CaseFailed]) -> Finding {
    const SHOWN: usize = 3;
    let mut lines = vec![format!("{} of them", failed.len())];
    lines.extend(failed.iter().take(SHOWN).map(ToString::to_string));
    if failed.len() > SHOWN {
        lines.push(format!("and {} more", failed.len() - SHOWN));
    }
    Finding::failed_as(name, lines.join("\n"))
}
