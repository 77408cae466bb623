//! What only the double exports.
#![expect(unsafe_code, reason = "exported C functions")]

use crate::driver;

/// Version of the marker's meaning.
const VERSION: u32 = 1;

/// Tells a program that its driver is the double: no figure taken here is a measurement.
#[unsafe(no_mangle)]
extern "C" fn rungwise_double_version() -> u32 {
    VERSION
}

/// The host's virtual clock. Reading it takes 25 ns, so that a loop that waits for it ends.
#[unsafe(no_mangle)]
extern "C" fn rungwise_double_host_ns() -> u64 {
    let mut driver = driver::lock();
    driver.spend(25);
    driver.timeline.host_ns
}
