//! The capture ladder: which token counts get a graph (specification section 2; runner V1's rounding, section 5 rule 6).

use std::collections::BTreeSet;

use super::drafting::draft_tiers;
use super::error::EngineError;
use super::options::{CompileSize, CudagraphMode, PerformanceMode, VllmOptions};
use super::splitting::sequence_parallel;
use super::warning::GraphWarning;

/// Most rungs this program works with: far above any ladder an engine could capture in a day.
const RUNGS_MAX: u64 = 65_536;

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
    /// The capture sizes.
    pub ladder: Ladder,
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
        if !graphs.enforce_eager && mode != CudagraphMode::None {
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
            Some(listed) => self.user_sizes(listed, budget)?,
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
        if sizes.is_empty() {
            self.warnings.push(GraphWarning::LadderEmpty { mode });
        }
        self.ladder = Ladder { sizes, ceiling: last };
        Ok(())
    }

    fn user_sizes(&mut self, listed: &[u32], budget: u32) -> Result<Vec<u32>, EngineError> {
        check_length(listed.len() as u64)?;
        let distinct: BTreeSet<u32> = listed.iter().copied().collect();
        let kept: Vec<u32> = distinct.range(..=budget).copied().collect();
        if kept.len() < distinct.len() {
            self.warnings.push(GraphWarning::SizesAboveBudget {
                dropped: distinct.len() - kept.len(),
                max_num_batched_tokens: budget,
            });
        }
        Ok(kept)
    }
}

/// The platform's ceiling, in tokens (and, for request grids, in requests).
fn platform_ceiling(data_center_blackwell: bool) -> u64 {
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

fn check_length(rungs: u64) -> Result<(), EngineError> {
    if rungs > RUNGS_MAX { Err(EngineError::LadderTooLong { rungs, most: RUNGS_MAX }) } else { Ok(()) }
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
