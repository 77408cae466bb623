//! vLLM main's graphs beside those of the decoder's steps, for `sim explain`: encoder budgets and decoder replay.

use std::str::FromStr;

use clap::Args;
use reports::RuleCheck;

use super::failure::Failure;
use crate::engine::plan::GraphPlan;
use crate::engine::shape::Dispatch;
use crate::engine::vllm::decoder_replay::{DecoderReplay, ReplayOptions, ReplayRun};
use crate::engine::vllm::encoder::{EncoderBatch, EncoderGraphs, EncoderModel, EncoderOptions, VisionItem};
use crate::engine::vllm::options::{GraphOptions, Version, VllmOptions};
use crate::limits;
use crate::record::explain::ExplainedStep;

/// Images and replay layers of the step.
#[derive(Debug, Args)]
#[command(next_help_heading = "Encoder and decoder-replay graphs (vLLM main)")]
pub(super) struct OtherGraphs {
    /// Images that the encoder runs, in encoder tokens each, in order.
    #[arg(long, value_name = "N", num_args = 1.., value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::STEP_TOKENS_MAX)))]
    images: Vec<u32>,
    /// The model's own smallest and largest encoder budget, in tokens.
    #[arg(long, value_name = "MIN:MAX", requires = "images")]
    encoder_budget_range: Option<BudgetRange>,
    /// Encoder budgets, in tokens [default: powers of two over the model's range].
    #[arg(long, value_name = "N", num_args = 1.., value_delimiter = ',', requires = "images",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::STEP_TOKENS_MAX)))]
    encoder_cudagraph_token_budgets: Vec<u32>,
    /// Most images of one encoder graph; 0 is the largest budget over the smallest.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "images",
          value_parser = clap::value_parser!(u32).range(..=i64::from(limits::SEQUENCES_MAX)))]
    encoder_cudagraph_max_vision_items_per_batch: u32,
    /// The sliding window of a YOCO model, in tokens: its replay layers have graphs of their own.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::STEP_TOKENS_MAX)))]
    sliding_window: Option<u32>,
    /// Sizes of decoder-replay graphs, in tokens [default: multiples of the window].
    #[arg(long, value_name = "N", num_args = 1.., value_delimiter = ',', requires = "sliding_window",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::STEP_TOKENS_MAX)))]
    decoder_replay_cudagraph_capture_sizes: Vec<u32>,
    /// Fewest padded tokens of a PIECEWISE step that trims its replay batch.
    #[arg(long, value_name = "N", default_value_t = 768, requires = "sliding_window",
          value_parser = clap::value_parser!(u32).range(..=i64::from(limits::STEP_TOKENS_MAX)))]
    decoder_replay_trim_threshold: u32,
}

/// `MIN:MAX`.
#[derive(Clone, Copy, Debug)]
struct BudgetRange {
    min: u32,
    max: u32,
}

impl FromStr for BudgetRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = |text: &str| text.parse().ok().filter(|tokens| (1..=limits::STEP_TOKENS_MAX).contains(tokens));
        let range = text.split_once(':').and_then(|(min, max)| Some(Self { min: parse(min)?, max: parse(max)? }));
        range
            .filter(|range| range.min <= range.max)
            .ok_or_else(|| "expected the smallest and the largest budget in tokens, such as 64:8192".to_owned())
    }
}

impl OtherGraphs {
    /// The flags that a scenario takes the place of.
    pub(super) const SERVER_IDS: [&str; 6] = [
        "encoder_budget_range",
        "encoder_cudagraph_token_budgets",
        "encoder_cudagraph_max_vision_items_per_batch",
        "sliding_window",
        "decoder_replay_cudagraph_capture_sizes",
        "decoder_replay_trim_threshold",
    ];

    /// Adds what the flags say to the options of the server.
    ///
    /// # Errors
    /// Another release than main.
    pub(super) fn apply(&self, options: &mut VllmOptions) -> Result<(), Failure> {
        if self.images.is_empty() && self.sliding_window.is_none() {
            return Ok(());
        }
        if options.version != Version::Main {
            return Err(usage("encoder and decoder-replay graphs are vLLM main's", "give --engine-version main"));
        }
        options.graphs = GraphOptions {
            encoder: EncoderOptions {
                cudagraph_mm_encoder: !self.images.is_empty(),
                encoder_cudagraph_token_budgets: self.encoder_cudagraph_token_budgets.clone(),
                encoder_cudagraph_max_vision_items_per_batch: self.encoder_cudagraph_max_vision_items_per_batch,
                encoder_cudagraph_max_frames_per_batch: None,
            },
            encoder_model: self.encoder_budget_range.map(|BudgetRange { min, max }| EncoderModel {
                min_budget: min,
                max_budget: max,
                max_frames_per_video: 0,
            }),
            decoder_replay: ReplayOptions {
                decoder_replay_cudagraph_capture_sizes: self.decoder_replay_cudagraph_capture_sizes.clone(),
                decoder_replay_trim_threshold: self.decoder_replay_trim_threshold,
                ..ReplayOptions::default()
            },
            sliding_window: self.sliding_window,
            ..std::mem::take(&mut options.graphs)
        };
        Ok(())
    }

