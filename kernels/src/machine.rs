//! Whatever runs launches: a GPU through the driver, or the CPU executor of the tests.

use crate::launch::{Address, Launch};

/// Memory and launches in one order. What checks kernels is written against this, so that the same cases run on a GPU and
/// on the CPU executor.
pub trait Machine {
    /// What can go wrong.
    type Error: std::error::Error;

    /// Memory that lives as long as the machine, aligned to 256 bytes, its content undefined.
    ///
    /// # Errors
    /// There is not that much.
    fn allocate(&mut self, bytes: u64) -> Result<Address, Self::Error>;

    /// Copies to the device, after everything launched so far.
    ///
    /// # Errors
    /// A failure of the copy or of anything launched before it.
    fn write(&mut self, to: Address, bytes: &[u8]) -> Result<(), Self::Error>;

    /// Copies from the device, after everything launched so far.
    ///
    /// # Errors
    /// A failure of the copy or of anything launched before it.
    fn read(&mut self, from: Address, bytes: &mut [u8]) -> Result<(), Self::Error>;

    /// Runs one launch after those before it.
    ///
    /// # Errors
    /// A launch that the machine refuses, or a failure of an earlier one.
    fn launch(&mut self, launch: &Launch) -> Result<(), Self::Error>;
}
