//! One step explained.

use calibrate::profile::Overlap;
use kernels::units::{Requests, Rows};
use reports::{Alternative, Choice, Name, RuleCheck, StepShapeReport};

use super::step::{artifact, cost_terms, descriptor, mode, prefills};
use crate::cost::{CostModel, Execution, StepCost, StepWork};
use crate::engine::plan::GraphPlan;
use crate::engine::shape::{Descriptor, Dispatch, RuntimeMode, StepShape};
use crate::engine::step::{Chunk, StepExtent};

/// One step to be explained: what the dispatcher sees and what the cost formulas see.
#[derive(Clone, Debug)]
pub struct ExplainedStep {
    /// As the dispatcher sees it.
    pub shape: StepShape,
    /// As the cost formulas see it.
    pub work: StepWork,
    /// Its prefills.
    pub chunks: Vec<Chunk>,
    /// What it ran, if it is a step of a run; data-parallel ranks agreed on that.
    pub ran: Option<Dispatch>,
    /// How far its requests reach.
    pub extent: StepExtent,
}

/// How steps are priced, and whether scheduling is asynchronous; `None` where nothing is priced.
pub type Pricing<'a> = Option<(&'a CostModel, bool)>;

/// The shape of the step.
#[must_use]
pub fn shape(step: &ExplainedStep) -> StepShapeReport {
    StepShapeReport {
        requests: step.shape.requests,
        tokens: step.shape.tokens,
        max_query: step.shape.max_query,
        uniform: step.shape.uniform_v2,
        active_loras: step.shape.active_loras,
        prefills: prefills(&step.chunks),
        decode_requests: step.work.decode_requests,
        decode_context: step.work.decode_context_tokens,
    }
}

/// The dispatcher's guards in the order in which they were evaluated.
#[must_use]
pub fn rules(plan: &GraphPlan, step: &ExplainedStep) -> Vec<RuleCheck> {
    plan.explain(&step.shape, step.extent)
        .into_iter()
        .map(|guard| RuleCheck {
            rule: guard.rule.to_owned(),
            outcome: guard.outcome.to_owned(),
            detail: guard.compared,
        })
        .collect()
}

/// What the other data-parallel ranks changed in a step: the rule that comes after the rank's own; `None` if they left
/// its choice alone.
#[must_use]
pub fn agreement(own: &Dispatch, ran: &Dispatch) -> Option<RuleCheck> {
    let named = |dispatch: &Dispatch| match dispatch.descriptor.mode {
        RuntimeMode::None => "no graph".to_owned(),
        graph => format!("{graph} {}", dispatch.descriptor.tokens),
    };
    (own.descriptor != ran.descriptor).then(|| RuleCheck {
        rule: "other_ranks".to_owned(),
        outcome: if ran.descriptor.mode == RuntimeMode::None { "no graph" } else { "taken" }.to_owned(),
        detail: format!("this rank alone would run {}; all ranks agreed on {}", named(own), named(ran)),
    })
}

/// The rows that the compiled version of the model which ran is made for, where there are several.
#[must_use]
pub fn compiled_for(plan: &GraphPlan, dispatch: &Dispatch) -> Option<[u32; 2]> {
    let compiled = plan.compiled().filter(|compiled| compiled.compilations() > 1)?;
    compiled.of_rows(dispatch.descriptor.tokens).map(|range| [range.first, range.last])
}

/// What ran.
#[must_use]
pub fn choice(step: &ExplainedStep, dispatch: &Dispatch, eager: Execution, pricing: Pricing<'_>) -> Choice {
    Choice {
        mode: mode(dispatch.descriptor.mode),
        descriptor: descriptor(&dispatch.descriptor),
        artifact: artifact(&dispatch.descriptor, eager).into_owned(),
        fallback: dispatch.cause.map(|cause| cause.to_string().into()),
        relaxed: dispatch.relaxed,
        real_rows: step.shape.tokens,
        padded_rows: dispatch.padded_rows(&step.shape),
        cost: pricing
            .map(|(cost, asynchronous)| cost_terms(&cost.price(&step.work, dispatch), cost.overlap, asynchronous)),
    }
}

