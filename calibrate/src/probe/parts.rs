//! Parts of a step as graphs of their own: what a step's device time is the sum of.

use std::cell::RefCell;
use std::ops::Range;

use kernels::launch::Kernel;
use kernels::step::{Place, StepShape};

use super::bench::{Bench, Timed};
use super::cold_cache::ColdCache;
use super::error::ProbeError;
use super::inputs::Inputs;
use crate::device::{Executable, Session};
use crate::measure::Estimate;
use crate::model::Model;

/// Device memory of a node of an executable, at most: half as much again as is known (GPU specification section 4), for what
/// a probe asks for beforehand.
pub(super) const NODE_BYTES_MOST: u64 = 16 << 10;

/// What of a step is timed alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepPart {
    /// Everything that works row by row: embedding, norms, products, activation; without attention and head.
    Dense,
    /// Cache writes and attention of every layer.
    Attention,
    /// Cache writes of every layer alone.
    CacheWrites,
}

impl StepPart {
    fn holds(self, place: Place) -> bool {
        match place {
            Place::Piece(_) => self == Self::Dense,
            Place::Attention(_) => self != Self::Dense,
            Place::Head => false,
        }
    }
}

/// A part of a step, captured alone.
#[derive(Debug)]
pub(super) struct PartGraph {
    pub(super) executable: Executable,
    pub(super) nodes: u32,
}

impl PartGraph {
    /// Captures a part of a step of this shape and uploads it.
    pub(super) fn of(
        bench: &Bench<'_>,
        model: &mut Model,
        shape: &StepShape,
        part: StepPart,
    ) -> Result<Self, ProbeError> {
        bench.on(|session| {
            let mut planned = model.plan(session, shape)?.only(|place| part.holds(place));
            if part == StepPart::CacheWrites {
                planned = planned.of_kernel(Kernel::KvWrite);
            }
            let graph = planned.capture(session)?;
            let executable = session.instantiate(&graph)?;
            session.upload(&executable)?;
            session.synchronize()?;
            Ok(Self { executable, nodes: graph.nodes() as u32 })
        })
    }
}

/// The replay of a part on inputs of its own, the cache emptied before it: whoever times it takes the time of that off.
pub(super) struct ReplayOn<'a> {
    pub(super) graph: &'a PartGraph,
    pub(super) cold: &'a ColdCache,
    pub(super) model: &'a RefCell<&'a mut Model>,
    pub(super) shape: StepShape,
    pub(super) inputs: Inputs,
}

impl Timed for ReplayOn<'_> {
    fn calls(&self) -> usize {
        2
    }

    fn make(&self, session: &mut Session, calls: Range<usize>) -> Result<(), ProbeError> {
        for call in calls {
            match call {
                0 => session.launch(&self.cold.launch)?,
                _ => session.replay(&self.graph.executable)?,
            }
        }
        Ok(())
    }

    fn prepare(&self, session: &mut Session) -> Result<(), ProbeError> {
        Ok(self.model.borrow_mut().set_inputs(session, &self.inputs.batch, &self.shape)?)
    }
}

/// Without the fixed cost of a graph, which a step pays once, with its dense part.
pub(super) fn without(time_us: Estimate, frame_us: Estimate) -> Estimate {
    let value = time_us.value - frame_us.value;
    // The two errors have nothing to do with each other.
    let low = (time_us.value - time_us.low).hypot(frame_us.high - frame_us.value);
    let high = (time_us.high - time_us.value).hypot(frame_us.value - frame_us.low);
    Estimate { value, low: value - low, high: value + high, samples: time_us.samples.min(frame_us.samples) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn independent_errors_add_as_squares() {
        let time = Estimate { value: 100.0, low: 97.0, high: 103.0, samples: 12 };
        let frame = Estimate { value: 10.0, low: 6.0, high: 14.0, samples: 8 };
        assert_eq!(without(time, frame), Estimate { value: 90.0, low: 85.0, high: 95.0, samples: 8 });
    }
}
