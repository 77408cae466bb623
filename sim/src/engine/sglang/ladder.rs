//! The lists of sizes: the engine's own, and what is left of a list at capture (SGLang specification sections 3 and 4).

use super::error::EngineError;
use super::options::{GraphBackend, SglangOptions};
use super::settings::GraphSettings;
use crate::limits::RUNGS_MAX;

/// Tokens of a chunk per request that a full prefill graph holds by default.
const TOKENS_PER_FULL_PREFILL_REQUEST: i32 = 512;

/// The engine's decode list, in requests: its grid up to `max_bs`, and `max_bs` itself. Without padding every size is
/// there, with or without speculation.
///
/// # Errors
/// [`EngineError::LadderTooLong`].
pub fn default_decode_sizes(max_bs: u32, no_padding: bool, speculative: bool) -> Result<Vec<u32>, EngineError> {
    let stride = if no_padding { 1 } else { 16 };
    check_length("decode", u64::from(max_bs / stride))?;
    let mut sizes = match (no_padding, speculative) {
        (true, _) => (1..=max_bs).collect(),
        (false, false) => strides(max_bs, &[(1, 2, 1), (4, 12, 4), (16, 256, 8), (272, 496, 16), (512, max_bs, 32)]),
        (false, true) => strides(max_bs, &[(1, 8, 1), (10, 32, 2), (40, 64, 4), (72, 256, 8), (272, max_bs, 16)]),
    };
    if sizes.last() != Some(&max_bs) {
        sizes.push(max_bs);
    }
    Ok(sizes)
}

/// The engine's prefill list, in tokens: its grid up to `max_bs`, which itself is not added.
///
/// # Errors
/// [`EngineError::LadderTooLong`].
pub fn default_prefill_sizes(max_bs: i64) -> Result<Vec<u32>, EngineError> {
    let most = u32::try_from(max_bs.max(0)).unwrap_or(u32::MAX);
    check_length("prefill", u64::from(most / 512))?;
    let grid = [(4, 32, 4), (48, 256, 16), (288, 512, 32), (576, 1024, 64), (1280, 4096, 256), (4608, most, 512)];
    Ok(strides(most, &grid))
}

/// Runs of `(first, last, step)`, none above `most`.
fn strides(most: u32, runs: &[(u32, u32, u32)]) -> Vec<u32> {
    runs.iter().flat_map(|&(first, last, step)| (first..=last.min(most)).step_by(step as usize)).collect()
}

fn check_length(phase: &'static str, sizes: u64) -> Result<(), EngineError> {
    let most = RUNGS_MAX as u64;
    if sizes > most { Err(EngineError::LadderTooLong { phase, sizes, most }) } else { Ok(()) }
}

/// What the graph runners know when they cut the lists to what they capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureRules {
    /// Rows of the request pool.
    pub request_rows: u32,
    /// Tokens per request of a decode step.
    pub width: u32,
    /// Ranks gather their rows into one buffer.
    pub gathered: bool,
    /// Two halves of a batch overlap.
    pub two_batch_overlap: bool,
    /// Tensor-parallel ranks of attention.
    pub attention_tp: u32,
    /// Context-parallel ranks of attention.
    pub attention_cp: u32,
}

/// The decode sizes that are captured, and what became of the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DecodeSizes {
    /// Captured sizes, in requests, ascending.
    pub sizes: Vec<u32>,
    /// Listed sizes that are not captured, ascending.
    pub dropped: Vec<u32>,
    /// The request pool's rows, if they were added to a list that reaches beyond them.
    pub appended: Option<u32>,
}

impl CaptureRules {
    /// The rules for a server whose request pool has `request_rows` rows per rank.
    #[must_use]
    pub fn of(options: &SglangOptions, request_rows: u32) -> Self {
        Self {
            request_rows,
            width: options.decode_width(),
            gathered: options.parallel.gathered_buffer(),
            two_batch_overlap: options.parallel.enable_two_batch_overlap,
            attention_tp: options.parallel.attention_tp(),
            attention_cp: options.parallel.attn_cp_size,
        }
    }

    /// Rows of a captured step must be a multiple of this.
    #[must_use]
    pub fn alignment(&self) -> u32 {
        let mut alignment = if self.two_batch_overlap { 2 } else { 1 };
        if self.gathered {
            alignment *= self.attention_tp;
        }
        if alignment % self.attention_cp != 0 {
            alignment *= self.attention_cp;
        }
        alignment
    }

    /// Tokens per request in a decode graph: under two-batch overlap the graph is asked for requests alone.
    #[must_use]
    pub fn graph_width(&self) -> u32 {
        if self.two_batch_overlap { 1 } else { self.width }
    }

