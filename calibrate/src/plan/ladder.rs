//! The captured sizes that are measured: those that are given, or an engine's own.

use std::fmt;
use std::str::FromStr;

use kernels::units::{Bytes, Rows};

/// The largest size that can be captured.
const ROWS_MAX: u32 = 8_192;
/// The most sizes of a ladder.
const RUNGS_MAX: usize = 512;
/// Requests that vLLM's server runs at a time unless told otherwise, as far as its ladder goes: those of larger cards are
/// more and end at the same ceiling.
const VLLM_MAX_NUM_SEQS: u32 = 256;
/// vLLM's ceiling unless told otherwise.
const VLLM_CEILING: u32 = 512;

/// The engine whose ladder and planning figures are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LadderEngine {
    /// vLLM.
    #[default]
    Vllm,
    /// SGLang.
    Sglang,
}

impl LadderEngine {
    /// A scenario of the repository that runs this engine.
    pub fn scenario(self) -> &'static str {
        match self {
            Self::Vllm => "scenarios/chunked.toml",
            Self::Sglang => "scenarios/sglang_ceiling.toml",
        }
    }

    /// Its name in profiles.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
        }
    }
}

/// Captured sizes, ascending, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ladder(Vec<u32>);

/// Why a text is no ladder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LadderError {
    /// A part is no size.
    #[error("`{0}` is no size: expected rows from 1 to {ROWS_MAX}, separated by commas")]
    Size(String),
    /// There are too many.
    #[error("{0} sizes: expected at most {RUNGS_MAX}")]
    TooMany(usize),
}

impl FromStr for Ladder {
    type Err = LadderError;

    fn from_str(text: &str) -> Result<Self, LadderError> {
        let size = |part: &str| {
            let size = part.trim().parse().ok().filter(|size| (1..=ROWS_MAX).contains(size));
            size.ok_or_else(|| LadderError::Size(part.trim().to_owned()))
        };
        let mut sizes: Vec<u32> = text.split(',').map(size).collect::<Result<_, _>>()?;
        sizes.sort_unstable();
        sizes.dedup();
        if sizes.len() > RUNGS_MAX { Err(LadderError::TooMany(sizes.len())) } else { Ok(Self(sizes)) }
    }
}

impl fmt::Display for Ladder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<String> = self.0.iter().map(u32::to_string).collect();
        f.write_str(&sizes.join(","))
    }
}

impl Ladder {
    /// What an engine captures without any flag on a device of this memory, for a model over so many ranks.
    ///
    /// vLLM (its specification, section 2): 1, 2, 4, from 8 on by eights, from 256 on by sixteens, up to twice the requests
    /// at a time, 512 at most, and the requests at a time. SGLang (its specification, sections 2 and 3): 1, 2, 4, 8, 12, from 16 on by eights, from 272
    /// on by sixteens, from 512 on by 32, up to the maximum that its table of device memories has, which is captured in any
    /// case.
    pub fn of_engine(engine: LadderEngine, memory: Bytes, ranks: u32) -> Self {
        match engine {
            LadderEngine::Vllm => Self::vllm(VLLM_MAX_NUM_SEQS),
            LadderEngine::Sglang => Self::sglang(sglang_maximum(memory, ranks)),
        }
    }

    /// For so many requests at a time, where a step may have more tokens than the ceiling, as by default.
    fn vllm(requests: u32) -> Self {
        let ceiling = requests.saturating_mul(2).min(VLLM_CEILING);
        let mut ladder = Self::runs(ceiling, &[(1, 2, 1), (4, 4, 1), (8, 248, 8), (256, ceiling, 16)]);
        if requests <= ceiling {
            ladder.0.push(requests);
            ladder.0.sort_unstable();
            ladder.0.dedup();
        }
        ladder
    }

    fn sglang(maximum: u32) -> Self {
        let mut ladder =
            Self::runs(maximum, &[(1, 2, 1), (4, 12, 4), (16, 256, 8), (272, 496, 16), (512, maximum, 32)]);
        if ladder.0.last() != Some(&maximum) {
            ladder.0.push(maximum);
        }
        ladder
    }

    /// Runs of `(first, last, step)`, none above `most`.
    fn runs(most: u32, runs: &[(u32, u32, u32)]) -> Self {
        let run = |&(first, last, step): &(u32, u32, u32)| (first..=last.min(most)).step_by(step as usize);
        Self(runs.iter().flat_map(run).collect())
    }

    /// The powers of two in it and its largest size: enough for lines over rows, and quick.
    #[must_use]
    pub fn thinned(&self) -> Self {
        let is_kept = |size: &&u32| size.is_power_of_two() || *size == &self.largest();
        Self(self.0.iter().filter(is_kept).copied().collect())
    }

    /// The sizes.
    pub fn sizes(&self) -> &[u32] {
        &self.0
    }

