//! One step as the dispatcher sees it, and what the dispatcher answers.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How one step runs. The *configured* `cudagraph_mode` is another thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum RuntimeMode {
    /// No graph: eager, or compiled eager where the engine compiles the model.
    None,
    /// The model's compiled pieces are replayed, attention runs between them.
    Piecewise,
    /// One graph holds the whole model step.
    Full,
}

/// The shape of one scheduled step, with what each runner derives from it (specification sections 4 and 6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StepShape {
    /// Scheduled requests.
    pub requests: u32,
    /// Scheduled tokens, drafts included, unpadded.
    pub tokens: u32,
    /// The longest query of the step, in tokens.
    pub max_query: u32,
    /// Runner V1's flag: every request runs exactly the uniform decode query length.
    pub uniform_v1: bool,
    /// Runner V2's uniform token count: the common query length if the batch is eligible for a decode graph.
    pub uniform_v2: Option<u32>,
    /// Some request is still prefilling, in runner V2's sense (it then passes no longest query to dispatch).
    pub prefilling: bool,
    /// Distinct LoRA adapters active in the step.
    pub active_loras: u32,
    /// Some request brings encoder inputs of an encoder-decoder model.
    pub encoder_inputs: bool,
}

/// One graph's key, in the union of what both runners keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Descriptor {
    /// FULL or PIECEWISE for a captured graph, NONE for a step without one.
    pub mode: RuntimeMode,
    /// Tokens the graph runs: the step's own tokens in mode NONE.
    pub tokens: u32,
    /// Requests the graph holds, where its key names them.
    pub requests: Option<u32>,
    /// The common query length of a uniform graph, in tokens. V1 stores a flag: then its query length.
    pub uniform: Option<u32>,
    /// The longest query the graph allows, where its key names one (V2, adaptive verification).
    pub max_query: Option<u32>,
    /// Active LoRA adapters of the key.
    pub loras: u32,
    /// Microbatches; 1 without dual-batch overlap.
    pub ubatches: u32,
    /// Chunks of cached prefix that the graph is captured for; `None` for one that takes none.
    pub prefix_chunks: Option<u32>,
}

/// Why a step ran without a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FallbackCause {
    /// More tokens than the largest captured size.
    AboveCeiling,
    /// A padded size exists but no key fits the step.
    NoKey,
    /// The configured mode has no graph for this kind of step (FULL_DECODE_ONLY and a mixed batch).
    ModeExcluded,
    /// The step carries encoder inputs of an encoder-decoder model.
    EncoderInputs,
    /// Another data-parallel rank has no graph for its step, or the size that the ranks agreed on has none here.
    OtherRank,
    /// Graphs are off altogether.
    GraphsOff,
}

/// What the dispatcher answered for one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dispatch {
    /// The graph that runs, or the unpadded shape in mode NONE.
    pub descriptor: Descriptor,
    /// Why no graph runs; `None` exactly if the mode is not NONE.
    pub cause: Option<FallbackCause>,
    /// The step wanted a FULL graph that the configuration has for its kind of batch, and ran PIECEWISE.
    pub relaxed: bool,
}

/// What one rank runs in a step of all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankStep {
    /// The rank's own step, or the dummy step that keeps an idle rank in time with the others.
    pub shape: StepShape,
    /// Its graph. Under runner V1 a rank that gave its graph up keeps that graph's padding: in mode NONE the descriptor
    /// then has more tokens than the shape, and the rank runs them all.
    pub dispatch: Dispatch,
    /// The rank had no work.
    pub is_dummy: bool,
    /// Microbatches that the step is split into; 1 if the ranks did not agree to split it.
    pub ubatches: u32,
}

/// What a step of mode NONE runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EagerKind {
    /// The compiled model, launched kernel by kernel.
    Compiled,
    /// The model as written: compilation is off.
    True,
}

/// The captured sizes beside the one that a step runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourRungs {
    /// The next smaller graph of the same kind: it may be too small for the step.
    pub lower: Option<Descriptor>,
    /// The next larger graph of the same kind.
    pub higher: Option<Descriptor>,
}

/// A guard of a dispatcher as it was evaluated for one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// Its stable name.
    pub rule: &'static str,
    /// What followed from it, in words.
    pub outcome: &'static str,
    /// What was compared.
    pub compared: String,
}

impl Dispatch {
    /// Padded minus real tokens; zero when eager, unless the rank gave its graph up and kept its padding ([`RankStep`]).
    #[must_use]
    pub fn padded_rows(&self, shape: &StepShape) -> u32 {
        self.descriptor.tokens - shape.tokens
    }
}

impl RuntimeMode {
    /// The engine's own name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "NONE",
            Self::Piecewise => "PIECEWISE",
            Self::Full => "FULL",
        }
    }
}

impl fmt::Display for RuntimeMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for FallbackCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::AboveCeiling => "above_ceiling",
            Self::NoKey => "no_key",
            Self::ModeExcluded => "mode_excluded",
            Self::EncoderInputs => "encoder_inputs",
            Self::OtherRank => "other_rank",
            Self::GraphsOff => "graphs_off",
        })
    }
}
