//! Where the costs of a result came from.

use serde::{Deserialize, Serialize};

use crate::Name;

/// The cost profile of a result, reduced to what its reader must know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileReport {
    /// Name of the profile, as the scenario or `--profile` gives it.
    pub name: String,
    /// SHA-256 of the profile as `calibrate show NAME --toml` writes it, lower-case hexadecimal.
    #[serde(default)]
    pub sha256: String,
    /// The device the profile speaks of, for example `NVIDIA A100-SXM4-80GB`; null for a textbook profile.
    pub device: Option<String>,
    /// The model whose geometry the profile prices; null for a textbook profile.
    pub model: Option<String>,
    /// How host and device time combine: `pipelined` or `additive`.
    pub overlap: Name,
    /// Provenance of every cost group that the result used, in the profile's order.
    pub groups: Vec<GroupReport>,
}

/// Provenance of one group of figures of the profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupReport {
    /// Name of the group, for example `machine.dense`.
    pub group: String,
    /// `measured`, `imported`, `derived`, `declared` or `double` (a test double: never a measurement).
    pub kind: Name,
    /// Who measured, published or declared the figures.
    pub source: String,
    /// Licence of the source; null where none applies.
    pub licence: Option<String>,
    /// Where the figures hold, in words with units, for example `1 to 32768 rows`; null if nothing bounds them.
    pub valid_range: Option<String>,
    /// How the figures were made from the source; null if they were taken as they are.
    pub method: Option<String>,
    /// What the measurement states about its error, in words; left out where the group states none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stated_error: Option<String>,
}
