//! The agreement of ranks under runner V1 (specification section 4).

use crate::engine::shape::RuntimeMode;

/// What one rank would run by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// Scheduled tokens.
    pub unpadded: u32,
    /// Tokens of the graph that its own dispatch chose; the scheduled tokens in mode NONE.
    pub padded: u32,
    /// The mode that its own dispatch chose.
    pub mode: RuntimeMode,
    /// The rank's step is large enough to be split into microbatches.
    pub wants_ubatches: bool,
}

/// What all ranks run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// The weakest mode among the ranks.
    pub mode: RuntimeMode,
    /// Tokens per rank. A rank dispatches its count again with the agreed mode as the only one allowed; in mode NONE it
    /// keeps the padding of the graph that it gave up.
    pub tokens: Vec<u32>,
    /// Microbatches of the step; 1 if it is not split.
    pub ubatches: u32,
}

/// The agreement of all ranks. `ubatches` is the number of microbatches of a split step, 1 without dual-batch overlap.
///
/// Every rank must want the split. That it is also given up if some rank's last microbatch would hold no real token is
/// inferred: the ranks exchange their unpadded counts, and nothing else asks for them.
#[must_use]
pub fn agree(proposals: &[Proposal], ubatches: u32) -> Agreement {
    let mode = proposals.iter().map(|proposal| proposal.mode).min().unwrap_or(RuntimeMode::None);
    let padded_max = proposals.iter().map(|proposal| proposal.padded).max().unwrap_or(0);
    let unpadded_min = proposals.iter().map(|proposal| proposal.unpadded).min().unwrap_or(0);
    let all_want = ubatches > 1 && proposals.iter().all(|proposal| proposal.wants_ubatches);
    let is_split = all_want && unpadded_min > padded_max / ubatches * (ubatches - 1);
    let pads = mode != RuntimeMode::None || is_split;
    Agreement {
        mode,
        tokens: proposals.iter().map(|proposal| if pads { padded_max } else { proposal.padded }).collect(),
        ubatches: if is_split { ubatches } else { 1 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proposal(unpadded: u32, padded: u32, mode: RuntimeMode, wants_ubatches: bool) -> Proposal {
        Proposal { unpadded, padded, mode, wants_ubatches }
    }

    #[test]
    fn a_step_is_split_only_if_every_rank_wants_it() {
        let full = |unpadded, wants| proposal(unpadded, unpadded.next_multiple_of(8), RuntimeMode::Full, wants);
        assert_eq!(agree(&[full(60, true), full(40, true)], 2).ubatches, 2);
        assert_eq!(agree(&[full(60, true), full(40, false)], 2).ubatches, 1);
        assert_eq!(agree(&[full(60, true), full(40, true)], 1).ubatches, 1);
        assert_eq!(agree(&[full(64, true), full(32, true)], 2).ubatches, 1, "the second half of 32 real rows is empty");
    }

    #[test]
    fn a_split_pads_even_without_graphs() {
        let eager = |tokens| proposal(tokens, tokens, RuntimeMode::None, true);
        let agreed = agree(&[eager(900), eager(600)], 2);
        assert_eq!(agreed, Agreement { mode: RuntimeMode::None, tokens: vec![900, 900], ubatches: 2 });
    }
}
