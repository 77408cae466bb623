//! The clock of the multiprocessors, by a kernel that reads the cycle counter and the timer: it needs no NVML.

use std::rc::Rc;

use kernels::launch::{Address, Clocks};

use super::error::ProbeError;
use crate::device::{Arena, Session};

/// About 100 us, for timers that move in steps of a microsecond.
const CYCLES: u64 = 200_000;
/// Cycles and nanoseconds before, cycles and nanoseconds after; `clocks_kernel` of `measure.cu`.
const READINGS: usize = 4;

/// Reads the clock.
#[derive(Debug)]
pub(super) struct ClockRate {
    out: Address,
    _memory: Rc<Arena>,
}

impl ClockRate {
    pub(super) fn new(session: &mut Session) -> Result<Self, ProbeError> {
        let memory = session.arena();
        Ok(Self { out: memory.allocate((READINGS * 8) as u64)?, _memory: memory })
    }

    /// In MHz, now. `None` where the timer did not move.
    pub(super) fn mhz(&self, session: &mut Session) -> Result<Option<f64>, ProbeError> {
        session.launch(&Clocks { out: self.out, cycles: CYCLES }.alone()?)?;
        let mut bytes = [0; READINGS * 8];
        session.read(self.out, &mut bytes)?;
        let reading = |index: usize| {
            let word: [u8; 8] = std::array::from_fn(|byte| bytes[index * 8 + byte]);
            u64::from_le_bytes(word)
        };
        let [cycles, ns] = [0, 1].map(|clock| reading(2 + clock).saturating_sub(reading(clock)));
        Ok((cycles > 0 && ns > 0).then(|| cycles as f64 / ns as f64 * 1e3))
    }
}
