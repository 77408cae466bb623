//! Warnings about device memory: does everything fit, and do the graphs keep to what is set aside for them?

use calibrate::profile::Profile;
use kernels::units::Bytes;
use reports::Warning;

use crate::cost::memory::{KvOrigin, activation_bytes};
use crate::engine::vllm::options::WhatIf;
use crate::server::Setup;

/// What a candidate's memory makes an operator want to know.
pub(super) fn about_memory(name: &str, profile: &Profile, setup: &Setup) -> Option<Warning> {
    let memory = DeviceMemory::of(profile, setup);
    match setup.kv_pool.origin {
        KvOrigin::Rest { requested, .. } => memory.about_captures(name, requested, setup),
        KvOrigin::Override | KvOrigin::Given { .. } => memory.about_given_pool(name),
        KvOrigin::Fraction { .. } => memory.about_slack(name),
        KvOrigin::AfterCapture => None,
    }
}

/// A candidate that the engine has no flags for.
pub(super) fn about_what_if(name: &str, setup: &Setup) -> Option<Warning> {
    let what_if = setup.options.vllm().map(|options| options.graphs.what_if).unwrap_or_default();
    (what_if != WhatIf::default()).then(|| {
        let message = "what_if: the engine has no flag for this way to capture graphs; it shows what the engine's own \
                       way saves";
        Warning::about(name, "what_if", message)
    })
}

/// What takes device memory once the server is up.
struct DeviceMemory {
    device: Bytes,
    weights: Bytes,
    activations: Bytes,
    kv_pool: Bytes,
    graphs: Bytes,
}

impl DeviceMemory {
    fn of(profile: &Profile, setup: &Setup) -> Self {
        Self {
            device: setup.device_memory(profile),
            weights: profile.identity.model.weights_bytes(),
            activations: activation_bytes(profile, setup.options.limits().step_tokens.value),
            kv_pool: setup.kv_pool.bytes(profile),
            graphs: setup.graph_memory.total(),
        }
    }

    /// Everything but the graphs.
    fn before_captures(&self) -> Bytes {
        Bytes(self.weights.0.saturating_add(self.activations.0).saturating_add(self.kv_pool.0))
    }

    /// A KV pool whose size is given is not checked by the engine's arithmetic.
    fn about_given_pool(&self, name: &str) -> Option<Warning> {
        let Self { device, weights, activations, kv_pool, graphs } = self;
        let sum = Bytes(self.before_captures().0.saturating_add(graphs.0));
        (sum > *device).then(|| {
            let message = format!(
                "weights {weights}, activations {activations}, graphs {graphs}, KV pool {kv_pool} come to {sum}, more than \
                 the {device} of the device: this server would not start; lower the KV pool that is given, or leave its \
                 size to the engine"
            );
            Warning::about(name, "memory_exceeds_device", message)
        })
    }

    /// SGLang pays graphs and activations from what weights and KV pool leave of the device.
    fn about_slack(&self, name: &str) -> Option<Warning> {
        let Self { device, weights, activations, kv_pool, graphs } = self;
        let slack = Bytes(device.0.saturating_sub(weights.0.saturating_add(kv_pool.0)));
        let needed = Bytes(graphs.0.saturating_add(activations.0));
        let advice = "lower mem_fraction_static, or cuda_graph_max_bs_decode and the number of prefill sizes";
        if needed > slack {
            let message = format!(
                "likely to run out of memory at capture: the graphs come to {graphs} and activations to {activations}, but \
                 weights {weights} and the KV pool {kv_pool} leave {slack} of the device's {device}; {advice}"
            );
            return Some(Warning::about(name, "capture_out_of_memory", message));
        }
        let left = Bytes(slack.0 - activations.0);
        (graphs.0 > left.0 / 2).then(|| {
            let message = format!(
                "little memory is left after capture: the graphs come to {graphs} and activations to {activations}, out of \
                 the {slack} that weights and KV pool leave free; {advice}"
            );
            Warning::about(name, "capture_memory_short", message)
        })
    }

