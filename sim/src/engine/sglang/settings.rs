//! From the graph flags to one setting per phase: precedence, automatic changes, default maxima and lists (SGLang
//! specification sections 1 to 3).

use super::defaults::DeviceDefaults;
use super::error::EngineError;
use super::ladder::{default_decode_sizes, default_prefill_sizes};
use super::options::{DisaggregationMode, GraphBackend, GraphOptions, ModelFamily, MoeA2aBackend, SglangOptions};
use super::warning::{GraphWarning, Phase, PhaseOff};

/// The largest prefill graph of models with latent attention and of breakable graphs under pipeline parallelism.
const CAREFUL_PREFILL_MAX: i64 = 8192;

/// The largest prefill graph of Llama 2, in tokens.
pub const LLAMA_2_PREFILL_MAX: i64 = 4096;

/// The largest prefill graph of Muse-Glimmer.
const MUSE_GLIMMER_PREFILL_MAX: i64 = 512;

/// The most requests for which a large-Hopper Qwen3-VL raises its decode maximum.
const QWEN3_VL_DECODE_MAX: u32 = 512;

/// DeepEP rounds the tokens of breakable prefill graphs up to multiples of this.
const DEEPEP_PREFILL_STRIDE: u32 = 8;

/// The graph part of a server's configuration, every default filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphSettings {
    /// Tokens of a prompt that one step computes; 0 and less are off.
    pub chunked_prefill_size: i32,
    /// Decode graphs.
    pub decode: DecodeSettings,
    /// Prefill graphs.
    pub prefill: PrefillSettings,
    /// Executables are deduplicated.
    pub dedup: bool,
    /// What the engine changed by itself.
    pub warnings: Vec<GraphWarning>,
}

/// How decode graphs are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeSettings {
    /// How they are captured.
    pub backend: GraphBackend,
    /// Largest batch, in requests.
    pub max_bs: u32,
    /// Batches before alignment, in requests; a user's list as written.
    pub bs: Vec<u32>,
}

/// How prefill graphs are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefillSettings {
    /// How they are captured.
    pub backend: GraphBackend,
    /// Largest step, in tokens; -1 if it follows from a chunk of -1.
    pub max_bs: i64,
    /// Steps before alignment, in tokens; a user's list as written.
    pub bs: Vec<u32>,
    /// Longest context of a step that may replay, in tokens.
    pub max_context_size: Option<u32>,
    /// Longest sequence of a step that may replay, in tokens.
    pub max_seq_len: Option<u32>,
    /// Requests of a full graph.
    pub full_prefill_max_req: Option<u32>,
    /// Tokens per chunk of cached prefix of a full graph.
    pub prefix_chunk_tokens: Option<u32>,
}

impl GraphSettings {
    /// Settles the flags in the engine's order. Later sources win: `disable_cuda_graph`, the switches of one phase, the
    /// flags of one key, the configuration that holds all keys.
    ///
    /// # Errors
    /// An empty decode list, sizes of zero, and lists too long for this program.
    pub fn resolve(options: &SglangOptions) -> Result<Self, EngineError> {
        let graphs = &options.graphs;
        check_sizes(graphs)?;
        let device = DeviceDefaults::of(options.kv.gpu_mem_mib, options.parallel.tp_size);
        let chunked_prefill_size = options.scheduler.chunked_prefill_size.unwrap_or(device.chunked_prefill_size);
        let mut warnings = Vec::new();
        let decode = decode_settings(options, device.decode_max_bs, &mut warnings)?;
        let prefill = prefill_settings(options, chunked_prefill_size, &mut warnings)?;
        let dedup = graphs.enable_cuda_graph_dedup || options.model.family == ModelFamily::MuseSpark;
        let breakable = [decode.backend, prefill.backend].contains(&GraphBackend::Breakable);
        if dedup && !breakable {
            warnings.push(GraphWarning::DedupIdle);
        }
        Ok(Self { chunked_prefill_size, decode, prefill, dedup: dedup && breakable, warnings })
    }
}

