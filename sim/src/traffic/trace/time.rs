//! Arrival times as traces write them, to whole nanoseconds.

/// Unit of a numeric time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Milliseconds,
    /// Microseconds.
    Microseconds,
    /// Nanoseconds.
    Nanoseconds,
}

impl TimeUnit {
    /// Every unit, the coarsest first.
    const ALL: [Self; 4] = [Self::Seconds, Self::Milliseconds, Self::Microseconds, Self::Nanoseconds];

    /// Its name in a scenario.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Milliseconds => "ms",
            Self::Microseconds => "us",
            Self::Nanoseconds => "ns",
        }
    }

    /// Its name in a sentence.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Milliseconds => "milliseconds",
            Self::Microseconds => "microseconds",
            Self::Nanoseconds => "nanoseconds",
        }
    }

    /// The coarsest unit in which the number is a time that can be kept, if it is a number at all.
    pub(super) fn that_holds(text: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|&unit| parse_number(text, unit).is_some())
    }

    /// Decimal places between the unit and a nanosecond.
    pub(super) fn decimal_places(self) -> u8 {
        match self {
            Self::Seconds => 9,
            Self::Milliseconds => 6,
            Self::Microseconds => 3,
            Self::Nanoseconds => 0,
        }
    }
}

/// Nanoseconds of a date and time of day: `2023-11-16 18:15:46.6805900`, or with a zone as
/// `2024-05-10 00:00:00.009930+00:00`. A time without a zone counts as UTC; only differences are used.
pub(super) fn parse_date_time(text: &[u8]) -> Option<i64> {
    let (date, rest) = text.split_at_checked(10)?;
    let [b' ' | b'T', rest @ ..] = rest else { return None };
    let (clock, rest) = rest.split_at_checked(8)?;
    let ([year @ .., b'-', m1, m2, b'-', d1, d2], [h1, h2, b':', n1, n2, b':', s1, s2]) = (date, clock) else {
        return None;
    };
    let (year, month, day) = (digits(year)?, digits(&[*m1, *m2])?, digits(&[*d1, *d2])?);
    let (hour, minute, second) = (digits(&[*h1, *h2])?, digits(&[*n1, *n2])?, digits(&[*s1, *s2])?);
    // The upper year keeps nanoseconds within 64 bits.
    if !(1970..=2261).contains(&year) || !(1..=12).contains(&month) || day == 0 || day > days_of(year, month) {
        return None;
    }
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let (fraction, zone) = match rest {
        [b'.', rest @ ..] => {
            let end = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
            (fraction_ns(&rest[..end])?, &rest[end..])
        }
        _ => (0, rest),
    };
    let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second;
    Some((seconds - zone_s(zone)?) * 1_000_000_000 + fraction)
}

/// Nanoseconds of a plain number in `unit`. Decimals are taken digit by digit, so that no time is rounded twice.
pub(super) fn parse_number(text: &[u8], unit: TimeUnit) -> Option<i64> {
    let places = usize::from(unit.decimal_places());
    let (negative, magnitude) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let point = magnitude.iter().position(|&byte| byte == b'.').unwrap_or(magnitude.len());
    let (whole, fraction) = (&magnitude[..point], magnitude.get(point + 1..).unwrap_or_default());
    if whole.iter().all(u8::is_ascii_digit) && fraction.iter().all(u8::is_ascii_digit) {
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let kept = &fraction[..fraction.len().min(places)];
        let zeros = (places - kept.len()) as u32;
        let mut value = if whole.len() + places <= DIGITS_FREE {
            number(number(0, whole), kept) * 10_i64.pow(zeros)
        } else {
            let mut value: i64 = 0;
            for digit in whole.iter().chain(kept) {
                value = value.checked_mul(10)?.checked_add(i64::from(digit - b'0'))?;
            }
            value.checked_mul(10_i64.pow(zeros))?
        };
        value = value.checked_add(i64::from(fraction.get(places).is_some_and(|&digit| digit >= b'5')))?;
        return Some(if negative { -value } else { value });
    }
    // An exponent, as data frames write small floats.
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    from_f64(value, unit)
}

/// Every number of so many digits fits into 63 bits.
const DIGITS_FREE: usize = 18;

/// The number that these digits make, written behind those of another.
fn number(before: i64, digits: &[u8]) -> i64 {
    digits.iter().fold(before, |value, digit| value * 10 + i64::from(digit - b'0'))
}

/// Nanoseconds of a float in `unit`; nothing for infinities and what 64 bits cannot hold.
pub(super) fn from_f64(value: f64, unit: TimeUnit) -> Option<i64> {
    let ns = value * 10_f64.powi(i32::from(unit.decimal_places()));
    (ns.abs() < 9.2e18).then(|| ns.round() as i64)
}

