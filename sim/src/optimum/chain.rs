//! The recurrence, one layer per rung.
//!
//! A bound `b` stands for the ladder so far: 0 is no rung, `b` is one whose largest rung is candidate `b - 1`.

use std::ops::Range;

use super::axes::Axes;
use super::envelope::Envelope;
use super::sums::Sums;

/// A bound that no ladder reaches.
pub(super) const UNREACHED: u128 = u128::MAX;

/// The least cost at every bound, after each number of rungs laid.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    /// By rungs laid, from none, then by bound.
    pub(super) cost: Vec<Vec<u128>>,
    /// By rungs laid, from one: the bound below each bound.
    below: Vec<Vec<u32>>,
}

impl Chain {
    /// Lays up to `layers` rungs of `range` on top of ladders whose costs `source` has by bound.
    pub(super) fn new(sums: &Sums, range: &Range<usize>, source: Vec<u128>, layers: usize) -> Self {
        let axes = Axes::new(sums.problem, range.clone());
        let mut envelopes = vec![Envelope::default(); axes.rungs.len()];
        let mut chain = Self { cost: vec![source], below: Vec::new() };
        for _ in 0..layers.min(range.len()) {
            let (cost, below) = layer(sums, range, &axes, &mut envelopes, &chain.cost[chain.cost.len() - 1]);
            chain.cost.push(cost);
            chain.below.push(below);
        }
        chain
    }

    /// Rungs laid at most.
    pub(super) fn layers(&self) -> usize {
        self.below.len()
    }

    /// The bound of the best ladder with `layers` rungs laid and its cost, steps above included: the smallest such bound
    /// among those of `tops`.
    pub(super) fn best(&self, layers: usize, tops: Range<usize>, above: &[u128]) -> Option<(u128, usize)> {
        let cost = &self.cost[layers];
        tops.filter(|&bound| cost[bound] != UNREACHED).map(|bound| (cost[bound] + above[bound], bound)).min()
    }

    /// The candidates laid up to a bound, ascending, and the bound that they were laid on.
    pub(super) fn laid(&self, layers: usize, mut bound: usize) -> (Vec<usize>, usize) {
        let mut rungs = Vec::with_capacity(layers);
        for layer in (0..layers).rev() {
            rungs.push(bound - 1);
            bound = self.below[layer][bound] as usize;
        }
        rungs.reverse();
        (rungs, bound)
    }
}

/// One more rung on top of the ladders of `previous`.
fn layer(
    sums: &Sums,
    range: &Range<usize>,
    axes: &Axes,
    envelopes: &mut [Envelope],
    previous: &[u128],
) -> (Vec<u128>, Vec<u32>) {
    let mut cost = vec![UNREACHED; previous.len()];
    let mut below = vec![0; previous.len()];
    envelopes.iter_mut().for_each(Envelope::clear);
    for candidate in 0..range.end {
        let bound = candidate;
        if previous[bound] != UNREACHED {
            for (envelope, rungs) in envelopes.iter_mut().zip(&axes.rungs) {
                envelope.insert(bound as u32, rungs.len() as u32, |other, place| {
                    let other = other as usize;
                    let between = sums.between(other, bound, rungs[place as usize] as usize);
                    // Nothing to add up where the other bound alone costs no more.
                    previous[bound] < previous[other] || previous[bound] - previous[other] < between
                });
            }
        }
        if candidate >= range.start {
            let (axis, place) = axes.of(candidate);
            if let Some(line) = envelopes[axis].at(place) {
                cost[candidate + 1] = previous[line as usize] + sums.between(line as usize, candidate + 1, candidate);
                below[candidate + 1] = line;
            }
        }
        // No ladder leaves a required rung out.
        if sums.problem.candidates[candidate].required {
            envelopes.iter_mut().for_each(Envelope::clear);
        }
    }
    (cost, below)
}
