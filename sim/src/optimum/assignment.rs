//! Which steps run on which rung of a given ladder: the plain walk, by the definition.

use super::problem::Problem;

/// Where all steps of a problem run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Per rung, ascending.
    pub rungs: Vec<RungShare>,
    /// Steps above the top rung.
    pub above_steps: u128,
    /// What they cost without a graph, in nanoseconds.
    pub above_ns: u128,
}

/// The steps of one rung: those that fit it and no smaller one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RungShare {
    /// The rung.
    pub size: u32,
    /// Steps.
    pub steps: u128,
    /// Those of them that run without a graph because that is cheaper and the policy allows it.
    pub eager_steps: u128,
    /// What the others are padded by, in the ladder's unit.
    pub padded: u128,
    /// What all of them cost, in nanoseconds.
    pub cost_ns: u128,
    /// What all of them would cost without graphs, in nanoseconds.
    pub eager_ns: u128,
}

impl Assignment {
    /// All steps, in nanoseconds.
    #[must_use]
    pub fn cost_ns(&self) -> u128 {
        self.rungs.iter().map(|rung| rung.cost_ns).sum::<u128>() + self.above_ns
    }
}

impl Problem {
    /// Runs every step on the smallest of `rungs` (ascending) that holds it; `None` if one of them is no candidate.
    #[must_use]
    pub fn assign(&self, rungs: &[u32]) -> Option<Assignment> {
        let place = |size: &u32| self.candidates.binary_search_by_key(size, |candidate| candidate.size).ok();
        let places: Vec<usize> = rungs.iter().map(place).collect::<Option<_>>()?;
        let shares = rungs.iter().map(|&size| RungShare { size, ..RungShare::default() }).collect();
        let mut all = Assignment { rungs: shares, above_steps: 0, above_ns: 0 };
        for load in &self.loads {
            let count = u128::from(load.count);
            let eager_ns = count * u128::from(load.eager.0);
            let rung = rungs.partition_point(|&size| size < load.size);
            let Some(share) = all.rungs.get_mut(rung) else {
                all.above_steps += count;
                all.above_ns += eager_ns;
                continue;
            };
            let cost_ns = count * u128::from(load.on(&self.candidates[places[rung]], self.policy));
            let graph_ns = count * u128::from(load.on(&self.candidates[places[rung]], super::Policy::AlwaysPad));
            share.steps += count;
            share.cost_ns += cost_ns;
            share.eager_ns += eager_ns;
            if cost_ns < graph_ns {
                share.eager_steps += count;
            } else {
                share.padded += count * u128::from(share.size - load.size);
            }
        }
        Some(all)
    }
}
