//! A captured step with eager parts of another shape: the graphs serve many steps, what stays eager has the shape of each.

use std::ops::Range;
use std::rc::Rc;
use std::slice::Iter;

use kernels::launch::{Address, ShapeError};
use kernels::step::{Activations, Place, StepOutputs, StepPart, StepRunner};

use super::StepError;
use super::call::Call;
use super::captured::{Captured, Part};
use super::products::Products;
use crate::device::{Arena, Session};
use crate::graph_mode::Mode;
use crate::pool::Pool;

/// A captured step and its eager parts for one shape.
#[derive(Debug)]
pub struct Fitted {
    captured: Rc<Captured>,
    /// In place of the captured step's own.
    eager: Vec<Vec<Call>>,
    /// Where its outputs lie, until something else of the pools is run.
    pub outputs: StepOutputs,
}

impl Fitted {
    /// `None` where the eager parts are not as many as the captured step has.
    pub(super) fn new(captured: &Rc<Captured>, eager: Vec<Vec<Call>>, outputs: StepOutputs) -> Option<Self> {
        let own = captured.parts.iter().filter(|part| matches!(part, Part::Eager(_))).count();
        (own == eager.len()).then(|| Self { captured: Rc::clone(captured), eager, outputs })
    }

    /// Calls of the driver that a replay makes: one for a graph, one for an eager launch.
    pub fn calls(&self) -> usize {
        self.captured.graphs_and_nodes().0 + self.eager.iter().map(Vec::len).sum::<usize>()
    }

    /// The same before the head, which stays eager under either mode and comes last.
    pub fn calls_before_head(&self) -> usize {
        self.calls() - self.eager.last().map_or(0, Vec::len)
    }

    /// Makes some of the calls of a replay, counted from 0.
    ///
    /// # Errors
    /// The device fails.
    pub fn make(&self, session: &mut Session, calls: Range<usize>) -> Result<(), StepError> {
        let mut eager = self.eager.iter();
        let mut number = 0;
        for part in &self.captured.parts {
            let count = match part {
                Part::Graph((executable, _)) => {
                    if calls.contains(&number) {
                        session.replay(executable)?;
                    }
                    1
                }
                Part::Eager(_) => {
                    let own = eager.next().map_or(&[][..], Vec::as_slice);
                    for (call, at) in own.iter().zip(number..) {
                        if calls.contains(&at) {
                            self.captured.products.run(session, call)?;
                        }
                    }
                    own.len()
                }
            };
            number += count;
        }
        Ok(())
    }
}

/// Writes down what of a step stays eager, over the activations that its graphs have.
pub(super) struct Fitter<'a> {
    mode: Mode,
    /// Activations of the graphs, in the order in which a step allocates them.
    activations: Iter<'a, Address>,
    captured: &'a Captured,
    pool: &'a mut Pool<Rc<Arena>>,
    products: &'a Products,
    place: Place,
    eager: Vec<Vec<Call>>,
    /// Calls since the last graph.
    calls: Vec<Call>,
}

impl<'a> Fitter<'a> {
    pub(super) fn new(captured: &'a Captured, pool: &'a mut Pool<Rc<Arena>>, products: &'a Products) -> Self {
        let (activations, place) = (captured.activations.iter(), Place::Piece(0));
        let (eager, calls) = (Vec::new(), Vec::new());
        Self { mode: captured.mode, activations, captured, pool, products, place, eager, calls }
    }

    /// The eager parts, in order.
    pub(super) fn finish(mut self) -> Vec<Vec<Call>> {
        self.end_part();
        self.eager
    }

    fn end_part(&mut self) {
        if !self.calls.is_empty() {
            self.eager.push(std::mem::take(&mut self.calls));
        }
    }
}

impl Activations for Fitter<'_> {
    type Error = StepError;

    fn allocate(&mut self, bytes: u64) -> Result<Address, StepError> {
        if !self.mode.captures(self.place) {
            return Ok(self.pool.allocate(bytes)?);
        }
        let known = self.activations.next().copied();
        Ok(known.ok_or_else(|| ShapeError {
            kernel: "decoder step",
            key: "activations",
            value: "one more".to_owned(),
            expected: format!("the {} that were captured", self.captured.activations.len()),
        })?)
    }

    fn free(&mut self, activation: Address) -> Result<(), StepError> {
        // The graphs keep theirs.
        if self.captured.activations.contains(&activation) { Ok(()) } else { Ok(self.pool.free(activation)?) }
    }
}

impl StepRunner for Fitter<'_> {
    fn perform(&mut self, part: StepPart) -> Result<(), StepError> {
        let call = match part {
            StepPart::Enter(place) => {
                self.place = place;
                if self.mode.captures(place) {
                    self.end_part();
                }
                return Ok(());
            }
            _ if self.mode.captures(self.place) => return Ok(()),
            StepPart::Launch(launch) => Call::Launch(launch),
            StepPart::Product(product) => self.products.call(product)?,
        };
        self.calls.push(call);
        Ok(())
    }
}
