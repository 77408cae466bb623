//! Ladders that differ from one in a single rung.

use super::ladders::{Ladders, List};
use super::landscape::Loads;

/// Up to so many sizes that steps have, all of them are tried as places of a rung, wherever it was.
const SIZES_MAX: usize = 256;
/// Of more sizes so many are tried in each gap between two rungs.
const PLACES: usize = 6;

/// What was done to a ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// One rung less.
    Drop(List, u32),
    /// One rung elsewhere.
    Shift(List, u32, u32),
    /// One rung more.
    Add(List, u32),
}

/// A ladder with one rung changed, and what the steps of a histogram cost on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The change.
    pub change: Change,
    /// The ladders after it.
    pub ladders: Ladders,
    /// All steps, in nanoseconds.
    pub cost_ns: u128,
}

/// All neighbours by what the histogram's steps cost on them, cheapest first. Rungs are put where steps are: if those have
/// many sizes, on a few in each gap between two rungs and above the top, equally many steps apart; a rung then moves within
/// its two gaps.
#[must_use]
pub fn neighbours(ladders: &Ladders, loads: &Loads) -> Vec<Neighbour> {
    let mut changes = Vec::new();
    for (list, sizes) in ladders.lists() {
        let all = loads.sizes(list);
        let steps = &all;
        let within = |low: u32, high: u32| {
            let first = steps.partition_point(|&(size, _)| size <= low);
            let last = steps.partition_point(|&(size, _)| size < high);
            let steps = &steps[first..last.max(first)];
            if all.len() <= SIZES_MAX { steps.iter().map(|&(size, _)| size).collect() } else { places(steps) }
        };
        for place in 0..=sizes.len() {
            let below = place.checked_sub(1).map_or(0, |below| sizes[below]);
            let above = sizes.get(place).copied();
            changes.extend(within(below, above.unwrap_or(u32::MAX)).into_iter().map(|size| Change::Add(list, size)));
            let Some(rung) = above else { continue };
            changes.push(Change::Drop(list, rung));
            let next = sizes.get(place + 1).copied().unwrap_or(u32::MAX);
            let elsewhere = if all.len() <= SIZES_MAX { within(0, u32::MAX) } else { within(below, next) };
            let elsewhere = elsewhere.into_iter().filter(|size| sizes.binary_search(size).is_err());
            changes.extend(elsewhere.map(|size| Change::Shift(list, rung, size)));
            // The nearest sizes that steps have, whatever lies between.
            let at = steps.partition_point(|&(size, _)| size < rung);
            let nearest = [at.checked_sub(1), steps.get(at).map(|&(size, _)| at + usize::from(size == rung))];
            let nearest = nearest.into_iter().flatten().filter_map(|place| steps.get(place)).map(|&(size, _)| size);
            let nearest = nearest.filter(|&size| size > below && size < next && size != rung);
            changes.extend(nearest.map(|size| Change::Shift(list, rung, size)));
        }
    }
    changes.sort_unstable();
    changes.dedup();
    let mut all: Vec<Neighbour> = changes.into_iter().filter_map(|change| made(ladders, loads, change)).collect();
    all.sort_by_key(|neighbour| (neighbour.cost_ns, neighbour.change));
    all
}

fn made(ladders: &Ladders, loads: &Loads, change: Change) -> Option<Neighbour> {
    let ladders = change.of(ladders);
    Some(Neighbour { change, cost_ns: loads.cost_ns(&ladders)?, ladders })
}

impl Change {
    /// The ladders after the change.
    #[must_use]
    pub fn of(self, ladders: &Ladders) -> Ladders {
        match self {
            Self::Drop(list, size) | Self::Add(list, size) => ladders.toggled(list, size),
            Self::Shift(list, from, to) => ladders.toggled(list, from).toggled(list, to),
        }
    }
}

/// A few of the sizes, about equally many steps apart, the last one among them.
fn places(steps: &[(u32, u64)]) -> Vec<u32> {
    let all: u128 = steps.iter().map(|&(_, count)| u128::from(count)).sum();
    let mut chosen = Vec::with_capacity(PLACES);
    let mut so_far = 0;
    for &(size, count) in steps {
        so_far += u128::from(count);
        if so_far * PLACES as u128 >= all * (chosen.len() as u128 + 1) {
            chosen.push(size);
        }
    }
    chosen.dedup();
    chosen
}
