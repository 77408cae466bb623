//! Where a group of figures comes from.

use std::fmt;

/// Figures together with where they come from.
#[derive(Clone, Debug, PartialEq)]
pub struct Group<T> {
    /// The figures.
    pub figures: T,
    /// Where they come from.
    pub provenance: Provenance,
}

/// Who says so: the origin of one group of figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// The kind of origin.
    pub kind: Kind,
    /// The measurement, publication or rule that the figures come from.
    pub source: String,
    /// Licence of published figures.
    pub licence: Option<String>,
    /// How derived figures were computed from their source.
    pub method: Option<String>,
    /// Where the figures hold, in words with units.
    pub valid: Option<String>,
    /// The planning range of declared figures, in words with units.
    pub range: Option<String>,
}

/// The kind of origin of a group of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Measured by `calibrate` on this card.
    Measured,
    /// Somebody's published measurement, as published up to unit and thinning.
    Imported,
    /// Computed from measurements; method, source and valid range say how.
    Derived,
    /// A planning figure with its range.
    Declared,
    /// Made by the test double of the driver: never to be taken for a measurement.
    Double,
}

impl Kind {
    /// Every kind, in file spelling order.
    pub const ALL: [Self; 5] = [Self::Measured, Self::Imported, Self::Derived, Self::Declared, Self::Double];

    /// The word used in files and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Imported => "imported",
            Self::Derived => "derived",
            Self::Declared => "declared",
            Self::Double => "double",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
