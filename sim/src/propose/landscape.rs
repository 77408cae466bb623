//! What a server's steps cost on every size that it could capture: the problem whose exact optimum a ladder is.
//!
//! The engine says which graph a size brings and which size a step needs at least; the cost model says what either costs. One
//! rule is left to the simulation that follows: SGLang runs a prefill step without a graph rather than padded to more than
//! twice its tokens.

use std::collections::BTreeMap;

use calibrate::profile::{Overlap, Profile};
use kernels::units::Bytes;

use super::ladders::{Ladders, List};
use super::shapes::{ShapeHistogram, ShapeSum, is_graph};
use crate::cost::memory::{StaticShare, captures};
use crate::cost::startup::capture_seconds;
use crate::cost::{CostModel, EngineSide, StepTimes};
use crate::engine::options::EngineOptions;
use crate::engine::plan::GraphPlan;
use crate::engine::shape::{Descriptor, RuntimeMode};
use crate::engine::vllm::options::GraphPool;
use crate::limits::RUNGS_MAX;
use crate::optimum::{
    Batch, Budget, Candidate, Captures, Policy, Problem, ProblemFault, Resources, StepLoad, Terms, Usage, front,
    front_apart,
};
use crate::server::SetupError;
use crate::time::SimDuration;

/// A server that could capture every size, and what each would cost it.
#[derive(Debug)]
pub struct Landscape {
    form: Ladders,
    plan: GraphPlan,
    cost: CostModel,
    asynchronous: bool,
    /// What a FULL graph of the most requests pays for padding them all. A rung is priced as if it padded every request it
    /// holds, and a step is paid back what it fills; so that no price falls below zero, every such step costs this much
    /// more, and the sum is taken off at the end.
    all_padded: SimDuration,
    lists: Vec<Sizes>,
}

/// The sizes that one list may hold.
#[derive(Debug)]
struct Sizes {
    list: List,
    candidates: Vec<Candidate>,
    captures: Captures,
}

/// The graphs that one size in a list brings.
#[derive(Clone, Debug, Default)]
struct SizeGraphs {
    /// For a batch in which everybody decodes.
    decode: Option<Descriptor>,
    /// For any other.
    other: Option<Descriptor>,
    all: Vec<Descriptor>,
}

/// Ladders that are the best ones for a histogram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Best {
    /// The ladders.
    pub ladders: Ladders,
    /// What all steps of the histogram cost on them, in nanoseconds.
    pub cost_ns: u128,
}

/// A histogram as the problem of each list.
#[derive(Debug)]
pub struct Loads {
    problems: Vec<(List, Problem)>,
    /// Steps that no size holds, in nanoseconds.
    never_ns: u128,
    /// What all other steps are priced too high, in nanoseconds.
    too_high_ns: u128,
}

impl Landscape {
    /// The landscape of a server with lists in the form of `current`. Sizes end at the engine's limits, at `most` where it
    /// is given, and with speculative decoding at whole requests.
    ///
    /// # Errors
    /// If the engine does not start with every size captured.
    pub fn survey(
        options: &EngineOptions,
        profile: &Profile,
        current: &Ladders,
        most: Option<u32>,
    ) -> Result<Self, SetupError> {
        let every = every_size(options, current, most);
        let fine = every.applied(options);
        // SGLang reserves memory by its largest graphs: the server that could capture every size has that of the one in force.
        let kv_tokens = match options {
            EngineOptions::Vllm(_) => None,
            EngineOptions::Sglang(sglang) => Some(StaticShare::of(sglang, profile)?.tokens_before_capture()?),
        };
        let plan = GraphPlan::build(&fine, kv_tokens)?;
        let cost = CostModel::new(profile, &EngineSide::of(&fine, &plan, profile));
        let asynchronous = options.asynchronous();
        let all_padded = cost.padded_requests_time(options.limits().requests.value);
        let mut landscape = Self { form: current.none(), plan, cost, asynchronous, all_padded, lists: Vec::new() };
        for (list, _) in current.lists() {
            let graphs = landscape.graphs_by_size(list);
            let sizes = Sizes {
                list,
                candidates: graphs.iter().map(|(&size, graphs)| landscape.candidate(size, graphs, profile)).collect(),
                captures: captures_of(&graphs, profile),
            };
            landscape.lists.push(sizes);
        }
        Ok(landscape)
    }