fn decode_settings(
    options: &SglangOptions,
    device_max: u32,
    warnings: &mut Vec<GraphWarning>,
) -> Result<DecodeSettings, EngineError> {
    let (graphs, config) = (&options.graphs, &options.graphs.cuda_graph_config.decode);
    let off = graphs.disable_cuda_graph || graphs.disable_decode_cuda_graph;
    let asked = config.backend.or(graphs.cuda_graph_backend_decode).or(off.then_some(GraphBackend::Disabled));
    let mut backend = asked.unwrap_or(GraphBackend::Full);
    if asked.is_none() && options.kv.disaggregation_mode == DisaggregationMode::Prefill {
        backend = GraphBackend::Disabled;
        warnings.push(GraphWarning::PhaseDisabled { phase: Phase::Decode, reason: PhaseOff::PrefillServer });
    }
    let asked_max = config.max_bs.or(graphs.cuda_graph_max_bs_decode);
    let listed = config.bs.as_ref().or(graphs.cuda_graph_bs_decode.as_ref());
    if let Some(listed) = listed {
        let max_bs = *listed.iter().max().ok_or(EngineError::EmptyDecodeList)?;
        if let Some(asked) = asked_max.filter(|&asked| asked != max_bs) {
            warnings.push(GraphWarning::DecodeMaxIgnored { asked, largest: max_bs });
        }
        return Ok(DecodeSettings { backend, max_bs, bs: listed.clone() });
    }
    let requests = options.scheduler.max_running_requests;
    let mut default_max = device_max.min(requests.unwrap_or(u32::MAX));
    if options.model.family == ModelFamily::LargeHopperQwen3Vl {
        default_max = default_max.max(requests.filter(|&most| most <= QWEN3_VL_DECODE_MAX).unwrap_or(0));
    }
    let max_bs = asked_max.unwrap_or(default_max);
    let bs = default_decode_sizes(max_bs, graphs.disable_cuda_graph_padding, options.speculative.is_some())?;
    Ok(DecodeSettings { backend, max_bs, bs })
}

fn prefill_settings(
    options: &SglangOptions,
    chunked_prefill_size: i32,
    warnings: &mut Vec<GraphWarning>,
) -> Result<PrefillSettings, EngineError> {
    let (graphs, config) = (&options.graphs, &options.graphs.cuda_graph_config.prefill);
    let off = graphs.disable_cuda_graph || graphs.disable_prefill_cuda_graph;
    let asked = config.backend.or(graphs.cuda_graph_backend_prefill).or(off.then_some(GraphBackend::Disabled));
    let family = options.model.family;
    let own = if family == ModelFamily::Inkling { GraphBackend::Full } else { GraphBackend::Breakable };
    let mut backend = asked.unwrap_or(own);
    if let Some(reason) = prefill_off(options).filter(|_| asked.is_none()) {
        backend = GraphBackend::Disabled;
        warnings.push(GraphWarning::PhaseDisabled { phase: Phase::Prefill, reason });
    }
    let max_bs = match config.max_bs.or(graphs.cuda_graph_max_bs_prefill) {
        Some(asked) => i64::from(asked),
        None => default_prefill_max(options, chunked_prefill_size, asked),
    };
    let mut bs = match config.bs.as_ref().or(graphs.cuda_graph_bs_prefill.as_ref()) {
        Some(listed) => listed.clone(),
        None => default_prefill_sizes(max_bs)?,
    };
    if backend == GraphBackend::Breakable && options.parallel.moe_a2a_backend == MoeA2aBackend::Deepep {
        bs = bs.into_iter().map(|size| size.next_multiple_of(DEEPEP_PREFILL_STRIDE)).collect();
        bs.dedup();
    }
    Ok(PrefillSettings {
        backend,
        max_bs,
        bs,
        max_context_size: config.max_context_size.or(graphs.cuda_graph_prefill_max_context),
        max_seq_len: config.max_seq_len.or(graphs.cuda_graph_max_seq_len_prefill),
        full_prefill_max_req: config.full_prefill_max_req,
        prefix_chunk_tokens: config.full_prefill_prefix_chunk_tokens,
    })
}

