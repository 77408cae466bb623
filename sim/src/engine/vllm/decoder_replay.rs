//! Graphs of the decoder replay layers of YOCO models in vLLM main: their sizes, and when a step trims the replay batch.
//!
//! The documentation gives multiples of the sliding window up to `min(max_cudagraph_capture_size, max_num_seqs *
//! sliding_window)`, "coarser past 16 * sliding_window", and a trim threshold that must exceed the replay window. How
//! coarse is inferred: eight sizes a doubling, as there are from eight windows to sixteen.

use std::fmt;

use thiserror::Error;

use crate::engine::shape::RuntimeMode;

/// Sizes a doubling beyond the windows of which each multiple is captured, which are twice as many.
const SIZES_PER_DOUBLING: u64 = 8;

/// Options of replay graphs, as the user gave them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayOptions {
    /// Graphs and trimming are wanted: on by default.
    pub cudagraph_decoder_replay: bool,
    /// Sizes, in tokens; empty for the engine's own.
    pub decoder_replay_cudagraph_capture_sizes: Vec<u32>,
    /// Fewest padded tokens of a PIECEWISE step that trims, in tokens: 768 by default.
    pub decoder_replay_trim_threshold: u32,
}

impl Default for ReplayOptions {
    fn default() -> Self {
        Self {
            cudagraph_decoder_replay: true,
            decoder_replay_cudagraph_capture_sizes: Vec::new(),
            decoder_replay_trim_threshold: 768,
        }
    }
}

/// What else decides the graphs of the replay layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "one field per state of the server")]
pub struct ReplayServer {
    /// The model's sliding window, in tokens.
    pub sliding_window: u32,
    /// The widest captured graph, in tokens.
    pub max_cudagraph_capture_size: u32,
    /// Most running requests.
    pub max_num_seqs: u32,
    /// Token budget of a step.
    pub max_num_batched_tokens: u32,
    /// PIECEWISE graphs are captured, and broken while they are.
    pub breakable_piecewise: bool,
    /// The server takes adapters.
    pub lora: bool,
    /// The server takes prompt embeddings.
    pub prompt_embeds: bool,
    /// The rank is the first of the pipeline.
    pub first_pipeline_rank: bool,
}

/// Why the replay layers have no graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayOff {
    /// `cudagraph_decoder_replay` is off.
    Option,
    /// There are no breakable PIECEWISE graphs.
    NotBreakable,
    /// Adapters are on.
    Lora,
    /// Prompt embeddings are on.
    PromptEmbeds,
    /// The rank is not the pipeline's first.
    PipelineRank,
}

/// Options at which the engine stops, or that cannot work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReplayError {
    /// A size of zero tokens: a `ValueError` of the engine.
    #[error(
        "decoder_replay_cudagraph_capture_sizes holds 0: give sizes of at least 1 token, or none for the engine's own"
    )]
    ZeroSize,
    /// A model without a window has no replay layers.
    #[error("sliding_window is 0: decoder replay needs a model with a sliding window")]
    NoWindow,
    /// The threshold does not exceed the window.
    #[error(
        "decoder_replay_trim_threshold is {threshold}, which must exceed the replay window of {window} tokens: give at \
         least {}",
        u64::from(*window) + 1
    )]
    ThresholdInWindow {
        /// The threshold, in tokens.
        threshold: u32,
        /// The window, in tokens.
        window: u32,
    },
}

impl ReplayOff {
    /// The option or state, as a stable word.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Option => "option",
            Self::NotBreakable => "not_breakable",
            Self::Lora => "lora",
            Self::PromptEmbeds => "prompt_embeds",
            Self::PipelineRank => "pipeline_rank",
        }
    }
}

impl fmt::Display for ReplayOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Option => "cudagraph_decoder_replay is off",
            Self::NotBreakable => "replay graphs need breakable PIECEWISE graphs (use_breakable_cudagraph)",
            Self::Lora => "replay graphs are off under LoRA",
            Self::PromptEmbeds => "replay graphs are off with prompt embeddings",
            Self::PipelineRank => "replay graphs are off on later pipeline ranks",
        })
    }
}

/// How the replay layers of one step run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayRun {
    /// Inside the step's FULL graph.
    InFullGraph,
    /// In a graph of this size, in tokens.
    Graph(u32),
    /// Without a graph of their own.
    NoGraph,
}

/// Sizes and threshold in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecoderReplay {
    sizes: Vec<u32>,
    trim_threshold: u32,
    sliding_window: u32,
    off: Option<ReplayOff>,
}

