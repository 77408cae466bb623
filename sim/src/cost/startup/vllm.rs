//! vLLM's start-up.
//!
//! The KV pool is sized first, from a profiling run of the largest step. That run is the model's first, so it also traces
//! and compiles the model (start-up logs show the compilation before the KV cache's size), and the sampled graphs follow
//! it. Only then come the kernels' warm-up, the captures and the sampler's warm-up.

use calibrate::profile::Profile;

use super::{Phase, PhaseKind, Startup, capture_s};
use crate::engine::shape::{Descriptor, EagerKind, RuntimeMode};
use crate::engine::vllm::memory::estimate::sampled;
use crate::engine::vllm::options::{CompileCache, VllmOptions};
use crate::engine::vllm::plan::GraphPlan;

/// The start-up of a vLLM server with the graphs of `plan`.
#[must_use]
pub fn vllm(profile: &Profile, options: &VllmOptions, plan: &GraphPlan) -> Startup {
    let figures = &profile.engine.startup.figures;
    let captures = plan.capture_order();
    let mut phases = vec![Phase { kind: PhaseKind::MemoryProfiling, count: 1, seconds: figures.memory_profiling_s }];
    if plan.eager_kind() == EagerKind::Compiled {
        // Other compilers than vLLM's own know neither ranges nor single sizes.
        let count = plan.compiled().compilations().max(1);
        let each_s = match options.graphs.compile_cache {
            CompileCache::Cold => figures.compile_cold_s,
            CompileCache::Warm => figures.compile_warm_s,
        };
        let seconds = figures.trace_s + f64::from(count) * each_s;
        phases.push(Phase { kind: PhaseKind::Compilation, count, seconds });
    }
    // A KV pool given in bytes needs no profile of the graphs.
    let samples = if options.kv.kv_cache_memory_bytes.is_none() { sampled(plan.runner(), captures).len() } else { 0 };
    if samples > 0 {
        let seconds = samples as f64 * figures.graph_sample_s;
        phases.push(Phase { kind: PhaseKind::GraphSamples, count: samples as u32, seconds });
    }
    phases.push(Phase { kind: PhaseKind::KvSizing, count: 1, seconds: 0.0 });
    if !options.graphs.enforce_eager {
        phases.push(Phase { kind: PhaseKind::KernelWarmUp, count: 1, seconds: figures.kernel_warm_up_s });
    }
    let mut earlier: Vec<Descriptor> = Vec::new();
    for mode in [RuntimeMode::Piecewise, RuntimeMode::Full] {
        let of_mode: Vec<Descriptor> = captures.iter().filter(|key| key.mode == mode).copied().collect();
        if !of_mode.is_empty() {
            let count = of_mode.len() as u32;
            let before_s = capture_s(profile, &earlier);
            earlier.extend(of_mode);
            phases.push(Phase {
                kind: PhaseKind::Capture(mode),
                count,
                seconds: capture_s(profile, &earlier) - before_s,
            });
        }
    }
    phases.push(Phase { kind: PhaseKind::SamplerWarmUp, count: 1, seconds: figures.sampler_warm_up_s });
    Startup { phases }
}

#[cfg(test)]
mod tests {
    use kernels::units::Bytes;

    use super::super::StartupPart;
    use super::*;
    use crate::engine::vllm::options::{
        CompilationMode, CompileSize, CudagraphMode, GraphOptions, KvOptions, Runner, SchedulerOptions, Version,
    };

    fn profile() -> Profile {
        let mut profile = Profile::builtin("textbook").expect("built in");
        let figures = &mut profile.engine.startup.figures;
        (figures.trace_s, figures.compile_cold_s, figures.compile_warm_s) = (5.0, 16.0, 4.0);
        (figures.memory_profiling_s, figures.graph_sample_s) = (3.0, 0.5);
        (figures.kernel_warm_up_s, figures.sampler_warm_up_s) = (1.0, 0.25);
        let capture = &mut profile.machine.capture.figures;
        (capture.piecewise_s, capture.full_s, capture.first_extra_s) = (0.125, 0.0625, 2.0);
        profile
    }

