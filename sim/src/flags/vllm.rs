//! vLLM's flags: `--compilation-config` with the keys that the server would not set by itself.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::names::{
    BREAKABLE_VARIABLE, COMPILATION_CONFIG, ENFORCE_EAGER, OPTIMIZATION_LEVEL, PERFORMANCE_MODE, SPECIALIZE_ACTIVE_LORA,
};
use super::settings::Settings;
use super::{Advice, Difference, Fault, Rebuilt, Target, read, shell};
use crate::engine::error::EngineError;
use crate::engine::plan::GraphPlan;
use crate::engine::shape::RuntimeMode;
use crate::engine::vllm::decoder_replay::ReplayOptions;
use crate::engine::vllm::encoder::EncoderOptions;
use crate::engine::vllm::options::{
    CompileSize, CudagraphMode, GraphOptions, OptimizationLevel, PerformanceMode, Runner, SplittingOps, Version,
    VllmOptions, WhatIf,
};
use crate::engine::vllm::plan::GraphPlan as VllmPlan;
use crate::engine::vllm::runner::RunnerChoice;

const SIZES: &str = "cudagraph_capture_sizes";
const MAX_SIZE: &str = "max_cudagraph_capture_size";
const PREFILL_SIZES: &str = "prefill_cudagraph_capture_token_sizes";
const PREFILL_MAX: &str = "max_prefill_cudagraph_capture_tokens";
const DECODE_SIZES: &str = "decode_cudagraph_capture_request_sizes";
const DECODE_MAX: &str = "max_decode_cudagraph_capture_requests";
const DECODE_BUDGET: &str = "max_decode_cudagraph_capture_tokens";

/// Keys of one ladder, or of the two that main keeps.
type Ladders = Map<String, Value>;

/// The flags of one release for the graphs of `options`.
pub(super) fn advise(options: &VllmOptions, version: Version) -> Result<Advice, Fault> {
    let target = Target::Vllm(version);
    let refused = |error| Fault::Refused { engine: Target::Vllm(options.version), error: EngineError::Vllm(error) };
    let advised = GraphPlan::Vllm(VllmPlan::build(options).map_err(refused)?);
    let writer = Writer { options, version, separate: keeps_two_lists(options, version) };
    let mut nearest: Option<Trial> = None;
    for (source, ladders) in writer.ladders(&advised) {
        let trial = writer.trial(source, ladders, &advised)?;
        if nearest.as_ref().is_none_or(|best| trial.distance < best.distance) {
            nearest = Some(trial);
        }
    }
    let Trial { source, settings, checked, .. } = nearest.expect("no list at all is always tried");
    let notes = writer.notes(source, &settings, &checked);
    Ok(settings.into_advice(target, notes, checked))
}

/// Whether the release keeps sizes for prefill and for decode apart (specification section 6b).
fn keeps_two_lists(options: &VllmOptions, version: Version) -> bool {
    let runner = RunnerChoice::of(&VllmOptions { version, ..options.clone() });
    version == Version::Main && runner.is_ok_and(|choice| choice.runner == Runner::V2)
}

/// Where a ladder comes from, in the order in which ways are tried: of equally good ones the first is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// No key: the engine's default.
    Default,
    /// The options' own keys, as they are.
    Given,
    /// Written out from what the advised plan captures.
    Plan,
    /// The keys of releases before main, as main reads them.
    Successors,
}

/// One way to write the flags, read back.
struct Trial {
    source: Source,
    settings: Settings,
    checked: Rebuilt,
    /// How far its graphs are from the advised ones.
    distance: Distance,
}

/// How far a trial's graphs are from the advised ones, least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Distance {
    /// By so many differences, the graphs that only one of the two captures counted one by one.
    Differs(usize),
    /// The target does not start.
    Refused,
}

struct Writer<'a> {
    options: &'a VllmOptions,
    version: Version,
    separate: bool,
}

