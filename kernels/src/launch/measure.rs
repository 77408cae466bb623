//! Geometry of the measuring kernels.

use super::Launch;
use super::kernel::{Clocks, Copy, Gate, Kernel, Null};
use super::shape::{ShapeError, launch};

/// Threads of a copying block.
const COPY_THREADS: u32 = 256;
/// Alignment of 64-bit words.
const LONG_BYTES: u64 = 8;

impl Null {
    /// The launch that does nothing.
    ///
    /// # Errors
    /// None; the same form as all others.
    pub fn alone(self) -> Result<Launch, ShapeError> {
        launch(self, [1, 1, 1], 32, 0)
    }
}

impl Gate {
    /// The launch that holds its stream.
    ///
    /// # Errors
    /// A missing operand, or no time-out: a gate that nobody opens would hold the device for ever.
    pub fn alone(self) -> Result<Launch, ShapeError> {
        let kernel = Kernel::Gate;
        kernel.words([("flag", self.flag), ("outcome", self.outcome)])?;
        if self.timeout_ns == 0 {
            return Err(kernel.refuse("timeout_ns", 0, "at least 1"));
        }
        launch(self, [1, 1, 1], 1, 0)
    }
}

impl Clocks {
    /// The launch that reads both clocks twice.
    ///
    /// # Errors
    /// A missing operand.
    pub fn alone(self) -> Result<Launch, ShapeError> {
        Kernel::Clocks.aligned("out", self.out, LONG_BYTES)?;
        launch(self, [1, 1, 1], 1, 0)
    }
}

impl Copy {
    /// The copy by `blocks` blocks: a few times the device's multiprocessors for bandwidth.
    ///
    /// # Errors
    /// No blocks, nothing to copy, or a missing operand.
    pub fn by(self, blocks: u32) -> Result<Launch, ShapeError> {
        let kernel = Kernel::Copy;
        kernel.vectors([("to", self.to), ("from", self.from)])?;
        if self.vectors == 0 {
            return Err(kernel.refuse("vectors", 0, "at least 1"));
        }
        launch(self, [blocks.into(), 1, 1], COPY_THREADS, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::Address;

    #[test]
    fn measuring_kernels_have_fixed_shapes() {
        let null = Null {}.alone().unwrap();
        assert_eq!((null.grid, null.block, null.arguments.bytes().len()), ([1, 1, 1], [32, 1, 1], 0));
        let gate = Gate { flag: Address(4), outcome: Address(8), timeout_ns: 5 };
        assert_eq!(gate.alone().unwrap().block, [1, 1, 1]);
        let clocks = Clocks { out: Address(8), cycles: 1_000 };
        assert_eq!(clocks.alone().unwrap().grid, [1, 1, 1]);
        let copy = Copy { to: Address(16), from: Address(32), vectors: 1 };
        assert_eq!(copy.by(264).unwrap().grid, [264, 1, 1]);
    }

    #[test]
    fn measuring_kernels_refuse_what_hangs_or_does_nothing() {
        let gate = Gate { flag: Address(4), outcome: Address(8), timeout_ns: 0 };
        assert_eq!(gate.alone().unwrap_err().to_string(), "gate_kernel: timeout_ns = 0: expected at least 1");
        let copy = Copy { to: Address(16), from: Address(32), vectors: 0 };
        assert_eq!(copy.by(1).unwrap_err().to_string(), "copy_kernel: vectors = 0: expected at least 1");
        let copy = Copy { vectors: 1, ..copy };
        assert_eq!(copy.by(0).unwrap_err().to_string(), "copy_kernel: grid.x = 0: expected 1 to 2147483647 blocks");
        let clocks = Clocks { out: Address(4), cycles: 1 };
        assert_eq!(
            clocks.alone().unwrap_err().to_string(),
            "clocks_kernel: out = 0x4: expected an address, a multiple of 8"
        );
    }
}