    /// The largest first, in the order of capture.
    pub fn descending(&self) -> Vec<Rows> {
        self.0.iter().rev().copied().map(Rows).collect()
    }

    /// The largest size; 0 of none.
    pub fn largest(&self) -> u32 {
        self.0.last().copied().unwrap_or(0)
    }
}

/// The largest decode graph of SGLang's table: memory strictly below so many GiB, the maximum for fewer than 4 ranks and
/// for more.
fn sglang_maximum(memory: Bytes, ranks: u32) -> u32 {
    const TABLE: [(u64, u32, u32); 4] = [(20, 8, 8), (35, 48, 160), (60, 32, 160), (160, 256, 512)];
    let row = TABLE.iter().find(|row| memory.0 < row.0 << 30);
    let &(_, few, many) = row.unwrap_or(&(u64::MAX, 512, 512));
    if ranks < 4 { few } else { many }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A file of vectors that were recorded from the engines.
    fn golden(name: &str) -> String {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/");
        fs::read_to_string(format!("{path}{name}")).unwrap()
    }

    #[test]
    fn vllms_ladders_are_those_of_the_engine() {
        let mut compared = 0;
        for line in golden("vllm/capture_sizes_v1.jsonl").lines() {
            let vector: serde_json::Value = serde_json::from_str(line).unwrap();
            let (config, input) = (&vector["config"], &vector["input"]);
            let is_plain = input["compile_sizes"].is_null()
                && input["cudagraph_capture_sizes"].is_null()
                && input["max_cudagraph_capture_size"].is_null()
                && config["num_speculative_tokens"] == 0
                && config["data_center_blackwell"] == false
                && config["enforce_eager"] == false
                && config["performance_mode"] == "balanced"
                && config["cudagraph_mode"] == "FULL_AND_PIECEWISE"
                && config["enable_sp"] != true
                && config["dynamic_sd_schedule"].is_null();
            let Some(sizes) = vector["expected"]["capture_sizes"].as_array().filter(|_| is_plain) else { continue };
            let sizes: Vec<u64> = sizes.iter().filter_map(serde_json::Value::as_u64).collect();
            let requests = config["max_num_seqs"].as_u64().unwrap() as u32;
            let budget = config["max_num_batched_tokens"].as_u64().unwrap() as u32;
            if budget < (2 * requests).min(VLLM_CEILING) {
                continue;
            }
            let own = Ladder::vllm(requests);
            assert_eq!(own.0.iter().copied().map(u64::from).collect::<Vec<_>>(), sizes, "{line}");
            compared += 1;
        }
        assert!(compared > 5, "{compared} vectors were plain");
        assert_eq!(Ladder::of_engine(LadderEngine::Vllm, Bytes(0), 1).sizes().len(), 51);
    }

    #[test]
    fn sglangs_ladders_are_those_of_the_engine() {
        let ladders: serde_json::Value = serde_json::from_str(&golden("sglang/ladders.json")).unwrap();
        for maximum in [8, 32, 48, 160, 256, 512] {
            let theirs: Vec<u32> = serde_json::from_value(ladders[format!("plain_{maximum}")].clone()).unwrap();
            assert_eq!(Ladder::sglang(maximum).sizes(), theirs, "{maximum}");
        }
        let of = |gib: u64, ranks| Ladder::of_engine(LadderEngine::Sglang, Bytes(gib << 30), ranks).largest();
        assert_eq!(
            [of(16, 1), of(24, 1), of(48, 1), of(48, 4), of(80, 1), of(80, 8), of(180, 1)],
            [8, 48, 32, 160, 256, 512, 512]
        );
    }

    #[test]
    fn given_sizes_are_sorted_and_each_is_taken_once() {
        let ladder: Ladder = "8, 1,2,8,4".parse().unwrap();
        assert_eq!(ladder.to_string(), "1,2,4,8");
        assert_eq!(ladder.descending(), [8, 4, 2, 1].map(Rows));
        let refused = |text: &str| text.parse::<Ladder>().unwrap_err().to_string();
        assert_eq!(refused("1,x"), "`x` is no size: expected rows from 1 to 8192, separated by commas");
        for text in ["", "0", "1,,2", "-1", "8193", "1.5"] {
            assert!(text.parse::<Ladder>().is_err(), "{text}");
        }
        let many: Vec<String> = (1..=513).map(|size: u32| size.to_string()).collect();
        assert_eq!(refused(&many.join(",")), "513 sizes: expected at most 512");
    }

    #[test]
    fn a_thinned_ladder_keeps_its_ends() {
        assert_eq!(Ladder::vllm(256).thinned().to_string(), "1,2,4,8,16,32,64,128,256,512");
        assert_eq!("3,5,7".parse::<Ladder>().unwrap().thinned().to_string(), "7");
    }
}