    /// What these graphs do in the step; empty for a server without them.
    pub(super) fn rules(&self, plan: &GraphPlan, step: &ExplainedStep, dispatch: &Dispatch) -> Vec<RuleCheck> {
        let Some(other) = plan.other_graphs() else { return Vec::new() };
        let mut rules = self.encoder_rules(other.encoder.as_ref());
        if let Some(replay) = &other.replay {
            rules.extend(replay_rules(replay, step, dispatch));
        }
        rules
    }

    fn encoder_rules(&self, graphs: Option<&EncoderGraphs>) -> Vec<RuleCheck> {
        if self.images.is_empty() {
            return Vec::new();
        }
        let Some(graphs) = graphs else {
            let detail = format!("{} images; cudagraph_mm_encoder is off", self.images.len());
            return vec![check("encoder_budgets", detail, "no graph")];
        };
        let budgets: Vec<String> = graphs.budgets().iter().map(u32::to_string).collect();
        let detail = format!("budgets {}; at most {} images each", budgets.join(" "), graphs.items_max());
        let items: Vec<VisionItem> = self.images.iter().map(|&tokens| VisionItem::image(tokens)).collect();
        let mut rules = vec![check("encoder_budgets", detail, "captured")];
        rules.extend(graphs.pack(&items).iter().map(encoder_batch));
        rules
    }
}

fn replay_rules(replay: &DecoderReplay, step: &ExplainedStep, dispatch: &Dispatch) -> Vec<RuleCheck> {
    let (graph, window) = (dispatch.descriptor, replay.sliding_window());
    let trims = replay.trims(graph.mode, graph.tokens);
    let trimmed: u64 = step.chunks.iter().map(|chunk| u64::from(chunk.tokens.min(window))).sum::<u64>()
        + (u64::from(step.shape.tokens) - step.chunks.iter().map(|chunk| u64::from(chunk.tokens)).sum::<u64>());
    let batch = if trims { trimmed as u32 } else { graph.tokens };
    let detail = format!("{} {} tokens, window {window}: the replay batch has {batch}", graph.mode, graph.tokens);
    let (size, outcome) = match (replay.run(graph.mode, batch), replay.off()) {
        (ReplayRun::InFullGraph, _) => ("the full graph holds the replay layers".to_owned(), "taken"),
        (ReplayRun::Graph(size), _) => (format!("{batch} tokens pad to size {size}"), "taken"),
        (ReplayRun::NoGraph, Some(reason)) => (reason.to_string(), "no graph"),
        (ReplayRun::NoGraph, None) => {
            (format!("{batch} tokens; the largest size is {}", replay.sizes().last().unwrap_or(&0)), "no graph")
        }
    };
    vec![
        check("replay_trim", detail, if trims { "trimmed" } else { "not trimmed" }),
        check("replay_size", size, outcome),
    ]
}

fn encoder_batch(batch: &EncoderBatch) -> RuleCheck {
    let images: Vec<String> = batch.items.iter().map(|item| item.tokens.to_string()).collect();
    let images = images.join(" + ");
    match batch.budget {
        Some(budget) => {
            let share = 100.0 * batch.padded_tokens() as f64 / f64::from(budget);
            let padded = batch.padded_tokens();
            let detail = format!("{images} tokens run budget {budget}: {padded} padded, {share:.1} % of the rows run");
            check("encoder_batch", detail, "taken")
        }
        None => check("encoder_batch", format!("{images} tokens: no budget holds them"), "no graph"),
    }
}

fn check(rule: &'static str, detail: String, outcome: &'static str) -> RuleCheck {
    RuleCheck { rule: rule.to_owned(), detail, outcome: outcome.to_owned() }
}

fn usage(message: &str, help: &str) -> Failure {
    Failure::Usage { message: message.to_owned(), help: Some(help.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_is_listed() {
        let command = OtherGraphs::augment_args(clap::Command::new("any"));
        let ids: Vec<&str> = command.get_arguments().map(|flag| flag.get_id().as_str()).collect();
        assert_eq!(ids[0], "images");
        assert_eq!(ids[1..], OtherGraphs::SERVER_IDS);
    }
}
