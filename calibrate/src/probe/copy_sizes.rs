//! How large the copies are by which memory is measured, and what they take: known before anything is allocated.

/// Sizes of the copies whose bandwidth is measured, as multiples of the cache.
const TIMES: [u64; 4] = [2, 4, 8, 16];
/// As many as a slope needs.
const LEAST: usize = 2;
/// A cache for devices that do not say how large theirs is.
const CACHE_BYTES_LEAST: u64 = 32 << 20;
/// Sizes are multiples of this.
pub(super) const GRANULE_BYTES: u64 = 1 << 20;
/// What is left to the driver beside the smallest copies.
const LEFT_BYTES: u64 = 64 << 20;
/// Bytes that the copy of a pace reads and writes, at least: of fewer, events would resolve too little.
const PACE_BYTES_LEAST: u64 = 64 << 20;

/// Sizes of the copies in rising order, beside so much free memory. The larger ones leave half of it alone: where memory is
/// short, smaller copies still are beyond the cache. `None` where a slope's least do not fit.
#[cfg(any(feature = "gpu", test))]
pub(super) fn measured(cache_bytes: u64, free_bytes: u64) -> Option<Vec<u64>> {
    let sizes = TIMES.map(|times| times * cache(cache_bytes));
    let fits = |(rank, bytes): (usize, &u64)| rank < LEAST || 4 * bytes <= free_bytes;
    let sizes: Vec<u64> = sizes.iter().enumerate().filter(|&size| fits(size)).map(|(_, bytes)| *bytes).collect();
    (free_bytes >= least_bytes(cache_bytes)).then_some(sizes)
}

/// Free memory without which no bandwidth can be measured: two buffers of the least sizes.
pub(crate) fn least_bytes(cache_bytes: u64) -> u64 {
    2 * TIMES[LEAST - 1] * cache(cache_bytes) + LEFT_BYTES
}

/// Memory of the copy by which a pace is taken, both of its halves: it is held for a whole run.
pub(crate) fn pace_bytes(cache_bytes: u64) -> u64 {
    (2 * cache_bytes).max(PACE_BYTES_LEAST)
}

fn cache(bytes: u64) -> u64 {
    bytes.max(CACHE_BYTES_LEAST).next_multiple_of(GRANULE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_smaller_where_memory_is_short() {
        const MIB: u64 = 1 << 20;
        let of = |free_mib: u64| {
            measured(60 * MIB, free_mib * MIB).map(|sizes| sizes.iter().map(|bytes| bytes / MIB).collect::<Vec<_>>())
        };
        assert_eq!(of(100_000), Some(vec![120, 240, 480, 960]));
        assert_eq!(of(3_839), Some(vec![120, 240, 480]));
        assert_eq!(of(544), Some(vec![120, 240]));
        assert_eq!((of(543), least_bytes(60 * MIB)), (None, 544 * MIB));
        assert_eq!(measured(0, 1 << 40), Some([64, 128, 256, 512].map(|mib| mib * MIB).to_vec()));
        assert_eq!((pace_bytes(0), pace_bytes(60 * MIB)), (64 * MIB, 120 * MIB));
    }
}
