//! Defaults that the engine takes from the device: most requests and most tokens of a step (specification section 2).

use calibrate::profile::Profile;
use kernels::units::Bytes;

use super::options::{PerformanceMode, Version};

/// The GPU that a server runs on; the default is one that the engine could not ask, which counts as small.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// As its driver names it.
    pub name: String,
    /// All of its memory.
    pub memory: Bytes,
}

impl Device {
    /// The device that a profile's figures are about.
    #[must_use]
    pub fn of(profile: &Profile) -> Self {
        Self { name: profile.identity.device.clone(), memory: profile.machine.memory.figures.total }
    }
}

/// How the engine is started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Usage {
    /// `vllm serve`.
    #[default]
    Server,
    /// The `LLM` class, for a batch of prompts.
    Offline,
}

/// The engine's defaults before they are fitted to each other and to `max_model_len`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchDefaults {
    /// Most requests in one step.
    pub max_num_seqs: u32,
    /// Most tokens in one step.
    pub max_num_batched_tokens: u32,
}

const GIB: u64 = 1 << 30;

impl BatchDefaults {
    /// The defaults on a device; performance mode `throughput` doubles both.
    #[must_use]
    pub fn of(version: Version, device: &Device, usage: Usage, performance: PerformanceMode) -> Self {
        let name = device.name.to_ascii_lowercase();
        let counts_as_small = name.contains("a100") || version != Version::V0_31_0 && name.contains("gb10");
        let (max_num_seqs, max_num_batched_tokens) = match (device.memory.0 / GIB, usage) {
            (160.., _) => (1024, 16_384),
            (70.., Usage::Offline) if !counts_as_small => (1024, 16_384),
            (70.., Usage::Server) if !counts_as_small => (1024, 8192),
            (_, Usage::Offline) => (256, 8192),
            (_, Usage::Server) => (256, 2048),
        };
        let factor = if performance == PerformanceMode::Throughput { 2 } else { 1 };
        Self { max_num_seqs: max_num_seqs * factor, max_num_batched_tokens: max_num_batched_tokens * factor }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaults(version: Version, name: &str, gib: u64, usage: Usage) -> (u32, u32) {
        let device = Device { name: name.to_owned(), memory: Bytes(gib * GIB) };
        let BatchDefaults { max_num_seqs, max_num_batched_tokens } =
            BatchDefaults::of(version, &device, usage, PerformanceMode::Balanced);
        (max_num_seqs, max_num_batched_tokens)
    }

    #[test]
    fn memory_and_use_decide_except_on_two_devices() {
        let newer = Version::V0_33_0;
        for (name, gib, server, offline) in [
            ("NVIDIA B300", 268, (1024, 16_384), (1024, 16_384)),
            ("NVIDIA H200", 139, (1024, 8192), (1024, 16_384)),
            ("NVIDIA H100 80GB HBM3", 79, (1024, 8192), (1024, 16_384)),
            ("NVIDIA A100-SXM4-80GB", 79, (256, 2048), (256, 8192)),
            ("NVIDIA GB10", 119, (256, 2048), (256, 8192)),
            ("NVIDIA L40S", 44, (256, 2048), (256, 8192)),
            ("nearly", 69, (256, 2048), (256, 8192)),
        ] {
            assert_eq!(defaults(newer, name, gib, Usage::Server), server, "{name}");
            assert_eq!(defaults(newer, name, gib, Usage::Offline), offline, "{name}");
        }
        assert_eq!(defaults(Version::V0_31_0, "NVIDIA GB10", 119, Usage::Server), (1024, 8192));
    }

    #[test]
    fn throughput_doubles() {
        let device = Device { name: "NVIDIA L4".to_owned(), memory: Bytes(22 * GIB) };
        let doubled = BatchDefaults::of(Version::V0_33_0, &device, Usage::Server, PerformanceMode::Throughput);
        assert_eq!(doubled, BatchDefaults { max_num_seqs: 512, max_num_batched_tokens: 4096 });
    }
}
