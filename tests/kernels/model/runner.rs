//! Runs steps on a machine: a caching allocator that uses memory again as soon as it may, and the own GEMM.

use kernels::launch::{Address, Launch, Product, ProductPlan, ShapeError, Workspace};
use kernels::machine::Machine;
use kernels::step::{Activations, StepPart, StepRunner};

use crate::executor::ExecutorError;

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum RunError {
    #[error(transparent)]
    Executor(#[from] ExecutorError),
    #[error(transparent)]
    Shape(#[from] ShapeError),
}

/// Multiprocessors that products are planned for: few, so that some are split and some are not.
const SM_COUNT: u32 = 6;
/// Bytes of the workspace: more than any product of a tiny model needs.
const PARTIAL_BYTES: u64 = 4 << 20;
const ARRIVALS_BYTES: u64 = 4_096;

/// A live activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Activation {
    address: Address,
    bytes: u64,
}

/// Runs the parts of steps as they come, and keeps a list of the launches.
pub(super) struct Runner<'m, M: Machine> {
    machine: &'m mut M,
    workspace: Workspace,
    live: Vec<Activation>,
    free: Vec<Activation>,
    /// What new activations hold.
    pub(super) poison: u8,
    /// The allocation, counted from 0, that gets the memory of the youngest live activation: a pool that gives memory back
    /// too early.
    pub(super) too_early: Option<usize>,
    allocations: usize,
    pub(super) launches: Vec<Launch>,
    /// Products whose output was given the memory of their input.
    pub(super) overlapping_products: usize,
}

impl<'m, M: Machine> Runner<'m, M> {
    pub(super) fn new(machine: &'m mut M) -> Self {
        let partial = machine.allocate(PARTIAL_BYTES).unwrap();
        let arrivals = machine.allocate(ARRIVALS_BYTES).unwrap();
        machine.write(arrivals, &[0; ARRIVALS_BYTES as usize]).unwrap();
        Self {
            machine,
            workspace: Workspace { partial, arrivals },
            live: Vec::new(),
            free: Vec::new(),
            poison: 0xff,
            too_early: None,
            allocations: 0,
            launches: Vec::new(),
            overlapping_products: 0,
        }
    }

    /// Activations that nobody has freed.
    pub(super) fn live(&self) -> usize {
        self.live.len()
    }
}

impl<M: Machine<Error = ExecutorError>> Activations for Runner<'_, M> {
    type Error = RunError;

    fn allocate(&mut self, bytes: u64) -> Result<Address, RunError> {
        let number = self.allocations;
        self.allocations += 1;
        if let (true, Some(youngest)) = (self.too_early == Some(number), self.live.last().copied()) {
            self.live.push(Activation { bytes: 0, ..youngest });
            return Ok(youngest.address);
        }
        // The smallest that is large enough, the youngest of those: memory is used again as soon as it can be.
        let fitting = self.free.iter().enumerate().rev().filter(|(_, block)| block.bytes >= bytes);
        let found = fitting.min_by_key(|(_, block)| block.bytes).map(|(index, _)| index);
        let activation = match found {
            Some(index) => self.free.remove(index),
            None => Activation { address: self.machine.allocate(bytes)?, bytes },
        };
        self.machine.write(activation.address, &vec![self.poison; activation.bytes as usize])?;
        self.live.push(activation);
        Ok(activation.address)
    }

    fn free(&mut self, activation: Address) -> Result<(), RunError> {
        let index = self.live.iter().rposition(|live| live.address == activation).expect("only what lives is freed");
        let freed = self.live.remove(index);
        // What was given out too early belongs to its first owner.
        if freed.bytes > 0 {
            self.free.push(freed);
        }
        Ok(())
    }
}

impl<M: Machine<Error = ExecutorError>> StepRunner for Runner<'_, M> {
    fn perform(&mut self, part: StepPart) -> Result<(), RunError> {
        let launch = match part {
            StepPart::Enter(_) => return Ok(()),
            StepPart::Launch(launch) => launch,
            StepPart::Product(product) => self.planned(&product)?,
        };
        self.machine.launch(&launch)?;
        self.launches.push(launch);
        Ok(())
    }
}

impl<M: Machine> Runner<'_, M> {
    fn planned(&mut self, product: &Product) -> Result<Launch, ShapeError> {
        if product.out == product.input {
            self.overlapping_products += 1;
        }
        let plan = ProductPlan::choose(product, SM_COUNT);
        // Ranges of a tiny model's products would be shorter than the pipeline: cut the longer ones all the same.
        let plan = if product.inputs > 128 { ProductPlan::exactly(product, plan.tile, 3) } else { plan };
        product.under(plan, self.workspace)
    }
}