    /// The decode sizes of `listed` that are captured: whole multiples of the alignment up to the request pool's rows,
    /// and those rows themselves if the list reaches beyond them.
    ///
    /// # Errors
    /// [`EngineError::NoDecodeSize`] if none is left: the engine stops with an assertion.
    pub fn decode_sizes(&self, listed: &[u32]) -> Result<DecodeSizes, EngineError> {
        let (alignment, width) = (self.alignment(), self.graph_width());
        let rows = self.request_rows.next_multiple_of(alignment);
        let appended = listed.iter().any(|&size| size > rows).then_some(rows);
        let fits = |size: u32| size <= rows && (u64::from(size) * u64::from(width)).is_multiple_of(alignment.into());
        let mut all: Vec<u32> = listed.iter().copied().chain(appended).collect();
        all.sort_unstable();
        all.dedup();
        let (sizes, dropped): (Vec<u32>, Vec<u32>) = all.into_iter().partition(|&size| fits(size));
        if sizes.is_empty() {
            return Err(EngineError::NoDecodeSize { listed: listed.len(), alignment, width, rows });
        }
        Ok(DecodeSizes { sizes, dropped, appended })
    }

    /// The prefill sizes of `listed` that are captured, in tokens: those that `max_requests` requests of
    /// `context_length` tokens can fill, rounded up to the alignment.
    #[must_use]
    pub fn prefill_sizes(&self, listed: &[u32], max_requests: u32, context_length: u32) -> Vec<u32> {
        let most = u64::from(max_requests) * u64::from(context_length);
        let fitting = listed.iter().filter(|&&size| u64::from(size) <= most);
        let mut sizes: Vec<u32> = fitting.map(|size| size.next_multiple_of(self.alignment())).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }
}

/// Requests that a prefill graph is captured for.
#[must_use]
pub fn prefill_capture_requests(settings: &GraphSettings, request_rows: u32) -> u32 {
    if settings.prefill.backend != GraphBackend::Full {
        return request_rows;
    }
    let by_chunk = (settings.chunked_prefill_size / TOKENS_PER_FULL_PREFILL_REQUEST).max(1).unsigned_abs();
    settings.prefill.full_prefill_max_req.unwrap_or(by_chunk).min(request_rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(request_rows: u32) -> CaptureRules {
        CaptureRules {
            request_rows,
            width: 1,
            gathered: false,
            two_batch_overlap: false,
            attention_tp: 1,
            attention_cp: 1,
        }
    }

    #[test]
    fn counts_of_the_default_lists() {
        let decode = |max_bs| default_decode_sizes(max_bs, false, false).expect("short").len();
        assert_eq!([256, 512].map(decode), [36, 52]);
        let prefill = |max_bs| default_prefill_sizes(max_bs).expect("short").len();
        assert_eq!([2048, 4096, 8192, 16_384, 3, -1].map(prefill), [42, 50, 58, 74, 0, 0]);
    }

    #[test]
    fn decode_ends_with_its_maximum_and_prefill_with_the_grid() {
        assert_eq!(default_decode_sizes(37, false, false).expect("short"), [1, 2, 4, 8, 12, 16, 24, 32, 37]);
        assert_eq!(default_decode_sizes(11, false, true).expect("short"), [1, 2, 3, 4, 5, 6, 7, 8, 10, 11]);
        assert_eq!(default_decode_sizes(5, true, true).expect("short"), [1, 2, 3, 4, 5]);
        assert_eq!(default_prefill_sizes(5000).expect("short").last(), Some(&4608));
    }

    #[test]
    fn absurd_maxima_are_refused_before_the_list_is_made() {
        assert!(matches!(default_decode_sizes(u32::MAX, true, false), Err(EngineError::LadderTooLong { .. })));
        assert!(matches!(default_decode_sizes(u32::MAX, false, true), Err(EngineError::LadderTooLong { .. })));
        assert!(matches!(default_prefill_sizes(i64::MAX), Err(EngineError::LadderTooLong { .. })));
    }

    #[test]
    fn misaligned_sizes_go_and_the_rows_come_only_if_the_list_reaches_beyond_them() {
        let made = rules(33).decode_sizes(&[8, 4, 64]).expect("some fit");
        assert_eq!(made, DecodeSizes { sizes: vec![4, 8, 33], dropped: vec![64], appended: Some(33) });
        let short = rules(33).decode_sizes(&[4, 8]).expect("some fit");
        assert_eq!((short.sizes, short.appended), (vec![4, 8], None));
        let gathered = CaptureRules { gathered: true, attention_tp: 4, ..rules(33) };
        let made = gathered.decode_sizes(&[1, 2, 4, 6, 12, 40]).expect("some fit");
        assert_eq!((made.sizes, made.dropped), (vec![4, 12, 36], vec![1, 2, 6, 40]));
        let error = gathered.decode_sizes(&[1, 2, 3]);
        assert_eq!(error, Err(EngineError::NoDecodeSize { listed: 3, alignment: 4, width: 1, rows: 36 }));
    }

    #[test]
    fn prefill_sizes_are_rounded_up_and_must_be_fillable() {
        let gathered = CaptureRules { gathered: true, attention_tp: 8, ..rules(2) };
        assert_eq!(gathered.prefill_sizes(&[4, 8, 12, 20, 512], 2, 128), [8, 16, 24]);
    }
}
