//! Laws 3, 4 and 8: the graph of every step, against a slow search written from the rules alone.

use std::collections::{BTreeMap, BTreeSet};

use sim::engine::request::Adapter;
use sim::engine::shape::{Descriptor, Dispatch, FallbackCause, RuntimeMode, StepShape};
use sim::engine::vllm::options::{AttentionSupport, CudagraphMode, GraphOptions, PerformanceMode, Runner, VllmOptions};
use sim::observe::{Event, StepScheduled};
use sim::record;
use sim::server::Setup;

use crate::house::{House, Law, Watched, for_all, require, vllm};
use crate::ledger::Ledger;

/// A step's answer as far as the rules speak of it: mode, tokens, and requests where the graph's key names them.
type Answer = (RuntimeMode, u32, Option<u32>);

/// The rules of specification sections 1, 2, 3, 5 and 6 for one token per decoding request, one rank and no adapters,
/// with nothing but searches.
pub(crate) struct Rules {
    mode: CudagraphMode,
    sizes: BTreeSet<u32>,
    runner: Runner,
    max_num_seqs: u32,
}

impl Rules {
    pub(crate) fn new(options: &VllmOptions) -> Self {
        let asked = if options.graphs.enforce_eager {
            CudagraphMode::None
        } else {
            options.graphs.cudagraph_mode.unwrap_or(CudagraphMode::FullAndPiecewise)
        };
        let max_num_seqs = options.scheduler.max_num_seqs;
        let sizes = if asked == CudagraphMode::None {
            BTreeSet::new()
        } else {
            capture_sizes(&options.graphs, max_num_seqs, options.scheduler.max_num_batched_tokens)
        };
        let mode = match (asked, options.graphs.attention_support) {
            (CudagraphMode::FullAndPiecewise | CudagraphMode::FullDecodeOnly, AttentionSupport::Never) => {
                CudagraphMode::Piecewise
            }
            (CudagraphMode::Full, AttentionSupport::UniformBatch | AttentionSupport::UniformSingleTokenDecode) => {
                CudagraphMode::FullAndPiecewise
            }
            (mode, _) => mode,
        };
        Self { mode, sizes, runner: options.runner.unwrap_or(Runner::V2), max_num_seqs }
    }

    /// The smallest captured size of at least `tokens`, of those that `allowed` lets through.
    fn smallest(&self, tokens: u32, allowed: impl Fn(u32) -> bool) -> Option<u32> {
        let ceiling = self.sizes.last().copied().unwrap_or(0);
        (tokens..=ceiling).find(|size| self.sizes.contains(size) && allowed(*size))
    }

    pub(crate) fn answer(&self, shape: &StepShape) -> Answer {
        let tokens = shape.tokens;
        let eager = (RuntimeMode::None, tokens, None);
        let (decode, mixed) = match self.mode {
            CudagraphMode::None => return eager,
            CudagraphMode::Piecewise => (RuntimeMode::Piecewise, RuntimeMode::Piecewise),
            CudagraphMode::Full => (RuntimeMode::Full, RuntimeMode::Full),
            CudagraphMode::FullDecodeOnly => (RuntimeMode::Full, RuntimeMode::None),
            CudagraphMode::FullAndPiecewise => (RuntimeMode::Full, RuntimeMode::Piecewise),
        };
        let Some(padded) = self.smallest(tokens, |_| true) else { return eager };
        let fits_all = |requests: u32| match self.runner {
            // Runner V1 looks its key up by tokens alone.
            Runner::V1 => true,
            Runner::V2 => shape.requests <= requests,
        };
        if mixed == RuntimeMode::Full {
            let requests = padded.min(self.max_num_seqs);
            return if fits_all(requests) { (RuntimeMode::Full, padded, Some(requests)) } else { eager };
        }
        let decode_size = match self.runner {
            Runner::V1 => Some(padded).filter(|&size| shape.uniform_v1 && size <= self.max_num_seqs),
            Runner::V2 => {
                let size = self.smallest(tokens, |size| size <= self.max_num_seqs);
                size.filter(|&size| shape.uniform_v2 == Some(1) && shape.requests <= size)
            }
        };
        match (decode, decode_size, mixed) {
            (RuntimeMode::Full, Some(size), _) => (RuntimeMode::Full, size, Some(size)),
            (_, _, RuntimeMode::Piecewise) => (RuntimeMode::Piecewise, padded, None),
            _ => eager,
        }
    }

