//! The capture ladder: which token counts get a graph (specification section 2; runner V1's rounding, section 5 rule 6).

use std::collections::BTreeSet;

use super::drafting::draft_tiers;
use super::error::EngineError;
use super::options::{CompileSize, CudagraphMode, PerformanceMode, VllmOptions};
use super::separate::{self, SeparateLadders};
use super::splitting::sequence_parallel;
use super::warning::GraphWarning;
use crate::limits::RUNGS_MAX;

/// The ascending capture sizes with their ceiling.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ladder {
    /// Capture sizes in tokens, ascending, without repeats.
    pub sizes: Vec<u32>,
    /// The largest capture size, in tokens; 0 for an empty ladder.
    pub ceiling: u32,
}

/// A ladder as the engine's configuration makes it, with what belongs to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureLadder {
    /// The capture sizes; of separate ladders what they hold together.
    pub ladder: Ladder,
    /// The ladders by kind of batch, where the engine keeps them apart.
    pub separate: Option<SeparateLadders>,
    /// `compile_sizes` with the ladder's word expanded, in tokens, in the order written.
    pub compile_sizes: Vec<u32>,
    /// What was cut or lowered on the way.
    pub warnings: Vec<GraphWarning>,
}

impl Ladder {
    /// Runner V1's rounding for speculative decoding: each size up to whole requests of `query_len` tokens, those above
    /// the ceiling dropped (specification section 5, rule 6). An empty ladder and a query length of 1 change nothing.
    ///
    /// # Errors
    /// [`EngineError::NoSizeAfterRounding`] if nothing is left.
    pub fn rounded(&self, query_len: u32) -> Result<Self, EngineError> {
        if self.sizes.is_empty() || query_len <= 1 {
            return Ok(self.clone());
        }
        let ceiling = u64::from(self.ceiling);
        let mut sizes: Vec<u32> = self
            .sizes
            .iter()
            .map(|&size| u64::from(size).next_multiple_of(u64::from(query_len)))
            .filter(|&size| size <= ceiling)
            .map(|size| size as u32)
            .collect();
        sizes.dedup();
        if sizes.is_empty() && query_len <= self.ceiling {
            sizes.push(query_len);
        }
        match sizes.last() {
            Some(&ceiling) => Ok(Self { sizes, ceiling }),
            None => Err(EngineError::NoSizeAfterRounding { query_len, ceiling: self.ceiling }),
        }
    }
}

impl CaptureLadder {
    /// The ladder for the options, with graphs configured as `mode` at this point of the engine's start.
    ///
    /// # Errors
    /// The engine's own refusals of section 2, and [`EngineError::LadderTooLong`].
    pub fn generate(options: &VllmOptions, mode: CudagraphMode) -> Result<Self, EngineError> {
        let graphs = &options.graphs;
        let mut made = Self::default();
        separate::check_options(options)?;
        let captures = !graphs.enforce_eager && mode != CudagraphMode::None;
        if captures && separate::applies(options)? {
            let ladders = SeparateLadders::generate(options, mode, &mut made.warnings)?;
            made.ladder = ladders.together(mode);
            made.separate = Some(ladders);
            made.warn_if_empty(mode);
        } else if captures {
            made.fill(options, mode)?;
        }
        made.compile_sizes = expand_compile_sizes(&graphs.compile_sizes, &made.ladder.sizes)?;
        Ok(made)
    }

    fn fill(&mut self, options: &VllmOptions, mode: CudagraphMode) -> Result<(), EngineError> {
        let graphs = &options.graphs;
        let (max_num_seqs, budget) = (options.scheduler.max_num_seqs, options.scheduler.max_num_batched_tokens);
        let asked = graphs.max_cudagraph_capture_size;
        // The extra sizes exist only under a defaulted ceiling, and obey it before the budget cuts it.
        let uncut = asked.map_or_else(|| default_ceiling(options), u64::from);
        let extra = if asked.is_none() { extra_sizes(options, uncut) } else { BTreeSet::new() };
        let ceiling = uncut.min(u64::from(budget)) as u32;
        if ceiling < 1 {
            return Err(EngineError::CeilingBelowOne { ceiling, asked, max_num_batched_tokens: budget, max_num_seqs });
        }
        let mut sizes = match &graphs.cudagraph_capture_sizes {
            Some(listed) if listed.is_empty() => return Err(EngineError::EmptyCaptureSizes { mode }),
            Some(listed) => within_budget("cudagraph_capture_sizes", listed, budget, &mut self.warnings)?,
            None => default_sizes(graphs.performance_mode, ceiling, budget, &extra)?,
        };
        if sequence_parallel(graphs, options.version) {
            sizes.retain(|size| size % graphs.tensor_parallel_size == 0);
        }
        let last = sizes.last().copied().unwrap_or(0);
        if let Some(asked) = asked.filter(|&asked| asked != last) {
            if graphs.cudagraph_capture_sizes.is_some() {
                return Err(EngineError::CeilingMismatch { asked, last, max_num_batched_tokens: budget });
            }
            self.warnings.push(GraphWarning::CeilingCut { asked, last });
        }
        self.ladder = Ladder { sizes, ceiling: last };
        self.warn_if_empty(mode);
        Ok(())
    }

