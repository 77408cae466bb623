//! The ladders of vLLM main under runner V2: token counts for prefill graphs, request counts for decode graphs
//! (specification section 6b).
//!
//! The grids and the shapes are those of the engine; what its documentation leaves open is inferred, and a plan says so.

use std::collections::BTreeSet;

use super::drafting::draft_tiers;
use super::error::EngineError;
use super::grids::{self, DecodeShape, QueryLimit};
use super::ladder::{Ladder, check_length, platform_ceiling, within_budget};
use super::options::{CudagraphMode, GraphOptions, PerformanceMode, Runner, Version, VllmOptions};
use super::runner::RunnerChoice;
use super::warning::GraphWarning;
use crate::engine::shape::RuntimeMode;

/// Tokens up to which data-centre Blackwell captures prefill graphs by default, and the default budget of its decode
/// graphs.
const BLACKWELL_TOKENS: u32 = 8192;

/// One of main's options.
struct MainOption {
    name: &'static str,
    /// What the releases before have in its place.
    older: &'static str,
    is_given: fn(&GraphOptions) -> bool,
}

const OPTIONS: [MainOption; 5] = [
    MainOption {
        name: PREFILL_SIZES,
        older: OLD_SIZES,
        is_given: |graphs| graphs.prefill_cudagraph_capture_token_sizes.is_some(),
    },
    MainOption {
        name: PREFILL_MAX,
        older: OLD_MAX,
        is_given: |graphs| graphs.max_prefill_cudagraph_capture_tokens.is_some(),
    },
    MainOption {
        name: DECODE_SIZES,
        older: OLD_SIZES,
        is_given: |graphs| graphs.decode_cudagraph_capture_request_sizes.is_some(),
    },
    MainOption {
        name: DECODE_MAX,
        older: OLD_MAX,
        is_given: |graphs| graphs.max_decode_cudagraph_capture_requests.is_some(),
    },
    MainOption {
        name: DECODE_BUDGET,
        older: OLD_MAX,
        is_given: |graphs| graphs.max_decode_cudagraph_capture_tokens.is_some(),
    },
];

const OLD_SIZES: &str = "cudagraph_capture_sizes";
const OLD_MAX: &str = "max_cudagraph_capture_size";
const PREFILL_SIZES: &str = "prefill_cudagraph_capture_token_sizes";
const PREFILL_MAX: &str = "max_prefill_cudagraph_capture_tokens";
const DECODE_SIZES: &str = "decode_cudagraph_capture_request_sizes";
const DECODE_MAX: &str = "max_decode_cudagraph_capture_requests";
const DECODE_BUDGET: &str = "max_decode_cudagraph_capture_tokens";

/// Sizes by kind of batch. A list that the mode has no use for is kept all the same: the attention backend may yet change
/// the mode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeparateLadders {
    /// Sizes for every batch that is no uniform decode batch, in tokens, ascending.
    pub prefill: Vec<u32>,
    /// Uniform decode batches; none under adaptive verification.
    pub decode: Vec<DecodeShape>,
    /// Sizes for decode batches of adaptive verification, in tokens, ascending; empty without it.
    pub varlen: Vec<u32>,
}

/// Whether the engine keeps its ladders apart.
///
/// # Errors
/// Those of [`RunnerChoice::of`].
pub(super) fn applies(options: &VllmOptions) -> Result<bool, EngineError> {
    Ok(options.version == Version::Main && RunnerChoice::of(options)?.runner == Runner::V2)
}

/// Refuses main's options where the release or its runner lacks them, and beside the options that they replace.
pub(super) fn check_options(options: &VllmOptions) -> Result<(), EngineError> {
    let (version, graphs) = (options.version, &options.graphs);
    for MainOption { name: option, older, is_given } in OPTIONS {
        if !is_given(graphs) {
            continue;
        }
        if version != Version::Main {
            return Err(EngineError::NewerOption { version, option, older });
        }
        if !applies(options)? {
            return Err(EngineError::NeedsRunnerV2 { option, older });
        }
        let given = |older| match older {
            OLD_SIZES => graphs.cudagraph_capture_sizes.is_some(),
            _ => graphs.max_cudagraph_capture_size.is_some(),
        };
        // The token budget has no predecessor: it goes with either.
        if let Some(older) = [OLD_SIZES, OLD_MAX].into_iter().find(|&older| option != DECODE_BUDGET && given(older)) {
            return Err(EngineError::OldAndNew { older, option });
        }
    }
    Ok(())
}

