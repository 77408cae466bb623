//! The engines' own names of the options that are both written and read: each stands here once.

/// vLLM: the setting that holds the others.
pub(super) const COMPILATION_CONFIG: &str = "compilation_config";
/// vLLM: neither compilation nor graphs.
pub(super) const ENFORCE_EAGER: &str = "enforce_eager";
/// vLLM: `-O`.
pub(super) const OPTIMIZATION_LEVEL: &str = "optimization_level";
/// vLLM: the head of the default ladder.
pub(super) const PERFORMANCE_MODE: &str = "performance_mode";
/// vLLM: graphs by number of active adapters.
pub(super) const SPECIALIZE_ACTIVE_LORA: &str = "specialize_active_lora";
/// vLLM's environment: pieces are broken while they are captured.
pub(super) const BREAKABLE_VARIABLE: &str = "VLLM_USE_BREAKABLE_CUDAGRAPH";
/// SGLang's environment: executables are shared.
pub(super) const DEDUP_VARIABLE: &str = "SGLANG_ENABLE_CUDA_GRAPH_DEDUP";