/// Why the engine drops prefill graphs of a backend that the user did not choose.
fn prefill_off(options: &SglangOptions) -> Option<PhaseOff> {
    let parallel = &options.parallel;
    if options.kv.disaggregation_mode == DisaggregationMode::Decode {
        Some(PhaseOff::DecodeServer)
    } else if parallel.pp_size > 1 {
        Some(PhaseOff::PipelineParallel)
    } else if parallel.dcp_size > 1 {
        Some(PhaseOff::DecodeContextParallel)
    } else if parallel.enable_two_batch_overlap {
        Some(PhaseOff::TwoBatchOverlap)
    } else if matches!(parallel.moe_a2a_backend, MoeA2aBackend::Mooncake | MoeA2aBackend::Other) {
        Some(PhaseOff::MoeA2aBackend)
    } else {
        options.model.prefill_graph_blockers.first().map(|&blocker| PhaseOff::Model(blocker))
    }
}

/// The whole chunk, with its caps; a chunk of -1 stays -1, and no size is left below it.
fn default_prefill_max(options: &SglangOptions, chunked_prefill_size: i32, asked: Option<GraphBackend>) -> i64 {
    let mut most = i64::from(chunked_prefill_size);
    let opted_in = options.parallel.pp_size > 1 && asked == Some(GraphBackend::Breakable);
    if options.model.mla || opted_in {
        most = most.min(CAREFUL_PREFILL_MAX);
    }
    if let Some(tokens) = options.kv.max_total_tokens {
        most = most.min(i64::from(tokens));
    }
    if options.model.llama_2 {
        most = most.min(LLAMA_2_PREFILL_MAX);
    }
    if options.model.family == ModelFamily::MuseGlimmer {
        most = most.min(MUSE_GLIMMER_PREFILL_MAX);
    }
    most
}

