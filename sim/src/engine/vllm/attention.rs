//! From attention backends to the support level that counts (specification section 5).
//!
//! Backends of vLLM's registry go by its names; for those that are no member of it the names are given here.

use std::str::FromStr;

use super::options::AttentionSupport;

/// Backends with one level, weakest first.
const STATIC: [(AttentionSupport, &[&str]); 4] = [
    (AttentionSupport::Never, &["CPU_ATTN", "AMX_MLA", "XPU_MLA_SPARSE", "CHUNKED_LOCAL", "COMPOSITE_UNCLAMPED"]),
    (
        AttentionSupport::UniformSingleTokenDecode,
        &["CUTLASS_MLA", "LINEAR", "XPU_FLASH_ATTN_MLA", "STEP5_SPARSE", "COMPOSITE_IMAGE_PREFIX"],
    ),
    (
        AttentionSupport::UniformBatch,
        &[
            "FLASHMLA",
            "FLASHMLA_SPARSE",
            "FLASH_ATTN_MLA",
            "FLASH_ATTN_MLA_SPARSE",
            "TRITON_MLA",
            "TOKENSPEED_MLA",
            "FLASHINFER_MLA_SPARSE",
            "ROCM_AITER_MLA",
            "ROCM_AITER_MLA_SPARSE",
            "ROCM_AITER_FA",
            "ROCM_OCTAVE",
            "MAMBA1",
            "MAMBA2",
            "GDN_ATTN",
            "SHORT_CONV",
            "BAILING_LINEAR",
            "TURBOQUANT",
            "B12X",
            "SPARSE_SWA",
            "MINIMAX_M3",
            "QWEN4_EXP_QSA",
        ],
    ),
    (
        AttentionSupport::Always,
        &[
            "XPU_FLASH_ATTN",
            "TRITON_ATTN",
            "FLEX_ATTENTION",
            "ROCM_ATTN",
            "ROCM_ATTN_SEGMENTED",
            "FLASHINFER_MLA",
            "DEEPSEEK_V4_FLASHMLA",
            "DEEPSEEK_V4_FLASHINFER_SPARSE",
            "DEEPSEEK_V4_COMPRESSOR",
            "KPOOL_TAIL",
            "KIMI_K3_KDA",
        ],
    ),
];

/// Backends whose level depends on more than their name.
const DYNAMIC: [&str; 4] = ["FLASH_ATTN", "FLASHINFER", "HPC_ATTN", "DEEPSEEK_V32_INDEXER"];

/// The compute capability of a CUDA device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComputeCapability {
    /// The family: 9 is Hopper, 10 data-centre Blackwell.
    pub major: u32,
    /// The member of the family.
    pub minor: u32,
}

impl FromStr for ComputeCapability {
    type Err = ();

    /// Reads `9.0`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |digits: &str| digits.parse().ok().filter(|&number: &u32| number < 100).ok_or(());
        let (major, minor) = text.split_once('.').ok_or(())?;
        Ok(Self { major: number(major)?, minor: number(minor)? })
    }
}

impl ComputeCapability {
    /// Family 100, which has a higher default ceiling (specification section 2).
    #[must_use]
    pub const fn is_data_center_blackwell(self) -> bool {
        self.major == 10
    }

    /// That of a card by the name that its driver gives it; of those that the built-in profiles are about.
    #[must_use]
    pub fn of_card(name: &str) -> Option<Self> {
        const CARDS: [(&str, u32, u32); 5] =
            [("A100", 8, 0), ("H100", 9, 0), ("H200", 9, 0), ("L40", 8, 9), ("RTX 4090", 8, 9)];
        let named = |card: &str| format!(" {name} ").replace('-', " ").contains(&format!(" {card} "));
        let found = CARDS.into_iter().find(|(card, ..)| named(card));
        found.map(|(_, major, minor)| Self { major, minor })
    }

    /// The FlashAttention that serves there where nobody chooses a backend, and how far it supports full graphs. `None` of
    /// data-centre Blackwell, where the engine prefers other backends, whose level depends on more than the device.
    #[must_use]
    pub fn default_flash_attention(self) -> Option<(u32, AttentionSupport)> {
        let version = self.flash_attn_version();
        let support = if version == 2 { AttentionSupport::UniformBatch } else { AttentionSupport::Always };
        (!self.is_data_center_blackwell()).then_some((version, support))
    }

