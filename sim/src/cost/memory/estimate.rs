//! What vLLM's memory profiler would expect a ladder to take: its own rule over modelled samples.

use calibrate::profile::Profile;
use kernels::units::Bytes;

use super::graphs::{CaptureMemory, captures};
use crate::engine::shape::{Descriptor, RuntimeMode};
use crate::engine::vllm::memory::estimate::{ModeSamples, estimate_v1, estimate_v2, sampled};
use crate::engine::vllm::options::{CaptureOrder, Runner, WhatIf};

/// The engine's estimate (specification section 9) for graphs that it captures in `capture_order`. Encoder and drafter
/// graphs take nothing here.
///
/// Under a what-if the samples use the same kind of pool as the captures. Runner V2 samples its PIECEWISE graphs in the
/// captures' order; a pair of samples is always the two largest, larger first.
#[must_use]
pub fn estimate(profile: &Profile, runner: Runner, capture_order: &[Descriptor], what_if: WhatIf) -> Bytes {
    let mut samples = sampled(runner, capture_order);
    if runner == Runner::V2 && what_if.capture_order == CaptureOrder::Ascending {
        let piecewise = samples.iter().take_while(|key| key.mode == RuntimeMode::Piecewise).count();
        samples[..piecewise].reverse();
    }
    let taken = captures(profile, &samples, what_if.graph_pool);
    let of_mode = |mode| {
        let mut sizes = samples.iter().zip(&taken).filter(|(key, _)| key.mode == mode).map(|(_, taken)| signed(taken));
        ModeSamples {
            descriptors: capture_order.iter().filter(|key| key.mode == mode).count() as u32,
            first: sizes.next().unwrap_or(0),
            second: sizes.next().unwrap_or(0),
        }
    };
    let bytes = match runner {
        Runner::V1 => {
            let modes = [RuntimeMode::Piecewise, RuntimeMode::Full].map(of_mode);
            let captured: Vec<ModeSamples> = modes.into_iter().filter(|mode| mode.descriptors > 0).collect();
            estimate_v1(&captured, 0)
        }
        Runner::V2 => {
            let measured = taken.iter().map(signed).fold(0, i64::saturating_add);
            estimate_v2(measured, of_mode(RuntimeMode::Full))
        }
    };
    Bytes(u64::try_from(bytes).unwrap_or(0))
}

fn signed(taken: &CaptureMemory) -> i64 {
    i64::try_from(taken.total().0).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use calibrate::profile::Pool;

    use super::*;
    use crate::engine::vllm::options::GraphPool;

    const MIB: u64 = 1 << 20;

    /// 8 MiB whatever the rung, 1 MiB a row; executables of 20 and 30 MiB.
    fn profile() -> Profile {
        let mut profile = Profile::builtin("textbook").expect("built in");
        profile.machine.pool.figures = Pool {
            base: Bytes(8 * MIB),
            per_row: Bytes(MIB),
            full_executable: Bytes(20 * MIB),
            piecewise_executable: Bytes(30 * MIB),
        };
        profile
    }

    fn ladder(mode: RuntimeMode, sizes: &[u32]) -> Vec<Descriptor> {
        let key = |&tokens| Descriptor {
            mode,
            tokens,
            requests: None,
            uniform: None,
            max_query: None,
            loras: 0,
            ubatches: 1,
            prefix_chunks: None,
        };
        sizes.iter().map(key).collect()
    }

    /// PIECEWISE 16, 8, 4, 2 and FULL 8, 4, 2.
    fn order() -> Vec<Descriptor> {
        [ladder(RuntimeMode::Piecewise, &[16, 8, 4, 2]), ladder(RuntimeMode::Full, &[8, 4, 2])].concat()
    }

    fn mib(runner: Runner, order: &[Descriptor], what_if: WhatIf) -> u64 {
        estimate(&profile(), runner, order, what_if).0 / MIB
    }

    #[test]
    fn v1_loses_the_first_graph_of_the_mode_that_is_not_the_dearest() {
        // Samples: PIECEWISE 24 + 30 and 30, FULL 20 and 20: max(54, 20) + 3 * 30 + 2 * 20. Captured: 24 + 4 * 30 + 3 * 20.
        assert_eq!(mib(Runner::V1, &order(), WhatIf::default()), 184);
        let captured = super::super::GraphMemory::of(&profile(), &order());
        assert_eq!(captured.total().0 / MIB, 204);
    }

    #[test]
    fn v2_measures_piecewise_graphs_and_widens_full_ones() {
        // Measured 24 + 4 * 30 + 2 * 20 = 184, less 40, plus 20 + 2 * 20.
        assert_eq!(mib(Runner::V2, &order(), WhatIf::default()), 204);
        assert_eq!(mib(Runner::V2, &ladder(RuntimeMode::Full, &[8, 4, 2]), WhatIf::default()), 16 + 3 * 20);
        assert_eq!(mib(Runner::V2, &[], WhatIf::default()), 0);
        assert_eq!(mib(Runner::V1, &[], WhatIf::default()), 0);
    }

    #[test]
    fn free_executables_still_count_a_mebibyte_a_graph() {
        let textbook = Profile::builtin("textbook").expect("built in");
        let five = ladder(RuntimeMode::Full, &[32, 16, 8, 4, 1]);
        for runner in [Runner::V1, Runner::V2] {
            let bytes = estimate(&textbook, runner, &five, WhatIf::default());
            assert_eq!(bytes, Bytes((2 << 30) + 4 * MIB), "{runner}");
        }
    }

    #[test]
    fn samples_follow_the_what_ifs() {
        let private = WhatIf { graph_pool: GraphPool::Private, ..WhatIf::default() };
        // PIECEWISE 8 + 16 + 30 and 8 + 8 + 30, FULL 8 + 8 + 20 and 8 + 4 + 20.
        assert_eq!(mib(Runner::V1, &order(), private), 54 + 3 * 46 + 2 * 32);
        let ascending = WhatIf { capture_order: CaptureOrder::Ascending, ..WhatIf::default() };
        assert_eq!(mib(Runner::V1, &order(), ascending), 184, "the two largest, larger first");
        // V2 measures PIECEWISE ascending: 8 + 2 + 4 + 8 + 16 of pool in place of 24.
        assert_eq!(mib(Runner::V2, &order(), ascending), 204 - 24 + 38);
    }
}
