//! vLLM main's graphs beside those of the decoder's steps: of a multimodal encoder, and of a YOCO model's replay layers.

use super::decoder_replay::{DecoderReplay, ReplayOff, ReplayServer};
use super::encoder::{EncoderError, EncoderGraphs, EncoderOptions};
use super::error::EngineError;
use super::options::{Version, VllmOptions};
use super::warning::GraphWarning;

/// The other graphs of one candidate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OtherGraphs {
    /// The encoder's; `None` where they are off.
    pub encoder: Option<EncoderGraphs>,
    /// Those of the replay layers; `None` for a model without such layers.
    pub replay: Option<DecoderReplay>,
    /// What the engine does not use, what is not known, and what is inferred.
    pub warnings: Vec<GraphWarning>,
}

impl OtherGraphs {
    /// The graphs of a server whose widest graph has `ceiling` tokens. Only vLLM main's documentation describes them: a
    /// release before it has none here.
    ///
    /// # Errors
    /// [`EngineError::Encoder`] and [`EngineError::Replay`].
    pub fn build(options: &VllmOptions, breakable_piecewise: bool, ceiling: u32) -> Result<Self, EngineError> {
        let graphs = &options.graphs;
        let mut warnings = Vec::new();
        let mut unused = |option, reason| warnings.push(GraphWarning::Unused { option, reason });
        if options.version != Version::Main {
            if graphs.sliding_window.is_some() {
                unused("sliding_window", "graphs of replay layers are known of vLLM main only");
            }
            return Ok(Self { warnings, ..Self::default() });
        }
        let has_encoder = graphs.encoder.cudagraph_mm_encoder;
        let without_switch = EncoderOptions { cudagraph_mm_encoder: false, ..graphs.encoder.clone() };
        if !has_encoder && without_switch != EncoderOptions::default() {
            unused("encoder_cudagraph_*", "cudagraph_mm_encoder is off");
        }
        if graphs.sliding_window.is_none() && !graphs.decoder_replay.decoder_replay_cudagraph_capture_sizes.is_empty() {
            unused("decoder_replay_cudagraph_capture_sizes", "[model] has no sliding_window: no YOCO model is served");
        }
        let encoder = has_encoder
            .then(|| EncoderGraphs::new(&graphs.encoder, graphs.encoder_model.ok_or(EncoderError::NoRange)?))
            .transpose()?;
        let server = |sliding_window| ReplayServer {
            sliding_window,
            max_cudagraph_capture_size: ceiling,
            max_num_seqs: options.scheduler.max_num_seqs,
            max_num_batched_tokens: options.scheduler.max_num_batched_tokens,
            breakable_piecewise,
            lora: graphs.max_loras.is_some(),
            prompt_embeds: false,
            first_pipeline_rank: true,
        };
        let replay = graphs
            .sliding_window
            .map(|window| DecoderReplay::new(&graphs.decoder_replay, &server(window)))
            .transpose()?;
        let mut made = Self { encoder, replay, warnings };
        made.warn();
        Ok(made)
    }

    fn warn(&mut self) {
        if self.encoder.is_some() {
            let what = "images are packed in their order, as many as the largest budget holds";
            self.warnings.push(GraphWarning::Inferred { what });
        }
        if let Some(replay) = &self.replay {
            if let Some(reason) = replay.off().filter(|reason| *reason != ReplayOff::Option) {
                self.warnings.push(GraphWarning::ReplayOff { reason });
            }
            let what = "beyond sixteen windows there are eight decoder-replay sizes a doubling; a trimmed replay batch \
                        keeps the last window of each prefill";
            self.warnings.push(GraphWarning::Inferred { what });
        }
        let captures = self.replay.as_ref().is_some_and(|replay| !replay.sizes().is_empty());
        if self.encoder.is_some() || captures {
            self.warnings.push(GraphWarning::NotPriced);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::vllm::decoder_replay::{ReplayError, ReplayOptions};
    use crate::engine::vllm::encoder::EncoderModel;
    use crate::engine::vllm::options::{GraphOptions, KvOptions, SchedulerOptions};

    fn server(version: Version, graphs: GraphOptions) -> VllmOptions {
        let scheduler =
            SchedulerOptions { max_num_seqs: 4, max_num_batched_tokens: 2048, ..SchedulerOptions::default() };
        VllmOptions { version, runner: None, scheduler, kv: KvOptions::default(), graphs }
    }

    fn encoding() -> GraphOptions {
        GraphOptions {
            encoder: EncoderOptions { cudagraph_mm_encoder: true, ..EncoderOptions::default() },
            encoder_model: Some(EncoderModel { min_budget: 64, max_budget: 256, max_frames_per_video: 0 }),
            ..GraphOptions::default()
        }
    }

    #[test]
    fn an_encoder_needs_its_switch_and_its_range() {
        let build = |graphs| OtherGraphs::build(&server(Version::Main, graphs), false, 512);
        let made = build(encoding()).expect("a range").encoder.expect("captured");
        assert_eq!((made.budgets(), made.items_max()), (&[64, 128, 256][..], 4));
        assert_eq!(build(GraphOptions::default()), Ok(OtherGraphs::default()));
        let without_range = GraphOptions { encoder_model: None, ..encoding() };
        assert_eq!(build(without_range), Err(EngineError::Encoder(EncoderError::NoRange)));
        let encoder = EncoderOptions { encoder_cudagraph_token_budgets: vec![64], ..EncoderOptions::default() };
        let off = build(GraphOptions { encoder, ..encoding() }).expect("off");
        assert!(off.encoder.is_none() && matches!(off.warnings[..], [GraphWarning::Unused { .. }]));
    }

    #[test]
    fn replay_layers_take_the_servers_limits() {
        let replaying = GraphOptions { sliding_window: Some(128), ..GraphOptions::default() };
        let build = |graphs, breakable| OtherGraphs::build(&server(Version::Main, graphs), breakable, 1024);
        let sizes = |made: &OtherGraphs| made.replay.as_ref().expect("a window").sizes().to_vec();
        let made = build(replaying.clone(), true).expect("valid");
        // Four requests of one window each are fewer tokens than the widest graph.
        assert_eq!(sizes(&made), [128, 256, 384, 512]);
        assert!(made.warnings.contains(&GraphWarning::NotPriced));
        let off = build(replaying.clone(), false).expect("valid");
        assert!(sizes(&off).is_empty());
        assert!(off.warnings.contains(&GraphWarning::ReplayOff { reason: ReplayOff::NotBreakable }));
        let decoder_replay = ReplayOptions { decoder_replay_trim_threshold: 100, ..ReplayOptions::default() };
        let refused = build(GraphOptions { decoder_replay, ..replaying }, true);
        let low = ReplayError::ThresholdInWindow { threshold: 100, window: 128 };
        assert_eq!(refused, Err(EngineError::Replay(low)));
    }

    #[test]
    fn releases_before_main_have_neither() {
        let graphs = GraphOptions { sliding_window: Some(128), ..encoding() };
        let made = OtherGraphs::build(&server(Version::V0_33_0, graphs), true, 1024).expect("ignored");
        assert!(made.encoder.is_none() && made.replay.is_none() && made.warnings.len() == 1);
    }
}
