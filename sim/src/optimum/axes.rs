//! Rungs in the order of their costs.
//!
//! On one axis no term of a rung's costs falls from a place to the next, for either kind of batch. Costs that come from one
//! table of dense work, with a launch time for each mode, give one axis or two, with all the dips the table has. Tables
//! that contradict each other give more, at worst one for each rung: then the search is as slow as the plain recurrence, and
//! as exact.

use std::ops::Range;

use super::problem::{Candidate, Problem};

/// Where each candidate stands.
#[derive(Clone, Debug)]
pub(super) struct Axes {
    /// The candidates on each axis, by place.
    pub(super) rungs: Vec<Vec<u32>>,
    /// Axis and place of each candidate of the range.
    places: Vec<(u32, u32)>,
    start: usize,
}

impl Axes {
    /// Axes for the candidates of a range, as few as first fit finds.
    pub(super) fn new(problem: &Problem, range: Range<usize>) -> Self {
        let start = range.start;
        let of = |place: u32| -> &Candidate { &problem.candidates[place as usize] };
        let mut order: Vec<u32> = range.clone().map(|place| place as u32).collect();
        order.sort_by_key(|&place| (of(place).other, of(place).decode, place));
        let mut axes = Self { rungs: Vec::new(), places: vec![(0, 0); range.len()], start };
        for place in order {
            let ends_below = |rungs: &Vec<u32>| rungs.last().is_some_and(|&last| of(last).is_within(of(place)));
            let axis = axes.rungs.iter().position(ends_below).unwrap_or_else(|| {
                axes.rungs.push(Vec::new());
                axes.rungs.len() - 1
            });
            axes.places[place as usize - start] = (axis as u32, axes.rungs[axis].len() as u32);
            axes.rungs[axis].push(place);
        }
        axes
    }

    /// Axis and place of a candidate.
    pub(super) fn of(&self, candidate: usize) -> (usize, u32) {
        let (axis, place) = self.places[candidate - self.start];
        (axis as usize, place)
    }
}