    fn cause(&self, shape: &StepShape) -> FallbackCause {
        let decode = match self.runner {
            Runner::V1 => shape.uniform_v1,
            Runner::V2 => shape.uniform_v2.is_some(),
        };
        match self.sizes.last() {
            None => FallbackCause::GraphsOff,
            Some(&ceiling) if shape.tokens > ceiling => FallbackCause::AboveCeiling,
            _ if self.mode == CudagraphMode::FullDecodeOnly && !decode => FallbackCause::ModeExcluded,
            _ => FallbackCause::NoKey,
        }
    }

    /// Checks one answer of the dispatcher.
    fn check(&self, shape: &StepShape, dispatch: &Dispatch) -> Result<(), String> {
        let (mode, tokens, requests) = self.answer(shape);
        let key = &dispatch.descriptor;
        let story = || format!("{shape:?}: {dispatch:?}, but the rules give {:?}", self.answer(shape));
        require((key.mode, key.tokens) == (mode, tokens), story)?;
        require(mode != RuntimeMode::Full || key.requests == requests, story)?;
        require(key.tokens >= shape.tokens, story)?;
        let cause = (mode == RuntimeMode::None).then(|| self.cause(shape));
        require(dispatch.cause == cause, || format!("{shape:?}: {dispatch:?}, but the cause is {cause:?}"))
    }
}

/// The ladder of specification section 2.
fn capture_sizes(graphs: &GraphOptions, max_num_seqs: u32, budget: u32) -> BTreeSet<u32> {
    if let Some(sizes) = &graphs.cudagraph_capture_sizes {
        return sizes.iter().copied().filter(|&size| size <= budget).collect();
    }
    let uncut = graphs.max_cudagraph_capture_size.unwrap_or(512.min(2 * max_num_seqs));
    let ceiling = uncut.min(budget);
    let dense = graphs.performance_mode == PerformanceMode::Interactivity;
    let on_stride = |size: u32| match size {
        1 | 2 | 4 => true,
        0..=32 if dense => true,
        0..256 => size.is_multiple_of(8),
        _ => size.is_multiple_of(16),
    };
    let mut sizes: BTreeSet<u32> = (1..=ceiling).filter(|&size| on_stride(size)).collect();
    if budget <= ceiling {
        sizes.insert(budget);
    }
    if graphs.max_cudagraph_capture_size.is_none() && max_num_seqs <= uncut.min(budget) {
        sizes.insert(max_num_seqs);
    }
    sizes
}

/// The shape of every step, from its entries alone, and its graph from the rules.
pub(crate) struct Graphs {
    ledger: Ledger,
    /// `None` where requests carry drafts or adapters, of which these rules do not speak.
    rules: Option<Rules>,
    captured: Vec<Descriptor>,
    uniform_query: u32,
    /// By slot.
    adapters: BTreeMap<u32, Option<Adapter>>,
    pub(crate) padded_steps: u64,
    pub(crate) eager_steps: u64,
}

impl Graphs {
    pub(crate) fn new(setup: &Setup, is_plain: bool) -> Self {
        Self {
            ledger: Ledger::new(setup),
            rules: is_plain.then(|| Rules::new(vllm(setup))),
            captured: setup.graphs.capture_order().to_vec(),
            uniform_query: setup.options.decode_tokens(),
            adapters: BTreeMap::new(),
            padded_steps: 0,
            eager_steps: 0,
        }
    }

    /// Whatever the rules choose among, no smaller graph of the same kind would have held the step.
    fn check_smallest(&self, shape: &StepShape, chosen: &Descriptor) -> Result<(), String> {
        if chosen.mode == RuntimeMode::None {
            return require(chosen.tokens == shape.tokens, || format!("{shape:?} runs as {chosen:?}"));
        }
        let is_alike = |other: &&Descriptor| {
            (other.mode, other.loras, other.uniform, other.max_query)
                == (chosen.mode, chosen.loras, chosen.uniform, chosen.max_query)
        };
        let holds = |other: &Descriptor| {
            other.tokens >= shape.tokens && other.requests.is_none_or(|held| held >= shape.requests)
        };
        let fits = self.captured.contains(chosen) && holds(chosen) && chosen.loras >= shape.active_loras;
        require(fits, || format!("{shape:?} does not fit {chosen:?}, or that was never captured"))?;
        let smaller = self.captured.iter().filter(is_alike).find(|other| holds(other) && other.tokens < chosen.tokens);
        require(smaller.is_none(), || format!("{shape:?} runs as {chosen:?}, and {smaller:?} holds it"))
    }

