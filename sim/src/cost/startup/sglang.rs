//! SGLang's start-up (SGLang specification section 4).
//!
//! The KV pool is sized from the share of the device that the engine takes, without a profiling run and without
//! compilation. Then prefill graphs are captured, then decode graphs, each largest first, and only where the flags ask
//! for it is the pool sized once more from what they leave.

use calibrate::profile::Profile;

use super::{Phase, PhaseKind, Startup, capture_s};
use crate::engine::sglang::memory::is_sized_after_capture;
use crate::engine::sglang::options::SglangOptions;
use crate::engine::sglang::plan::GraphPlan;
use crate::engine::sglang::warning;
use crate::engine::shape::Descriptor;

/// The start-up of an SGLang server with the graphs of `plan`. The seconds of a capture are the profile's, whatever its
/// number of warm-up runs; the engine makes two before each recorded one.
#[must_use]
pub fn sglang(profile: &Profile, options: &SglangOptions, plan: &GraphPlan) -> Startup {
    let kv_sizing = Phase { kind: PhaseKind::KvSizing, count: 1, seconds: 0.0 };
    let mut phases = vec![kv_sizing];
    let mut earlier: Vec<Descriptor> = Vec::new();
    for phase in [warning::Phase::Prefill, warning::Phase::Decode] {
        let of_phase: Vec<Descriptor> =
            plan.capture_order().iter().filter(|graph| warning::Phase::of(graph) == phase).copied().collect();
        if !of_phase.is_empty() {
            let count = of_phase.len() as u32;
            let before_s = capture_s(profile, &earlier);
            earlier.extend(of_phase);
            let seconds = capture_s(profile, &earlier) - before_s;
            phases.push(Phase { kind: PhaseKind::CaptureOf(phase), count, seconds });
        }
    }
    if is_sized_after_capture(options) {
        phases.push(kv_sizing);
    }
    Startup { phases }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::sglang::options::GraphBackend;

    #[test]
    fn prefill_graphs_come_first_and_the_pool_before_both() {
        let mut profile = Profile::builtin("textbook").expect("built in");
        let capture = &mut profile.machine.capture.figures;
        (capture.piecewise_s, capture.full_s, capture.first_extra_s) = (0.125, 0.0625, 2.0);
        let mut options = SglangOptions::default();
        options.graphs.cuda_graph_bs_prefill = Some(vec![64, 128]);
        options.graphs.cuda_graph_bs_decode = Some(vec![1, 2, 4]);
        let phases = |options: &SglangOptions| -> Vec<(PhaseKind, u32, f64)> {
            let plan = GraphPlan::build(options, 2048).expect("starts");
            let startup = sglang(&profile, options, &plan);
            startup.phases.iter().map(|phase| (phase.kind, phase.count, phase.seconds)).collect()
        };
        let prefill = PhaseKind::CaptureOf(warning::Phase::Prefill);
        let decode = PhaseKind::CaptureOf(warning::Phase::Decode);
        assert_eq!(phases(&options), [(PhaseKind::KvSizing, 1, 0.0), (prefill, 2, 2.25), (decode, 3, 0.1875)]);
        options.graphs.cuda_graph_backend_decode = Some(GraphBackend::Breakable);
        options.graphs.disable_prefill_cuda_graph = true;
        options.kv.post_capture_kv_sizing = true;
        let resized = [(PhaseKind::KvSizing, 1, 0.0), (decode, 3, 2.375), (PhaseKind::KvSizing, 1, 0.0)];
        assert_eq!(phases(&options), resized);
    }
}
