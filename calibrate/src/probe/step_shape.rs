//! The shape of a recorded step: what decides its time on a device.

use std::fmt;

use kernels::units::Rows;

use crate::counted::counted;
use crate::graph_mode::Mode;

/// The graph that a step ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GraphKey {
    /// How it is captured.
    pub mode: Mode,
    /// Its rows.
    pub rows: Rows,
    /// The requests that it holds; `None` where its key names none.
    pub requests: Option<u32>,
    /// Tokens of every request of a uniform graph.
    pub uniform: Option<u32>,
}

/// What two steps have in common if they take the same time.
///
/// A log has the context of all decoding requests together: a replay gives each the same share of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShapeKey {
    /// The graph, if one ran.
    pub graph: Option<GraphKey>,
    /// Rows run, padded ones included.
    pub rows: Rows,
    /// Chunks of prefill, and the tokens in the cache before each.
    pub prefills: Vec<[u32; 2]>,
    /// Requests that decode.
    pub decode_requests: u32,
    /// Tokens that they read together, the new ones included.
    pub decode_context: u64,
    /// Draft tokens that they verify together.
    pub drafts: u32,
}

impl ShapeKey {
    /// Rows that requests asked for.
    pub fn real_rows(&self) -> u32 {
        self.prefills.iter().map(|[chunk, _]| chunk).sum::<u32>() + self.decode_requests + self.drafts
    }

    /// Requests of both kinds.
    pub fn requests(&self) -> u32 {
        self.prefills.len() as u32 + self.decode_requests
    }

    /// Rows whose logits are wanted: one for each request and one for each draft, as `head_ns` counts them.
    pub fn sampled(&self) -> Rows {
        Rows(self.requests() + self.drafts)
    }

    /// (New tokens, tokens in the cache before them) of every request, those that decode first: contexts and drafts are
    /// shared out as evenly as whole numbers can be.
    pub fn chunks(&self) -> Vec<(u32, u32)> {
        let requests = u64::from(self.decode_requests);
        let share = |total: u64, number: u64| total / requests + u64::from(number < total % requests);
        let decode = |number: u64| {
            let new = 1 + share(self.drafts.into(), number);
            let read = share(self.decode_context, number);
            (new as u32, read.saturating_sub(new) as u32)
        };
        (0..requests).map(decode).chain(self.prefills.iter().map(|&[chunk, context]| (chunk, context))).collect()
    }

    /// Whether every request has one new token.
    pub fn is_plain_decode(&self) -> bool {
        self.prefills.is_empty() && self.drafts == 0
    }

    /// The mode's name.
    pub fn mode_name(&self) -> &'static str {
        mode_name(self.graph.map(|graph| graph.mode))
    }
}

/// A mode's name; `NONE` without one.
pub(crate) fn mode_name(mode: Option<Mode>) -> &'static str {
    match mode {
        Some(Mode::Full) => "FULL",
        Some(Mode::Piecewise) => "PIECEWISE",
        None => "NONE",
    }
}

impl fmt::Display for ShapeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.mode_name(), self.rows)?;
        if self.decode_requests > 0 {
            write!(
                f,
                ", {} at {}",
                counted(self.decode_requests, "decode"),
                self.decode_context / u64::from(self.decode_requests)
            )?;
        }
        if self.drafts > 0 {
            write!(f, ", {}", counted(self.drafts, "draft"))?;
        }
        match &self.prefills[..] {
            [] => Ok(()),
            [[chunk, context]] => write!(f, ", a chunk of {chunk} behind {context}"),
            chunks => {
                let tokens: u32 = chunks.iter().map(|[chunk, _]| chunk).sum();
                write!(f, ", {} chunks of {tokens} tokens", chunks.len())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> ShapeKey {
        ShapeKey {
            graph: None,
            rows: Rows(12),
            prefills: vec![[5, 20]],
            decode_requests: 3,
            decode_context: 100,
            drafts: 4,
        }
    }

    #[test]
    fn contexts_and_drafts_are_shared_out_whole() {
        // Reads of 34, 33 and 33 tokens; the first verifies two drafts.
        assert_eq!(shape().chunks(), [(3, 31), (2, 31), (2, 31), (5, 20)]);
        let (new, read): (u32, u32) =
            shape().chunks()[..3].iter().fold((0, 0), |sum, (new, before)| (sum.0 + new, sum.1 + new + before));
        assert_eq!((new, read), (7, 100));
        assert_eq!((shape().real_rows(), shape().requests(), shape().sampled()), (12, 4, Rows(8)));
    }

    #[test]
    fn shapes_are_told_in_one_line() {
        assert_eq!(shape().to_string(), "NONE 12, 3 decodes at 33, 4 drafts, a chunk of 5 behind 20");
        let graph = GraphKey { mode: Mode::Full, rows: Rows(8), requests: Some(8), uniform: Some(1) };
        let decode = ShapeKey { graph: Some(graph), rows: Rows(8), prefills: vec![], drafts: 0, ..shape() };
        assert_eq!(decode.to_string(), "FULL 8, 3 decodes at 33");
        assert!(decode.is_plain_decode() && !shape().is_plain_decode());
    }
}