    fn shape(&self, step: &StepScheduled<'_>) -> StepShape {
        let entries = &step.plan.entries;
        let tokens: u32 = entries.iter().map(|entry| entry.tokens).sum();
        let max_query = entries.iter().map(|entry| entry.tokens).max().unwrap_or(0);
        let alike = entries.iter().all(|entry| entry.tokens == max_query);
        let eligible = entries.iter().all(|entry| self.ledger.decode_eligible(entry));
        StepShape {
            requests: entries.len() as u32,
            tokens,
            max_query,
            uniform_v1: alike && max_query == self.uniform_query,
            uniform_v2: (alike && eligible).then_some(max_query),
            // Only adaptive verification asks, and that is not simulated yet.
            prefilling: step.plan.shape.prefilling,
            active_loras: entries.iter().filter_map(|entry| self.adapters[&entry.slot.0]).collect::<BTreeSet<_>>().len()
                as u32,
            encoder_inputs: false,
        }
    }
}

impl Law for Graphs {
    fn see(&mut self, event: &Event<'_>) -> Result<(), String> {
        self.ledger.see(event)?;
        if let Event::RequestArrived { slot, request, .. } = event {
            self.adapters.insert(slot.0, request.adapter);
        }
        let Event::StepScheduled(step) = event else { return Ok(()) };
        let shape = self.shape(step);
        require(shape == step.plan.shape, || {
            format!("step {}: {:?}, its entries say {shape:?}", step.step, step.plan.shape)
        })?;
        let in_step = |fault| format!("step {}: {fault}", step.step);
        self.check_smallest(&shape, &step.dispatch.descriptor).map_err(in_step)?;
        if let Some(rules) = &self.rules {
            rules.check(&shape, step.dispatch).map_err(in_step)?;
        }
        self.padded_steps += u64::from(step.dispatch.descriptor.tokens > shape.tokens);
        self.eager_steps += u64::from(step.dispatch.cause.is_some());
        Ok(())
    }
}

/// Every step runs the smallest size that the engine's rule allows: in every step of every run, and for every token
/// count up to beyond the ceiling, decoding and mixed.
#[test]
fn law_3_the_padded_size_is_the_smallest_allowed() {
    let needed = ["padded steps", "eager steps", "shapes", "padded steps with drafts", "padded steps with adapters"];
    for_all("law 3", 192, &needed, |case, seen| {
        let house = case.open()?;
        let is_plain = case.drafts == 0 && !case.adapters;
        for (candidate, setup) in house.setups.iter().enumerate() {
            if is_plain {
                let rules = Rules::new(vllm(setup));
                let sizes: Vec<u32> = rules.sizes.iter().copied().collect();
                require(setup.graphs.capture_sizes() == sizes, || {
                    format!("ladder {:?}, the rules give {sizes:?}", setup.graphs.capture_sizes())
                })?;
                seen.add("shapes", check_all_shapes(&rules, setup)?);
            }
            let mut graphs = Watched(Graphs::new(setup, is_plain));
            let outcome = house.serve(candidate, &mut graphs)?;
            let padded = graphs.0.padded_steps;
            seen.add("padded steps with drafts", if case.drafts > 0 { padded } else { 0 });
            seen.add("padded steps with adapters", if case.adapters { padded } else { 0 });
            seen.add_run(&outcome);
            seen.add("padded steps", graphs.0.padded_steps);
            seen.add("eager steps", graphs.0.eager_steps);
        }
        Ok(())
    });
}

