//! When a profile was measured.

use std::time::{Duration, SystemTime};

use miette::Diagnostic;

/// 2024-01-01T00:00:00Z: there was no calibrate before, only clocks that were not set.
const EARLIEST: Duration = Duration::from_hours(473_352);
/// Clocks of two machines may differ, by a time zone that is taken for UTC at most.
const AHEAD: Duration = Duration::from_hours(24);

/// Why a text is no moment of a measurement.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Odd {
    /// No moment at all.
    Form,
    /// Before anything could be measured.
    Early,
    /// Not yet.
    Late,
}

/// Whether a measurement can have begun then: a moment of the calendar in UTC, in 2024 or later, and not later than a day after
/// `now`.
pub(super) fn oddity(text: &str, now: SystemTime) -> Option<Odd> {
    // The reader takes a sixtieth second, of which clocks of computers have none.
    let Ok(moment) = humantime::parse_rfc3339(text) else { return Some(Odd::Form) };
    if text.get(17..19) == Some("60") {
        return Some(Odd::Form);
    }
    if moment < SystemTime::UNIX_EPOCH + EARLIEST {
        return Some(Odd::Early);
    }
    now.checked_add(AHEAD).is_some_and(|last| moment > last).then_some(Odd::Late)
}

/// A clock that nobody set: a profile could not say when it was measured.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("the clock of this machine says {date}: expected 2024 or later, for a profile says when it was measured")]
#[diagnostic(help("set the clock, and measure again"))]
pub struct ClockNotSet {
    date: String,
}

/// A moment as profiles write it: that at which a measurement begins.
///
/// # Errors
/// [`ClockNotSet`] if no profile with it could be read.
pub fn beginning(now: SystemTime) -> Result<String, ClockNotSet> {
    let date = humantime::format_rfc3339_seconds(now).to_string();
    if oddity(&date, now).is_none() { Ok(date) } else { Err(ClockNotSet { date }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_of_the_calendar_and_of_this_age() {
        let now = humantime::parse_rfc3339("2026-07-01T12:00:00Z").unwrap();
        for (text, expected) in [
            ("2026-01-31T09:30:00Z", None),
            ("2024-01-01T00:00:00Z", None),
            ("2024-02-29T23:59:59.5Z", None),
            ("2026-07-02T12:00:00Z", None),
            ("2026-07-02T12:00:01Z", Some(Odd::Late)),
            ("2099-01-31T09:30:00Z", Some(Odd::Late)),
            ("9999-12-31T23:59:59Z", Some(Odd::Late)),
            ("2023-12-31T23:59:59Z", Some(Odd::Early)),
            ("1970-01-01T00:00:00Z", Some(Odd::Early)),
            ("2026-01-31T09:30:60Z", Some(Odd::Form)),
            ("2026-01-31T24:00:00Z", Some(Odd::Form)),
            ("2026-02-29T09:30:00Z", Some(Odd::Form)),
            ("2026-13-01T09:30:00Z", Some(Odd::Form)),
            ("2026-01-31T09:30:00+01:00", Some(Odd::Form)),
            ("2026-01-31", Some(Odd::Form)),
            ("0000-01-31T09:30:00Z", Some(Odd::Form)),
            ("yesterday", Some(Odd::Form)),
        ] {
            assert_eq!(oddity(text, now), expected, "{text}");
        }
    }

    #[test]
    fn a_clock_that_was_never_set_measures_nothing() {
        let now = humantime::parse_rfc3339("2026-07-01T12:00:00.5Z").unwrap();
        assert_eq!(beginning(now).unwrap(), "2026-07-01T12:00:00Z");
        let error = beginning(SystemTime::UNIX_EPOCH + Duration::from_secs(75)).unwrap_err();
        assert!(
            error.to_string().starts_with("the clock of this machine says 1970-01-01T00:01:15Z: expected"),
            "{error}"
        );
    }
}
