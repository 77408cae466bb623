//! What a server captures and which graph each step runs, whichever engine it is.

use std::collections::BTreeSet;

use super::error::EngineError;
use super::options::EngineOptions;
use super::sglang::dedup::SegmentLikeness;
use super::sglang::plan::SharedGraphs;
use super::sglang::warning::Phase;
use super::shape::{Descriptor, Dispatch, EagerKind, Guard, NeighbourRungs, RankStep, RuntimeMode, StepShape};
use super::step::{StepExtent, StepPlan};
use super::vllm::compile_ranges::CompileRanges;
use super::vllm::other_graphs::OtherGraphs;
use super::{sglang, vllm};

/// The graphs of one server with one set of flags, and its choice among them.
#[derive(Clone, Debug)]
pub enum GraphPlan {
    /// vLLM's.
    Vllm(vllm::plan::GraphPlan),
    /// SGLang's.
    Sglang(sglang::plan::GraphPlan),
}

/// The captured sizes of one kind of step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ladder {
    /// `decode`, `prefill` (steps that compute prompts), or `all` where every step pads to the same sizes.
    pub phase: &'static str,
    /// What the sizes count.
    pub unit: LadderUnit,
    /// The sizes, ascending.
    pub sizes: Vec<u32>,
}

/// What the sizes of a ladder count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LadderUnit {
    /// Tokens of the step.
    Tokens,
    /// Requests of the step.
    Requests,
}

impl LadderUnit {
    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Requests => "requests",
        }
    }
}

/// What reports count as one rung: all graphs of one size that run alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rung {
    /// FULL or PIECEWISE.
    pub mode: RuntimeMode,
    /// The phase, where an engine keeps graphs for each.
    pub phase: Option<Phase>,
    /// Tokens.
    pub size: u32,
}

/// A rewrite of the flags by the engine, or a consequence of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanWarning {
    /// A stable word for programs.
    pub code: &'static str,
    /// A sentence for people.
    pub message: String,
}

impl GraphPlan {
    /// What a server with these flags captures. SGLang sizes its KV pool first, and the rows of its request pool, which
    /// bound decode graphs, follow from the pool's `kv_tokens`; where they are not known, from the flags alone.
    ///
    /// # Errors
    /// The flags with which the engine does not start, and those this program does not take.
    pub fn build(options: &EngineOptions, kv_tokens: Option<u64>) -> Result<Self, EngineError> {
        Ok(match options {
            EngineOptions::Vllm(options) => Self::Vllm(vllm::plan::GraphPlan::build(options)?),
            EngineOptions::Sglang(options) => {
                let rows = sglang::memory::request_rows(options, kv_tokens.unwrap_or(u64::MAX));
                Self::Sglang(sglang::plan::GraphPlan::build(options, rows)?)
            }
        })
    }

    /// The graph for a step. One table look-up, no allocation.
    #[inline]
    #[must_use]
    pub fn dispatch(&self, shape: &StepShape) -> Dispatch {
        match self {
            Self::Vllm(plan) => plan.dispatch(shape),
            Self::Sglang(plan) => plan.dispatch(shape),
        }
    }

    /// The graph for a step whose lengths are known too.
    #[inline]
    #[must_use]
    pub fn dispatch_extent(&self, shape: &StepShape, extent: StepExtent) -> Dispatch {
        match self {
            Self::Vllm(plan) => plan.dispatch(shape),
            Self::Sglang(plan) => plan.dispatch_extent(shape, extent),
        }
    }

    /// Whether more than the shape of a step decides about its graph: how far its requests reach.
    #[inline]
    #[must_use]
    pub fn asks_for_extent(&self) -> bool {
        matches!(self, Self::Sglang(plan) if plan.asks_for_extent())
    }