    /// The graphs of every size of a list, by size.
    fn graphs_by_size(&self, list: List) -> BTreeMap<u32, SizeGraphs> {
        let mut by_size: BTreeMap<u32, SizeGraphs> = BTreeMap::new();
        for graph in self.plan.capture_order() {
            let Some(size) = self.place(graph).and_then(|(of, size)| (of == list).then_some(size)) else { continue };
            let graphs = by_size.entry(size).or_default();
            graphs.all.push(*graph);
            let slot = if graph.uniform.is_some() { &mut graphs.decode } else { &mut graphs.other };
            let simpler = |graph: &Descriptor| (graph.loras, graph.ubatches, graph.prefix_chunks);
            if slot.as_ref().is_none_or(|known| simpler(graph) < simpler(known)) {
                *slot = Some(*graph);
            }
        }
        by_size
    }

    /// The list that a graph is captured for, and the size there.
    fn place(&self, graph: &Descriptor) -> Option<(List, u32)> {
        if !is_graph(graph) {
            return None;
        }
        Some(match &self.form {
            Ladders::Together(_) => (List::All, graph.tokens),
            Ladders::Apart { .. } => match graph.requests.filter(|_| graph.uniform.is_some()) {
                Some(requests) => (List::Decode, requests),
                None => (List::Prefill, graph.tokens),
            },
        })
    }

    fn candidate(&self, size: u32, graphs: &SizeGraphs, profile: &Profile) -> Candidate {
        let times = |graph: &Descriptor| self.cost.graph_times(graph, 0);
        let other = graphs.other.as_ref().map(|graph| self.terms(times(graph)));
        // A decode batch on a graph that pads no requests is not paid back what it fills.
        let relaxed = graphs.other.as_ref().map(|graph| {
            let times = times(graph);
            let held = if pads_requests(graph) { SimDuration::ZERO } else { self.all_padded };
            self.terms(StepTimes { device: times.device + held, ..times })
        });
        let decode = graphs.decode.as_ref().map(|graph| self.terms(times(graph)));
        let largest = graphs.all.iter().max_by_key(|graph| graph.tokens);
        let pool = largest.map_or(Bytes(0), |graph| captures(profile, &[*graph], GraphPool::Shared)[0].pool);
        Candidate {
            size,
            decode: decode.or(relaxed).unwrap_or_default(),
            other: other.or(decode).unwrap_or_default(),
            pool,
            required: false,
        }
    }

    /// Times as the optimum takes them: the longer of two sums, whatever the overlap
    /// ([`StepTimes::period`](crate::cost::StepTimes::period)).
    fn terms(&self, times: StepTimes) -> Terms {
        let StepTimes { preparation, launch, device } = times;
        match (self.cost.overlap, self.asynchronous) {
            (Overlap::Additive, _) => Terms::sum(preparation + launch + device),
            (Overlap::Pipelined, true) => Terms { host: preparation + launch, device },
            (Overlap::Pipelined, false) => Terms { host: preparation + launch, device: preparation + device },
        }
    }

