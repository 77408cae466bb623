//! Warnings that need no run: the scenario, the profile, the ladders.

use calibrate::graph_mode::Mode;
use calibrate::profile::{Expected, Profile};
use kernels::geometry::ModelGeometry;
use reports::Warning;

use super::measurement::about_measurement;
use super::memory::{about_memory, about_what_if};
use crate::engine::options::{DecodeBatch, EngineOptions, Limit, Limits};
use crate::engine::plan::GraphPlan;
use crate::engine::sglang::settings::LLAMA_2_PREFILL_MAX;
use crate::engine::shape::{RuntimeMode, StepShape};
use crate::engine::vllm::attention::ComputeCapability;
use crate::price::prefilling;
use crate::scenario::{Budget, Scenario};
use crate::server::Setup;
use crate::time::SimDuration;
use crate::traffic::{StepHistogram, TrafficKind};

/// What can be said before any step is simulated; `setups` are the scenario's candidates in order.
#[must_use]
pub fn before_run(scenario: &Scenario, profile: &Profile, setups: &[Setup]) -> Vec<Warning> {
    let mut warnings: Vec<Warning> =
        scenario.warnings.iter().map(|message| Warning::general("scenario", message)).collect();
    warnings.extend(scenario.traffic.caution.iter().map(|caution| Warning::general("traffic_caution", caution)));
    warnings.extend(about_profile(scenario, profile));
    warnings.extend(about_llama_2(scenario, profile, setups));
    warnings.extend(about_costs_left_out(scenario, profile));
    for (candidate, setup) in scenario.candidates.iter().zip(setups) {
        warnings.extend(of_plan(&candidate.name, &setup.graphs));
        warnings.extend(about_largest_batch(&candidate.name, setup));
        warnings.extend(about_what_if(&candidate.name, setup));
        warnings.extend(about_modes(&candidate.name, profile, setup));
        warnings.extend(about_memory(&candidate.name, profile, setup));
        warnings.extend(about_budget(&candidate.name, &scenario.budget, setup));
    }
    warnings
}

/// Graphs of a mode that was not captured when the profile was measured.
fn about_modes(name: &str, profile: &Profile, setup: &Setup) -> Vec<Warning> {
    let is_used = |mode| setup.graphs.capture_order().iter().any(|graph| graph.mode == mode);
    let modes = [(RuntimeMode::Full, Mode::Full), (RuntimeMode::Piecewise, Mode::Piecewise)];
    let missing = modes.into_iter().filter(|&(used, measured)| is_used(used) && !profile.is_captured(measured));
    let warning = |(mode, _): (RuntimeMode, Mode)| {
        let mode = mode.name();
        let message = format!(
            "captures {mode} graphs, and none was captured when the profile was measured: memory and seconds of their captures \
             are made of the other mode's figures, and gaps of those of empty kernels; measure the profile without --modes"
        );
        Warning::about(name, "mode_not_measured", message)
    };
    missing.map(warning).collect()
}

/// What drafts and adapters cost beyond what any profile knows.
fn about_costs_left_out(scenario: &Scenario, profile: &Profile) -> Vec<Warning> {
    let has_requests = !matches!(scenario.traffic.kind, TrafficKind::Steps(_));
    let drafts = has_requests && scenario.server.decode_tokens() > 1 && profile.attention().is_some();
    let verification = drafts.then(|| {
        let message = "attention of a request that verifies drafts is priced as that of a plain decode over the same context: \
                       its queries read the keys and values in one pass, and what their arithmetic adds is not measured";
        Warning::general("verification_as_decode", message)
    });
    let drafter = (has_requests && scenario.server.decode_tokens() > 1).then(|| {
        let time = match &scenario.server {
            EngineOptions::Vllm(_) => "",
            EngineOptions::Sglang(_) => ", and making the drafts takes no time: steps are that much too short",
        };
        let message =
            format!("weights, KV cache and graphs of a draft model are not taken from the device memory{time}");
        Warning::general("drafter_not_counted", message)
    });
    let adapters = scenario.traffic.carries_adapters().then(|| {
        let message = "adapters cost nothing here: the profile has no adapter kernels and no time to load one, and their \
                       weights are not taken from the device memory; which graph runs and what the graphs take holds all \
                       the same";
        Warning::general("adapters_not_priced", message)
    });
    verification.into_iter().chain(drafter).chain(adapters).collect()
}

/// What the engine changes in a candidate's flags, and what follows from them.
#[must_use]
pub fn of_plan(name: &str, plan: &GraphPlan) -> Vec<Warning> {
    plan.warnings().into_iter().map(|warning| Warning::about(name, warning.code, warning.message)).collect()
}

