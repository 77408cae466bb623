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

/// The card that a run or a table is filed under: the first part of its name, between underscores, that is a card's.
#[must_use]
pub fn card_of(filed: &str) -> Option<&'static Card> {
    let of_part = |part: &str| CARDS.iter().find(|card| card.short.eq_ignore_ascii_case(part));
    filed.split('_').find_map(of_part)
}

/// The card with this name, as its driver gives it; more words may follow.
#[must_use]
pub fn card_of_device(name: &str) -> Option<&'static Card> {
    let is_it =
        |card: &&Card| name.strip_prefix(card.name).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
    CARDS.iter().find(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_are_found_by_file_and_by_device() {
        let short = |card: Option<&Card>| card.map(|card| card.short);
        assert_eq!(short(card_of("rtx4090_llama8b_tp1")), Some("rtx4090"));
        assert_eq!(short(card_of("night_H100_llama8b")), Some("h100"));
        assert_eq!(short(card_of("my run x")), None);
        assert_eq!(short(card_of_device("NVIDIA RTX PRO 6000 Blackwell Workstation Edition")), Some("rtxpro6000"));
        assert_eq!([card_of_device("NVIDIA L40S"), card_of_device("NVIDIA A100-SXM4-40GB")], [None, None]);
        assert_eq!(short(card_of_device("NVIDIA L40")), Some("l40"));
    }
}
