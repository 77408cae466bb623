//! What a target captures with the flags, graph by graph against the plan that was advised.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::Target;
use crate::engine::error::EngineError;
use crate::engine::plan::{GraphPlan, Ladder, LadderUnit, PlanWarning};
use crate::engine::shape::{Descriptor, EagerKind, RuntimeMode};
use crate::engine::vllm::options::Runner;

/// The flags read back and built by the target's rules.
#[derive(Clone, Debug, PartialEq)]
pub enum Rebuilt {
    /// The target captures the advised graphs, each of them and no other, in the same order.
    Same(Captured),
    /// The target starts, and something is not as advised.
    Differs {
        /// What it captures.
        captured: Captured,
        /// Every difference; never empty.
        differences: Vec<Difference>,
    },
    /// The target does not start with these flags: they must not be pasted.
    Refused {
        /// The target.
        target: Target,
        /// What it says.
        error: EngineError,
    },
    /// The target is not simulated. Its published rules for one list were applied, and nothing else is known.
    ListOnly {
        /// What its rules leave of the list.
        sizes: Ladder,
        /// What differs from the advised sizes.
        differences: Vec<Difference>,
    },
}

/// Warnings of the engines about flags that do not come to what they say.
const LIST_WARNINGS: [&str; 9] = [
    "ceiling_cut",
    "sizes_above_budget",
    "ladder_empty",
    "ladder_rounded",
    "decode_sizes_dropped",
    "request_rows_added",
    "prefill_list_empty",
    "unused",
    "mode_changed",
];

/// What a server captures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// The mode in force, under the engine's name.
    pub mode: String,
    /// The captured sizes of each kind of step.
    pub ladders: Vec<Ladder>,
    /// Descriptors, as far as the engine counts them.
    pub descriptors: u32,
    /// What the engine changed, and what follows from the flags.
    pub warnings: Vec<PlanWarning>,
}

/// What a graph is captured for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GraphKind {
    /// FULL or PIECEWISE.
    pub mode: RuntimeMode,
    /// It holds a decode batch alone: its key names the length of the queries.
    pub decode: bool,
}

/// Something that is not as advised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// Another mode is in force.
    Mode {
        /// The advised one.
        advised: String,
        /// The target's.
        rebuilt: String,
    },
    /// Another model runner dispatches steps.
    Runner {
        /// The advised one.
        advised: Runner,
        /// The target's.
        rebuilt: Runner,
    },
    /// Other graphs of one kind.
    Graphs {
        /// What they are captured for.
        kind: GraphKind,
        /// Advised and not captured by the target, in capture order.
        missing: Vec<Descriptor>,
        /// Captured by the target and not advised, in capture order.
        added: Vec<Descriptor>,
    },
    /// The same graphs in another order, which decides how they share memory.
    CaptureOrder,
    /// Steps without a graph run as something else.
    Eager {
        /// As advised.
        advised: EagerKind,
        /// On the target.
        rebuilt: EagerKind,
    },
    /// The model is compiled for other ranges of sizes.
    CompileRanges,
    /// Other graphs of a multimodal encoder or of replay layers.
    OtherGraphs,
    /// Sizes of a list that is not simulated.
    Sizes {
        /// What they count.
        unit: LadderUnit,
        /// Advised and dropped by the target, ascending.
        missing: Vec<u32>,
        /// Captured by the target and not advised, ascending.
        added: Vec<u32>,
    },
    /// An option that the flags leave out.
    LeftOut {
        /// The option.
        option: &'static str,
        /// Why.
        reason: String,
    },
}

impl Rebuilt {
    /// Whether the target does exactly what was advised.
    #[must_use]
    pub fn is_same(&self) -> bool {
        match self {
            Self::Same(_) => true,
            Self::Differs { .. } | Self::Refused { .. } => false,
            Self::ListOnly { differences, .. } => differences.is_empty(),
        }
    }

    /// What is not as advised; empty for a target that refuses the flags.
    #[must_use]
    pub fn differences(&self) -> &[Difference] {
        match self {
            Self::Differs { differences, .. } | Self::ListOnly { differences, .. } => differences,
            Self::Same(_) | Self::Refused { .. } => &[],
        }
    }

    /// What the target captures; `None` where it does not start, and where it is not simulated.
    #[must_use]
    pub fn captured(&self) -> Option<&Captured> {
        match self {
            Self::Same(captured) | Self::Differs { captured, .. } => Some(captured),
            Self::Refused { .. } | Self::ListOnly { .. } => None,
        }
    }

    /// What the notes say first: a refusal, each difference, and what the engine does to the lists by itself.
    pub(super) fn notes(&self) -> Vec<String> {
        let refusal = match self {
            Self::Refused { target, error } => Some(format!("{target} does not start with these flags: {error}")),
            Self::Same(_) | Self::Differs { .. } | Self::ListOnly { .. } => None,
        };
        let differences = self.differences().iter().map(|difference| format!("not as advised: {difference}"));
        let warnings = self.captured().into_iter().flat_map(|captured| &captured.warnings);
        let about_lists = warnings.filter(|warning| LIST_WARNINGS.contains(&warning.code));
        let about_lists = about_lists.map(|warning| format!("by the engine's rules: {}", warning.message));
        refusal.into_iter().chain(differences).chain(about_lists).collect()
    }

    /// Two plans compared, and what the flags left out.
    pub(super) fn of(advised: &GraphPlan, rebuilt: &GraphPlan, left_out: Vec<Difference>) -> Self {
        let captured = Captured::of(rebuilt);
        let mut differences = compare(advised, rebuilt);
        differences.extend(left_out);
        if differences.is_empty() { Self::Same(captured) } else { Self::Differs { captured, differences } }
    }
}

