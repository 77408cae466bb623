//! Does everything work on this device, before anything is measured there: the driver's functions, the kernels against
//! their references, graphs against eager steps (GPU specification section 5).

mod basics;
mod finding;
mod graphs;
mod kernel_cases;
mod products;
mod reference;
mod tiny;

use std::io::{self, Write};

use kernels::check::Size;

use crate::device::{Card, DeviceError, Image, Session};
use crate::exit::Exit;
use finding::Report;
pub use finding::{Finding, Verdict};

/// Why the checks could not begin, or could not be told.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
    /// The device cannot be used at all.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The findings could not be written.
    #[error(transparent)]
    Output(#[from] io::Error),
}

/// Only that the kernels are there, and that graphs of a tiny model give the bits of eager steps: what takes seconds. With the
/// lines that say so.
///
/// # Errors
/// The device cannot be used just now.
pub fn graphs_alone(session: &mut Session) -> Result<(Verdict, String), Stopped> {
    let mut lines = Vec::new();
    let mut report = Report::new(&mut lines);
    report.add(basics::code(session))?;
    graphs::run(session, &mut report)?;
    let verdict = report.verdict()?;
    Ok((verdict, String::from_utf8_lossy(&lines).into_owned()))
}

/// Runs every check on a device, and writes a line for each as soon as it is known.
///
/// # Errors
/// The device cannot be opened, or the lines cannot be written. A check that fails is no error: see [`Verdict`].
pub fn run<'a>(
    card: Card,
    image: impl Fn(kernels::launch::Module) -> Image<'a>,
    out: &mut impl Write,
) -> Result<Verdict, Stopped> {
    let mut report = Report::new(out);
    report.add(basics::functions(card.library()))?;
    let mut session = match Session::open(card, image) {
        Ok(session) => session,
        Err(error) if error.exit() != Exit::Unexpected => return Err(error.into()),
        Err(error) => {
            report.add(Finding::failed("kernels load", &error))?;
            return Ok(report.verdict()?);
        }
    };
    report.add(basics::code(&session))?;
    // Cases of the widths of real models would take the double's executor hours.
    let is_double = card.library().double_version().is_some();
    let sizes: &[Size] = if is_double { &[Size::Quick] } else { &[Size::Quick, Size::Full] };
    let checks = [basics::run, graphs::run, products::run];
    let mut is_lost = kernel_cases::run(&mut session, sizes, &mut report)?;
    for check in checks {
        is_lost = is_lost || check(&mut session, &mut report)?;
    }
    report.add(match (is_lost, session.close()) {
        (true, _) => Finding::failed_as("session", "the context was lost, and the checks that follow were left out"),
        (false, Ok(())) => Finding::ok("session", "everything was given back"),
        (false, Err(error)) => Finding::failed("session", &error),
    })?;
    Ok(report.verdict()?)
}