    fn warn_if_empty(&mut self, mode: CudagraphMode) {
        if self.ladder.sizes.is_empty() {
            self.warnings.push(GraphWarning::LadderEmpty { mode });
        }
    }
}

/// A user's list, sorted, without repeats and without what lies above the token budget.
pub(super) fn within_budget(
    option: &'static str,
    listed: &[u32],
    max_num_batched_tokens: u32,
    warnings: &mut Vec<GraphWarning>,
) -> Result<Vec<u32>, EngineError> {
    check_length(listed.len() as u64)?;
    let distinct: BTreeSet<u32> = listed.iter().copied().collect();
    let kept: Vec<u32> = distinct.range(..=max_num_batched_tokens).copied().collect();
    let dropped = distinct.len() - kept.len();
    if dropped > 0 {
        warnings.push(GraphWarning::SizesAboveBudget { option, dropped, max_num_batched_tokens });
    }
    Ok(kept)
}

/// The platform's ceiling, in tokens (and, for request grids, in requests).
pub(super) fn platform_ceiling(data_center_blackwell: bool) -> u64 {
    if data_center_blackwell { 1024 } else { 512 }
}

/// Twice the full decode batch, at most the platform's ceiling.
fn default_ceiling(options: &VllmOptions) -> u64 {
    let query_len = u64::from(options.graphs.num_speculative_tokens) + 1;
    let full_batch = u64::from(options.scheduler.max_num_seqs).saturating_mul(query_len);
    full_batch.saturating_mul(2).min(platform_ceiling(options.graphs.data_center_blackwell))
}

/// Sizes off the default strides that a decode batch fills exactly: the full batch, or with drafts whole requests.
fn extra_sizes(options: &VllmOptions, ceiling: u64) -> BTreeSet<u32> {
    let graphs = &options.graphs;
    let max_num_seqs = options.scheduler.max_num_seqs;
    if graphs.num_speculative_tokens == 0 {
        return (u64::from(max_num_seqs) <= ceiling).then_some(max_num_seqs).into_iter().collect();
    }
    let schedule = graphs.dynamic_sd_schedule.as_deref();
    let requests_max = platform_ceiling(graphs.data_center_blackwell);
    let mut extra = BTreeSet::new();
    for tier in draft_tiers(schedule, graphs.num_speculative_tokens, max_num_seqs) {
        let query_len = u64::from(tier.drafts) + 1;
        let widest = u64::from(tier.widest_batch).min(requests_max) as u32;
        let requests = strides(widest, &[1, 2, 4]).chain([widest]);
        extra
            .extend(requests.map(|n| u64::from(n) * query_len).filter(|&size| size <= ceiling).map(|size| size as u32));
    }
    extra
}

/// The default grid up to `ceiling`, the whole budget if it lies under the ceiling, and the extra sizes.
fn default_sizes(
    performance: PerformanceMode,
    ceiling: u32,
    budget: u32,
    extra: &BTreeSet<u32>,
) -> Result<Vec<u32>, EngineError> {
    check_length(u64::from(ceiling) / 16)?;
    let dense: Vec<u32> = (1..=ceiling.min(32)).collect();
    let head = if performance == PerformanceMode::Interactivity { dense.as_slice() } else { &[1, 2, 4] };
    let mut sizes: BTreeSet<u32> = strides(ceiling, head).collect();
    if budget <= ceiling {
        sizes.insert(budget);
    }
    sizes.extend(extra.range(..=budget));
    Ok(sizes.into_iter().collect())
}

/// The head, then steps of 8 to 248 and of 16 from 256, none above `limit`.
fn strides(limit: u32, head: &[u32]) -> impl Iterator<Item = u32> {
    let steps = (8..256).step_by(8).chain((256..=limit.max(256)).step_by(16));
    head.iter().copied().chain(steps).filter(move |&size| size <= limit)
}

pub(super) fn check_length(rungs: u64) -> Result<(), EngineError> {
    if rungs > RUNGS_MAX as u64 { Err(EngineError::LadderTooLong { rungs, most: RUNGS_MAX as u64 }) } else { Ok(()) }
}

