//! Where a group of figures comes from.

use std::fmt;

use super::{Figures, Measured};

/// Figures together with where they come from.
#[derive(Clone, Debug, PartialEq)]
pub struct Group<T> {
    /// The figures.
    pub figures: T,
    /// Where they come from.
    pub provenance: Provenance,
    /// What their measurement states; of measured figures (and the double's) only.
    pub measured: Option<Measured>,
}

impl<T: Figures> Group<T> {
    /// The group under the name of its table, whatever its figures.
    pub fn named(&self, name: &'static str) -> AnyGroup<'_> {
        AnyGroup { name, figures: &self.figures, provenance: &self.provenance, measured: self.measured.as_ref() }
    }
}

/// A group of any figures.
#[derive(Clone, Copy)]
pub struct AnyGroup<'a> {
    /// The name of its table in the file: `machine.dense`.
    pub name: &'static str,
    /// The figures, as plain numbers.
    pub figures: &'a dyn Figures,
    /// Where they come from.
    pub provenance: &'a Provenance,
    /// What their measurement states.
    pub measured: Option<&'a Measured>,
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

    /// Whether calibrate measured the figures, be it on the driver double.
    pub fn is_measured(self) -> bool {
        matches!(self, Self::Measured | Self::Double)
    }

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
