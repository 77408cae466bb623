//! The result of `sim explain`: why one step ran as it did, and what else it could have cost.

use serde::{Deserialize, Serialize};

use crate::{CostTerms, DescriptorRecord, EngineReport, LadderSizes, Name, ProfileReport, Warning};

/// Everything `sim explain` says, as one JSON document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExplainReport {
    /// The engine whose dispatcher decided.
    pub engine: EngineReport,
    /// The cost profile, with the provenance of each group used; null where nothing was priced.
    pub profile: Option<ProfileReport>,
    /// The candidate whose ladder was used.
    pub candidate: String,
    /// The capture sizes after the engine's own rules, those of all ladders together, ascending, tokens.
    pub capture_sizes: Vec<u32>,
    /// The sizes that each kind of step pads to.
    pub ladders: Vec<LadderSizes>,
    /// The configured `cudagraph_mode` after the engine's own resolution.
    pub cudagraph_mode: String,
    /// Index of the step in the run, from 0; null for a step given by flags.
    pub step: Option<u64>,
    /// The step as the dispatcher sees it.
    pub shape: StepShapeReport,
    /// The dispatcher's rules in the order in which it applied them.
    pub rules: Vec<RuleCheck>,
    /// What ran.
    pub chosen: Choice,
    /// Rows of the compiled version of the model that ran, `[first, last]`; null where there is one version or none.
    pub compiled_for: Option<[u32; 2]>,
    /// What could have run instead, dearer or cheaper.
    pub alternatives: Vec<Alternative>,
    /// Remarks on the prices, for example a cost from outside the measured range.
    pub flags: Vec<String>,
    /// What to know before trusting the explanation.
    pub warnings: Vec<Warning>,
}

/// The shape of one scheduled step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepShapeReport {
    /// Scheduled requests.
    pub requests: u32,
    /// Scheduled tokens, unpadded.
    pub tokens: u32,
    /// The longest query, tokens.
    pub max_query: u32,
    /// The common query length if the step is uniform, tokens; null otherwise.
    pub uniform: Option<u32>,
    /// Distinct LoRA adapters active in the step.
    pub active_loras: u32,
    /// Prefills as `[chunk, context]`: tokens computed in this step, and tokens of KV before them.
    pub prefills: Vec<[u32; 2]>,
    /// Requests that decode.
    pub decode_requests: u32,
    /// KV tokens that the decoding requests read, all together, tokens.
    pub decode_context: u64,
}

/// One rule of the dispatcher and what it said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleCheck {
    /// The rule's name.
    pub rule: String,
    /// What it compared.
    pub detail: String,
    /// What followed: `goes on`, `no graph`, `fits`, `does not fit`, `taken` and the like.
    pub outcome: String,
}

/// What ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// `FULL`, `PIECEWISE` or `NONE`.
    pub mode: Name,
    /// The graph; null when none ran.
    pub descriptor: Option<DescriptorRecord>,
    /// Identity of the artifact that served: the descriptor in one line, `eager` or `compiled eager`.
    pub artifact: String,
    /// Why no graph ran: `above_ceiling`, `no_key`, `mode_excluded`, `encoder_inputs`, `other_rank` or `graphs_off`; null when one ran.
    pub fallback: Option<Name>,
    /// Whether the step wanted a FULL graph and ran PIECEWISE.
    pub relaxed: bool,
    /// Rows that requests asked for, rows.
    pub real_rows: u32,
    /// Rows that no request asked for, rows.
    pub padded_rows: u32,
    /// Predicted cost; null where nothing was priced.
    pub cost: Option<CostTerms>,
}

/// Another way to run the same step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alternative {
    /// Which: `one rung lower`, `one rung higher`, `compiled eager`, `eager`.
    pub name: Name,
    /// `FULL`, `PIECEWISE` or `NONE`.
    pub mode: Name,
    /// Rows it would run, rows.
    pub rows: u32,
    /// Rows of those that no request asked for, rows; negative for rows that would not fit.
    pub padded_rows: i64,
    /// Why it is not open to this step, or what it stands for; null if it needs no remark.
    pub note: Option<String>,
    /// Predicted cost; null where nothing was priced.
    pub cost: Option<CostTerms>,
    /// Its predicted duration minus that of what ran, ns; positive: dearer. Null where nothing was priced,
    /// and for rows too few for the step.
    pub difference_ns: Option<i64>,
}
