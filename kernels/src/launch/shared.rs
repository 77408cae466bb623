//! The dynamic shared memory that a kernel's launches ask for at most: beyond 48 KiB a driver must be told beforehand.

use super::attention::shared_bytes;
use super::kernel::Kernel;
use super::product::Tile;

impl Kernel {
    /// The most dynamic shared memory of a block that any launch of this kernel asks for.
    pub fn most_shared_bytes(self) -> u32 {
        let tile = Tile::ALL.into_iter().find(|tile| tile.kernel() == self).map_or(0, Tile::shared_bytes);
        match self {
            Self::DecodeAttention | Self::PrefillAttention => shared_bytes(128),
            _ => tile,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_kernel_asks_for_more_than_a_device_has() {
        // Compute capability 8.6 and 8.9 have the least: 99 KiB (CUDA programming guide, technical specifications).
        let most: Vec<u32> = Kernel::ALL.iter().map(|kernel| kernel.most_shared_bytes()).collect();
        assert!(most.iter().all(|&bytes| bytes <= 99 << 10), "{most:?}");
        assert_eq!(Kernel::GemmTile64.most_shared_bytes(), 65_536);
        assert_eq!(Kernel::DecodeAttention.most_shared_bytes(), 65_536);
        assert_eq!(Kernel::Null.most_shared_bytes(), 0);
    }
}
