//! What steps a run took, by shape: the histogram that ladders are chosen for.

use std::collections::HashMap;
use std::io;

use crate::cost::{CostModel, StepTimes};
use crate::engine::plan::GraphPlan;
use crate::engine::shape::{Descriptor, RuntimeMode, StepShape};
use crate::engine::step::StepExtent;
use crate::observe::{Event, Observer, StepScheduled, Stretch};
use crate::time::SimDuration;

/// What decides which graph a step may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// The step as the dispatcher sees it, what no rule tells apart made equal.
    pub shape: StepShape,
    /// How far its requests reach, where the engine asks.
    pub extent: StepExtent,
}

/// Steps of one shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShapeSum {
    /// The shape.
    pub shape: Shape,
    /// How many such steps.
    pub count: u64,
    /// What they cost together beside what their graphs cost: head, attention, drafts, overheads.
    pub own: OwnTimes,
}

/// Time of steps that does not depend on their graphs, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnTimes {
    /// On the host, before the first launch.
    pub preparation_ns: u128,
    /// On the device.
    pub device_ns: u128,
}

/// Steps by shape. The order is that of shapes, so that equal runs give equal histograms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShapeHistogram {
    /// Shapes, each once.
    pub shapes: Vec<ShapeSum>,
}

/// Listens to a run and sums its steps up by shape.
#[derive(Debug)]
pub struct ShapeRecorder<'a> {
    graphs: &'a GraphPlan,
    cost: &'a CostModel,
    /// Queries that are longer than this are alike to every rule.
    longest_decode: u32,
    sums: HashMap<(Shape, Descriptor), (u64, OwnTimes)>,
}

impl<'a> ShapeRecorder<'a> {
    /// Of a server with these graphs and costs, whose decoding requests have `decode_tokens` in a step.
    #[must_use]
    pub fn new(graphs: &'a GraphPlan, cost: &'a CostModel, decode_tokens: u32) -> Self {
        Self { graphs, cost, longest_decode: decode_tokens, sums: HashMap::new() }
    }

    fn add(&mut self, step: &StepScheduled<'_>, count: u64, times: impl Iterator<Item = StepTimes>) {
        let plan = step.plan;
        let extent = if self.graphs.asks_for_extent() { StepExtent::of(plan) } else { StepExtent::default() };
        let shape = Shape { shape: alike(plan.shape, self.longest_decode), extent };
        let (steps, own) = self.sums.entry((shape, step.dispatch.descriptor)).or_default();
        *steps += count;
        for times in times {
            own.preparation_ns += u128::from(times.preparation.0);
            own.device_ns += u128::from(times.device.0);
        }
    }

    /// The histogram, once the run has ended.
    #[must_use]
    pub fn finish(self) -> ShapeHistogram {
        let mut sums: Vec<ShapeSum> = Vec::with_capacity(self.sums.len());
        for ((shape, descriptor), (count, mut own)) in self.sums {
            let graph = self.cost.graph_times(&descriptor, shape.shape.requests);
            own.preparation_ns = own.preparation_ns.saturating_sub(u128::from(count) * u128::from(graph.preparation.0));
            own.device_ns = own.device_ns.saturating_sub(u128::from(count) * u128::from(graph.device.0));
            sums.push(ShapeSum { shape, count, own });
        }
        ShapeHistogram::of(sums)
    }
}

impl Observer for ShapeRecorder<'_> {
    fn observe(&mut self, event: &Event<'_>) -> io::Result<()> {
        if let Event::StepScheduled(step) = event {
            self.add(step, 1, std::iter::once(step.cost.times()));
        }
        Ok(())
    }

    fn observe_stretch(&mut self, stretch: &Stretch<'_>) -> io::Result<()> {
        let times = stretch.beats.iter().map(|beat| stretch.cost(beat).times());
        self.add(&stretch.first, stretch.beats.len() as u64, times);
        Ok(())
    }
}

impl ShapeHistogram {
    /// Shapes in order, those listed more than once added up.
    #[must_use]
    pub fn of(mut sums: Vec<ShapeSum>) -> Self {
        sums.sort_unstable_by_key(|sum| key(&sum.shape));
        let mut shapes: Vec<ShapeSum> = Vec::with_capacity(sums.len());
        for sum in sums {
            match shapes.last_mut().filter(|last| last.shape == sum.shape) {
                Some(last) => {
                    last.count += sum.count;
                    last.own.preparation_ns += sum.own.preparation_ns;
                    last.own.device_ns += sum.own.device_ns;
                }
                None => shapes.push(sum),
            }
        }
        Self { shapes }
    }

    /// All of several histograms.
    #[must_use]
    pub fn sum<'a>(all: impl IntoIterator<Item = &'a Self>) -> Self {
        Self::of(all.into_iter().flat_map(|histogram| histogram.shapes.iter().copied()).collect())
    }

    /// All steps.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.shapes.iter().map(|sum| sum.count).sum()
    }
}

/// The shape with what no rule looks at made equal: the exact length of a query beyond that of a decode.
fn alike(shape: StepShape, longest_decode: u32) -> StepShape {
    StepShape { max_query: shape.max_query.min(longest_decode.saturating_add(1)), ..shape }
}

fn key(shape: &Shape) -> impl Ord + use<> {
    let Shape { shape, extent } = *shape;
    (
        (shape.tokens, shape.requests, shape.max_query, shape.prefilling, shape.uniform_v1, shape.uniform_v2),
        (shape.active_loras, shape.encoder_inputs, extent.longest_sequence, extent.longest_prefix),
    )
}

impl OwnTimes {
    /// Mean times of one of `count` steps.
    #[must_use]
    pub fn mean(&self, count: u64) -> (SimDuration, SimDuration) {
        let mean = |sum: u128| SimDuration((sum / u128::from(count.max(1))).min(u128::from(u64::MAX)) as u64);
        (mean(self.preparation_ns), mean(self.device_ns))
    }
}

/// Whether a descriptor is of a captured graph.
#[must_use]
pub(super) fn is_graph(descriptor: &Descriptor) -> bool {
    descriptor.mode != RuntimeMode::None
}