    /// The engine sized the KV pool before it captured. Graphs that hold more than it set aside take it from what
    /// `gpu_memory_utilization` leaves free, `requested` being what it does not.
    fn about_captures(&self, name: &str, requested: Bytes, setup: &Setup) -> Option<Warning> {
        let Self { device, weights, activations, kv_pool, graphs } = self;
        let set_aside = setup.graph_reserve.set_aside;
        let left = Bytes(device.0.saturating_sub(self.before_captures().0));
        let beyond = Bytes(graphs.0.saturating_sub(set_aside.0));
        let free = Bytes(device.0.saturating_sub(requested.0));
        let advice = match setup.graph_reserve.estimate {
            Some(estimate) if estimate > set_aside => "set memory_profiler_estimate_cudagraphs = true",
            _ => "lower gpu_memory_utilization or capture fewer graphs",
        };
        if *graphs > left {
            let message = format!(
                "likely to run out of memory at capture: the graphs come to {graphs}, {set_aside} are set aside for them, \
                 and weights {weights}, activations {activations} and the KV pool {kv_pool} leave {left} of the device's \
                 {device}; {advice}"
            );
            return Some(Warning::about(name, "capture_out_of_memory", message));
        }
        (beyond.0 > free.0 / 2).then(|| {
            let message = format!(
                "little memory is left after capture: the graphs come to {graphs}, {set_aside} are set aside for them, and \
                 the other {beyond} come out of the {free} that gpu_memory_utilization leaves free; {advice}"
            );
            Warning::about(name, "capture_memory_short", message)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::options::EngineOptions;
    use crate::engine::vllm::options::{
        CaptureOrder, GraphOptions, GraphPool, KvOptions, Runner, SchedulerOptions, Version, VllmOptions,
    };

    fn warning(kv: KvOptions, what_if: WhatIf, executable: Bytes) -> Option<(String, String)> {
        let mut profile = Profile::builtin("a100-llama-3-8b").expect("built in");
        profile.machine.pool.figures.piecewise_executable = executable;
        let options = EngineOptions::Vllm(VllmOptions {
            version: Version::V0_33_0,
            runner: Some(Runner::V2),
            scheduler: SchedulerOptions::default(),
            kv,
            graphs: GraphOptions { what_if, ..GraphOptions::default() },
        });
        let setup = Setup::prepare(&options, &profile).expect("starts");
        about_memory("a", &profile, &setup).map(|warning| (warning.code.clone(), warning.message))
    }

    fn without_estimate(gpu_memory_utilization: f64) -> KvOptions {
        KvOptions { gpu_memory_utilization, memory_profiler_estimate_cudagraphs: false, ..KvOptions::default() }
    }

    #[test]
    fn graphs_that_were_set_aside_are_no_surprise() {
        for gpu_memory_utilization in [0.5, 0.92, 1.0] {
            let kv = KvOptions { gpu_memory_utilization, ..KvOptions::default() };
            assert_eq!(warning(kv, WhatIf::default(), Bytes(24 << 20)), None, "{gpu_memory_utilization}");
        }
    }

    /// About 2.1 GiB of graphs on 79.2 GiB: 6.3 GiB are free at 0.92, 3.2 GiB at 0.96 and 1.6 GiB at 0.98.
    #[test]
    fn without_the_estimate_the_margin_has_to_do() {
        assert_eq!(warning(without_estimate(0.92), WhatIf::default(), Bytes(24 << 20)), None);
        let (code, message) = warning(without_estimate(0.96), WhatIf::default(), Bytes(24 << 20)).expect("short");
        assert_eq!(code, "capture_memory_short");
        assert!(message.contains("0 B are set aside") && message.contains("3.17 GiB that gpu_memory"), "{message}");
        let (code, message) = warning(without_estimate(0.98), WhatIf::default(), Bytes(24 << 20)).expect("too little");
        assert_eq!(code, "capture_out_of_memory");
        assert!(message.ends_with("set memory_profiler_estimate_cudagraphs = true"), "{message}");
    }

    /// A ladder of FULL graphs only is estimated from its two largest, so nobody measures what ascending order costs.
    #[test]
    fn ascending_captures_outgrow_the_estimate() {
        let mut profile = Profile::builtin("a100-llama-3-8b").expect("built in");
        profile.machine.pool.figures.per_row = Bytes(2 << 20);
        let graphs = GraphOptions {
            cudagraph_mode: Some(crate::engine::vllm::options::CudagraphMode::FullDecodeOnly),
            what_if: WhatIf { capture_order: CaptureOrder::Ascending, graph_pool: GraphPool::Shared },
            ..GraphOptions::default()
        };
        let options = EngineOptions::Vllm(VllmOptions {
            version: Version::V0_33_0,
            runner: Some(Runner::V2),
            scheduler: SchedulerOptions::default(),
            kv: KvOptions::default(),
            graphs,
        });
        let setup = Setup::prepare(&options, &profile).expect("starts");
        let warning = about_memory("a", &profile, &setup).expect("more than was set aside");
        assert_eq!(warning.code, "capture_out_of_memory");
        assert!(warning.message.ends_with("lower gpu_memory_utilization or capture fewer graphs"), "{warning:?}");
        assert!(about_what_if("a", &setup).is_some());
    }
}
