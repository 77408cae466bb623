//! Reproducible inputs for checks and measurements: random data, for kernels run faster on zeros than on what a model
//! holds.

use crate::bf16::Bf16;

/// A stream of random numbers that its name and seed decide: SplitMix64 (Steele, Lea and Flood 2014, "Fast splittable
/// pseudorandom number generators"). The simulator's traffic has its own.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream called `name` of `seed`: one more stream elsewhere does not move it.
    pub fn named(name: &str, seed: u64) -> Self {
        // FNV-1a spreads the names; the first draw mixes the rest.
        let spread = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        Self(spread ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is at least 1; the bias of 2^-32 does not matter here.
    pub fn below(&mut self, bound: u32) -> u32 {
        (((self.bits() >> 32) * u64::from(bound)) >> 32) as u32
    }

    /// A number of the open interval -1 to 1, of variance 1/3.
    pub fn signed(&mut self) -> f64 {
        // 53 bits and a half, so that neither end is met.
        ((self.bits() >> 11) as f64 + 0.5) / (1_u64 << 52) as f64 - 1.0
    }

    /// `count` bf16 numbers between `-scale` and `scale`.
    pub fn bf16s(&mut self, count: usize, scale: f64) -> Vec<Bf16> {
        (0..count).map(|_| Bf16::from_f64(self.signed() * scale)).collect()
    }

    /// `0..count` in random order (Fisher and Yates).
    pub fn order(&mut self, count: u32) -> Vec<u32> {
        let mut order: Vec<u32> = (0..count).collect();
        for last in (1..count).rev() {
            order.swap(last as usize, self.below(last + 1) as usize);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_splitmix64() {
        // First outputs for state 0, from the reference implementation (Vigna, splitmix64.c).
        let mut random = Random(0);
        assert_eq!(random.bits(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(random.bits(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn streams_repeat_and_differ_by_name_and_seed() {
        let first = |name, seed| Random::named(name, seed).bits();
        assert_eq!(first("weights", 1), first("weights", 1));
        assert_ne!(first("weights", 1), first("weights", 2));
        assert_ne!(first("weights", 1), first("inputs", 1));
    }

    #[test]
    fn numbers_stay_in_their_range_and_spread() {
        let mut random = Random::named("range", 0);
        let draws: Vec<f64> = (0..10_000).map(|_| random.signed()).collect();
        assert!(draws.iter().all(|draw| draw.abs() < 1.0));
        let mean = draws.iter().sum::<f64>() / 10_000.0;
        let variance = draws.iter().map(|draw| draw * draw).sum::<f64>() / 10_000.0;
        assert!(mean.abs() < 0.03 && (variance - 1.0 / 3.0).abs() < 0.02, "{mean} {variance}");
        let mut seen = [0; 7];
        (0..7_000).for_each(|_| seen[random.below(7) as usize] += 1);
        assert!(seen.iter().all(|count| (850..1_150).contains(count)), "{seen:?}");
        let mut order = random.order(100);
        assert_ne!(order, (0..100).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..100).collect::<Vec<_>>());
    }
}