impl DecoderReplay {
    /// The graphs of the replay layers; none, with the reason, where the server cannot have them.
    ///
    /// # Errors
    /// [`ReplayError`].
    pub fn new(options: &ReplayOptions, server: &ReplayServer) -> Result<Self, ReplayError> {
        let (threshold, window) = (options.decoder_replay_trim_threshold, server.sliding_window);
        if options.decoder_replay_cudagraph_capture_sizes.contains(&0) {
            return Err(ReplayError::ZeroSize);
        }
        if window == 0 {
            return Err(ReplayError::NoWindow);
        }
        if threshold <= window {
            return Err(ReplayError::ThresholdInWindow { threshold, window });
        }
        let off = off(options, server);
        let mut sizes = match options.decoder_replay_cudagraph_capture_sizes.as_slice() {
            [] => own_sizes(server),
            listed => listed.to_vec(),
        };
        sizes.retain(|&size| size <= server.max_num_batched_tokens && off.is_none());
        sizes.sort_unstable();
        sizes.dedup();
        Ok(Self { sizes, trim_threshold: threshold, sliding_window: window, off })
    }

    /// Sizes of the graphs, in tokens, ascending.
    #[must_use]
    pub fn sizes(&self) -> &[u32] {
        &self.sizes
    }

    /// Why there are none; `None` where there are.
    #[must_use]
    pub fn off(&self) -> Option<ReplayOff> {
        self.off
    }

    /// The model's sliding window, in tokens.
    #[must_use]
    pub fn sliding_window(&self) -> u32 {
        self.sliding_window
    }

    /// How the replay layers of a step in `mode` run, for a replay batch of `tokens`.
    #[must_use]
    pub fn run(&self, mode: RuntimeMode, tokens: u32) -> ReplayRun {
        match mode {
            RuntimeMode::Full => ReplayRun::InFullGraph,
            RuntimeMode::Piecewise | RuntimeMode::None => {
                self.dispatch(tokens).map_or(ReplayRun::NoGraph, ReplayRun::Graph)
            }
        }
    }

    /// The graph for a replay batch, in tokens; `None` above the largest: it runs without one.
    #[must_use]
    pub fn dispatch(&self, tokens: u32) -> Option<u32> {
        self.sizes.iter().copied().find(|&size| size >= tokens)
    }

    /// Whether a step of `tokens`, padded where it runs a graph, trims its replay batch to the window of each request.
    /// Steps without a graph trim by themselves beyond the window; FULL graphs hold no prefill to trim.
    #[must_use]
    pub fn trims(&self, mode: RuntimeMode, tokens: u32) -> bool {
        match mode {
            RuntimeMode::Piecewise => self.off.is_none() && tokens >= self.trim_threshold,
            RuntimeMode::None => tokens > self.sliding_window,
            RuntimeMode::Full => false,
        }
    }
}

fn off(options: &ReplayOptions, server: &ReplayServer) -> Option<ReplayOff> {
    let reasons = [
        (!options.cudagraph_decoder_replay, ReplayOff::Option),
        (!server.breakable_piecewise, ReplayOff::NotBreakable),
        (server.lora, ReplayOff::Lora),
        (server.prompt_embeds, ReplayOff::PromptEmbeds),
        (!server.first_pipeline_rank, ReplayOff::PipelineRank),
    ];
    reasons.into_iter().find(|(holds, _)| *holds).map(|(_, reason)| reason)
}

