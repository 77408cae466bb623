//! The calls of a step written down, so that they can be made without anything between them, and in part.

use std::ops::Range;
use std::rc::Rc;

use kernels::launch::{Address, Kernel};
use kernels::step::{Activations, Place, StepPart, StepRunner};

use super::StepError;
use super::call::Call;
use super::products::Products;
use crate::device::{Arena, DeviceError, Graph, Session};
use crate::pool::{Pool, SegmentSource};

/// Calls of a step in their order. They hold the memory that they run on.
#[derive(Clone, Debug)]
pub struct Planned {
    calls: Vec<(Place, Call)>,
    products: Rc<Products>,
    memory: [Rc<Arena>; 3],
}

impl Planned {
    pub(super) fn new(calls: Vec<(Place, Call)>, products: Rc<Products>, memory: [Rc<Arena>; 3]) -> Self {
        Self { calls, products, memory }
    }

    /// Those calls alone that lie in some places.
    #[must_use]
    pub fn only(&self, is_wanted: impl Fn(Place) -> bool) -> Self {
        let calls = self.calls.iter().filter(|(place, _)| is_wanted(*place)).cloned().collect();
        Self { calls, ..self.clone() }
    }

    /// Launches of one kernel alone.
    #[must_use]
    pub fn of_kernel(&self, kernel: Kernel) -> Self {
        let is_wanted = |call: &Call| matches!(call, Call::Launch(launch) if launch.kernel == kernel);
        let calls = self.calls.iter().filter(|(_, call)| is_wanted(call)).cloned().collect();
        Self { calls, ..self.clone() }
    }

    /// The first calls alone.
    #[must_use]
    pub fn first(&self, calls: usize) -> Self {
        Self { calls: self.calls.iter().take(calls).cloned().collect(), ..self.clone() }
    }

    /// How many.
    pub fn calls(&self) -> usize {
        self.calls.len()
    }

    /// Makes them all.
    ///
    /// # Errors
    /// The device fails.
    pub fn run(&self, session: &mut Session) -> Result<(), StepError> {
        self.make(session, 0..self.calls.len())
    }

    /// Makes some, counted from 0.
    ///
    /// # Errors
    /// The device fails.
    pub fn make(&self, session: &mut Session, calls: Range<usize>) -> Result<(), StepError> {
        for (_, call) in self.calls.get(calls).unwrap_or_default() {
            self.products.run(session, call)?;
        }
        Ok(())
    }

    /// Records them into one graph.
    ///
    /// # Errors
    /// The capture is spoilt.
    pub fn capture(&self, session: &mut Session) -> Result<Graph, StepError> {
        let mut capture = session.capture(self.memory.clone())?;
        for (_, call) in &self.calls {
            self.products.record(&mut capture, call)?;
        }
        Ok(capture.end().1?)
    }
}

/// Writes the calls of a step down, over whatever memory the pool has.
pub(super) struct Planner<'a, S> {
    pool: &'a mut Pool<S>,
    products: &'a Products,
    place: Place,
    calls: Vec<(Place, Call)>,
}

impl<'a, S> Planner<'a, S> {
    pub(super) fn new(pool: &'a mut Pool<S>, products: &'a Products) -> Self {
        Self { pool, products, place: Place::Piece(0), calls: Vec::new() }
    }

    /// What was written down.
    pub(super) fn calls(self) -> Vec<(Place, Call)> {
        self.calls
    }
}

impl<S: SegmentSource<Error = DeviceError>> Activations for Planner<'_, S> {
    type Error = StepError;

    fn allocate(&mut self, bytes: u64) -> Result<Address, StepError> {
        Ok(self.pool.allocate(bytes)?)
    }

    fn free(&mut self, activation: Address) -> Result<(), StepError> {
        Ok(self.pool.free(activation)?)
    }
}

impl<S: SegmentSource<Error = DeviceError>> StepRunner for Planner<'_, S> {
    fn perform(&mut self, part: StepPart) -> Result<(), StepError> {
        let call = match part {
            StepPart::Enter(place) => {
                self.place = place;
                return Ok(());
            }
            StepPart::Launch(launch) => Call::Launch(launch),
            StepPart::Product(product) => self.products.call(product)?,
        };
        self.calls.push((self.place, call));
        Ok(())
    }
}

/// Segments that are only counted: addresses of nothing.
#[derive(Debug)]
pub(super) struct Counted {
    next: u64,
}

impl Default for Counted {
    fn default() -> Self {
        Self { next: 1 << 40 }
    }
}

impl SegmentSource for Counted {
    type Error = DeviceError;

    fn segment(&mut self, bytes: u64) -> Result<Address, DeviceError> {
        let address = Address(self.next);
        self.next += bytes.next_multiple_of(4096);
        Ok(address)
    }
}
