//! Named random streams.

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

/// The random streams of one run, told apart by name.
///
/// The state of a stream is the SplitMix64 expansion of a 64-bit FNV-1a hash over the eight little-endian bytes of the
/// seed followed by the bytes of the name. The generator and the hash are named and portable: a seed means the same
/// draws on every machine and in every later version. (Floats derived from them are pinned for x86-64 Linux, because
/// `exp` and `ln` come from the platform.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streams {
    seed: u64,
}

impl Streams {
    /// The streams of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// The stream called `name`, from its beginning.
    #[must_use]
    pub fn stream(self, name: &str) -> Xoshiro256PlusPlus {
        let mut state = self.key(name);
        let mut words = [0_u8; 32];
        for word in words.chunks_exact_mut(8) {
            word.copy_from_slice(&split_mix64(&mut state).to_le_bytes());
        }
        Xoshiro256PlusPlus::from_seed(words)
    }

    /// The hash that the stream called `name` starts from: the key of draws that are counted, not streamed.
    pub(super) fn key(self, name: &str) -> u64 {
        fnv1a64(self.seed.to_le_bytes().into_iter().chain(name.bytes()))
    }
}

/// The 64-bit FNV-1a hash.
pub(super) fn fnv1a64(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The next word of the SplitMix64 generator.
pub(super) fn split_mix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;

    fn first(seed: u64, name: &str) -> [u64; 3] {
        let mut stream = Streams::new(seed).stream(name);
        [stream.next_u64(), stream.next_u64(), stream.next_u64()]
    }

    #[test]
    fn hash_and_mixer_match_their_published_vectors() {
        assert_eq!(fnv1a64("".bytes()), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a64("a".bytes()), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a64("foobar".bytes()), 0x8594_4171_f739_67e8);
        let mut state = 1_234_567;
        assert_eq!(split_mix64(&mut state), 6_457_827_717_110_365_317);
        assert_eq!(split_mix64(&mut state), 3_203_168_211_198_807_973);
    }

    /// Computed apart from this code, by the definition of the generator.
    #[test]
    fn first_draws_of_a_seed_are_pinned() {
        assert_eq!(first(7, "arrivals"), [0xeb63_affd_ae74_3247, 0x9617_e090_fa82_97f7, 0xfdc6_0765_2826_67a9]);
        assert_eq!(first(0, "lengths"), [0x4b15_38ad_8d75_6b3d, 0x7ee0_cf70_9cb7_e90c, 0x4795_dc3d_e1e7_3b48]);
    }

    #[test]
    fn names_and_seeds_tell_streams_apart() {
        assert_eq!(first(7, "arrivals"), first(7, "arrivals"));
        assert_ne!(first(7, "arrivals"), first(7, "lengths.prompt"));
        assert_ne!(first(7, "arrivals"), first(8, "arrivals"));
    }
}
