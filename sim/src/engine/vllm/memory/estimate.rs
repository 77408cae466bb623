//! The engine's own estimate of graph memory, made from sampled captures before the KV pool is sized (specification
//! section 9). The rules alone: what a sample takes is measured by the engine and modelled in `cost/memory`.

use crate::engine::shape::{Descriptor, RuntimeMode};
use crate::engine::vllm::options::Runner;

/// What a further graph of a mode is taken to need at least, in bytes.
const PER_GRAPH_MIN: i64 = 1 << 20;

/// By how much the samples of one mode lowered the free device memory, in bytes; negative where it rose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModeSamples {
    /// Descriptors that the mode has in all.
    pub descriptors: u32,
    /// The largest descriptor.
    pub first: i64,
    /// The second largest; 0 where there is none.
    pub second: i64,
}

impl ModeSamples {
    /// What all descriptors after the largest are taken to need.
    fn rest(self) -> i64 {
        i64::from(self.descriptors.saturating_sub(1)).saturating_mul(self.second.max(PER_GRAPH_MIN))
    }
}

/// Runner V1: the dearest first sample of all modes, and for every further graph what the second sample of its mode took.
/// `modes` are those that capture anything; `encoder` is what encoder graphs take. Bytes.
#[must_use]
pub fn estimate_v1(modes: &[ModeSamples], encoder: i64) -> i64 {
    let first = modes.iter().map(|mode| mode.first).max().unwrap_or(0);
    modes.iter().fold(first.saturating_add(encoder), |sum, mode| sum.saturating_add(mode.rest()))
}

/// Runner V2: `measured` bytes of everything sampled, with the FULL samples in it widened to all FULL descriptors; not
/// below zero.
#[must_use]
pub fn estimate_v2(measured: i64, full: ModeSamples) -> i64 {
    let samples = full.first.saturating_add(full.second);
    measured.saturating_sub(samples).saturating_add(full.first).saturating_add(full.rest()).max(0)
}

/// What the engine captures as samples: runner V1 the two largest descriptors of each mode, runner V2 every PIECEWISE one
/// and the two largest FULL ones. `capture_order` is the engine's own: PIECEWISE, then FULL, each largest first.
#[must_use]
pub fn sampled(runner: Runner, capture_order: &[Descriptor]) -> Vec<Descriptor> {
    let of_mode = |mode| capture_order.iter().filter(move |key| key.mode == mode).copied();
    let piecewise_max = match runner {
        Runner::V1 => 2,
        Runner::V2 => usize::MAX,
    };
    of_mode(RuntimeMode::Piecewise).take(piecewise_max).chain(of_mode(RuntimeMode::Full).take(2)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: i64 = 1 << 20;

    fn samples(descriptors: u32, first_mib: i64, second_mib: i64) -> ModeSamples {
        ModeSamples { descriptors, first: first_mib * MIB, second: second_mib * MIB }
    }

    #[test]
    fn v1_takes_the_dearest_first_sample_and_widens_each_second_one() {
        // max(120, 30) + 24 * 50 + 26 * 34 = 120 + 1200 + 884
        assert_eq!(estimate_v1(&[samples(51, 120, 24), samples(35, 30, 26)], 0), 2204 * MIB);
        assert_eq!(estimate_v1(&[samples(51, 120, 24), samples(35, 30, 26)], 100 * MIB), 2304 * MIB);
        // A second sample of nothing, or one that gave memory back, still counts 1 MiB a graph.
        assert_eq!(estimate_v1(&[samples(5, 64, 0)], 0), 68 * MIB);
        assert_eq!(estimate_v1(&[samples(5, 64, -3)], 0), 68 * MIB);
        // One descriptor: nothing to widen. No descriptor: nothing at all.
        assert_eq!(estimate_v1(&[samples(1, 64, 0)], 0), 64 * MIB);
        assert_eq!(estimate_v1(&[], 0), 0);
    }

    #[test]
    fn v2_widens_the_full_samples_only() {
        // 1400 - (30 + 26) + 30 + 34 * 26 = 1344 + 30 + 884
        assert_eq!(estimate_v2(1400 * MIB, samples(35, 30, 26)), 2258 * MIB);
        // 90 - (64 + 0) + 64 + 4 * 1
        assert_eq!(estimate_v2(90 * MIB, samples(5, 64, 0)), 94 * MIB);
        assert_eq!(estimate_v2(90 * MIB, samples(1, 64, 0)), 90 * MIB, "one FULL graph is measured as it is");
        assert_eq!(estimate_v2(90 * MIB, ModeSamples::default()), 90 * MIB, "no FULL graph");
        assert_eq!(estimate_v2(-200 * MIB, samples(2, 10, 10)), 0, "not below zero");
    }

    #[test]
    fn v1_samples_two_of_each_mode_and_v2_every_piecewise_one() {
        let key = |mode, tokens| Descriptor {
            mode,
            tokens,
            requests: None,
            uniform: None,
            max_query: None,
            loras: 0,
            ubatches: 1,
            prefix_chunks: None,
        };
        let piecewise = [8, 4, 2, 1].map(|tokens| key(RuntimeMode::Piecewise, tokens));
        let full = [4, 2, 1].map(|tokens| key(RuntimeMode::Full, tokens));
        let order = [&piecewise[..], &full[..]].concat();
        assert_eq!(sampled(Runner::V1, &order), [piecewise[0], piecewise[1], full[0], full[1]]);
        assert_eq!(sampled(Runner::V2, &order), [&piecewise[..], &full[..2]].concat());
        assert_eq!(sampled(Runner::V1, &full[..1]), full[..1]);
        assert_eq!(sampled(Runner::V2, &[]), []);
    }
}
