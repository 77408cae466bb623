//! The engine versions that flags can be written for.

use std::fmt;
use std::str::FromStr;

use crate::engine::options::EngineOptions;
use crate::engine::{sglang, vllm};

/// An engine and its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A vLLM release, or its development branch.
    Vllm(vllm::options::Version),
    /// An SGLang release.
    Sglang(sglang::options::Version),
    /// TensorRT-LLM, as its LLM API reference describes `cuda_graph_config`; it is not simulated.
    TensorRtLlm,
}

impl Target {
    /// Every target.
    pub const ALL: [Self; 5] = [
        Self::Vllm(vllm::options::Version::V0_31_0),
        Self::Vllm(vllm::options::Version::V0_33_0),
        Self::Vllm(vllm::options::Version::Main),
        Self::Sglang(sglang::options::Version::V0_5_23),
        Self::TensorRtLlm,
    ];

    /// The engine and version that options were made for.
    #[must_use]
    pub fn of(options: &EngineOptions) -> Self {
        match options {
            EngineOptions::Vllm(options) => Self::Vllm(options.version),
            EngineOptions::Sglang(options) => Self::Sglang(options.version),
        }
    }

    /// Its name on the command line: `vllm-0.33.0`, `vllm-main`, `sglang-0.5.23`, `tensorrt-llm`.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Vllm(version) => format!("vllm-{version}"),
            Self::Sglang(version) => format!("sglang-{version}"),
            Self::TensorRtLlm => "tensorrt-llm".to_owned(),
        }
    }

    /// What a server of it is started with, in front of the model's name.
    #[must_use]
    pub const fn server_command(self) -> &'static str {
        match self {
            Self::Vllm(_) => "vllm serve",
            Self::Sglang(_) => "python -m sglang.launch_server --model-path",
            Self::TensorRtLlm => "trtllm-serve",
        }
    }
}

impl FromStr for Target {
    type Err = String;

    /// A target's name, or the version alone: no two engines share one.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let version = |target: &Self| target.name().split_once('-').is_some_and(|(_, version)| version == text);
        let named = Self::ALL.into_iter().find(|target| target.name() == text);
        named.or_else(|| Self::ALL.into_iter().filter(|target| *target != Self::TensorRtLlm).find(version)).ok_or_else(
            || {
                let known: Vec<String> = Self::ALL.into_iter().map(Self::name).collect();
                format!("`{text}` is not one of {}", known.join(", "))
            },
        )
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vllm(version) => write!(f, "vLLM {version}"),
            Self::Sglang(version) => write!(f, "SGLang {version}"),
            Self::TensorRtLlm => f.write_str("TensorRT-LLM"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_is_found_by_its_name_and_every_version_alone() {
        for target in Target::ALL {
            assert_eq!(target.name().parse(), Ok(target));
        }
        assert_eq!("main".parse(), Ok(Target::Vllm(vllm::options::Version::Main)));
        assert_eq!("0.5.23".parse(), Ok(Target::Sglang(sglang::options::Version::V0_5_23)));
        assert!("llm".parse::<Target>().is_err());
        let error = "vllm-0.32.0".parse::<Target>().expect_err("its rules are not known");
        insta::assert_snapshot!(error, @"`vllm-0.32.0` is not one of vllm-0.31.0, vllm-0.33.0, vllm-main, sglang-0.5.23, tensorrt-llm");
    }
}