    /// The histogram as loads on the lists.
    ///
    /// # Errors
    /// Counts beyond what sums are made for.
    pub fn loads(&self, histogram: &ShapeHistogram) -> Result<Loads, ProblemFault> {
        let mut by_list: BTreeMap<List, Vec<StepLoad>> =
            self.lists.iter().map(|sizes| (sizes.list, Vec::new())).collect();
        let (mut never_ns, mut too_high_ns) = (0, 0);
        for sum in &histogram.shapes {
            match self.load(sum) {
                Ok((list, load, too_high)) => {
                    too_high_ns += u128::from(load.count) * u128::from(too_high.0);
                    by_list.entry(list).or_default().push(load);
                }
                Err(eager) => never_ns += u128::from(sum.count) * u128::from(eager.0),
            }
        }
        let problem = |sizes: &Sizes| {
            let loads = by_list.get(&sizes.list).cloned().unwrap_or_default();
            Ok((sizes.list, Problem::new(sizes.candidates.clone(), loads, Policy::AlwaysPad, sizes.captures)?))
        };
        let problems: Vec<(List, Problem)> = self.lists.iter().map(problem).collect::<Result<_, ProblemFault>>()?;
        Ok(Loads { problems: self.with_required(problems), never_ns, too_high_ns })
    }

    /// The list and the load of a shape, and by how much its prices are too high; what such a step costs if no size holds it.
    fn load(&self, sum: &ShapeSum) -> Result<(List, StepLoad, SimDuration), SimDuration> {
        let shape = &sum.shape.shape;
        let graph = self.plan.dispatch_extent(shape, sum.shape.extent).descriptor;
        let (preparation, device) = sum.own.mean(sum.count);
        let without = Descriptor { mode: RuntimeMode::None, tokens: shape.tokens, ..graph };
        let eager = self.cost.graph_times(&without, shape.requests);
        let eager = StepTimes {
            preparation: preparation + eager.preparation,
            launch: eager.launch,
            device: device + eager.device,
        };
        let eager = eager.period(self.cost.overlap, self.asynchronous);
        let Some((list, size)) = self.place(&graph) else { return Err(eager) };
        let too_high = if pads_requests(&graph) { self.all_padded } else { SimDuration::ZERO };
        let held =
            if pads_requests(&graph) { self.cost.padded_requests_time(shape.requests) } else { SimDuration::ZERO };
        let own = StepTimes { preparation, launch: SimDuration::ZERO, device: device + (too_high - held) };
        let mut own = self.terms(own);
        if self.cost.overlap == Overlap::Pipelined {
            own.host += too_high;
        }
        let batch = if graph.uniform.is_some() { Batch::Decode } else { Batch::Other };
        Ok((list, StepLoad { size, batch, count: sum.count, own, eager: eager + too_high }, too_high))
    }

    /// Where decode batches above the decode ceiling would run prefill graphs, the ceiling holds them all: only then is
    /// each list a problem of its own.
    fn with_required(&self, problems: Vec<(List, Problem)>) -> Vec<(List, Problem)> {
        if !matches!((&self.form, &self.plan), (Ladders::Apart { .. }, GraphPlan::Vllm(_))) {
            return problems;
        }
        problems
            .into_iter()
            .map(|(list, problem)| match (list, problem.largest_load()) {
                (List::Decode, Some(largest)) => (list, problem.requiring(&[largest])),
                _ => (list, problem),
            })
            .collect()
    }
}

impl Loads {
    /// The best ladders with at most 0, 1, ..., `rungs_max` sizes in all lists together; `None` where the budget has no room.
    ///
    /// # Errors
    /// If the sizes of one of two lists take different resources.
    pub fn best(&self, form: &Ladders, budget: &Budget, rungs_max: usize) -> Result<Vec<Option<Best>>, ProblemFault> {
        let best = |ladders, cost_ns| Best { ladders, cost_ns: self.whole(cost_ns) };
        match self.problems.as_slice() {
            [(_, only)] => {
                let found = front(only, budget, rungs_max).at_most.into_iter();
                Ok(found.map(|found| found.map(|found| best(Ladders::Together(found.rungs), found.cost_ns))).collect())
            }
            [(_, decode), (_, prefill)] => {
                let found = front_apart([decode, prefill], budget, rungs_max)?.into_iter();
                Ok(found
                    .map(|pair| {
                        pair.map(|pair| {
                            let [decode, prefill] = pair.rungs;
                            best(Ladders::Apart { decode, prefill }, pair.cost_ns)
                        })
                    })
                    .collect())
            }
            _ => Ok(vec![Some(best(form.none(), 0))]),
        }
    }

