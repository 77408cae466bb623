//! Encoder and decoder-replay graphs of vLLM main: their options, and the images that steps bring.

use toml::Spanned;

use super::check::Check;
use super::file::{GraphsFile, TrafficFile};
use super::graphs::ladder;
use super::{ScenarioError, Span};
use crate::engine::options::EngineOptions;
use crate::engine::vllm::options::{GraphOptions, Version};
use crate::limits::{SEQUENCES_MAX, STEP_TOKENS_MAX};

/// Lays these options of one table over `graphs`.
pub(super) fn overlay(
    check: &mut Check<'_>,
    graphs: &mut GraphOptions,
    file: &GraphsFile,
    version: Version,
) -> Result<(), ScenarioError> {
    refuse_before_main(check, file, version)?;
    let encoder = &mut graphs.encoder;
    if let Some(switch) = &file.cudagraph_mm_encoder {
        encoder.cudagraph_mm_encoder = *switch.get_ref();
    }
    if let Some(budgets) = &file.encoder_cudagraph_token_budgets {
        encoder.encoder_cudagraph_token_budgets = ladder(check, budgets, 0, STEP_TOKENS_MAX)?;
    }
    if let Some(items) = &file.encoder_cudagraph_max_vision_items_per_batch {
        encoder.encoder_cudagraph_max_vision_items_per_batch = check.whole32(items, 0, SEQUENCES_MAX)?;
    }
    if let Some(frames) = &file.encoder_cudagraph_max_frames_per_batch {
        encoder.encoder_cudagraph_max_frames_per_batch = Some(check.whole32(frames, 0, SEQUENCES_MAX)?);
    }
    let replay = &mut graphs.decoder_replay;
    if let Some(switch) = &file.cudagraph_decoder_replay {
        replay.cudagraph_decoder_replay = *switch.get_ref();
    }
    if let Some(sizes) = &file.decoder_replay_cudagraph_capture_sizes {
        replay.decoder_replay_cudagraph_capture_sizes = ladder(check, sizes, 0, STEP_TOKENS_MAX)?;
    }
    if let Some(tokens) = &file.decoder_replay_trim_threshold {
        replay.decoder_replay_trim_threshold = check.whole32(tokens, 0, STEP_TOKENS_MAX)?;
    }
    Ok(())
}

/// Only main's documentation describes these options.
fn refuse_before_main(check: &Check<'_>, file: &GraphsFile, version: Version) -> Result<(), ScenarioError> {
    if version == Version::Main {
        return Ok(());
    }
    let switches = [&file.cudagraph_mm_encoder, &file.cudagraph_decoder_replay];
    let lists = [&file.encoder_cudagraph_token_budgets, &file.decoder_replay_cudagraph_capture_sizes];
    let numbers = [
        &file.encoder_cudagraph_max_vision_items_per_batch,
        &file.encoder_cudagraph_max_frames_per_batch,
        &file.decoder_replay_trim_threshold,
    ];
    let mut given = switches
        .into_iter()
        .filter_map(|value| value.as_ref().map(Spanned::span))
        .chain(lists.into_iter().filter_map(|value| value.as_ref().map(Spanned::span)))
        .chain(numbers.into_iter().filter_map(|value| value.as_ref().map(Spanned::span)));
    match given.next() {
        Some(span) => Err(since_main(check, &span, "this option is", &format!("vLLM {version}"))),
        None => Ok(()),
    }
}

/// Refuses steps with images on a server of which no encoder graphs are known: all that could be counted is nothing.
pub(super) fn refuse_images_before_main(
    check: &Check<'_>,
    file: &TrafficFile,
    server: &EngineOptions,
) -> Result<(), ScenarioError> {
    let whose = match server.vllm() {
        Some(options) if options.version == Version::Main => return Ok(()),
        Some(options) => format!("vLLM {}", options.version),
        None => "SGLang".to_owned(),
    };
    match file.steps.iter().flatten().find_map(|row| row.get_ref().images.as_ref()) {
        Some(images) => Err(since_main(check, &images.span(), "encoder graphs are", &whose)),
        None => Ok(()),
    }
}

fn since_main(check: &Check<'_>, span: &Span, what: &str, whose: &str) -> ScenarioError {
    let problem = format!("{what} known since vLLM main, not of {whose}");
    check.reject(span, problem, "set version = \"main\" under [server.vllm], or leave it out")
}