/// What is odd about a step that somebody describes: the server would not schedule it so.
#[must_use]
pub fn of_step(name: &str, step: &StepShape, limits: &Limits) -> Option<Warning> {
    let Limits { requests, step_tokens, .. } = *limits;
    let excess = if step.requests > requests.value {
        format!("{} requests, more than {} = {}", step.requests, requests.flag, requests.value)
    } else if step.tokens > step_tokens.value {
        format!("{} tokens, more than {} = {}", step.tokens, step_tokens.flag, step_tokens.value)
    } else {
        return None;
    };
    Some(Warning::about(name, "step_beyond_limits", format!("the step has {excess}: this server never schedules it")))
}

fn about_budget(name: &str, budget: &Budget, setup: &Setup) -> Vec<Warning> {
    let (memory, startup) = (setup.graph_memory.total(), SimDuration::from_s(setup.startup.total_s()));
    let memory = budget
        .graph_memory
        .filter(|budget| memory > *budget)
        .map(|budget| format!("its graphs take {memory}, more than budget.graph_memory ({budget})"));
    let startup = budget.startup.filter(|budget| startup > *budget).map(|budget| {
        format!("it starts in {:.1} s, more than budget.startup ({:.1} s)", startup.as_s(), budget.as_s())
    });
    memory.into_iter().chain(startup).map(|message| Warning::about(name, "over_budget", message)).collect()
}

fn about_profile(scenario: &Scenario, profile: &Profile) -> Vec<Warning> {
    let expected = Expected {
        engine: Some(scenario.server.engine().to_owned()),
        engine_version: Some(scenario.server.version()),
        model: scenario.model.as_ref().and_then(|model| ModelGeometry::preset(&model.name)),
        device: scenario.machine.device.clone(),
        driver: scenario.machine.driver.clone(),
        host_cpu: scenario.machine.host_cpu.clone(),
    };
    let mut warnings: Vec<Warning> = profile
        .mismatches(&expected)
        .into_iter()
        .map(|message| Warning::general("profile_mismatch", message))
        .collect();
    if let Some(model) = scenario.model.as_ref().filter(|model| ModelGeometry::preset(&model.name).is_none()) {
        warnings.push(Warning::general(
            "profile_mismatch",
            format!(
                "the scenario serves {}, whose geometry is not known here: all costs are those of {}",
                model.name, profile.identity.model_name
            ),
        ));
    }
    let (tensor, data) = scenario.server.ranks();
    let (tensor_flag, data_flag) = scenario.server.rank_flags();
    let measured_ranks = profile.tensor_parallel();
    if tensor != measured_ranks && measured_ranks > 1 {
        warnings.push(Warning::general(
            "profile_mismatch",
            format!("{tensor_flag} = {tensor}: costs, weights and KV are those of one of {measured_ranks} ranks"),
        ));
    } else if tensor != measured_ranks || data > 1 {
        warnings.push(Warning::general(
            "profile_mismatch",
            format!(
                "{tensor_flag} = {tensor}, {data_flag} = {data}: costs, weights and KV are those of the whole model on one \
                 device"
            ),
        ));
    }
    warnings.extend(about_device_memory(scenario, profile));
    warnings.extend(about_attention_support(scenario, profile));
    warnings.extend(about_measurement(profile));
    warnings
}

/// Memory that the scenario gives and the profile's may differ by this share: drivers and allocators count differently.
const MEMORY_TOLERANCE: f64 = 0.02;

fn about_device_memory(scenario: &Scenario, profile: &Profile) -> Option<Warning> {
    let measured = profile.machine.memory.figures.total;
    let given = scenario.server.device_memory()?;
    let differs = given.0.abs_diff(measured.0) as f64 > MEMORY_TOLERANCE * measured.0 as f64;
    differs.then(|| {
        let message = format!(
            "gpu_mem_mib gives the device {given}, the profile's has {measured}: memory is judged by gpu_mem_mib, costs are \
             those of the profile's device"
        );
        Warning::general("profile_mismatch", message)
    })
}