fn check_all_shapes(rules: &Rules, setup: &Setup) -> Result<u64, String> {
    let mut shapes = 0;
    for tokens in 1..=setup.graphs.ceiling() + 2 {
        let seqs = vllm(setup).scheduler.max_num_seqs;
        let decode = StepShape {
            requests: tokens,
            tokens,
            max_query: 1,
            uniform_v1: true,
            uniform_v2: Some(1),
            ..StepShape::default()
        };
        let mixed = |requests: u32| StepShape {
            requests,
            tokens,
            max_query: (tokens - requests + 1).max(2),
            prefilling: true,
            ..StepShape::default()
        };
        let mut candidates = vec![mixed(1), mixed(tokens.min(seqs))];
        candidates.extend(Some(decode).filter(|_| tokens <= seqs));
        for shape in candidates {
            rules.check(&shape, &setup.graphs.dispatch(&shape))?;
            shapes += 1;
        }
    }
    Ok(shapes)
}

/// Adds up padding from descriptors and shapes, and holds every other statement of it against the sum.
struct Padding<'a> {
    setup: &'a Setup,
    padded_rows: u64,
}

impl Law for Padding<'_> {
    fn see(&mut self, event: &Event<'_>) -> Result<(), String> {
        let Event::StepScheduled(step) = event else { return Ok(()) };
        let real: u32 = step.plan.entries.iter().map(|entry| entry.tokens).sum();
        let key = &step.dispatch.descriptor;
        let padded = key.tokens.checked_sub(real).ok_or_else(|| format!("{key:?} runs {real} rows"))?;
        require(key.mode != RuntimeMode::None || padded == 0, || format!("{key:?} pads {real} rows without a graph"))?;
        let record = record::step(step, self.setup);
        require((record.real_rows, record.padded_rows) == (real, padded), || {
            format!("step {}: {real} + {padded} rows, recorded {record:?}", step.step)
        })?;
        self.padded_rows += u64::from(padded);
        Ok(())
    }
}

/// Padding is padded minus real rows and zero without a graph, in events, step records and totals alike.
#[test]
fn law_4_padding_is_padded_minus_real() {
    for_all("law 4", 128, &["padded rows"], |case, seen| {
        let mut house = case.open()?;
        house.scenario.warm_up = sim::scenario::WarmUp::None;
        for (candidate, setup) in house.setups.iter().enumerate() {
            let mut padding = Watched(Padding { setup, padded_rows: 0 });
            let outcome = house.serve(candidate, &mut padding)?;
            let (expected, total) = (padding.0.padded_rows, outcome.summary.rungs.total().padded_rows);
            require(total == expected, || format!("{total} padded rows in total, {expected} in the steps"))?;
            seen.add_run(&outcome);
            seen.add("padded rows", expected);
        }
        Ok(())
    });
}

/// No step pads, and none misses.
struct NoPadding;

impl Law for NoPadding {
    fn see(&mut self, event: &Event<'_>) -> Result<(), String> {
        let Event::StepScheduled(step) = event else { return Ok(()) };
        let dispatch = step.dispatch;
        let fits = match dispatch.cause {
            None => dispatch.descriptor.tokens == step.plan.shape.tokens && !dispatch.relaxed,
            Some(cause) => matches!(cause, FallbackCause::GraphsOff | FallbackCause::ModeExcluded),
        };
        require(fits, || format!("step {}: {:?} runs as {dispatch:?}", step.step, step.plan.shape))
    }
}

/// A ladder that holds every size up to the token budget never pads, never misses and never relaxes: where every decoding
/// request runs one token. With drafts a decode graph holds whole requests only.
#[test]
fn law_8_a_ladder_of_every_size_never_pads() {
    for_all("law 8", 96, &["graph steps"], |case, seen| {
        if case.drafts > 0 {
            return Ok(());
        }
        let house = with_every_size(case.open()?)?;
        for candidate in 0..house.setups.len() {
            let outcome = house.serve(candidate, &mut Watched(NoPadding))?;
            seen.add_run(&outcome);
            seen.add("graph steps", outcome.summary.rungs.total().steps);
        }
        Ok(())
    });
}

fn with_every_size(mut house: House) -> Result<House, String> {
    // So many graphs leave no memory for a pool that follows from it.
    let blocks = house.setups.iter().map(|setup| setup.kv_pool.num_gpu_blocks).min();
    house.prepare_again(|server| {
        let budget = server.scheduler.max_num_batched_tokens;
        server.graphs.cudagraph_capture_sizes = Some((1..=budget).collect());
        server.graphs.max_cudagraph_capture_size = None;
        server.kv.num_gpu_blocks_override = blocks;
    })?;
    Ok(house)
}