    /// The FlashAttention that the engine takes by default.
    const fn flash_attn_version(self) -> u32 {
        match self.major {
            9 => 3,
            10 => 4,
            _ => 2,
        }
    }
}

/// The kernels that FlashInfer decodes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FlashInferDecode {
    /// FlashAttention 2, its own.
    Fa2,
    /// TRT-LLM's, usable for every attention group.
    Trtllm,
    /// XQA, usable for every attention group.
    Xqa,
    /// None of them for at least one group.
    Other,
}

/// What the level of some backends depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionFacts {
    /// The device.
    pub compute_capability: Option<ComputeCapability>,
    /// FlashAttention 2, 3 or 4, where it is not the default of the device.
    pub flash_attn_version: Option<u32>,
    /// Ranks that share the context of a decoding request.
    pub decode_context_parallel_size: u32,
    /// FlashInfer's decode kernels.
    pub flashinfer_decode: Option<FlashInferDecode>,
    /// Tokens attend to what precedes them only.
    pub is_causal: bool,
    /// The sparse indexer of DeepSeek V3.2 takes batches of any query lengths, or flattens them.
    pub indexer_varlen: Option<bool>,
    /// Drafts per request and step.
    pub num_speculative_tokens: u32,
}

/// Why a backend has no level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoLevel {
    /// The name is not in the table.
    Unknown,
    /// The level depends on this option, which is not given.
    Needs(&'static str),
}

/// The level of one backend.
///
/// # Errors
/// [`NoLevel`] for a name that is not in the table, and for one whose level something decides that is not given.
pub fn support(backend: &str, facts: &AttentionFacts) -> Result<AttentionSupport, NoLevel> {
    use AttentionSupport::{Always, UniformBatch, UniformSingleTokenDecode};
    let batch_if = |holds: bool| if holds { UniformBatch } else { UniformSingleTokenDecode };
    if let Some((level, _)) = STATIC.iter().find(|(_, names)| names.contains(&backend)) {
        return Ok(*level);
    }
    match backend {
        "FLASH_ATTN" => {
            let of_device = facts.compute_capability.map(ComputeCapability::flash_attn_version);
            match facts.flash_attn_version.or(of_device) {
                None => Err(NoLevel::Needs("flash_attn_version")),
                Some(2) => Ok(UniformBatch),
                Some(_) => Ok(Always),
            }
        }
        "FLASHINFER" if facts.decode_context_parallel_size > 1 => Ok(UniformSingleTokenDecode),
        "FLASHINFER" => match facts.flashinfer_decode {
            None => Err(NoLevel::Needs("flashinfer_decode")),
            Some(FlashInferDecode::Other) => Ok(UniformSingleTokenDecode),
            Some(FlashInferDecode::Fa2 | FlashInferDecode::Trtllm | FlashInferDecode::Xqa) => {
                Ok(batch_if(facts.is_causal))
            }
        },
        "HPC_ATTN" => Ok(batch_if(facts.num_speculative_tokens > 0)),
        "DEEPSEEK_V32_INDEXER" => match facts.indexer_varlen {
            None => Err(NoLevel::Needs("indexer_varlen")),
            Some(varlen) => Ok(if varlen { Always } else { UniformBatch }),
        },
        _ => Err(NoLevel::Unknown),
    }
}

