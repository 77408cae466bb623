//! When requests arrive.

use std::path::Path;

use super::super::ScenarioError;
use super::super::check::{Check, range_help};
use super::super::file::{ArrivalsFile, Real};
use super::trace::trace;
use crate::limits::{BURSTINESS, RATE_MAX, RATE_MIN, SEQUENCES_MAX};
use crate::traffic::{Arrivals, Spread, Wanted};

/// Checks `[traffic.arrivals]`.
pub(super) fn arrivals(check: &mut Check<'_>, file: &ArrivalsFile, base_dir: &Path) -> Result<Arrivals, ScenarioError> {
    Ok(match file {
        ArrivalsFile::Poisson(file) => Arrivals::Poisson { rate: rate(check, &file.rate)? },
        ArrivalsFile::Constant(file) => Arrivals::Constant { rate: rate(check, &file.rate)? },
        ArrivalsFile::Gamma(file) => Arrivals::Gamma {
            rate: rate(check, &file.rate)?,
            burstiness: burstiness(check, &file.burstiness)?,
            spread: if file.rescale.unwrap_or(true) { Spread::Rescaled } else { Spread::AsDrawn },
        },
        ArrivalsFile::OnOff(file) => {
            let optional = |value: &Real| if *value.get_ref() == 0.0 { Ok(0.0) } else { rate(check, value) };
            let rate_on = optional(&file.rate_on)?;
            let rate_off = file.rate_off.as_ref().map(optional).transpose()?.unwrap_or(0.0);
            if rate_on == 0.0 && rate_off == 0.0 {
                let help = "give rate_on or rate_off a value above zero";
                return Err(check.reject(&file.rate_on.span(), "both rates are zero: nothing ever arrives", help));
            }
            Arrivals::OnOff { on: check.duration(&file.on)?, off: check.duration(&file.off)?, rate_on, rate_off }
        }
        ArrivalsFile::ClosedLoop(file) => {
            Arrivals::ClosedLoop { concurrency: check.whole32(&file.concurrency, 1, SEQUENCES_MAX)? }
        }
        ArrivalsFile::Trace(file) => Arrivals::Trace(trace(check, file, Wanted::ARRIVALS, base_dir)?),
    })
}

fn rate(check: &Check<'_>, value: &Real) -> Result<f64, ScenarioError> {
    let number = *value.get_ref();
    if (RATE_MIN..=RATE_MAX).contains(&number) {
        return Ok(number);
    }
    let problem = format!("expected {RATE_MIN} to {RATE_MAX} requests per second, found {number}");
    let help = if number == f64::INFINITY {
        "to send everything at once, use [traffic.arrivals.closed_loop] with concurrency as large as requests"
            .to_owned()
    } else {
        range_help(number, RATE_MIN)
    };
    Err(check.reject(&value.span(), problem, help))
}

fn burstiness(check: &Check<'_>, value: &Real) -> Result<f64, ScenarioError> {
    let number = *value.get_ref();
    if (BURSTINESS.0..=BURSTINESS.1).contains(&number) {
        return Ok(number);
    }
    let problem = format!("expected a number from {} to {}, found {number}", BURSTINESS.0, BURSTINESS.1);
    let help =
        "1 is Poisson-like, below 1 bursts, above 1 is more even; for equal gaps use [traffic.arrivals.constant]";
    Err(check.reject(&value.span(), problem, help))
}