impl SeparateLadders {
    /// The ladders for the options, with graphs configured as `mode`.
    ///
    /// # Errors
    /// An old-style list and maximum that do not agree, and [`EngineError::LadderTooLong`].
    pub fn generate(
        options: &VllmOptions,
        mode: CudagraphMode,
        warnings: &mut Vec<GraphWarning>,
    ) -> Result<Self, EngineError> {
        let lists = UserSizes::gather(options, warnings)?;
        warn_about_unused(&options.graphs, mode, warnings);
        let (lengths, budget) = (query_limits(options), decode_budget(options));
        if options.graphs.varlen_decode {
            let query_len = u64::from(options.graphs.num_speculative_tokens) + 1;
            let limit = (u64::from(lists.decode_max) * query_len).min(u64::from(budget)) as u32;
            let varlen = grids::varlen_decode(limit, dense_head(&options.graphs));
            return Ok(Self { prefill: lists.prefill, decode: Vec::new(), varlen });
        }
        let decode_sizes = lists.decode.unwrap_or_else(|| grids::decode(lists.decode_max));
        check_length(decode_sizes.len() as u64)?;
        // The widest graph on record bounds decode graphs too, and it is one of these, so that it bounds nothing further.
        let decode = grids::decode_shapes(&decode_sizes, &lengths, budget);
        Ok(Self { prefill: lists.prefill, decode, varlen: Vec::new() })
    }

    /// The token counts of all graphs that the mode captures: what the engine records as its capture sizes.
    #[must_use]
    pub fn together(&self, mode: CudagraphMode) -> Ladder {
        let mut sizes = BTreeSet::new();
        if mode.mixed_mode() != RuntimeMode::None {
            sizes.extend(&self.prefill);
        }
        if mode.separate_routine() {
            sizes.extend(self.decode.iter().map(|shape| shape.requests * shape.query_len));
            sizes.extend(&self.varlen);
        }
        let sizes: Vec<u32> = sizes.into_iter().collect();
        Ladder { ceiling: sizes.last().copied().unwrap_or(0), sizes }
    }
}

/// Lists and limits as the user gave them, the deprecated options read as their successors.
struct UserSizes {
    prefill: Vec<u32>,
    /// Request counts; `None` for the engine's grid.
    decode: Option<Vec<u32>>,
    /// The largest request count of that grid.
    decode_max: u32,
}

impl UserSizes {
    fn gather(options: &VllmOptions, warnings: &mut Vec<GraphWarning>) -> Result<Self, EngineError> {
        let graphs = &options.graphs;
        let tokens_max = options.scheduler.max_num_batched_tokens;
        let query_len = graphs.num_speculative_tokens.saturating_add(1);
        let old_max = graphs.max_cudagraph_capture_size;
        let prefill_max = graphs.max_prefill_cudagraph_capture_tokens.or(old_max);
        let decode_max = graphs.max_decode_cudagraph_capture_requests.or(old_max.map(|tokens| tokens / query_len));
        let decode_max = decode_max.unwrap_or_else(|| default_requests(options));
        if let Some(listed) = &graphs.cudagraph_capture_sizes {
            let instead = "prefill_cudagraph_capture_token_sizes and, rounded up to whole requests, \
                           decode_cudagraph_capture_request_sizes";
            warnings.push(GraphWarning::Deprecated { option: OLD_SIZES, instead });
            let prefill = within_budget(OLD_SIZES, listed, tokens_max, warnings)?;
            let last = prefill.last().copied().unwrap_or(0);
            if let Some(asked) = old_max.filter(|&asked| asked != last) {
                return Err(EngineError::CeilingMismatch { asked, last, max_num_batched_tokens: tokens_max });
            }
            let decode = prefill.iter().map(|size| size.div_ceil(query_len)).collect();
            return Ok(Self { prefill, decode: Some(decode), decode_max });
        }
        if old_max.is_some() {
            let instead = "max_prefill_cudagraph_capture_tokens and, in whole requests, \
                           max_decode_cudagraph_capture_requests";
            warnings.push(GraphWarning::Deprecated { option: OLD_MAX, instead });
        }
        let prefill = if let Some(listed) = &graphs.prefill_cudagraph_capture_token_sizes {
            within_budget(PREFILL_SIZES, listed, tokens_max, warnings)?
        } else {
            let blackwell = graphs.data_center_blackwell;
            let default = if blackwell { BLACKWELL_TOKENS } else { platform_ceiling(blackwell) as u32 };
            grids::prefill(prefill_max.unwrap_or(default).min(tokens_max), dense_head(graphs))
        };
        Ok(Self { prefill, decode: graphs.decode_cudagraph_capture_request_sizes.clone(), decode_max })
    }
}

