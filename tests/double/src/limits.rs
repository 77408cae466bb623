//! What a multiprocessor and a block of each compute capability have (CUDA programming guide, technical specifications per
//! compute capability), so that a launch that only a large GPU takes is refused on a smaller one.

/// Limits of a compute capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Shared memory of a multiprocessor, in bytes.
    pub(crate) shared_bytes: u32,
    /// Threads that a multiprocessor holds.
    pub(crate) threads: u32,
    /// Blocks that a multiprocessor holds.
    pub(crate) blocks: u32,
}

/// Shared memory that the system takes of each block.
pub(crate) const RESERVED_BYTES: u32 = 1 << 10;

impl Limits {
    /// Those of a compute capability; of one that is not known, those of 9.0.
    pub(crate) fn of(capability: (u32, u32)) -> Self {
        let (shared_kib, threads, blocks) = match capability {
            (8, 0) => (164, 2_048, 32),
            (8, 6) => (100, 1_536, 16),
            (8, 7) => (164, 1_536, 16),
            (8, 9) | (12, _) => (100, 1_536, 24),
            _ => (228, 2_048, 32),
        };
        Self { shared_bytes: shared_kib << 10, threads, blocks }
    }

    /// Shared memory that a block can have, static and dynamic together, where its function asks for it.
    pub(crate) fn block_shared_bytes(self) -> u32 {
        self.shared_bytes - RESERVED_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_what_the_programming_guide_says() {
        let kib = [(8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0)]
            .map(|capability| Limits::of(capability).block_shared_bytes() >> 10);
        assert_eq!(kib, [163, 99, 99, 227, 227, 99]);
    }
}