/// What else could have run: the rungs beside the one that ran, and the eager kinds that the engine has.
#[must_use]
pub fn alternatives(
    plan: &GraphPlan,
    step: &ExplainedStep,
    dispatch: &Dispatch,
    pricing: Pricing<'_>,
) -> Vec<Alternative> {
    let chosen_ns =
        pricing.map(|(cost, asynchronous)| cost.price(&step.work, dispatch).period(cost.overlap, asynchronous).0);
    let neighbours = plan.neighbours(&step.shape, step.extent);
    let rung = |name: &'static str, key: Descriptor| {
        let as_if = Dispatch { descriptor: key, cause: None, relaxed: false };
        let missing = step.shape.tokens.saturating_sub(key.tokens);
        let note = (missing > 0).then(|| {
            let unit = if missing == 1 { "token" } else { "tokens" };
            let price = if pricing.is_some() { ": the price is that of its rows only" } else { "" };
            format!("{missing} {unit} too small for the step{price}")
        });
        let price = pricing.map(|(cost, asynchronous)| Priced {
            cost: cost.price(&step.work, &as_if),
            overlap: cost.overlap,
            asynchronous,
        });
        alternative(name.into(), key.mode, key.tokens, step, note, price, chosen_ns)
    };
    let eager = |execution: Execution| {
        let price = pricing.map(|(cost, asynchronous)| Priced {
            cost: cost.price_as(&step.work, execution, Rows(step.shape.tokens), Requests(0)),
            overlap: cost.overlap,
            asynchronous,
        });
        let name = execution.to_string().into();
        alternative(name, RuntimeMode::None, step.shape.tokens, step, None, price, chosen_ns)
    };
    let rungs = [("one rung lower", neighbours.lower), ("one rung higher", neighbours.higher)];
    rungs
        .into_iter()
        .filter_map(|(name, key)| key.map(|key| rung(name, key)))
        .chain(plan.compiled().map(|_| eager(Execution::CompiledEager)))
        .chain([eager(Execution::Eager)])
        .collect()
}

struct Priced {
    cost: StepCost,
    overlap: Overlap,
    asynchronous: bool,
}

fn alternative(
    name: Name,
    run_mode: RuntimeMode,
    rows: u32,
    step: &ExplainedStep,
    note: Option<String>,
    price: Option<Priced>,
    chosen_ns: Option<u64>,
) -> Alternative {
    let cost = price.map(|price| cost_terms(&price.cost, price.overlap, price.asynchronous));
    let padded_rows = i64::from(rows) - i64::from(step.shape.tokens);
    Alternative {
        name,
        mode: mode(run_mode),
        rows,
        padded_rows,
        note,
        difference_ns: cost
            .as_ref()
            .zip(chosen_ns)
            .filter(|_| padded_rows >= 0)
            .map(|(cost, chosen_ns)| cost.step_ns.cast_signed() - chosen_ns.cast_signed()),
        cost,
    }
}

/// A remark on a graph whose executables others share: its price is that of the same graph run again.
#[must_use]
pub fn about_updates(plan: &GraphPlan, cost: &CostModel, dispatch: &Dispatch) -> Option<String> {
    let mut shared = plan.shared_graphs(cost.pieces)?;
    let mut switches = |graph: &Descriptor| shared.replay(graph);
    switches(&dispatch.descriptor);
    let other = plan
        .capture_order()
        .iter()
        .find(|graph| {
            let alike = graph.mode == dispatch.descriptor.mode && graph.uniform == dispatch.descriptor.uniform;
            alike && **graph != dispatch.descriptor
        })
        .filter(|_| dispatch.descriptor.mode != RuntimeMode::None)?;
    let updates = switches(other);
    let update = cost.updates(updates);
    (updates > 0).then(|| {
        format!(
            "updates: none, as the same graph ran before; after another size of its phase {updates} executables are \
             updated first, {:.3} ms",
            update.as_ms()
        )
    })
}

/// Remarks on where a price came from.
#[must_use]
pub fn flags(cost: &StepCost) -> Vec<String> {
    let outside = cost
        .outside
        .iter()
        .map(|group| format!("{}: read outside the range of the profile, the figure is extrapolated", group.name()));
    let derived = cost.derived.iter().map(|group| format!("{}: a derived figure", group.name()));
    let mixed = cost
        .mixed_as_sum
        .then(|| "attention: no table of mixed steps in the profile, prefill and decode were added".to_owned());
    outside.chain(derived).chain(mixed).collect()
}