/// Default of `max_decode_cudagraph_capture_requests`: every request on data-centre Blackwell, else what the platform's
/// ceiling holds at the shortest query length.
fn default_requests(options: &VllmOptions) -> u32 {
    let max_num_seqs = options.scheduler.max_num_seqs;
    if options.graphs.data_center_blackwell {
        return max_num_seqs;
    }
    let shortest = query_limits(options).iter().map(|limit| limit.query_len).min().unwrap_or(1);
    (platform_ceiling(false) as u32 / shortest).min(max_num_seqs)
}

/// The most tokens of a decode graph: the user's budget or the platform's, and never more than a step can hold.
fn decode_budget(options: &VllmOptions) -> u32 {
    let graphs = &options.graphs;
    let default = graphs.data_center_blackwell.then_some(BLACKWELL_TOKENS);
    let budget = graphs.max_decode_cudagraph_capture_tokens.or(default);
    budget.unwrap_or(u32::MAX).min(options.scheduler.max_num_batched_tokens)
}

/// The query lengths of decode batches, each with its widest batch.
fn query_limits(options: &VllmOptions) -> Vec<QueryLimit> {
    let graphs = &options.graphs;
    let schedule = graphs.dynamic_sd_schedule.as_deref();
    draft_tiers(schedule, graphs.num_speculative_tokens, options.scheduler.max_num_seqs)
        .iter()
        .map(|tier| QueryLimit { query_len: tier.drafts.saturating_add(1), requests_max: tier.widest_batch })
        .collect()
}

fn dense_head(graphs: &GraphOptions) -> bool {
    graphs.performance_mode == PerformanceMode::Interactivity
}

