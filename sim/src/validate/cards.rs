//! Cards by the short names that kernel tables and runs are filed under, and what of their data sheets carries a table of one
//! card over to another.

use crate::engine::vllm::attention::ComputeCapability;

/// A card.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Card {
    /// The short name, with which `vllm_run_NAME_meta.json` and `kernels_NAME_dense.csv` begin.
    pub short: &'static str,
    /// The name that its driver gives it.
    pub name: &'static str,
    /// Memory bandwidth of the vendor's data sheet, in 10^9 bytes a second.
    pub bandwidth_gb_per_s: f64,
    /// Compute capability.
    pub capability: ComputeCapability,
}

const fn card(short: &'static str, name: &'static str, bandwidth_gb_per_s: f64, capability: (u32, u32)) -> Card {
    let capability = ComputeCapability { major: capability.0, minor: capability.1 };
    Card { short, name, bandwidth_gb_per_s, capability }
}

/// The cards that are known.
pub const CARDS: [Card; 7] = [
    card("a100", "NVIDIA A100-SXM4-80GB", 2039.0, (8, 0)),
    card("h100", "NVIDIA H100 80GB HBM3", 3352.0, (9, 0)),
    card("h200", "NVIDIA H200", 4800.0, (9, 0)),
    card("l4", "NVIDIA L4", 300.0, (8, 9)),
    card("l40", "NVIDIA L40", 864.0, (8, 9)),
    card("rtx4090", "NVIDIA GeForce RTX 4090", 1008.0, (8, 9)),
    card("rtxpro6000", "NVIDIA RTX PRO 6000 Blackwell", 1792.0, (12, 0)),
];

/// The card that a run or a table is filed under: what its name begins with, up to the first underscore.
#[must_use]
pub fn card_of(filed: &str) -> Option<&'static Card> {
    let short = filed.split('_').next().unwrap_or(filed);
    CARDS.iter().find(|card| card.short.eq_ignore_ascii_case(short))
}