/// Every name in the table.
pub fn names() -> impl Iterator<Item = &'static str> {
    STATIC.iter().flat_map(|(_, names)| names.iter().copied()).chain(DYNAMIC)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use AttentionSupport::{Always, Never, UniformBatch, UniformSingleTokenDecode};

    const FACTS: AttentionFacts = AttentionFacts {
        compute_capability: None,
        flash_attn_version: None,
        decode_context_parallel_size: 1,
        flashinfer_decode: None,
        is_causal: true,
        indexer_varlen: None,
        num_speculative_tokens: 0,
    };

    fn capability(major: u32, minor: u32) -> AttentionFacts {
        AttentionFacts { compute_capability: Some(ComputeCapability { major, minor }), ..FACTS }
    }

    #[test]
    fn every_name_is_there_once_and_known() {
        let all: Vec<&str> = names().collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        assert!(all.iter().all(|name| support(name, &FACTS) != Err(NoLevel::Unknown)));
        assert_eq!(support("FLASH_ATTENTION", &FACTS), Err(NoLevel::Unknown));
        for (name, level) in [
            ("CPU_ATTN", Never),
            ("CUTLASS_MLA", UniformSingleTokenDecode),
            ("MAMBA2", UniformBatch),
            ("TRITON_ATTN", Always),
        ] {
            assert_eq!(support(name, &FACTS), Ok(level));
        }
    }

    #[test]
    fn flash_attention_goes_by_version_and_the_version_by_device() {
        let level = |facts| support("FLASH_ATTN", &facts);
        assert_eq!(level(FACTS), Err(NoLevel::Needs("flash_attn_version")));
        assert_eq!(level(capability(8, 0)), Ok(UniformBatch));
        assert_eq!(level(capability(9, 0)), Ok(Always));
        assert_eq!(level(capability(10, 3)), Ok(Always));
        assert_eq!(level(capability(12, 0)), Ok(UniformBatch));
        assert_eq!(level(AttentionFacts { flash_attn_version: Some(2), ..capability(9, 0) }), Ok(UniformBatch));
    }

    #[test]
    fn what_serves_by_default_is_the_level_of_flash_attention() {
        for (major, minor) in [(8, 0), (8, 9), (9, 0), (12, 0)] {
            let facts = capability(major, minor);
            let (_, level) = facts.compute_capability.and_then(ComputeCapability::default_flash_attention).unwrap();
            assert_eq!(support("FLASH_ATTN", &facts), Ok(level));
        }
        assert_eq!(ComputeCapability { major: 10, minor: 0 }.default_flash_attention(), None);
    }

    #[test]
    fn cards_are_known_by_whole_words() {
        let of_card = |name| ComputeCapability::of_card(name).map(|found| (found.major, found.minor));
        assert_eq!(of_card("NVIDIA A100-SXM4-80GB"), Some((8, 0)));
        assert_eq!(of_card("NVIDIA H100 80GB HBM3"), Some((9, 0)));
        assert_eq!(of_card("NVIDIA GeForce RTX 4090"), Some((8, 9)));
        for unknown in ["textbook GPU", "Driver double", "NVIDIA L40S", "NVIDIA RTX A1000", "NVIDIA GH200 480GB"] {
            assert_eq!(of_card(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn flashinfer_goes_by_its_kernels_causality_and_context_ranks() {
        let level = |facts| support("FLASHINFER", &facts);
        let with = |decode| AttentionFacts { flashinfer_decode: Some(decode), ..FACTS };
        assert_eq!(level(FACTS), Err(NoLevel::Needs("flashinfer_decode")));
        assert_eq!(level(with(FlashInferDecode::Trtllm)), Ok(UniformBatch));
        assert_eq!(level(with(FlashInferDecode::Other)), Ok(UniformSingleTokenDecode));
        let not_causal = AttentionFacts { is_causal: false, ..with(FlashInferDecode::Fa2) };
        assert_eq!(level(not_causal), Ok(UniformSingleTokenDecode));
        let shared = AttentionFacts { decode_context_parallel_size: 2, ..FACTS };
        assert_eq!(level(shared), Ok(UniformSingleTokenDecode), "whatever the kernels");
    }

    #[test]
    fn drafts_and_the_indexer_decide_for_theirs() {
        assert_eq!(support("HPC_ATTN", &FACTS), Ok(UniformSingleTokenDecode));
        assert_eq!(support("HPC_ATTN", &AttentionFacts { num_speculative_tokens: 1, ..FACTS }), Ok(UniformBatch));
        let indexer = |varlen| support("DEEPSEEK_V32_INDEXER", &AttentionFacts { indexer_varlen: varlen, ..FACTS });
        assert_eq!(indexer(None), Err(NoLevel::Needs("indexer_varlen")));
        assert_eq!([indexer(Some(true)), indexer(Some(false))], [Ok(Always), Ok(UniformBatch)]);
    }
}