/// Multiples of the window: each of them up to sixteen windows, then eight a doubling.
fn own_sizes(server: &ReplayServer) -> Vec<u32> {
    let window = u64::from(server.sliding_window);
    let full_batch = u64::from(server.max_num_seqs) * window;
    let limit = full_batch.min(u64::from(server.max_cudagraph_capture_size));
    let mut sizes = Vec::new();
    let mut windows = 1_u64;
    while windows * window <= limit {
        sizes.push((windows * window) as u32);
        let doubling = 1_u64 << windows.ilog2();
        windows += (doubling / SIZES_PER_DOUBLING).max(1);
    }
    sizes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn server() -> ReplayServer {
        ReplayServer {
            sliding_window: 128,
            max_cudagraph_capture_size: 8192,
            max_num_seqs: 64,
            max_num_batched_tokens: 8192,
            breakable_piecewise: true,
            lora: false,
            prompt_embeds: false,
            first_pipeline_rank: true,
        }
    }

    fn windows(server: &ReplayServer) -> Vec<u32> {
        let made = DecoderReplay::new(&ReplayOptions::default(), server).expect("the options are valid");
        made.sizes().iter().map(|size| size / server.sliding_window).collect()
    }

    #[test]
    fn sizes_are_multiples_of_the_window() {
        let fine: Vec<u32> = (1..=16).collect();
        let coarse = [18, 20, 22, 24, 26, 28, 30, 32, 36, 40, 44, 48, 52, 56, 60, 64];
        assert_eq!(windows(&server()), [&fine[..], &coarse[..]].concat());
        assert_eq!(windows(&ReplayServer { max_num_seqs: 5, ..server() }), [1, 2, 3, 4, 5]);
        assert_eq!(windows(&ReplayServer { max_cudagraph_capture_size: 512, ..server() }), [1, 2, 3, 4]);
        assert_eq!(windows(&ReplayServer { max_num_batched_tokens: 300, ..server() }), [1, 2]);
    }

    #[test]
    fn larger_batches_run_without_a_graph() {
        let listed = ReplayOptions {
            decoder_replay_cudagraph_capture_sizes: vec![512, 256, 256, 9000],
            ..ReplayOptions::default()
        };
        let made = DecoderReplay::new(&listed, &server()).expect("valid");
        assert_eq!(made.sizes(), [256, 512]);
        assert_eq!([256, 257, 513].map(|tokens| made.dispatch(tokens)), [Some(256), Some(512), None]);
        assert_eq!(made.run(RuntimeMode::Piecewise, 257), ReplayRun::Graph(512));
        assert_eq!(made.run(RuntimeMode::None, 513), ReplayRun::NoGraph);
        assert_eq!(made.run(RuntimeMode::Full, 257), ReplayRun::InFullGraph);
    }

    #[test]
    fn piecewise_steps_trim_from_the_threshold_on() {
        let made = DecoderReplay::new(&ReplayOptions::default(), &server()).expect("valid");
        let trims = |mode, tokens: [u32; 3]| tokens.map(|tokens| made.trims(mode, tokens));
        assert_eq!(trims(RuntimeMode::Piecewise, [767, 768, 4096]), [false, true, true]);
        assert_eq!(trims(RuntimeMode::None, [128, 129, 4096]), [false, true, true]);
        assert_eq!(trims(RuntimeMode::Full, [767, 768, 4096]), [false; 3]);
    }

    #[test]
    fn servers_without_replay_graphs_say_why() {
        let off = |options: ReplayOptions, server: ReplayServer| {
            let made = DecoderReplay::new(&options, &server).expect("valid");
            assert!(made.sizes().is_empty());
            assert!(!made.trims(RuntimeMode::Piecewise, 4096));
            made.off()
        };
        let unwanted = ReplayOptions { cudagraph_decoder_replay: false, ..ReplayOptions::default() };
        assert_eq!(off(unwanted, server()), Some(ReplayOff::Option));
        let servers = [
            (ReplayServer { breakable_piecewise: false, ..server() }, ReplayOff::NotBreakable),
            (ReplayServer { lora: true, ..server() }, ReplayOff::Lora),
            (ReplayServer { prompt_embeds: true, ..server() }, ReplayOff::PromptEmbeds),
            (ReplayServer { first_pipeline_rank: false, ..server() }, ReplayOff::PipelineRank),
        ];
        for (server, reason) in servers {
            assert_eq!(off(ReplayOptions::default(), server), Some(reason));
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let refused = |options: ReplayOptions, server| DecoderReplay::new(&options, &server).expect_err("refused");
        let low = ReplayOptions { decoder_replay_trim_threshold: 128, ..ReplayOptions::default() };
        assert_eq!(refused(low, server()), ReplayError::ThresholdInWindow { threshold: 128, window: 128 });
        let without = ReplayServer { sliding_window: 0, ..server() };
        assert_eq!(refused(ReplayOptions::default(), without), ReplayError::NoWindow);
        let zero = ReplayOptions { decoder_replay_cudagraph_capture_sizes: vec![0], ..ReplayOptions::default() };
        assert_eq!(refused(zero, server()), ReplayError::ZeroSize);
    }

    proptest! {
        #[test]
        fn sizes_agree_with_a_scan_of_all_multiples(
            window in 1_u32..300,
            seqs in 1_u32..200,
            widest in 0_u32..20_000,
        ) {
            let made = DecoderReplay::new(&ReplayOptions::default(), &ReplayServer {
                sliding_window: window,
                max_num_seqs: seqs,
                max_cudagraph_capture_size: widest,
                max_num_batched_tokens: u32::MAX,
                ..server()
            });
            let expected: Vec<u32> = (1..=seqs)
                .filter(|&windows| windows <= 16 || windows % (windows.next_power_of_two() / 16).max(1) == 0
                    || windows.is_power_of_two())
                .map(|windows| windows * window)
                .filter(|&size| size <= widest)
                .collect();
            prop_assert_eq!(made.map(|made| made.sizes().to_vec()), Ok(expected));
        }
    }
}