/// A scenario that was written for one card keeps its attention when another's profile takes the place of its own.
fn about_attention_support(scenario: &Scenario, profile: &Profile) -> Option<Warning> {
    let EngineOptions::Vllm(options) = &scenario.server else { return None };
    let stated = scenario.states_attention_support.then_some(options.graphs.attention_support)?;
    let device = &profile.identity.device;
    let measured = profile.measurement.as_ref().and_then(|run| run.compute_capability.as_ref());
    let capability = match measured {
        Some(capability) => capability.parse().ok()?,
        None => ComputeCapability::of_card(device)?,
    };
    let (version, of_device) = capability.default_flash_attention()?;
    (stated != of_device).then(|| {
        let message = format!(
            "attention_support = \"{stated}\" is stated, and on the profile's device ({device}) vLLM takes FlashAttention \
             {version} unless told otherwise, which is {of_device}: which steps run as FULL graphs depends on it; set what the \
             server's log says"
        );
        Warning::general("attention_support", message)
    })
}

/// The engine shortens prefill ladders by the model's path, which a scenario without `[model]` does not give.
fn about_llama_2(scenario: &Scenario, profile: &Profile, setups: &[Setup]) -> Option<Warning> {
    let model_name = profile.identity.model_name.to_ascii_lowercase();
    let unnamed = scenario.model.is_none() && model_name.contains("llama-2");
    let above = |setup: &Setup| match &setup.graphs {
        GraphPlan::Sglang(plan) => plan
            .prefill()
            .and_then(|runner| runner.sizes.last())
            .is_some_and(|&most| i64::from(most) > LLAMA_2_PREFILL_MAX),
        GraphPlan::Vllm(_) => false,
    };
    (unnamed && setups.iter().any(above)).then(|| {
        let message = format!(
            "the profile is of a Llama 2 model, for which SGLang ends prefill graphs at {LLAMA_2_PREFILL_MAX} tokens, going \
             by the model's path: name it in [model], or set llama_2 = true"
        );
        Warning::general("profile_mismatch", message)
    })
}

/// What a histogram of step shapes leaves open where graphs are captured for limited lengths.
#[must_use]
pub fn of_histogram(name: &str, histogram: &StepHistogram, setup: &Setup) -> Option<Warning> {
    let GraphPlan::Sglang(plan) = &setup.graphs else { return None };
    let runner = plan.prefill().filter(|runner| runner.asks_for_lengths())?;
    if !histogram.rows.iter().any(|row| prefilling(row, setup)) {
        return None;
    }
    let consequence = if runner.max_context_size.is_some() || runner.max_seq_len.is_some() {
        "prefill graphs that are captured for limited lengths are priced as not used"
    } else {
        "prefill graphs are priced as for prompts without a cached prefix"
    };
    let message = format!("a histogram of step shapes holds no lengths of sequences: {consequence}; use `sim run`");
    Some(Warning::about(name, "lengths_unknown", message))
}

/// A histogram of steps holds no contexts, and so no attention.
#[must_use]
pub fn attention_left_out(profile: &Profile) -> Option<Warning> {
    let costs = profile.attention().is_some_and(|attention| !attention.figures.is_free());
    costs.then(|| {
        Warning::general(
            "attention_left_out",
            "a histogram of step shapes holds no contexts: attention is left out of every step time, so savings stand \
             but levels are too low",
        )
    })
}

/// The largest decode batch should be a rung: the busiest steps are the ones that pay for a missing one.
fn about_largest_batch(name: &str, setup: &Setup) -> Option<Warning> {
    let sglang = setup.options.sglang().is_some();
    let ceiling = if sglang { setup.graphs.decode_ceiling() } else { *setup.graphs.capture_sizes().last()? };
    let largest = setup.options.largest_decode_batch();
    // Above the ceiling the plan itself warns.
    let largest_tokens = u32::try_from(largest.tokens()).ok().filter(|&tokens| tokens <= ceiling)?;
    let DecodeBatch { requests, drafts } = largest;
    let Limit { flag, value: most } = setup.options.limits().requests;
    let (what, each) = if requests == most {
        (format!("{flag} = {requests}"), "every full batch is")
    } else {
        (format!("{requests} requests with {drafts} drafts each"), "it is")
    };
    let for_decode = || setup.graphs.capture_order().iter().filter(|key| !sglang || key.uniform.is_some());
    let full_is_captured = for_decode().any(|key| key.mode == RuntimeMode::Full);
    let is_rung =
        for_decode().any(|key| key.tokens == largest_tokens && (key.mode == RuntimeMode::Full || !full_is_captured));
    let advice = if sglang {
        format!("padded; add {requests} to cuda_graph_bs_decode")
    } else {
        format!("padded or relaxed; add {largest_tokens} to cudagraph_capture_sizes")
    };
    (!is_rung).then(|| {
        Warning::about(
            name,
            "largest_batch_not_a_rung",
            format!(
                "the largest decode batch, {largest_tokens} tokens ({what}), is not a captured size: {each} {advice}"
            ),
        )
    })
}