    /// The graph for a scheduled step.
    #[inline]
    #[must_use]
    pub fn dispatch_step(&self, step: &StepPlan) -> Dispatch {
        match self {
            Self::Sglang(plan) if plan.asks_for_extent() => plan.dispatch_extent(&step.shape, StepExtent::of(step)),
            _ => self.dispatch(&step.shape),
        }
    }

    /// The graphs of one step that all data-parallel ranks take together, in their order; a plan without tokens is an
    /// idle rank. Empty if no rank has work.
    #[must_use]
    pub fn dispatch_ranks<'a>(&self, steps: impl Iterator<Item = &'a StepPlan>) -> Vec<RankStep> {
        let (shapes, extents): (Vec<_>, Vec<_>) = match self {
            Self::Sglang(plan) if plan.asks_for_extent() => {
                steps.map(|step| (step.shape, StepExtent::of(step))).unzip()
            }
            _ => steps.map(|step| (step.shape, StepExtent::default())).unzip(),
        };
        match self {
            Self::Vllm(plan) => plan.dispatch_ranks(&shapes),
            Self::Sglang(plan) => plan.dispatch_ranks(&shapes, &extents),
        }
    }

    /// The guards that [`dispatch_extent`](Self::dispatch_extent) evaluates for this step, in order.
    #[must_use]
    pub fn explain(&self, shape: &StepShape, extent: StepExtent) -> Vec<Guard> {
        match self {
            Self::Vllm(plan) => plan.explain(shape).into_iter().map(Guard::from).collect(),
            Self::Sglang(plan) => plan.explain(shape, extent),
        }
    }

    /// The captured sizes next to the one that the step runs.
    #[must_use]
    pub fn neighbours(&self, shape: &StepShape, extent: StepExtent) -> NeighbourRungs {
        match self {
            Self::Vllm(plan) => plan.neighbours(shape),
            Self::Sglang(plan) => plan.neighbours(shape, extent),
        }
    }

    /// The mode in force, under the engine's name.
    #[must_use]
    pub fn mode_name(&self) -> String {
        match self {
            Self::Vllm(plan) => plan.mode().to_string(),
            Self::Sglang(plan) => plan.mode_name(),
        }
    }

    /// The capture sizes in force, in tokens, ascending: those of all ladders together.
    #[must_use]
    pub fn capture_sizes(&self) -> &[u32] {
        match self {
            Self::Vllm(plan) => plan.capture_sizes(),
            Self::Sglang(plan) => plan.capture_sizes(),
        }
    }

    /// All kinds of batch pad to the same sizes.
    #[must_use]
    pub fn has_one_ladder(&self) -> bool {
        match self {
            Self::Vllm(plan) => !plan.has_separate_ladders(),
            Self::Sglang(_) => false,
        }
    }

    /// The largest capture size; 0 without graphs.
    #[must_use]
    pub fn ceiling(&self) -> u32 {
        match self {
            Self::Vllm(plan) => plan.ceiling(),
            Self::Sglang(plan) => plan.ceiling(),
        }
    }

    /// Tokens of the largest graph that a step of decoding requests can run; 0 without any.
    #[must_use]
    pub fn decode_ceiling(&self) -> u32 {
        match self {
            Self::Vllm(plan) => plan.capture_order().iter().map(|graph| graph.tokens).max().unwrap_or(0),
            Self::Sglang(plan) => plan.decode_ceiling(),
        }
    }

    /// The rung that reports count a graph under.
    #[must_use]
    pub fn rung(&self, graph: &Descriptor) -> Rung {
        let phase = match self {
            Self::Vllm(_) => None,
            Self::Sglang(_) => Some(Phase::of(graph)),
        };
        Rung { mode: graph.mode, phase, size: graph.tokens }
    }

    /// What a step without a graph runs as.
    #[must_use]
    pub fn eager_kind(&self) -> EagerKind {
        match self {
            Self::Vllm(plan) => plan.eager_kind(),
            Self::Sglang(plan) => plan.eager_kind(),
        }
    }

    /// What the engine changed, and what follows from the flags.
    #[must_use]
    pub fn warnings(&self) -> Vec<PlanWarning> {
        match self {
            Self::Vllm(plan) => plan
                .warnings()
                .iter()
                .map(|warning| PlanWarning { code: warning.code(), message: warning.to_string() })
                .collect(),
            Self::Sglang(plan) => plan
                .warnings()
                .iter()
                .map(|warning| PlanWarning { code: warning.code(), message: warning.to_string() })
                .collect(),
        }
    }

    /// All descriptors in the order in which they are captured.
    #[must_use]
    pub fn capture_order(&self) -> &[Descriptor] {
        match self {
            Self::Vllm(plan) => plan.capture_order(),
            Self::Sglang(plan) => plan.capture_order(),
        }
    }

    /// Pieces of one PIECEWISE descriptor of a model of `attention_layers`.
    #[must_use]
    pub fn pieces(&self, attention_layers: u32) -> u32 {
        match self {
            Self::Vllm(plan) => plan.pieces(attention_layers),
            Self::Sglang(plan) => plan.pieces(attention_layers),
        }
    }

    /// Which compiled version of the model each row count runs; `None` for an engine without such.
    #[must_use]
    pub fn compiled(&self) -> Option<&CompileRanges> {
        match self {
            Self::Vllm(plan) => Some(plan.compiled()),
            Self::Sglang(_) => None,
        }
    }

    /// Graphs of the encoder and of the replay layers; `None` for an engine without such.
    #[must_use]
    pub fn other_graphs(&self) -> Option<&OtherGraphs> {
        match self {
            Self::Vllm(plan) => Some(plan.other_graphs()),
            Self::Sglang(_) => None,
        }
    }

    /// The sizes that each kind of step pads to, where kinds differ; otherwise the one ladder of all.
    #[must_use]
    pub fn ladders(&self) -> Vec<Ladder> {
        if self.has_one_ladder() {
            let sizes = self.capture_sizes().to_vec();
            return vec![Ladder { phase: "all", unit: LadderUnit::Tokens, sizes }];
        }
        let of_phase =
            |decode: bool| self.capture_order().iter().filter(move |graph| graph.uniform.is_some() == decode);
        let in_requests = of_phase(true).all(|graph| graph.requests.is_some());
        let requests = |graph: &Descriptor| graph.requests.filter(|_| in_requests).unwrap_or(graph.tokens);
        let decode = ascending(of_phase(true).map(requests));
        let prefill = ascending(of_phase(false).map(|graph| graph.tokens));
        let decode_unit = if in_requests { LadderUnit::Requests } else { LadderUnit::Tokens };
        let ladders = [
            Ladder { phase: "decode", unit: decode_unit, sizes: decode },
            Ladder { phase: "prefill", unit: LadderUnit::Tokens, sizes: prefill },
        ];
        ladders.into_iter().filter(|ladder| !ladder.sizes.is_empty()).collect()
    }

    /// What graphs of `pieces` segments share with graphs of other sizes, as capture leaves it; `None` where every graph
    /// has executables of its own.
    #[must_use]
    pub fn shared_graphs(&self, pieces: u32) -> Option<SharedGraphs> {
        match self {
            Self::Vllm(_) => None,
            Self::Sglang(plan) => plan.shared_graphs(pieces, SegmentLikeness::default()),
        }
    }

    /// CUDA graphs captured for a model of `attention_layers`.
    #[must_use]
    pub fn cuda_graphs(&self, attention_layers: u32) -> u64 {
        match self {
            Self::Vllm(plan) => plan.cuda_graphs(attention_layers),
            Self::Sglang(plan) => plan.cuda_graphs(attention_layers),
        }
    }
}

fn ascending(sizes: impl Iterator<Item = u32>) -> Vec<u32> {
    sizes.collect::<BTreeSet<u32>>().into_iter().collect()
}
