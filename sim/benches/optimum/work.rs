//! Problems of full size: a staircase with dips, steps of every size.

use kernels::units::Bytes;
use sim::optimum::{Batch, Candidate, Captures, Policy, Problem, Resources, StepLoad, Terms};
use sim::time::SimDuration;

/// How host and device time come together.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    /// One after the other.
    Additive,
    /// Side by side.
    Pipelined,
}

/// Numbers that look random and are the same on every run.
struct Scatter(u64);

impl Scatter {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// Device time of `rows` rows, in nanoseconds: a slope, a tile edge every 64 rows, and behind every fourth edge a dip.
fn dense_ns(rows: u32) -> u64 {
    let (rows, tiles) = (u64::from(rows), u64::from(rows.div_ceil(64)));
    let dip = if tiles.is_multiple_of(4) { 150_000 } else { 0 };
    4_000_000 + tiles * 90_000 + rows * 300 - dip
}

/// One ladder over `sizes` sizes for FULL and PIECEWISE graphs together, FULL ones up to `low_max`.
pub(crate) fn problem(sizes: u32, low_max: u32, policy: Policy, clock: Clock) -> Problem {
    let mut scatter = Scatter(7);
    let terms = |host_ns: u64, device_ns: u64| match clock {
        Clock::Additive => Terms::sum(SimDuration(host_ns + device_ns)),
        Clock::Pipelined => Terms { host: SimDuration(host_ns), device: SimDuration(device_ns) },
    };
    let candidate = |size| {
        let piecewise = terms(2_500_000, dense_ns(size));
        Candidate {
            size,
            decode: if size <= low_max { terms(200_000, dense_ns(size)) } else { piecewise },
            other: piecewise,
            pool: Bytes(100_000_000 + 60_000 * u64::from(size)),
            required: false,
        }
    };
    let mut load = |size| {
        let own = terms(100_000, 20_000 + scatter.below(400_000));
        let eager = own.host.0 + own.device.0 + 6_000_000 + dense_ns(size);
        let batch = if size <= low_max && scatter.below(2) == 0 { Batch::Decode } else { Batch::Other };
        StepLoad { size, batch, count: 1 + scatter.below(1000), own, eager: SimDuration(eager) }
    };
    let each = |descriptors| Resources {
        descriptors,
        executables: Bytes(u64::from(descriptors) * 12_000_000),
        startup: SimDuration(u64::from(descriptors) * 300_000_000),
    };
    let captures = Captures { low_max, low: each(2), high: each(1), first_extra: SimDuration(0) };
    let loads = (1..=sizes).map(&mut load).collect();
    Problem::new((1..=sizes).map(candidate).collect(), loads, policy, captures).expect("valid")
}