impl Captured {
    /// What a plan captures.
    #[must_use]
    pub fn of(plan: &GraphPlan) -> Self {
        Self {
            mode: plan.mode_name(),
            ladders: plan.ladders(),
            descriptors: plan.capture_order().len() as u32,
            warnings: plan.warnings(),
        }
    }
}

impl GraphKind {
    /// The kind of a captured graph.
    #[must_use]
    pub fn of(graph: &Descriptor) -> Self {
        Self { mode: graph.mode, decode: graph.uniform.is_some() || graph.max_query.is_some() }
    }
}

/// Everything in which the second plan departs from the first.
fn compare(advised: &GraphPlan, rebuilt: &GraphPlan) -> Vec<Difference> {
    let mut differences = Vec::new();
    if advised.mode_name() != rebuilt.mode_name() {
        differences.push(Difference::Mode { advised: advised.mode_name(), rebuilt: rebuilt.mode_name() });
    }
    if let (GraphPlan::Vllm(advised), GraphPlan::Vllm(rebuilt)) = (advised, rebuilt)
        && advised.runner() != rebuilt.runner()
    {
        differences.push(Difference::Runner { advised: advised.runner(), rebuilt: rebuilt.runner() });
    }
    let graphs = other_graphs(advised.capture_order(), rebuilt.capture_order());
    if graphs.is_empty() && advised.capture_order() != rebuilt.capture_order() {
        differences.push(Difference::CaptureOrder);
    }
    differences.extend(graphs);
    if advised.eager_kind() != rebuilt.eager_kind() {
        differences.push(Difference::Eager { advised: advised.eager_kind(), rebuilt: rebuilt.eager_kind() });
    }
    if advised.compiled() != rebuilt.compiled() {
        differences.push(Difference::CompileRanges);
    }
    let graphs_of = |plan: &GraphPlan| plan.other_graphs().map(|other| (other.encoder.clone(), other.replay.clone()));
    if graphs_of(advised) != graphs_of(rebuilt) {
        differences.push(Difference::OtherGraphs);
    }
    differences
}

/// Graphs that only one of the two captures, by kind.
fn other_graphs(advised: &[Descriptor], rebuilt: &[Descriptor]) -> Vec<Difference> {
    let [of_advised, of_rebuilt] = [advised, rebuilt].map(|graphs| graphs.iter().collect::<BTreeSet<_>>());
    let mut kinds: BTreeMap<GraphKind, (Vec<Descriptor>, Vec<Descriptor>)> = BTreeMap::new();
    for graph in advised.iter().filter(|graph| !of_rebuilt.contains(graph)) {
        kinds.entry(GraphKind::of(graph)).or_default().0.push(*graph);
    }
    for graph in rebuilt.iter().filter(|graph| !of_advised.contains(graph)) {
        kinds.entry(GraphKind::of(graph)).or_default().1.push(*graph);
    }
    kinds.into_iter().map(|(kind, (missing, added))| Difference::Graphs { kind, missing, added }).collect()
}

/// Entries of a list that a sentence names.
const NAMED: usize = 12;

/// The first entries, and how many more there are.
pub(super) fn listed(entries: impl ExactSizeIterator<Item = String>) -> String {
    let more = entries.len().saturating_sub(NAMED);
    let named = entries.take(NAMED).collect::<Vec<_>>().join(", ");
    if more == 0 { named } else { format!("{named} and {more} more") }
}

/// A graph's size, and the requests it holds where its key names them.
fn size(graph: &Descriptor) -> String {
    match graph.requests {
        Some(requests) if requests != graph.tokens => format!("{} ({requests} requests)", graph.tokens),
        _ => graph.tokens.to_string(),
    }
}

/// `missing A; added B`, without an empty half.
fn halves(f: &mut fmt::Formatter<'_>, missing: Option<String>, added: Option<String>) -> fmt::Result {
    let halves = [missing.map(|list| format!("missing {list}")), added.map(|list| format!("added {list}"))];
    f.write_str(&halves.into_iter().flatten().collect::<Vec<_>>().join("; "))
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mode { advised, rebuilt } => write!(f, "the mode is {rebuilt} instead of {advised}"),
            Self::Runner { advised, rebuilt } => {
                write!(f, "model runner {rebuilt} dispatches the steps instead of {advised}")
            }
            Self::Graphs { kind, missing, added } => {
                write!(f, "{kind}, in tokens: ")?;
                // The smallest first, as a ladder is read.
                let list = |graphs: &[Descriptor]| (!graphs.is_empty()).then(|| listed(graphs.iter().rev().map(size)));
                halves(f, list(missing), list(added))
            }
            Self::CaptureOrder => f.write_str("the same graphs are captured in another order"),
            Self::Eager { advised, rebuilt } => {
                let word = |kind: &EagerKind| match kind {
                    EagerKind::Compiled => "compiled",
                    EagerKind::True => "uncompiled",
                };
                write!(f, "steps without a graph run {} instead of {}", word(rebuilt), word(advised))
            }
            Self::CompileRanges => f.write_str("the model is compiled for other ranges of sizes"),
            Self::OtherGraphs => f.write_str("other graphs of the encoder or of the replay layers"),
            Self::Sizes { unit, missing, added } => {
                let unit = match unit {
                    LadderUnit::Tokens => "tokens",
                    LadderUnit::Requests => "requests",
                };
                write!(f, "sizes in {unit}: ")?;
                let list = |sizes: &[u32]| (!sizes.is_empty()).then(|| listed(sizes.iter().map(u32::to_string)));
                halves(f, list(missing), list(added))
            }
            Self::LeftOut { option, reason } => write!(f, "{option} is left out: {reason}"),
        }
    }
}

impl fmt::Display for GraphKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} graphs for {}", self.mode, if self.decode { "decode batches" } else { "any batch" })
    }
}
