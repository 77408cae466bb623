//! The smallest rung that holds a number of tokens, by one table look-up.

/// Token counts up to here are looked up directly (256 KiB at most); above, a binary search takes over.
const DIRECT_MAX: u32 = 65_535;

/// An ascending list of sizes with its look-up table.
#[derive(Clone, Debug, Default)]
pub(super) struct RungIndex {
    sizes: Box<[u32]>,
    /// `direct[n]` is the position of the smallest size of at least `n`.
    direct: Box<[u32]>,
}

impl RungIndex {
    /// Indexes `sizes`, which must ascend.
    pub(super) fn new(sizes: Vec<u32>) -> Self {
        debug_assert!(sizes.is_sorted(), "sizes ascend");
        let mut direct = Vec::new();
        for (position, &size) in sizes.iter().enumerate() {
            direct.resize(size.min(DIRECT_MAX) as usize + 1, position as u32);
        }
        Self { sizes: sizes.into(), direct: direct.into() }
    }

    /// The position of the smallest size that holds `tokens`; `None` above the last.
    #[inline]
    pub(super) fn position(&self, tokens: u32) -> Option<usize> {
        match self.direct.get(tokens as usize) {
            Some(&position) => Some(position as usize),
            None => self.search(tokens),
        }
    }

    fn search(&self, tokens: u32) -> Option<usize> {
        self.sizes.last().filter(|&&last| last >= tokens)?;
        Some(self.sizes.partition_point(|&size| size < tokens))
    }

    /// The size at a position.
    #[inline]
    pub(super) fn size(&self, position: usize) -> u32 {
        self.sizes[position]
    }

    /// The sizes, ascending.
    pub(super) fn sizes(&self) -> &[u32] {
        &self.sizes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_and_search_agree_with_a_scan() {
        let sizes = vec![0, 1, 4, 9, 65_530, 65_540, 65_541, 70_000];
        let rungs = RungIndex::new(sizes.clone());
        for tokens in (0..40).chain(65_520..65_560).chain(69_990..70_010) {
            assert_eq!(rungs.position(tokens), sizes.iter().position(|&size| size >= tokens), "{tokens}");
        }
        assert_eq!(RungIndex::new(Vec::new()).position(0), None);
    }
}
