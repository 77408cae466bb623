//! Counted quantities: newtypes, so that rows and requests cannot be swapped in a call, and memory sizes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

macro_rules! count {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

count!(
    /// Rows that the model's matrix products run: tokens plus padding.
    Rows
);
count!(
    /// Requests of a step.
    Requests
);

/// A memory size in bytes.
///
/// Displays in binary units with two decimals (`1.50 GiB`, whole bytes below 1 KiB) and parses a number with a unit
/// (`2GiB`, `512 MiB`, `1.5 GB`, `4096 B`). A bare number is refused: nobody can tell what was meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// Unit spellings, longest first, and their bytes.
const UNITS: [(&str, u64); 9] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("B", 1),
];

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS[..4].iter().rev().find(|(_, bytes)| self.0 >= *bytes);
        match unit {
            Some((unit, bytes)) => f.pad(&format!("{:.2} {unit}", self.0 as f64 / *bytes as f64)),
            None => f.pad(&format!("{} B", self.0)),
        }
    }
}

/// Why a text is not a memory size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BytesError {
    /// There is no unit behind the number.
    #[error("`{0}` has no unit: write for instance {0}GiB, {0}MiB or {0}B")]
    NoUnit(String),
    /// The unit is none of those known.
    #[error("`{0}` is no memory unit: use B, KiB, MiB, GiB, TiB, kB, MB, GB or TB")]
    Unit(String),
    /// What stands before the unit is no plain number.
    #[error("`{0}` is no number: write for instance 2GiB or 1.5GiB")]
    Number(String),
    /// The size is beyond 64 bits, or no whole number of bytes.
    #[error("`{0}` is no size: expected a whole number of bytes, less than 16 EiB")]
    Size(String),
}

impl FromStr for Bytes {
    type Err = BytesError;

    fn from_str(text: &str) -> Result<Self, BytesError> {
        let text = text.trim();
        let split = text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len());
        let (number, unit) = (text[..split].trim_end(), &text[split..]);
        let plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        if number.is_empty() || !plain {
            return Err(BytesError::Number(text.to_owned()));
        }
        if unit.is_empty() {
            return Err(BytesError::NoUnit(text.to_owned()));
        }
        let known = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
        let (_, scale) = known.ok_or_else(|| BytesError::Unit(unit.to_owned()))?;
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(*scale).map(Self).ok_or_else(|| BytesError::Size(text.to_owned()));
        }
        let value: f64 = number.parse().map_err(|_| BytesError::Number(text.to_owned()))?;
        let bytes = value * *scale as f64;
        // 2^64 as a float; below it every rounded value fits.
        if bytes >= 18_446_744_073_709_551_616.0 || (*scale == 1 && bytes.fract() != 0.0) {
            return Err(BytesError::Size(text.to_owned()));
        }
        Ok(Self(bytes.round() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_display_in_binary_units() {
        let shown = [0, 1023, 1024, 3 << 29, 80 << 30, 1 << 50].map(|bytes| Bytes(bytes).to_string());
        assert_eq!(shown, ["0 B", "1023 B", "1.00 KiB", "1.50 GiB", "80.00 GiB", "1024.00 TiB"]);
        assert_eq!(format!("{:>10}", Bytes(3 << 29)), "  1.50 GiB");
    }

    #[test]
    fn bytes_parse_with_a_unit() {
        let parse = |text: &str| text.parse::<Bytes>().unwrap().0;
        assert_eq!(parse("2GiB"), 2 << 30);
        assert_eq!(parse(" 512 MiB "), 512 << 20);
        assert_eq!(parse("10GB"), 10_000_000_000);
        assert_eq!(parse("1.5 gib"), 3 << 29);
        assert_eq!(parse("0B"), 0);
        assert_eq!(parse("18446744073709551615B"), u64::MAX);
    }

    #[test]
    fn bytes_refuse_what_is_no_size() {
        let refused = |text: &str| text.parse::<Bytes>().unwrap_err().to_string();
        assert_eq!(refused("1024"), "`1024` has no unit: write for instance 1024GiB, 1024MiB or 1024B");
        assert_eq!(refused("2 gigs"), "`gigs` is no memory unit: use B, KiB, MiB, GiB, TiB, kB, MB, GB or TB");
        assert_eq!(refused("-2GiB"), "`-2GiB` is no number: write for instance 2GiB or 1.5GiB");
        for text in ["", "GiB", "nan", "inf", "1e3GiB", "1.2.3GiB", "2 GiB GiB", "٣GiB", "1_000B"] {
            assert!(text.parse::<Bytes>().is_err(), "{text:?} was accepted");
        }
        for text in ["18446744073709551616B", "16777216TiB", "99999999999999999999999.5TiB", "1.5B"] {
            assert_eq!(text.parse::<Bytes>(), Err(BytesError::Size(text.to_owned())));
        }
    }
}
