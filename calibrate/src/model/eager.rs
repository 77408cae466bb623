//! A step launched kernel by kernel.

use std::rc::Rc;

use kernels::launch::Address;
use kernels::step::{Activations, StepPart, StepRunner};

use super::StepError;
use super::call::Call;
use super::products::Products;
use crate::device::{Arena, Session};
use crate::pool::Pool;

/// Runs every part as it comes.
pub(super) struct EagerRunner<'a> {
    pub(super) session: &'a mut Session,
    pub(super) pool: &'a mut Pool<Rc<Arena>>,
    pub(super) products: &'a Products,
}

impl Activations for EagerRunner<'_> {
    type Error = StepError;

    fn allocate(&mut self, bytes: u64) -> Result<Address, StepError> {
        Ok(self.pool.allocate(bytes)?)
    }

    fn free(&mut self, activation: Address) -> Result<(), StepError> {
        Ok(self.pool.free(activation)?)
    }
}

impl StepRunner for EagerRunner<'_> {
    fn perform(&mut self, part: StepPart) -> Result<(), StepError> {
        let call = match part {
            StepPart::Enter(_) => return Ok(()),
            StepPart::Launch(launch) => Call::Launch(launch),
            StepPart::Product(product) => self.products.call(product)?,
        };
        self.products.run(self.session, &call)
    }
}