fn digits(text: &[u8]) -> Option<i64> {
    text.iter().try_fold(0, |value, byte| byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0')))
}

fn fraction_ns(text: &[u8]) -> Option<i64> {
    let kept = &text[..text.len().min(9)];
    if kept.is_empty() { None } else { Some(digits(kept)? * 10_i64.pow(9 - kept.len() as u32)) }
}

fn zone_s(text: &[u8]) -> Option<i64> {
    let (sign, hours, minutes) = match text {
        [] | [b'Z'] => return Some(0),
        [sign, h1, h2, b':', m1, m2] | [sign, h1, h2, m1, m2] => (sign, digits(&[*h1, *h2])?, digits(&[*m1, *m2])?),
        [sign, h1, h2] => (sign, digits(&[*h1, *h2])?, 0),
        _ => return None,
    };
    let magnitude = hours * 3_600 + minutes * 60;
    match sign {
        _ if hours > 23 || minutes > 59 => None,
        b'+' => Some(magnitude),
        b'-' => Some(-magnitude),
        _ => None,
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let leaps_before = |year: i64| (year - 1) / 4 - (year - 1) / 100 + (year - 1) / 400;
    let years = (year - 1970) * 365 + leaps_before(year) - leaps_before(1970);
    years + (1..month).map(|month| days_of(year, month)).sum::<i64>() + day - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_both_azure_forms() {
        assert_eq!(parse_date_time(b"2023-11-16 18:15:46.6805900"), Some(1_700_158_546_680_590_000));
        assert_eq!(parse_date_time(b"2024-05-10 00:00:00.009930+00:00"), Some(1_715_299_200_009_930_000));
        assert_eq!(parse_date_time(b"2024-05-10 02:00:00+02:00"), Some(1_715_299_200_000_000_000));
        assert_eq!(parse_date_time(b"2024-05-09T22:30:00-0130"), Some(1_715_299_200_000_000_000));
        assert_eq!(parse_date_time(b"1970-01-01 00:00:00Z"), Some(0));
        assert_eq!(parse_date_time(b"2000-02-29 00:00:00"), Some(951_782_400_000_000_000));
        assert_eq!(parse_date_time(b"2261-12-31 23:59:59.999999999"), Some(9_214_646_399_999_999_999));
    }

    #[test]
    fn impossible_dates_are_refused() {
        for text in [
            "",
            "2023-11-16",
            "2023-11-16 18:15",
            "2023-13-16 18:15:46",
            "2023-02-29 18:15:46",
            "2023-00-10 18:15:46",
            "2023-11-16 24:00:00",
            "2023-11-16 18:60:46",
            "2023-11-16 18:15:46.",
            "2023-11-16 18:15:46.5x",
            "2023-11-16 18:15:46+1",
            "2023-11-16 18:15:46+25:00",
            "2262-01-01 00:00:00",
            "0000-00-00 00:00:00",
            "2023-1a-16 18:15:46",
            "20231116 181546.12",
        ] {
            assert_eq!(parse_date_time(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn the_unit_of_an_epoch_time_is_told_from_its_size() {
        assert_eq!(TimeUnit::that_holds(b"1710000000"), Some(TimeUnit::Seconds));
        assert_eq!(TimeUnit::that_holds(b"1710000000018"), Some(TimeUnit::Milliseconds));
        assert_eq!(TimeUnit::that_holds(b"1710000000018123"), Some(TimeUnit::Microseconds));
        assert_eq!(TimeUnit::that_holds(b"1710000000018123456"), Some(TimeUnit::Nanoseconds));
        assert_eq!(TimeUnit::that_holds(b"17100000000181234567"), None);
        assert_eq!(TimeUnit::that_holds(b"soon"), None);
    }

    #[test]
    fn numbers_keep_every_digit() {
        let seconds = |text: &str| parse_number(text.as_bytes(), TimeUnit::Seconds);
        assert_eq!(seconds("4.314579"), Some(4_314_579_000));
        assert_eq!(seconds("0.0"), Some(0));
        assert_eq!(seconds("12"), Some(12_000_000_000));
        assert_eq!(seconds(".5"), Some(500_000_000));
        assert_eq!(seconds("-1.25"), Some(-1_250_000_000));
        assert_eq!(seconds("1.0000000005"), Some(1_000_000_001));
        assert_eq!(seconds("1700158546.680590123"), Some(1_700_158_546_680_590_123));
        assert_eq!(seconds("1e-05"), Some(10_000));
        assert_eq!(parse_number(b"27482", TimeUnit::Milliseconds), Some(27_482_000_000));
        assert_eq!(parse_number(b"1.5", TimeUnit::Microseconds), Some(1_500));
        assert_eq!(parse_number(b"7", TimeUnit::Nanoseconds), Some(7));
        for text in ["", ".", "-", "1.2.3", "abc", "inf", "nan", "1e300", "99999999999999999999", "1,5", "0x10"] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }
}