impl Writer<'_> {
    /// The ways to state the ladder.
    fn ladders(&self, advised: &GraphPlan) -> Vec<(Source, Ladders)> {
        let mut ways = vec![(Source::Default, Ladders::new())];
        let given = self.given();
        let without_maxima = |ladders: &Ladders| -> Ladders {
            let is_list = |key: &str| [SIZES, PREFILL_SIZES, DECODE_SIZES].contains(&key);
            ladders.iter().filter(|(key, _)| is_list(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        // A maximum beside its list mostly says nothing new.
        ways.extend(
            given.as_ref().map(without_maxima).filter(|lists| !lists.is_empty()).map(|lists| (Source::Given, lists)),
        );
        ways.extend(given.map(|ladders| (Source::Given, ladders)));
        ways.push((Source::Plan, self.written_out(advised)));
        ways.extend(self.successors().map(|ladders| (Source::Successors, ladders)));
        ways
    }

    /// The options' own keys, if the target reads them as they are meant.
    fn given(&self) -> Option<Ladders> {
        let graphs = &self.options.graphs;
        let list = |sizes: &Option<Vec<u32>>| sizes.clone().map(Value::from);
        let number = |number: Option<u32>| number.map(Value::from);
        let old =
            [(SIZES, list(&graphs.cudagraph_capture_sizes)), (MAX_SIZE, number(graphs.max_cudagraph_capture_size))];
        let new = [
            (PREFILL_SIZES, list(&graphs.prefill_cudagraph_capture_token_sizes)),
            (PREFILL_MAX, number(graphs.max_prefill_cudagraph_capture_tokens)),
            (DECODE_SIZES, list(&graphs.decode_cudagraph_capture_request_sizes)),
            (DECODE_MAX, number(graphs.max_decode_cudagraph_capture_requests)),
            (DECODE_BUDGET, number(graphs.max_decode_cudagraph_capture_tokens)),
        ];
        let (mine, others): (&[_], &[_]) = if self.separate { (&new, &old) } else { (&old, &new) };
        let given: Ladders =
            mine.iter().filter_map(|(key, value)| value.clone().map(|value| ((*key).to_owned(), value))).collect();
        let has_others = others.iter().any(|(_, value)| value.is_some());
        (!given.is_empty() && !has_others).then_some(given)
    }

    /// What main makes of the deprecated keys (specification section 6b), under the names of their successors.
    fn successors(&self) -> Option<Ladders> {
        let graphs = &self.options.graphs;
        let query_len = graphs.num_speculative_tokens.saturating_add(1);
        let mut ladders = Ladders::new();
        if let Some(listed) = graphs.cudagraph_capture_sizes.as_ref().filter(|_| self.separate) {
            let requests = ascending(listed.iter().map(|size| size.div_ceil(query_len)));
            ladders.insert(PREFILL_SIZES.to_owned(), ascending(listed.iter().copied()).into());
            ladders.insert(DECODE_SIZES.to_owned(), requests.into());
        }
        if let Some(tokens) = graphs.max_cudagraph_capture_size.filter(|_| self.separate) {
            ladders.insert(PREFILL_MAX.to_owned(), tokens.into());
            ladders.insert(DECODE_MAX.to_owned(), (tokens / query_len).into());
        }
        (!ladders.is_empty()).then_some(ladders)
    }

    /// Lists that name what the plan captures.
    fn written_out(&self, advised: &GraphPlan) -> Ladders {
        let GraphPlan::Vllm(plan) = advised else { return Ladders::new() };
        let mode = plan.mode();
        let mut ladders = Ladders::new();
        if self.separate {
            let is_decode = |decode: bool| {
                plan.capture_order().iter().filter(move |graph| super::GraphKind::of(graph).decode == decode)
            };
            if mode.mixed_mode() != RuntimeMode::None {
                ladders.insert(PREFILL_SIZES.to_owned(), ascending(is_decode(false).map(|graph| graph.tokens)).into());
            }
            // Graphs of adaptive verification hold tokens of any split: there is no list for them.
            if mode.separate_routine() && !self.options.graphs.varlen_decode {
                let requests = ascending(is_decode(true).filter_map(|graph| graph.requests));
                ladders.insert(DECODE_SIZES.to_owned(), requests.into());
            }
        } else if !plan.capture_sizes().is_empty() {
            ladders.insert(SIZES.to_owned(), plan.capture_sizes().to_vec().into());
        }
        ladders
    }

    /// The flags with one way to state the ladder, read back and built.
    fn trial(&self, source: Source, ladders: Ladders, advised: &GraphPlan) -> Result<Trial, Fault> {
        let target = Target::Vllm(self.version);
        let (settings, left_out) = self.settings(ladders, advised);
        let unreadable = |fault| Fault::Unreadable { target, fault };
        let line = shell::line(&settings.command());
        let server = read::vllm::server_without_graph_flags(self.options, self.version);
        let options = read::vllm::line(server, &settings.environment, &line).map_err(unreadable)?;
        let (checked, distance) = match VllmPlan::build(&options) {
            Ok(plan) => {
                let checked = Rebuilt::of(advised, &GraphPlan::Vllm(plan), left_out);
                let weight = |difference: &Difference| match difference {
                    Difference::Graphs { missing, added, .. } => missing.len() + added.len(),
                    _ => 1,
                };
                let distance = Distance::Differs(checked.differences().iter().map(weight).sum());
                (checked, distance)
            }
            Err(error) => (Rebuilt::Refused { target, error: EngineError::Vllm(error) }, Distance::Refused),
        };
        Ok(Trial { source, settings, checked, distance })
    }

    /// All flags, and what they leave out.
    fn settings(&self, ladders: Ladders, advised: &GraphPlan) -> (Settings, Vec<Difference>) {
        let graphs = &self.options.graphs;
        let mut left_out = Vec::new();
        let mut settings = Settings::default();
        let mut config = self.compilation_keys(&mut left_out);
        let mut mode = graphs.cudagraph_mode;
        if !self.separate && states_an_empty_list(graphs) && advised.capture_order().is_empty() {
            // Main takes an empty list for no graphs; the releases before it refuse one.
            mode = Some(CudagraphMode::None);
        }
        if let Some(mode) = mode {
            config.insert("cudagraph_mode".to_owned(), mode.to_string().into());
        }
        if mode != Some(CudagraphMode::None) && !graphs.enforce_eager {
            config.extend(ladders);
        }
        settings.object(COMPILATION_CONFIG, config);
        settings.switch(ENFORCE_EAGER, graphs.enforce_eager);
        let level = OptimizationLevel::ALL.iter().position(|level| *level == graphs.optimization_level);
        settings.word(OPTIMIZATION_LEVEL, level.filter(|_| graphs.optimization_level != OptimizationLevel::default()));
        let performance = match graphs.performance_mode {
            PerformanceMode::Balanced => None,
            PerformanceMode::Interactivity => Some("interactivity"),
            PerformanceMode::Throughput => Some("throughput"),
        };
        settings.word(PERFORMANCE_MODE, performance);
        settings.switch(SPECIALIZE_ACTIVE_LORA, graphs.specialize_active_lora);
        if graphs.use_breakable_cudagraph {
            settings.variable(BREAKABLE_VARIABLE, "1");
        }
        if graphs.what_if != WhatIf::default() {
            let reason = "it asks what another engine would do, and this one has no flag for it".to_owned();
            left_out.push(Difference::LeftOut { option: "what_if", reason });
        }
        (settings, left_out)
    }

    /// The keys of `--compilation-config` beside mode and ladder. The flag holds them all, so that those in force must be
    /// said again beside the ladder.
    fn compilation_keys(&self, left_out: &mut Vec<Difference>) -> Map<String, Value> {
        let graphs = &self.options.graphs;
        let mut keys = Map::new();
        let mut set = |key: &str, value: Value| keys.insert(key.to_owned(), value);
        if let Some(mode) = graphs.compilation_mode {
            set("mode", mode.to_string().into());
        }
        if !graphs.compile_sizes.is_empty() {
            let size = |size: &CompileSize| match size {
                CompileSize::Tokens(tokens) => Value::from(*tokens),
                CompileSize::Word(word) => Value::from(word.clone()),
            };
            set("compile_sizes", graphs.compile_sizes.iter().map(size).collect());
        }
        if !graphs.compile_ranges_endpoints.is_empty() {
            set("compile_ranges_endpoints", graphs.compile_ranges_endpoints.clone().into());
        }
        match &graphs.splitting_ops {
            SplittingOps::Default => {}
            ops if *ops == SplittingOps::custom() => {
                let reason = "the scenario says \"custom\" in place of the names: add your own list".to_owned();
                left_out.push(Difference::LeftOut { option: "splitting_ops", reason });
            }
            SplittingOps::Listed(names) => {
                set("splitting_ops", names.clone().into());
            }
        }
        if graphs.use_inductor_graph_partition {
            set("use_inductor_graph_partition", true.into());
        }
        if !graphs.cudagraph_specialize_lora {
            set("cudagraph_specialize_lora", false.into());
        }
        let mut passes = Map::new();
        if graphs.fuse_attn_quant {
            passes.insert("fuse_attn_quant".to_owned(), true.into());
        }
        if graphs.enable_sp && self.version == Version::V0_31_0 {
            passes.insert("enable_sp".to_owned(), true.into());
        } else if graphs.enable_sp {
            let reason = format!("vLLM {} has no sequence-parallel pass", self.version);
            left_out.push(Difference::LeftOut { option: "enable_sp", reason });
        }
        if !passes.is_empty() {
            set("pass_config", passes.into());
        }
        let others = other_graphs(graphs);
        if self.version == Version::Main {
            keys.extend(others.into_iter().map(|(key, value)| (key.to_owned(), value)));
        } else {
            let newer = |(option, _)| {
                let reason = format!("vLLM {} has no such option; it came after 0.33.0", self.version);
                Difference::LeftOut { option, reason }
            };
            left_out.extend(others.into_iter().map(newer));
        }
        keys
    }

    /// What an operator must know before pasting.
    fn notes(&self, source: Source, settings: &Settings, checked: &Rebuilt) -> Vec<String> {
        let graphs = &self.options.graphs;
        let mut notes = checked.notes();
        let lists = |keys: &[&str]| keys.iter().any(|key| settings.object_has(COMPILATION_CONFIG, key));
        if settings.is_empty() {
            notes.push("no flag is needed: take every graph flag out of the command".to_owned());
        } else if source == Source::Default && states_sizes(graphs) && !self.captures_none() && checked.is_same() {
            notes.push("no list is needed: the engine's own sizes are the advised ones".to_owned());
        }
        if settings.has(COMPILATION_CONFIG) {
            notes.push(
                "--compilation-config counts once, the last one: put keys of your own into this one, and take every other \
                 graph flag out of the command"
                    .to_owned(),
            );
        }
        if self.separate && lists(&[PREFILL_SIZES, DECODE_SIZES]) {
            notes.push(self.about_two_lists());
        }
        if !self.separate && source == Source::Plan && states_two_lists(graphs) {
            notes.push(format!(
                "vLLM {} has one list for all batches, in tokens: {SIZES} holds the sizes of both",
                self.version
            ));
        }
        if self.options.runner == Some(Runner::V1) {
            notes.push(
                "the server runs model runner v1 (VLLM_USE_V2_MODEL_RUNNER=0), and the flags are for that".to_owned(),
            );
        }
        if self.captures_none()
            && !graphs.enforce_eager
            && self.options.graphs.cudagraph_mode == Some(CudagraphMode::None)
        {
            notes.push(
                "the model stays compiled: --enforce-eager would turn off compilation as well, which is another thing"
                    .to_owned(),
            );
        }
        if graphs.enforce_eager {
            notes.push(
                "--enforce-eager turns off compilation as well as graphs; graphs alone go with cudagraph_mode NONE"
                    .to_owned(),
            );
        }
        if let Some((name, value)) = settings.environment.first() {
            notes.push(format!("set {name}={value} in the server's environment"));
        }
        notes
    }

    fn captures_none(&self) -> bool {
        self.options.graphs.enforce_eager || self.options.graphs.cudagraph_mode == Some(CudagraphMode::None)
    }

    fn about_two_lists(&self) -> String {
        let query_len = self.options.graphs.num_speculative_tokens.saturating_add(1);
        let each = if query_len == 1 { "one token".to_owned() } else { format!("{query_len} tokens") };
        format!(
            "vLLM {} reads two lists: {PREFILL_SIZES} in tokens, and {DECODE_SIZES} in requests of {each} each, for batches \
             in which every request decodes",
            self.version
        )
    }
}

/// Main's keys for the graphs of an encoder and of replay layers, where they are set.
fn other_graphs(graphs: &GraphOptions) -> Vec<(&'static str, Value)> {
    let mut keys = Vec::new();
    let (encoder, default) = (&graphs.encoder, EncoderOptions::default());
    if encoder.cudagraph_mm_encoder {
        keys.push(("cudagraph_mm_encoder", true.into()));
    }
    if !encoder.encoder_cudagraph_token_budgets.is_empty() {
        keys.push(("encoder_cudagraph_token_budgets", encoder.encoder_cudagraph_token_budgets.clone().into()));
    }
    let items = encoder.encoder_cudagraph_max_vision_items_per_batch;
    if items != default.encoder_cudagraph_max_vision_items_per_batch {
        keys.push(("encoder_cudagraph_max_vision_items_per_batch", items.into()));
    }
    if let Some(frames) = encoder.encoder_cudagraph_max_frames_per_batch {
        keys.push(("encoder_cudagraph_max_frames_per_batch", frames.into()));
    }
    let (replay, default) = (&graphs.decoder_replay, ReplayOptions::default());
    if !replay.cudagraph_decoder_replay {
        keys.push(("cudagraph_decoder_replay", false.into()));
    }
    if !replay.decoder_replay_cudagraph_capture_sizes.is_empty() {
        let sizes = replay.decoder_replay_cudagraph_capture_sizes.clone();
        keys.push(("decoder_replay_cudagraph_capture_sizes", sizes.into()));
    }
    if replay.decoder_replay_trim_threshold != default.decoder_replay_trim_threshold {
        keys.push(("decoder_replay_trim_threshold", replay.decoder_replay_trim_threshold.into()));
    }
    keys
}

fn states_an_empty_list(graphs: &GraphOptions) -> bool {
    let lists = [
        &graphs.cudagraph_capture_sizes,
        &graphs.prefill_cudagraph_capture_token_sizes,
        &graphs.decode_cudagraph_capture_request_sizes,
    ];
    lists.into_iter().flatten().any(Vec::is_empty)
}

fn states_two_lists(graphs: &GraphOptions) -> bool {
    graphs.prefill_cudagraph_capture_token_sizes.is_some()
        || graphs.max_prefill_cudagraph_capture_tokens.is_some()
        || graphs.decode_cudagraph_capture_request_sizes.is_some()
        || graphs.max_decode_cudagraph_capture_requests.is_some()
        || graphs.max_decode_cudagraph_capture_tokens.is_some()
}

fn states_sizes(graphs: &GraphOptions) -> bool {
    graphs.cudagraph_capture_sizes.is_some() || graphs.max_cudagraph_capture_size.is_some() || states_two_lists(graphs)
}

fn ascending(sizes: impl Iterator<Item = u32>) -> Vec<u32> {
    sizes.collect::<BTreeSet<u32>>().into_iter().collect()
}