    fn whole(&self, cost_ns: u128) -> u128 {
        (cost_ns + self.never_ns).saturating_sub(self.too_high_ns)
    }

    /// What all steps cost on these ladders, in nanoseconds; `None` if one of the sizes cannot be captured.
    #[must_use]
    pub fn cost_ns(&self, ladders: &Ladders) -> Option<u128> {
        let each = |(list, problem): &(List, Problem)| Some(problem.assign(ladders.list(*list))?.cost_ns());
        self.problems.iter().map(each).sum::<Option<u128>>().map(|cost_ns| self.whole(cost_ns))
    }

    /// What graphs of these ladders take, about: what some engines share between graphs is not known here.
    #[must_use]
    pub fn usage(&self, ladders: &Ladders) -> Usage {
        let each = self.problems.iter().map(|(list, problem)| problem.usage(ladders.list(*list)));
        each.reduce(|one, other| Usage {
            descriptors: one.descriptors + other.descriptors,
            executables: Bytes(one.executables.0.saturating_add(other.executables.0)),
            pool: one.pool.max(other.pool),
            startup: one.startup + other.startup,
        })
        .unwrap_or_default()
    }

    /// The sizes of a list that steps have, each with how many, ascending.
    #[must_use]
    pub fn sizes(&self, list: List) -> Vec<(u32, u64)> {
        let of = self.problems.iter().find(|(of, _)| *of == list);
        of.map_or(Vec::new(), |(_, problem)| problem.sizes_of_steps())
    }
}

/// Whether a graph pays for the requests that it pads.
fn pads_requests(graph: &Descriptor) -> bool {
    graph.mode == RuntimeMode::Full && graph.requests.is_some()
}

/// Every size that the lists may hold, those in force among them.
fn every_size(options: &EngineOptions, form: &Ladders, most: Option<u32>) -> Ladders {
    let limits = options.limits();
    let up_to = |limit: u32, stride: u32| -> Vec<u32> {
        let last = limit.min(most.unwrap_or(u32::MAX));
        (1..=last / stride).map(|count| count * stride).take(RUNGS_MAX).collect()
    };
    match form {
        // A size that is no whole number of decodes is another size for decode graphs than for all others.
        Ladders::Together(in_force) => {
            let mut sizes = up_to(limits.step_tokens.value, options.decode_tokens().max(1));
            sizes.extend(in_force);
            sizes.sort_unstable();
            sizes.dedup();
            Ladders::Together(sizes)
        }
        Ladders::Apart { .. } => {
            Ladders::Apart { decode: up_to(limits.requests.value, 1), prefill: up_to(limits.step_tokens.value, 1) }
        }
    }
}

/// What sizes take: those at the bottom of the list and those at its top.
fn captures_of(graphs: &BTreeMap<u32, SizeGraphs>, profile: &Profile) -> Captures {
    let first_extra_s = profile.machine.capture.figures.first_extra_s;
    let resources = |graphs: &SizeGraphs| {
        let each = captures(profile, &graphs.all, GraphPool::Shared);
        let seconds: f64 = capture_seconds(profile, &graphs.all).iter().sum();
        Resources {
            descriptors: graphs.all.len() as u32,
            executables: Bytes(each.iter().map(|capture| capture.executables.0).sum()),
            startup: SimDuration::from_s(seconds - first_extra_s),
        }
    };
    let (Some(low), Some(high)) = (
        graphs.first_key_value().map(|(_, first)| resources(first)),
        graphs.last_key_value().map(|(_, last)| resources(last)),
    ) else {
        return Captures::default();
    };
    let low_max = graphs.iter().take_while(|(_, graphs)| resources(graphs) == low).last().map_or(0, |(&size, _)| size);
    Captures { low_max, low, high, first_extra: SimDuration::from_s(first_extra_s) }
}
