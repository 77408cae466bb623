//! Which models get breakable graphs without being asked (specification section 7).

/// Architectures, under the names of their `config.json`, that the engine breaks by default. The engine's own list is
/// longer and grows; `use_breakable_cudagraph` settles the others.
const ARCHITECTURES: [&str; 19] = [
    "DeepseekV32ForCausalLM",
    "DeepseekV32MTPModel",
    "DeepseekV4ForCausalLM",
    "DeepseekV4ForConditionalGeneration",
    "DeepSeekV4MTPModel",
    "Glm5NextForCausalLM",
    "Glm5NextForConditionalGeneration",
    "Glm5NextMTPModel",
    "GlmMoeDsaForCausalLM",
    "KimiK3ForConditionalGeneration",
    "KimiK3MTPModel",
    "KimiLinearForCausalLM",
    "MiniMaxM3SparseForCausalLM",
    "MiniMaxM3SparseForConditionalGeneration",
    "Qwen4ExpForCausalLM",
    "Qwen4ExpForConditionalGeneration",
    "Qwen4ExpMTP",
    "Step5ForCausalLM",
    "Step5ForConditionalGeneration",
];

/// Whether the engine turns breakable graphs on for an architecture.
#[must_use]
pub fn is_default_for(architecture: &str) -> bool {
    ARCHITECTURES.contains(&architecture)
}
