//! One candidate's start as one record.

use calibrate::profile::Profile;
use reports::{CaptureReport, Name, PhaseReport, ProfileReport, StartMemory, StartupCandidate};

use super::context;
use super::step::descriptor;
use crate::cost::memory::activation_bytes;
use crate::cost::startup::{Phase, PhaseKind};
use crate::engine::options::EngineOptions;
use crate::engine::sglang::warning::Phase as GraphPhase;
use crate::engine::shape::RuntimeMode;
use crate::engine::vllm::options::CaptureOrder;
use crate::server::Setup;

/// The groups that price a start.
const USED: [&str; 5] = ["machine.memory", "machine.pool", "machine.capture", "engine.activation", "engine.startup"];

/// What a start does, phase by phase and capture by capture.
#[must_use]
pub fn startup(name: &str, setup: &Setup, profile: &Profile) -> StartupCandidate {
    StartupCandidate {
        name: name.to_owned(),
        cudagraph_mode: setup.graphs.mode_name(),
        startup_s: setup.startup.total_s(),
        phases: setup.startup.timeline().map(|(at_s, phase)| phase_report(at_s, phase, setup)).collect(),
        captures: captures(setup),
        memory: memory(setup, profile),
    }
}

/// The profile with the groups that price a start.
#[must_use]
pub fn startup_profile(profile: &Profile, name: &str, server: &EngineOptions) -> ProfileReport {
    let mut report = context::profile(profile, name, server);
    report.groups.retain(|group| USED.contains(&group.group.as_str()));
    report
}

fn phase_report(at_s: f64, phase: &Phase, setup: &Setup) -> PhaseReport {
    PhaseReport {
        phase: phase_name(phase.kind),
        at_s,
        seconds: phase.seconds,
        count: phase.count,
        detail: detail(phase, setup),
    }
}

fn phase_name(kind: PhaseKind) -> Name {
    Name::Borrowed(match kind {
        PhaseKind::MemoryProfiling => "memory_profiling",
        PhaseKind::Compilation => "compilation",
        PhaseKind::GraphSamples => "graph_samples",
        PhaseKind::KvSizing => "kv_sizing",
        PhaseKind::KernelWarmUp => "kernel_warm_up",
        PhaseKind::Capture(RuntimeMode::Full) => "capture_full",
        PhaseKind::Capture(_) => "capture_piecewise",
        PhaseKind::CaptureOf(GraphPhase::Prefill) => "capture_prefill",
        PhaseKind::CaptureOf(GraphPhase::Decode) => "capture_decode",
        PhaseKind::SamplerWarmUp => "sampler_warm_up",
    })
}

fn detail(phase: &Phase, setup: &Setup) -> String {
    let count = phase.count;
    let limits = setup.options.limits();
    let options = setup.options.vllm();
    match phase.kind {
        PhaseKind::MemoryProfiling => format!("one step of {} tokens", limits.step_tokens.value),
        PhaseKind::Compilation => {
            let cache = options.map(|options| format!(", cache {}", options.graphs.compile_cache)).unwrap_or_default();
            let ranges = setup.graphs.compiled().map_or(1, |compiled| compiled.ranges().len().max(1) as u32);
            format!("traced, then {}{cache}", ranges_and_sizes(ranges, count.saturating_sub(ranges)))
        }
        PhaseKind::GraphSamples => format!("{count} captured for the estimate of graph memory, and dropped"),
        PhaseKind::KvSizing => {
            let kv_pool = &setup.kv_pool;
            format!("{} blocks of {} tokens", kv_pool.num_gpu_blocks, kv_pool.block_size)
        }
        PhaseKind::KernelWarmUp => "tuned and run once".to_owned(),
        PhaseKind::Capture(_) => {
            let order = match options {
                Some(options) if options.graphs.what_if.capture_order == CaptureOrder::Ascending => "smallest first",
                _ => "largest first",
            };
            format!("{count}, {order}, one warm-up run before each")
        }
        PhaseKind::CaptureOf(_) => format!("{count}, largest first, two warm-up runs before each"),
        PhaseKind::SamplerWarmUp => {
            format!("one run of {} requests without a graph", limits.requests.value.min(limits.step_tokens.value))
        }
    }
}

/// What is compiled, in words.
fn ranges_and_sizes(ranges: u32, sizes: u32) -> String {
    let ranges = if ranges == 1 { "1 range of sizes".to_owned() } else { format!("{ranges} ranges of sizes") };
    match sizes {
        0 => ranges,
        1 => format!("{ranges} and 1 size of its own"),
        sizes => format!("{ranges} and {sizes} sizes of their own"),
    }
}

fn captures(setup: &Setup) -> Vec<CaptureReport> {
    let is_capture = |phase: &Phase| matches!(phase.kind, PhaseKind::Capture(_) | PhaseKind::CaptureOf(_));
    let mut at_s = setup.startup.timeline().find(|(_, phase)| is_capture(phase)).map_or(0.0, |(at_s, _)| at_s);
    let report = |capture: &crate::server::start::Capture| {
        let start_s = at_s;
        at_s += capture.seconds;
        Some(CaptureReport {
            descriptor: descriptor(&capture.descriptor)?,
            at_s: start_s,
            seconds: capture.seconds,
            pool_bytes: capture.memory.pool.0,
            executables_bytes: capture.memory.executables.0,
        })
    };
    setup.captures.iter().filter_map(report).collect()
}

fn memory(setup: &Setup, profile: &Profile) -> StartMemory {
    StartMemory {
        device_bytes: setup.device_memory(profile).0,
        weights_bytes: profile.identity.model.weights_bytes().0,
        activation_bytes: activation_bytes(profile, setup.options.limits().step_tokens.value).0,
        graph_estimate_bytes: setup.graph_reserve.estimate.map(|bytes| bytes.0),
        graph_set_aside_bytes: setup.graph_reserve.set_aside.0,
        graph_memory_bytes: setup.graph_memory.total().0,
        graph_pool_bytes: setup.graph_memory.pool.0,
        graph_executables_bytes: setup.graph_memory.executables.0,
        kv_bytes: setup.kv_pool.bytes(profile).0,
        kv_blocks: setup.kv_pool.num_gpu_blocks,
        kv_blocks_without_graphs: setup.kv_blocks.without_graphs,
        kv_blocks_less_estimate: setup.kv_blocks.less_estimate,
        kv_blocks_less_actual: setup.kv_blocks.less_actual,
    }
}

#[cfg(test)]
mod tests {
    use super::ranges_and_sizes;

    #[test]
    fn ranges_and_sizes_are_counted_in_words() {
        assert_eq!(ranges_and_sizes(1, 0), "1 range of sizes");
        assert_eq!(ranges_and_sizes(1, 1), "1 range of sizes and 1 size of its own");
        assert_eq!(ranges_and_sizes(3, 2), "3 ranges of sizes and 2 sizes of their own");
    }
}