fn check_sizes(graphs: &GraphOptions) -> Result<(), EngineError> {
    let config = &graphs.cuda_graph_config;
    let zero = |flag, unit, phase| EngineError::ZeroSize { flag, unit, phase };
    let max = |given: [Option<u32>; 2]| given.contains(&Some(0));
    let list = |given: [&Option<Vec<u32>>; 2]| given.into_iter().flatten().flatten().any(|&size| size == 0);
    if max([graphs.cuda_graph_max_bs_decode, config.decode.max_bs]) {
        return Err(zero("cuda_graph_max_bs_decode", "request", "decode"));
    }
    if max([graphs.cuda_graph_max_bs_prefill, config.prefill.max_bs]) {
        return Err(zero("cuda_graph_max_bs_prefill", "token", "prefill"));
    }
    if list([&graphs.cuda_graph_bs_decode, &config.decode.bs]) {
        return Err(zero("cuda_graph_bs_decode", "request", "decode"));
    }
    if list([&graphs.cuda_graph_bs_prefill, &config.prefill.bs]) {
        return Err(zero("cuda_graph_bs_prefill", "token", "prefill"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::options::{DecodeGraphConfig, KvOptions, PrefillBlocker};
    use super::*;

    fn h100() -> SglangOptions {
        let kv = KvOptions { gpu_mem_mib: Some(81_559), ..KvOptions::default() };
        SglangOptions { kv, ..SglangOptions::default() }
    }

    fn resolve(options: &SglangOptions) -> GraphSettings {
        GraphSettings::resolve(options).expect("the engine starts")
    }

    #[test]
    fn both_phases_have_graphs_by_default() {
        let settings = resolve(&h100());
        assert_eq!((settings.decode.backend, settings.decode.max_bs), (GraphBackend::Full, 256));
        assert_eq!((settings.prefill.backend, settings.prefill.max_bs), (GraphBackend::Breakable, 8192));
        assert_eq!((settings.decode.bs.len(), settings.prefill.bs.len()), (36, 58));
        assert_eq!(settings.warnings, []);
    }

    #[test]
    fn the_configuration_wins_over_flags_and_flags_over_switches() {
        let mut options = h100();
        options.graphs.disable_cuda_graph = true;
        options.graphs.cuda_graph_backend_decode = Some(GraphBackend::Full);
        options.graphs.cuda_graph_max_bs_decode = Some(64);
        let settings = resolve(&options);
        assert_eq!((settings.decode.backend, settings.decode.max_bs), (GraphBackend::Full, 64));
        assert_eq!(settings.prefill.backend, GraphBackend::Disabled);
        options.graphs.cuda_graph_config.decode =
            DecodeGraphConfig { backend: Some(GraphBackend::Breakable), max_bs: Some(16), bs: None };
        let settings = resolve(&options);
        assert_eq!((settings.decode.backend, settings.decode.max_bs), (GraphBackend::Breakable, 16));
    }

    #[test]
    fn a_list_sets_the_decode_maximum_and_an_explicit_maximum_is_never_lowered() {
        let mut options = h100();
        options.scheduler.max_running_requests = Some(48);
        assert_eq!(resolve(&options).decode.max_bs, 48);
        options.graphs.cuda_graph_max_bs_decode = Some(200);
        assert_eq!(resolve(&options).decode.max_bs, 200);
        options.graphs.cuda_graph_bs_decode = Some(vec![8, 64, 2]);
        let settings = resolve(&options);
        assert_eq!((settings.decode.max_bs, settings.decode.bs), (64, vec![8, 64, 2]));
        assert_eq!(settings.warnings, [GraphWarning::DecodeMaxIgnored { asked: 200, largest: 64 }]);
        options.graphs.cuda_graph_bs_decode = Some(Vec::new());
        assert_eq!(GraphSettings::resolve(&options), Err(EngineError::EmptyDecodeList));
    }

    #[test]
    fn the_engine_drops_prefill_graphs_only_if_their_backend_was_not_chosen() {
        let mut options = h100();
        options.parallel.pp_size = 2;
        let settings = resolve(&options);
        assert_eq!(settings.prefill.backend, GraphBackend::Disabled);
        let reason = PhaseOff::PipelineParallel;
        assert_eq!(settings.warnings, [GraphWarning::PhaseDisabled { phase: Phase::Prefill, reason }]);
        options.graphs.cuda_graph_backend_prefill = Some(GraphBackend::Breakable);
        options.scheduler.chunked_prefill_size = Some(16_384);
        let settings = resolve(&options);
        assert_eq!((settings.prefill.backend, settings.prefill.max_bs), (GraphBackend::Breakable, 8192));
        let mut options = h100();
        options.model.prefill_graph_blockers = vec![PrefillBlocker::Multimodal];
        assert_eq!(resolve(&options).prefill.backend, GraphBackend::Disabled);
    }

    #[test]
    fn chunking_off_leaves_no_prefill_list() {
        let mut options = h100();
        options.scheduler.chunked_prefill_size = Some(-1);
        let settings = resolve(&options);
        assert_eq!((settings.prefill.max_bs, settings.prefill.bs), (-1, Vec::new()));
        options.model.mla = true;
        assert_eq!(resolve(&options).prefill.max_bs, -1);
    }

    #[test]
    fn sizes_of_zero_are_refused_by_the_name_of_their_flag() {
        let mut options = h100();
        options.graphs.cuda_graph_config.prefill.bs = Some(vec![4, 0]);
        let error = GraphSettings::resolve(&options).expect_err("0 is no size").to_string();
        assert!(error.contains("`cuda_graph_bs_prefill` holds 0") && error.contains("disable_prefill"), "{error}");
    }
}