/// Options that the mode, or a list beside them, leaves without effect.
fn warn_about_unused(graphs: &GraphOptions, mode: CudagraphMode, warnings: &mut Vec<GraphWarning>) {
    let mut unused = |option, reason| warnings.push(GraphWarning::Unused { option, reason });
    for MainOption { name: option, is_given, .. } in OPTIONS {
        if !is_given(graphs) {
            continue;
        }
        let is_prefill = [PREFILL_SIZES, PREFILL_MAX].contains(&option);
        if is_prefill && mode.mixed_mode() == RuntimeMode::None {
            unused(option, "the mode has no graphs for prefill batches");
        } else if !is_prefill && !mode.separate_routine() {
            unused(option, "the mode takes the prefill sizes for every batch");
        } else if option == PREFILL_MAX && graphs.prefill_cudagraph_capture_token_sizes.is_some() {
            unused(option, "prefill_cudagraph_capture_token_sizes lists the sizes");
        } else if option == DECODE_MAX
            && graphs.decode_cudagraph_capture_request_sizes.is_some()
            && !graphs.varlen_decode
        {
            unused(option, "decode_cudagraph_capture_request_sizes lists the sizes");
        } else if option == DECODE_SIZES && graphs.varlen_decode {
            unused(option, "under adaptive verification it sizes the graphs of drafters alone, which are not modelled");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::vllm::options::{KvOptions, SchedulerOptions};

    fn options(max_num_seqs: u32, max_num_batched_tokens: u32, graphs: GraphOptions) -> VllmOptions {
        VllmOptions {
            version: Version::Main,
            runner: Some(Runner::V2),
            scheduler: SchedulerOptions { max_num_seqs, max_num_batched_tokens, ..SchedulerOptions::default() },
            kv: KvOptions::default(),
            graphs,
        }
    }

    fn generate(options: &VllmOptions) -> (SeparateLadders, Vec<GraphWarning>) {
        let mut warnings = Vec::new();
        check_options(options).expect("the options belong together");
        let made = SeparateLadders::generate(options, CudagraphMode::FullAndPiecewise, &mut warnings);
        (made.expect("the options are valid"), warnings)
    }

    fn requests(ladders: &SeparateLadders, query_len: u32) -> Vec<u32> {
        ladders.decode.iter().filter(|shape| shape.query_len == query_len).map(|shape| shape.requests).collect()
    }

    #[test]
    fn defaults_follow_the_platform() {
        let (ladders, warnings) = generate(&options(1024, 16384, GraphOptions::default()));
        assert_eq!((ladders.prefill.len(), ladders.prefill.last()), (grids::prefill(512, false).len(), Some(&512)));
        assert_eq!(requests(&ladders, 1), grids::decode(512));
        assert!(warnings.is_empty());
        let blackwell = GraphOptions { data_center_blackwell: true, ..GraphOptions::default() };
        let (ladders, _) = generate(&options(1024, 16384, blackwell.clone()));
        assert_eq!((ladders.prefill.len(), ladders.decode.len()), (54, 64));
        assert_eq!(ladders.together(CudagraphMode::FullAndPiecewise).ceiling, 8192);
        assert_eq!(ladders.together(CudagraphMode::FullDecodeOnly).ceiling, 1024);
        assert_eq!(ladders.together(CudagraphMode::Full).sizes, grids::prefill(8192, false));
        // Nine tokens a request: the budget of 8,192 tokens ends at 910 requests.
        let drafts = GraphOptions { num_speculative_tokens: 8, ..blackwell };
        assert_eq!(requests(&generate(&options(1024, 16384, drafts)).0, 9).last(), Some(&910));
    }

    #[test]
    fn a_decode_graph_holds_no_more_than_a_step() {
        let drafts = GraphOptions { num_speculative_tokens: 3, ..GraphOptions::default() };
        assert_eq!(requests(&generate(&options(256, 300, drafts.clone())).0, 4).last(), Some(&75));
        // 512 tokens hold 128 requests of four.
        assert_eq!(requests(&generate(&options(256, 2048, drafts)).0, 4).last(), Some(&128));
    }

    #[test]
    fn dynamic_speculation_has_shapes_per_length() {
        let graphs = GraphOptions {
            num_speculative_tokens: 3,
            dynamic_sd_schedule: Some(vec![(1, 8, 3), (9, 64, 0)]),
            ..GraphOptions::default()
        };
        let (ladders, _) = generate(&options(64, 2048, graphs));
        assert_eq!(requests(&ladders, 1), grids::decode(64));
        assert_eq!(requests(&ladders, 4), [1, 2, 3, 4, 5, 6, 8]);
    }

    #[test]
    fn adaptive_verification_counts_tokens() {
        let graphs = GraphOptions {
            num_speculative_tokens: 3,
            varlen_decode: true,
            decode_cudagraph_capture_request_sizes: Some(vec![1]),
            max_decode_cudagraph_capture_requests: Some(30),
            ..GraphOptions::default()
        };
        let (ladders, warnings) = generate(&options(64, 2048, graphs));
        assert_eq!((ladders.varlen, ladders.decode), (grids::varlen_decode(120, false), Vec::new()));
        assert!(matches!(warnings[..], [GraphWarning::Unused { option: DECODE_SIZES, .. }]));
    }

    #[test]
    fn old_options_set_both_sides() {
        let listed = GraphOptions {
            num_speculative_tokens: 2,
            cudagraph_capture_sizes: Some(vec![16, 1, 4, 9000]),
            ..GraphOptions::default()
        };
        let (ladders, warnings) = generate(&options(64, 2048, listed));
        assert_eq!((ladders.prefill.as_slice(), requests(&ladders, 3)), (&[1, 4, 16][..], vec![1, 2, 6]));
        assert!(matches!(
            warnings[..],
            [GraphWarning::Deprecated { option: OLD_SIZES, .. }, GraphWarning::SizesAboveBudget { dropped: 1, .. }]
        ));
        let maximum =
            GraphOptions { num_speculative_tokens: 2, max_cudagraph_capture_size: Some(50), ..GraphOptions::default() };
        let (ladders, warnings) = generate(&options(64, 2048, maximum));
        assert_eq!((ladders.prefill.last(), requests(&ladders, 3).last()), (Some(&50), Some(&16)));
        assert!(matches!(warnings[..], [GraphWarning::Deprecated { option: OLD_MAX, .. }]));
        let none = GraphOptions { cudagraph_capture_sizes: Some(Vec::new()), ..GraphOptions::default() };
        assert_eq!(generate(&options(64, 2048, none)).0, SeparateLadders::default());
    }

    #[test]
    fn options_belong_to_one_release_and_one_runner() {
        let graphs = GraphOptions { max_decode_cudagraph_capture_requests: Some(8), ..GraphOptions::default() };
        let mut given = options(64, 2048, graphs);
        given.version = Version::V0_33_0;
        let error = check_options(&given).expect_err("0.33.0 has no such option");
        assert!(error.to_string().contains("came after 0.33.0"), "{error}");
        given.version = Version::Main;
        given.runner = Some(Runner::V1);
        assert_eq!(check_options(&given), Err(EngineError::NeedsRunnerV2 { option: DECODE_MAX, older: OLD_MAX }));
        given.runner = Some(Runner::V2);
        given.graphs.cudagraph_capture_sizes = Some(vec![8]);
        assert_eq!(check_options(&given), Err(EngineError::OldAndNew { older: OLD_SIZES, option: DECODE_MAX }));
    }
}