/// Entries are made unique before the word is expanded, so a size written beside the word appears twice.
fn expand_compile_sizes(entries: &[CompileSize], ladder: &[u32]) -> Result<Vec<u32>, EngineError> {
    let mut expanded = Vec::new();
    for (position, entry) in entries.iter().enumerate() {
        if entries[..position].contains(entry) {
            continue;
        }
        match entry {
            CompileSize::Tokens(size) => expanded.push(*size),
            CompileSize::Word(word) if word == "cudagraph_capture_sizes" => expanded.extend_from_slice(ladder),
            CompileSize::Word(word) => return Err(EngineError::CompileWord { word: word.clone() }),
        }
    }
    Ok(expanded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::vllm::options::{GraphOptions, KvOptions, Runner, SchedulerOptions, Version};

    fn options(max_num_seqs: u32, budget: u32, query_len: u32, asked: Option<u32>) -> VllmOptions {
        VllmOptions {
            version: Version::V0_33_0,
            runner: Some(Runner::V2),
            scheduler: SchedulerOptions { max_num_seqs, max_num_batched_tokens: budget, ..SchedulerOptions::default() },
            kv: KvOptions::default(),
            graphs: GraphOptions {
                num_speculative_tokens: query_len - 1,
                max_cudagraph_capture_size: asked,
                ..GraphOptions::default()
            },
        }
    }

    fn generate(options: &VllmOptions) -> CaptureLadder {
        CaptureLadder::generate(options, CudagraphMode::FullAndPiecewise).expect("the options are valid")
    }

    #[test]
    fn default_ladders_without_drafts() {
        for (seqs, budget, asked, rungs) in [
            (256, 8192, None, 51),
            (100, 8192, None, 29),
            (1024, 8192, None, 51),
            (256, 700, Some(2048), 63),
            (256, 2048, None, 51),
        ] {
            let made = generate(&options(seqs, budget, 1, asked));
            assert_eq!(made.ladder.sizes.len(), rungs, "max_num_seqs {seqs}, budget {budget}, asked {asked:?}");
        }
        assert_eq!(generate(&options(12, 8192, 1, None)).ladder.sizes, [1, 2, 4, 8, 12, 16, 24]);
        assert_eq!(generate(&options(1, 8192, 1, None)).ladder.sizes, [1, 2]);
        let mut blackwell = options(1024, 8192, 1, None);
        blackwell.graphs.data_center_blackwell = true;
        assert_eq!(generate(&blackwell).ladder.sizes.len(), 83);
    }

    #[test]
    fn the_budget_is_appended_under_a_higher_ceiling() {
        let made = generate(&options(256, 700, 1, Some(2048)));
        assert!(made.ladder.sizes.ends_with(&[688, 700]));
        assert_eq!(made.warnings, [GraphWarning::CeilingCut { asked: 2048, last: 700 }]);
    }

    #[test]
    fn runner_v1_rounds_to_whole_requests() {
        let rounded = |seqs, query_len, asked| {
            let raw = generate(&options(seqs, 8192, query_len, asked)).ladder;
            raw.rounded(query_len).expect("a size is left").sizes
        };
        assert_eq!(rounded(6, 7, Some(42)), [7, 14, 21, 28, 35]);
        assert_eq!(rounded(6, 4, Some(6)), [4]);
        assert_eq!(rounded(6, 7, None), [7, 14, 21, 28, 35, 42, 49, 56, 70, 77]);
        assert_eq!(rounded(16, 5, None).len(), 21);
        assert!(rounded(16, 5, None).ends_with(&[155, 160]));
        assert_eq!(rounded(128, 4, None).len(), 49);
    }

    #[test]
    fn runner_v2_keeps_the_raw_ladder() {
        assert_eq!(generate(&options(6, 8192, 7, Some(42))).ladder.sizes, [1, 2, 4, 8, 16, 24, 32, 40]);
        assert_eq!(generate(&options(16, 8192, 5, None)).ladder.sizes.len(), 26);
        assert_eq!(generate(&options(128, 8192, 4, None)).ladder.sizes.len(), 51);
    }

    #[test]
    fn a_user_list_obeys_the_budget_and_not_the_maximum() {
        let mut listed = options(8, 2048, 1, None);
        listed.graphs.cudagraph_capture_sizes = Some(vec![9000, 2, 1, 2]);
        let made = generate(&listed);
        assert_eq!(made.ladder, Ladder { sizes: vec![1, 2], ceiling: 2 });
        assert_eq!(
            made.warnings,
            [GraphWarning::SizesAboveBudget {
                option: "cudagraph_capture_sizes",
                dropped: 1,
                max_num_batched_tokens: 2048
            }]
        );
        listed.graphs.max_cudagraph_capture_size = Some(4);
        let error = CaptureLadder::generate(&listed, CudagraphMode::Full).expect_err("2 is not 4");
        assert_eq!(error, EngineError::CeilingMismatch { asked: 4, last: 2, max_num_batched_tokens: 2048 });
        listed.graphs.max_cudagraph_capture_size = None;
        listed.graphs.cudagraph_capture_sizes = Some(vec![9000]);
        assert!(
            generate(&listed).warnings.contains(&GraphWarning::LadderEmpty { mode: CudagraphMode::FullAndPiecewise })
        );
    }

    #[test]
    fn absurd_sizes_are_refused_before_they_are_made() {
        let error = CaptureLadder::generate(&options(1, u32::MAX, 1, Some(u32::MAX)), CudagraphMode::Full);
        assert_eq!(error, Err(EngineError::LadderTooLong { rungs: 268_435_455, most: RUNGS_MAX as u64 }));
        let wide = generate(&options(u32::MAX, u32::MAX, 1, None));
        assert_eq!(wide.ladder.ceiling, 512);
    }
}