    /// Four sizes, PIECEWISE and FULL.
    fn options(runner: Runner) -> VllmOptions {
        VllmOptions {
            version: Version::V0_33_0,
            runner: Some(runner),
            scheduler: SchedulerOptions::default(),
            kv: KvOptions::default(),
            graphs: GraphOptions { cudagraph_capture_sizes: Some(vec![1, 2, 4, 8]), ..GraphOptions::default() },
        }
    }

    fn phases(options: &VllmOptions) -> Vec<(PhaseKind, u32, f64)> {
        let plan = GraphPlan::build(options).expect("starts");
        let startup = vllm(&profile(), options, &plan);
        startup.phases.iter().map(|phase| (phase.kind, phase.count, phase.seconds)).collect()
    }

    #[test]
    fn v2_starts_in_this_order() {
        assert_eq!(
            phases(&options(Runner::V2)),
            [
                (PhaseKind::MemoryProfiling, 1, 3.0),
                (PhaseKind::Compilation, 1, 21.0),
                (PhaseKind::GraphSamples, 6, 3.0),
                (PhaseKind::KvSizing, 1, 0.0),
                (PhaseKind::KernelWarmUp, 1, 1.0),
                (PhaseKind::Capture(RuntimeMode::Piecewise), 4, 2.5),
                (PhaseKind::Capture(RuntimeMode::Full), 4, 0.25),
                (PhaseKind::SamplerWarmUp, 1, 0.25),
            ]
        );
    }

    #[test]
    fn v1_samples_two_graphs_of_each_mode() {
        let samples = phases(&options(Runner::V1)).into_iter().find(|phase| phase.0 == PhaseKind::GraphSamples);
        assert_eq!(samples, Some((PhaseKind::GraphSamples, 4, 2.0)));
    }

    #[test]
    fn a_given_kv_pool_needs_no_samples() {
        let mut options = options(Runner::V2);
        options.kv.kv_cache_memory_bytes = Some(Bytes(1 << 30));
        assert!(phases(&options).iter().all(|phase| phase.0 != PhaseKind::GraphSamples));
    }

    #[test]
    fn every_size_compiled_for_itself_is_compiled_once_more() {
        let compilation = |options: &VllmOptions| {
            let plan = GraphPlan::build(options).expect("starts");
            vllm(&profile(), options, &plan).part_s(StartupPart::Compilation)
        };
        let mut options = options(Runner::V2);
        options.graphs.compile_sizes = vec![
            CompileSize::Tokens(64),
            CompileSize::Tokens(4),
            CompileSize::Word("cudagraph_capture_sizes".to_owned()),
        ];
        assert!((compilation(&options) - (5.0 + 6.0 * 16.0)).abs() < 1e-12, "a range, 64 and the ladder, 4 only once");
        options.graphs.compile_ranges_endpoints = vec![256];
        assert!((compilation(&options) - (5.0 + 7.0 * 16.0)).abs() < 1e-12, "two ranges");
        options.graphs.compile_ranges_endpoints = vec![];
        options.graphs.compile_cache = CompileCache::Warm;
        assert!((compilation(&options) - (5.0 + 6.0 * 4.0)).abs() < 1e-12);
        options.graphs.compilation_mode = Some(CompilationMode::DynamoTraceOnce);
        assert!((compilation(&options) - (5.0 + 4.0)).abs() < 1e-12, "only vLLM's own backend compiles sizes");
        options.graphs.compilation_mode = Some(CompilationMode::None);
        assert!(compilation(&options).abs() < f64::EPSILON);
    }

    #[test]
    fn an_eager_server_neither_compiles_nor_warms_up_kernels() {
        let mut eager = options(Runner::V2);
        eager.graphs.enforce_eager = true;
        let kept = [(PhaseKind::MemoryProfiling, 1, 3.0), (PhaseKind::KvSizing, 1, 0.0)];
        assert_eq!(phases(&eager), [&kept[..], &[(PhaseKind::SamplerWarmUp, 1, 0.25)]].concat());
        let mut without_graphs = options(Runner::V2);
        without_graphs.graphs.cudagraph_mode = Some(CudagraphMode::None);
        let kinds: Vec<PhaseKind> = phases(&without_graphs).into_iter().map(|phase| phase.0).collect();
        assert!(kinds.contains(&PhaseKind::Compilation) && kinds.contains(&PhaseKind::KernelWarmUp));
        assert!(!kinds.contains(&PhaseKind::GraphSamples));
    }
}
