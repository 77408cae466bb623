//! The profile's curves, made ready for one candidate on one engine.

use calibrate::profile::{Attention, Curve, Kind, Overlap, Profile, Reading, Surface, SurfaceRow};

use kernels::units::{Requests, Rows};

use super::planned_launch::PlannedLaunch;
use super::step::{CostGroup, CostGroups, Execution, StepCost, StepTimes, StepWork};
use crate::engine::options::EngineOptions;
use crate::engine::plan::GraphPlan;
use crate::engine::shape::{Descriptor, Dispatch, EagerKind, RuntimeMode};
use crate::time::SimDuration;

/// Rows and requests up to this many are read from a table made at start-up; above it the curve is asked.
const TABLE_LIMIT: u32 = 65_536;

/// What the cost model must know of the engine, apart from the profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineSide {
    /// What mode NONE means in this engine: true or compiled eager.
    pub eager: Execution,
    /// Attention layers.
    pub attention_layers: u32,
    /// Pieces that a PIECEWISE step replays (specification section 8).
    pub pieces: u32,
    /// Most rows a step can run.
    pub rows_max: u32,
    /// Most rows of the output head: one for each request a step can hold and one for each of its drafts.
    pub head_rows_max: u32,
    /// Device time to make the drafts of a step, by the number of its requests from one on; the last entry goes on.
    pub drafting: Vec<SimDuration>,
}

impl EngineSide {
    /// The engine side of one candidate.
    #[must_use]
    pub fn of(options: &EngineOptions, plan: &GraphPlan, profile: &Profile) -> Self {
        let limits = options.limits();
        Self {
            eager: Self::eager_of(plan),
            attention_layers: profile.identity.model.attention_layers(),
            pieces: plan.pieces(profile.identity.model.attention_layers()),
            rows_max: limits.step_tokens.value,
            head_rows_max: limits.requests.value.saturating_mul(options.decode_tokens()),
            drafting: options.drafting_times(),
        }
    }

    /// What mode NONE means under a plan.
    #[must_use]
    pub fn eager_of(plan: &GraphPlan) -> Execution {
        match plan.eager_kind() {
            EagerKind::Compiled => Execution::CompiledEager,
            EagerKind::True => Execution::Eager,
        }
    }
}

/// How long a step would take without its graph, by the two readings of a table between its knots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EagerPeriod {
    /// Straight lines between measured sizes: the reading that prices steps.
    pub on_line: SimDuration,
    /// Stairs: every size costs as much as the next measured one.
    pub on_stairs: SimDuration,
    /// The step with its graph, on stairs as well.
    pub graph_on_stairs: SimDuration,
    /// Launch time beyond which the host would hold that step up, by the first reading.
    pub launch_slack: SimDuration,
}

/// The times behind an [`EagerPeriod`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EagerTimes {
    /// Of [`EagerPeriod::on_line`].
    pub without_graph: StepTimes,
    /// Of [`EagerPeriod::on_stairs`].
    pub on_stairs: StepTimes,
    /// Of [`EagerPeriod::graph_on_stairs`].
    pub graph_on_stairs: StepTimes,
}

impl EagerTimes {
    /// The same of a step whose attention takes longer by so much, or less.
    #[inline]
    #[must_use]
    pub fn with_attention_moved(self, by_ns: i64) -> Self {
        Self {
            without_graph: self.without_graph.with_attention_moved(by_ns),
            on_stairs: self.on_stairs.with_attention_moved(by_ns),
            graph_on_stairs: self.graph_on_stairs.with_attention_moved(by_ns),
        }
    }

    /// How long such steps hold up the next one, in steady state.
    #[inline]
    #[must_use]
    pub fn period(&self, overlap: Overlap, asynchronous: bool) -> EagerPeriod {
        EagerPeriod {
            on_line: self.without_graph.period(overlap, asynchronous),
            on_stairs: self.on_stairs.period(overlap, asynchronous),
            graph_on_stairs: self.graph_on_stairs.period(overlap, asynchronous),
            launch_slack: self.without_graph.launch_slack(asynchronous),
        }
    }
}

/// Prices steps in nanoseconds.
#[derive(Clone, Debug)]
pub struct CostModel {
    dense: RoundedTable,
    head: RoundedTable,
    attention: Option<Attention>,
    /// Attention of a single prompt computed at once, by its tokens; as far as steps can have them.
    whole_prompts: Vec<Reading>,
    drafting: Vec<SimDuration>,
    eager_gap: Option<Curve>,
    piecewise_gap: Option<Curve>,
    step_overhead_ns: u64,
    per_request_us: f64,
    bookkeeping_ns: u64,
    launch_eager_ns: u64,
    launch_compiled_ns: u64,
    launch_piecewise_ns: u64,
    launch_full_ns: u64,
    /// Of one executable.
    update_us: f64,
    eager: Execution,
    /// Pieces of a PIECEWISE step.
    pub pieces: u32,
    /// Groups that are derived as a whole, not measured or imported.
    derived: CostGroups,
    /// How host and device time combine.
    pub overlap: Overlap,
    /// The launch of a step without a graph, where it is a planning figure whose range could hold steps up.
    pub planned_launch: Option<PlannedLaunch>,
}

impl CostModel {
    /// Makes the profile ready for one engine.
    ///
    /// The engine half's attention wins over the machine half's; a profile without either prices attention at zero, as
    /// the textbook exercises do.
    #[must_use]
    pub fn new(profile: &Profile, side: &EngineSide) -> Self {
        let (machine, engine) = (&profile.machine, &profile.engine);
        let ops = &engine.ops.figures;
        let launch_us = machine.launch.figures.launch_us;
        let replay = &machine.replay.figures;
        let dispatch = &engine.dispatch.figures;
        let nodes_us = f64::from(ops.graph_nodes) * replay.node_us;
        let (eager_op_us, compiled_op_us) = (launch_us + dispatch.eager_us, launch_us + dispatch.compiled_us);
        let break_op_us = if side.eager == Execution::Eager { eager_op_us } else { compiled_op_us };
        let pieces = f64::from(side.pieces);
        let attention = profile.attention().map(|group| group.figures.clone());
        let derived = derived_groups(profile);
        let table = |curve, count_max, group| RoundedTable::new(curve, count_max, group, derived.contains(group));
        let prompts_of = |prefill: &Surface| {
            (0..=side.rows_max.min(TABLE_LIMIT)).map(|tokens| prefill.at(f64::from(tokens), 0.0)).collect()
        };
        Self {
            dense: table(&machine.dense.figures, side.rows_max, CostGroup::Dense),
            head: table(&machine.head.figures, side.head_rows_max, CostGroup::Head),
            whole_prompts: attention.as_ref().map_or_else(Vec::new, |attention| prompts_of(&attention.prefill)),
            attention,
            drafting: side.drafting.clone(),
            eager_gap: machine.eager_gap.as_ref().map(|gap| gap.figures.clone()),
            piecewise_gap: machine.piecewise_gap.as_ref().map(|gap| gap.figures.clone()),
            step_overhead_ns: nanoseconds(engine.host.figures.step_overhead_us),
            per_request_us: engine.host.figures.per_request_us,
            bookkeeping_ns: nanoseconds(engine.host.figures.padding_bookkeeping_us),
            launch_eager_ns: nanoseconds(f64::from(ops.eager) * eager_op_us),
            launch_compiled_ns: nanoseconds(f64::from(ops.compiled) * compiled_op_us),
            launch_piecewise_ns: nanoseconds(
                pieces * replay.fixed_us + nodes_us + f64::from(ops.attention_launches) * break_op_us,
            ),
            launch_full_ns: nanoseconds(replay.fixed_us + nodes_us),
            update_us: update_us(profile, pieces),
            eager: side.eager,
            pieces: side.pieces,
            derived,
            overlap: profile.overlap,
            planned_launch: PlannedLaunch::of(profile, side.eager),
        }
    }

    /// What mode NONE means in this engine: true or compiled eager.
    #[must_use]
    pub fn eager(&self) -> Execution {
        self.eager
    }

    /// The execution kind of a dispatched step.
    #[must_use]
    pub fn execution(&self, mode: RuntimeMode) -> Execution {
        match mode {
            RuntimeMode::None => self.eager,
            RuntimeMode::Piecewise => Execution::Piecewise,
            RuntimeMode::Full => Execution::Full,
        }
    }

    /// The price of a step as dispatched.
    #[must_use]
    pub fn price(&self, work: &StepWork, dispatch: &Dispatch) -> StepCost {
        let descriptor = &dispatch.descriptor;
        self.price_as(work, self.execution(descriptor.mode), Rows(descriptor.tokens), padded_requests(work, descriptor))
    }

    /// The decode attention of so many requests; `None` in a profile without attention.
    #[must_use]
    pub fn decode_row(&self, requests: u32) -> Option<SurfaceRow<'_>> {
        self.attention.as_ref().map(|attention| attention.decode.row(requests.into()))
    }

    /// The same as [`price`](Self::price), with the attention of the decoding requests read from their row.
    #[must_use]
    pub fn price_along(&self, work: &StepWork, dispatch: &Dispatch, row: Option<&mut SurfaceRow<'_>>) -> StepCost {
        let descriptor = &dispatch.descriptor;
        let (execution, padded) = (self.execution(descriptor.mode), padded_requests(work, descriptor));
        let Some(row) = row else { return self.price_as(work, execution, Rows(descriptor.tokens), padded) };
        self.price_reading(work, execution, Rows(descriptor.tokens), padded, |_, context| row.at(context))
    }

    /// Adds to the price of a step that it first updates executables which its graph shares with others.
    pub fn add_updates(&self, cost: &mut StepCost, updates: u32) {
        (cost.updates, cost.update_ns) = (updates, self.updates(updates).0);
    }

    /// Host time of updating so many executables.
    #[must_use]
    pub fn updates(&self, updates: u32) -> SimDuration {
        SimDuration::from_us(self.update_us * f64::from(updates))
    }

    /// How long a dispatched step of price `cost` would hold up the next one without its graph, in steady state: rows,
    /// gaps, launches, bookkeeping and padded requests differ, head, attention and overhead do not.
    #[must_use]
    pub fn eager_period(
        &self,
        work: &StepWork,
        dispatch: &Dispatch,
        cost: &StepCost,
        asynchronous: bool,
    ) -> EagerPeriod {
        self.eager_times(work, dispatch, cost).period(self.overlap, asynchronous)
    }

    /// How long host and device would work on a dispatched step of price `cost` without its graph.
    #[inline]
    #[must_use]
    pub fn eager_times(&self, work: &StepWork, dispatch: &Dispatch, cost: &StepCost) -> EagerTimes {
        let (rows, graph_rows) = (self.dense.at(work.tokens), self.dense.at(dispatch.descriptor.tokens));
        let times = cost.times();
        let padded_ns = self.padded_requests_ns(padded_requests(work, &dispatch.descriptor));
        let real_ns = cost.head_ns + cost.drafting_ns + cost.attention_ns - padded_ns;
        let without_graph_ns = real_ns + self.gap_ns(self.eager, Rows(work.tokens));
        let without_graph = StepTimes {
            preparation: SimDuration(cost.step_overhead_ns + cost.request_overhead_ns),
            launch: SimDuration(self.launch_ns(self.eager)),
            device: SimDuration(without_graph_ns + rows.ns),
        };
        let on_stairs = StepTimes { device: SimDuration(without_graph_ns + rows.stairs_ns), ..without_graph };
        let graph_on_stairs =
            StepTimes { device: SimDuration(times.device.0 - cost.dense_ns + graph_rows.stairs_ns), ..times };
        EagerTimes { without_graph, on_stairs, graph_on_stairs }
    }

    /// The profile's attention; `None` for one that prices it at zero.
    pub(super) fn attention(&self) -> Option<&Attention> {
        self.attention.as_ref()
    }

    /// What the graph of a step of `requests` adds to its times, whatever else the batch is: rows, gaps, launches,
    /// bookkeeping, and the requests that it pads. In mode NONE the same of the engine's eager kind.
    #[must_use]
    pub fn graph_times(&self, graph: &Descriptor, requests: u32) -> StepTimes {
        let execution = self.execution(graph.mode);
        let padded = padded_requests(&StepWork { requests, ..StepWork::default() }, graph);
        let device_ns = self.dense.at(graph.tokens).ns
            + self.gap_ns(execution, Rows(graph.tokens))
            + self.padded_requests_ns(padded);
        StepTimes {
            preparation: SimDuration(if execution.is_graph() { self.bookkeeping_ns } else { 0 }),
            launch: SimDuration(self.launch_ns(execution)),
            device: SimDuration(device_ns),
        }
    }

    /// The price of a step without a graph, as this engine would run it.
    #[must_use]
    pub fn price_eager(&self, work: &StepWork) -> StepCost {
        self.price_as(work, self.eager, Rows(work.tokens), Requests(0))
    }

    /// The price of `work` on `rows` rows run as `execution`, with `padded_requests` empty requests in the graph.
    #[must_use]
    pub fn price_as(&self, work: &StepWork, execution: Execution, rows: Rows, padded_requests: Requests) -> StepCost {
        let decodes = f64::from(work.decode_requests);
        self.price_reading(work, execution, rows, padded_requests, |attention, context| {
            attention.decode.at(decodes, context)
        })
    }

    /// The same, with the decode attention as `decode` reads it at a mean context.
    #[inline]
    fn price_reading(
        &self,
        work: &StepWork,
        execution: Execution,
        rows: Rows,
        padded_requests: Requests,
        decode: impl FnOnce(&Attention, f64) -> Reading,
    ) -> StepCost {
        let (dense, head) = (self.dense.at(rows.0), self.head.at(work.requests + work.drafts));
        let mut cost = StepCost {
            dense_ns: dense.ns,
            head_ns: head.ns,
            drafting_ns: self.drafting_ns(work),
            gap_ns: self.gap_ns(execution, rows),
            step_overhead_ns: self.step_overhead_ns,
            request_overhead_ns: nanoseconds(self.per_request_us * f64::from(work.requests)),
            launch_ns: self.launch_ns(execution),
            bookkeeping_ns: if execution.is_graph() { self.bookkeeping_ns } else { 0 },
            ..StepCost::default()
        };
        dense.origin.note(&mut cost);
        head.origin.note(&mut cost);
        if let Some(attention) = &self.attention {
            self.price_attention(attention, work, decode, &mut cost);
            cost.attention_ns += self.padded_requests_ns(padded_requests);
        }
        cost
    }

    #[inline]
    fn launch_ns(&self, execution: Execution) -> u64 {
        match execution {
            Execution::Eager => self.launch_eager_ns,
            Execution::CompiledEager => self.launch_compiled_ns,
            Execution::Piecewise => self.launch_piecewise_ns,
            Execution::Full => self.launch_full_ns,
        }
    }

    /// What a step of so many rows takes longer on the device than as one graph. Beyond the measured rows it stays as it is
    /// at the nearest: launches do not grow with rows.
    fn gap_ns(&self, execution: Execution, rows: Rows) -> u64 {
        let gap = match execution {
            Execution::Eager | Execution::CompiledEager => &self.eager_gap,
            Execution::Piecewise => &self.piecewise_gap,
            Execution::Full => &None,
        };
        gap.as_ref().map_or(0, |gap| nanoseconds(gap.within(f64::from(rows.0))))
    }

    /// The drafts that follow a step in which somebody sampled.
    fn drafting_ns(&self, work: &StepWork) -> u64 {
        let of_batch = self.drafting.get(work.requests.saturating_sub(1) as usize).or(self.drafting.last());
        of_batch.filter(|_| work.sampled > 0).map_or(0, |time| time.0)
    }

    /// Device time of so many requests that a FULL graph pads.
    #[must_use]
    pub fn padded_requests_time(&self, requests: u32) -> SimDuration {
        SimDuration(self.padded_requests_ns(Requests(requests)))
    }

    /// The per-request term of requests that a FULL graph pads: they carry no KV.
    pub(super) fn padded_requests_ns(&self, padded_requests: Requests) -> u64 {
        let padded_request_us = self.attention.as_ref().map_or(0.0, |attention| attention.padded_request_us);
        nanoseconds(padded_request_us * f64::from(padded_requests.0))
    }

    /// Attention of the chunks of a step.
    #[inline]
    fn prefill(&self, attention: &Attention, work: &StepWork) -> Reading {
        let is_alone = work.chunk_tokens.checked_mul(work.chunk_tokens) == Some(work.chunk_tokens_squared);
        let whole_prompt = if is_alone && work.chunk_context_product == 0 {
            self.whole_prompts.get(work.chunk_tokens as usize)
        } else {
            None
        };
        let read = || attention.prefill.at(work.equivalent_chunk(), work.equivalent_chunk_context());
        whole_prompt.copied().unwrap_or_else(read)
    }

    /// Attention of the real requests: one reading, or two added where the kernels are separate or no mixed table exists.
    #[inline]
    fn price_attention(
        &self,
        attention: &Attention,
        work: &StepWork,
        decode: impl FnOnce(&Attention, f64) -> Reading,
        cost: &mut StepCost,
    ) {
        let decode_context = work.mean_decode_context();
        let mut add = |group, reading: Reading| {
            cost.attention_ns += nanoseconds(reading.value);
            let is_derived = reading.extended || self.derived.contains(group);
            Origin::of(group, reading.outside.is_some(), is_derived).note(cost);
        };
        match (work.chunk_tokens > 0, work.decode_requests > 0) {
            (false, false) => {}
            (false, true) => add(CostGroup::DecodeAttention, decode(attention, decode_context)),
            (true, false) => add(CostGroup::PrefillAttention, self.prefill(attention, work)),
            (true, true) => {
                if let Some(mixed) = attention.mixed.as_ref().filter(|_| !attention.separate_kernels) {
                    let (chunk, chunk_context) = (work.equivalent_chunk(), work.equivalent_chunk_context());
                    let decodes = f64::from(work.decode_requests);
                    add(CostGroup::MixedAttention, mixed.at(chunk, chunk_context, decodes, decode_context));
                } else {
                    let decode = decode(attention, decode_context);
                    let prefill = self.prefill(attention, work);
                    // Each holds at least what it shares with the other, whatever the profile says.
                    let shared_us = attention.shared_us.min(decode.value).min(prefill.value);
                    add(CostGroup::DecodeAttention, decode);
                    add(CostGroup::PrefillAttention, Reading { value: prefill.value - shared_us, ..prefill });
                    cost.mixed_as_sum = !attention.separate_kernels;
                }
            }
        }
    }
}

/// Host microseconds of updating one executable of a step in so many pieces, each with its share of the nodes.
fn update_us(profile: &Profile, pieces: f64) -> f64 {
    let update = &profile.machine.update.figures;
    update.update_us + update.node_us * f64::from(profile.engine.ops.figures.graph_nodes) / pieces
}

/// Requests that the graph of a FULL step holds beyond the real ones.
pub(super) fn padded_requests(work: &StepWork, graph: &Descriptor) -> Requests {
    Requests(match graph.mode {
        RuntimeMode::Full => graph.requests.unwrap_or(work.requests).saturating_sub(work.requests),
        RuntimeMode::None | RuntimeMode::Piecewise => 0,
    })
}

/// The groups whose provenance is `derived`.
fn derived_groups(profile: &Profile) -> CostGroups {
    let derived = |kind| kind == Kind::Derived;
    let attention = profile.attention().is_some_and(|group| derived(group.provenance.kind));
    CostGroups::NONE
        .with(CostGroup::Dense, derived(profile.machine.dense.provenance.kind))
        .with(CostGroup::Head, derived(profile.machine.head.provenance.kind))
        .with(CostGroup::DecodeAttention, attention)
        .with(CostGroup::PrefillAttention, attention)
        .with(CostGroup::MixedAttention, attention)
}

/// A curve read once at every integer and rounded to nanoseconds.
#[derive(Clone, Debug)]
struct RoundedTable {
    entries: Vec<Rounded>,
    curve: Curve,
    group: CostGroup,
    is_derived: bool,
}

/// A reading in whole nanoseconds, and where it came from.
#[derive(Clone, Copy, Debug)]
struct Rounded {
    ns: u64,
    stairs_ns: u64,
    origin: Origin,
}

/// Groups that readings took from outside their range, or from derived figures inside it.
#[derive(Clone, Copy, Debug)]
struct Origin {
    outside: CostGroups,
    derived: CostGroups,
}

impl Origin {
    /// Of a reading of one group.
    fn of(group: CostGroup, is_outside: bool, is_derived: bool) -> Self {
        Self {
            outside: CostGroups::NONE.with(group, is_outside),
            derived: CostGroups::NONE.with(group, is_derived && !is_outside),
        }
    }

    fn note(self, cost: &mut StepCost) {
        (cost.outside, cost.derived) = (cost.outside.and(self.outside), cost.derived.and(self.derived));
    }
}

impl RoundedTable {
    fn new(curve: &Curve, count_max: u32, group: CostGroup, is_derived: bool) -> Self {
        let mut table = Self { entries: Vec::new(), curve: curve.clone(), group, is_derived };
        table.entries = (0..=count_max.min(TABLE_LIMIT)).map(|count| table.read(count)).collect();
        table
    }

    #[inline]
    fn at(&self, count: u32) -> Rounded {
        self.entries.get(count as usize).copied().unwrap_or_else(|| self.read(count))
    }

    #[cold]
    fn read(&self, count: u32) -> Rounded {
        let reading = self.curve.at(f64::from(count));
        Rounded {
            ns: nanoseconds(reading.value),
            stairs_ns: nanoseconds(self.curve.on_stairs(f64::from(count))),
            origin: Origin::of(self.group, reading.outside.is_some(), reading.extended || self.is_derived),
        }
    }
}

/// Microseconds to the nearest nanosecond; a value below zero (a line read far to the left of its range) is zero.
#[inline]
pub(super) fn nanoseconds(us: f64) -> u64 {
    SimDuration::from_us(us).0
}

#[cfg(test)]
mod tests {
    use calibrate::profile::{Axis, Table, Update};

    use super::*;

    fn model(profile: &str, eager: Execution) -> CostModel {
        let profile = Profile::builtin(profile).expect("a built-in profile");
        let attention_layers = profile.identity.model.attention_layers();
        let (pieces, drafting) = (attention_layers + 1, Vec::new());
        let side = EngineSide { eager, attention_layers, pieces, rows_max: 8192, head_rows_max: 256, drafting };
        CostModel::new(&profile, &side)
    }

    fn decode(requests: u32, context: u64) -> StepWork {
        StepWork {
            tokens: requests,
            requests,
            decode_requests: requests,
            decode_context_tokens: u64::from(requests) * context,
            ..StepWork::default()
        }
    }

    fn dispatch(mode: RuntimeMode, tokens: u32, requests: Option<u32>) -> Dispatch {
        let descriptor = Descriptor {
            mode,
            tokens,
            requests,
            uniform: None,
            max_query: None,
            loras: 0,
            ubatches: 1,
            prefix_chunks: None,
        };
        Dispatch { descriptor, cause: None, relaxed: false }
    }

    #[test]
    fn the_textbook_batch_of_eight_costs_what_the_text_says() {
        let cost = model("textbook", Execution::Eager);
        let eager = cost.price(&decode(8, 0), &dispatch(RuntimeMode::None, 8, None));
        let graph = cost.price(&decode(8, 0), &dispatch(RuntimeMode::Full, 8, Some(8)));
        assert_eq!((eager.device().0, eager.host().0), (4_000_000, 1_100_000));
        assert_eq!((graph.device().0, graph.host().0), (4_000_000, 350_000));
        assert_eq!(eager.period(cost.overlap, false).0, 5_100_000);
        assert_eq!(graph.period(cost.overlap, false).0, 4_350_000);
    }

    #[test]
    fn rows_are_padded_under_a_graph_and_real_without() {
        let cost = model("a100-llama-3-8b", Execution::CompiledEager);
        let work = decode(129, 1000);
        let padded = cost.price(&work, &dispatch(RuntimeMode::Piecewise, 136, None));
        let eager = cost.price(&work, &dispatch(RuntimeMode::None, 129, None));
        assert_eq!(padded.dense_ns, 18_064_000, "the published 136 rows");
        assert!(eager.dense_ns < padded.dense_ns);
        assert_eq!(padded.attention_ns, eager.attention_ns, "a PIECEWISE graph runs attention on the real batch");
    }

    #[test]
    fn rows_and_whole_prompts_are_read_as_the_surfaces_are() {
        for name in ["a100-llama-3-8b", "h100-llama-2-7b", "rtx4090-llama-3.1-8b", "textbook"] {
            let cost = model(name, Execution::CompiledEager);
            for (tokens, before) in [(1, 0), (17, 0), (512, 0), (4096, 0), (9000, 0), (300, 212)] {
                let mut prompt = StepWork { tokens, requests: 1, ..StepWork::default() };
                prompt.add_chunk(tokens, before);
                let read = |attention: &Attention| attention.prefill.at(tokens.into(), before.into()).value;
                let alone = cost.price_as(&prompt, Execution::CompiledEager, Rows(tokens), Requests(0));
                assert_eq!(alone.attention_ns, nanoseconds(cost.attention().map_or(0.0, read)), "{name} {tokens}");
                for (requests, context) in [(1, 3), (40, 900), (700, 20_000)] {
                    let mut work = decode(requests, context);
                    work.add_chunk(tokens, before);
                    let dispatched = dispatch(RuntimeMode::None, tokens + requests, None);
                    let along = cost.price_along(&work, &dispatched, cost.decode_row(requests).as_mut());
                    assert_eq!(along, cost.price(&work, &dispatched), "{name} {tokens} {requests}");
                }
            }
        }
    }

    #[test]
    fn a_full_graph_pays_the_request_term_of_what_it_pads() {
        let cost = model("a100-llama-3-8b", Execution::CompiledEager);
        let work = decode(9, 1000);
        let exact = cost.price(&work, &dispatch(RuntimeMode::Full, 16, Some(9)));
        let padded = cost.price(&work, &dispatch(RuntimeMode::Full, 16, Some(16)));
        let attention = Profile::builtin("a100-llama-3-8b").expect("built in");
        let request_us = attention.attention().expect("attention").figures.padded_request_us;
        assert_eq!(padded.attention_ns - exact.attention_ns, (7.0 * request_us * 1e3).round() as u64);
    }

    #[test]
    fn the_eager_period_is_that_of_the_step_without_its_graph() {
        for (profile, asynchronous) in [("a100-llama-3-8b", true), ("h100-llama-2-7b", false), ("textbook", true)] {
            let cost = model(profile, Execution::CompiledEager);
            let work = decode(9, 1000);
            for dispatched in [dispatch(RuntimeMode::Full, 16, Some(16)), dispatch(RuntimeMode::Piecewise, 24, None)] {
                let price = cost.price(&work, &dispatched);
                let (eager, priced) =
                    (cost.eager_period(&work, &dispatched, &price, asynchronous), cost.price_eager(&work));
                assert_eq!(eager.on_line, priced.period(cost.overlap, asynchronous));
                assert_eq!(eager.launch_slack, priced.times().launch_slack(asynchronous));
            }
        }
    }

    #[test]
    fn on_stairs_a_step_costs_as_much_as_the_next_measured_size() {
        let cost = model("a100-llama-3-8b", Execution::CompiledEager);
        let (work, dispatched) = (decode(129, 1000), dispatch(RuntimeMode::Piecewise, 136, None));
        let price = cost.price(&work, &dispatched);
        let eager = cost.eager_period(&work, &dispatched, &price, true);
        assert!(eager.on_line < eager.on_stairs, "129 rows lie before the edge at 136 on the line only");
        assert_eq!(eager.on_stairs, price.period(cost.overlap, true), "and cost as much as the rung on stairs");
    }

    #[test]
    fn a_rung_between_measured_sizes_is_read_on_stairs_too() {
        let cost = model("a100-llama-3-8b", Execution::CompiledEager);
        let (work, dispatched) = (decode(132, 1000), dispatch(RuntimeMode::Piecewise, 132, None));
        let price = cost.price(&work, &dispatched);
        let eager = cost.eager_period(&work, &dispatched, &price, true);
        assert_eq!(eager.on_stairs, eager.graph_on_stairs, "an exact hit saves no rows by either reading");
        assert!(eager.graph_on_stairs > price.period(cost.overlap, true));
    }

    #[test]
    fn launches_follow_the_formulas() {
        let profile = Profile::builtin("h100-llama-2-7b").expect("built in");
        let cost = model("h100-llama-2-7b", Execution::CompiledEager);
        let launch_us =
            |execution| cost.price_as(&decode(1, 100), execution, Rows(1), Requests(0)).launch_ns as f64 / 1e3;
        let (ops, replay) = (&profile.engine.ops.figures, &profile.machine.replay.figures);
        let (launch, dispatch) = (profile.machine.launch.figures.launch_us, &profile.engine.dispatch.figures);
        let nodes_us = f64::from(ops.graph_nodes) * replay.node_us;
        let close = |ours: f64, theirs: f64| assert!((ours - theirs).abs() < 1e-3, "{ours} {theirs}");
        close(launch_us(Execution::Eager), f64::from(ops.eager) * (launch + dispatch.eager_us));
        close(launch_us(Execution::CompiledEager), f64::from(ops.compiled) * (launch + dispatch.compiled_us));
        close(launch_us(Execution::Full), replay.fixed_us + nodes_us);
        close(
            launch_us(Execution::Piecewise),
            33.0 * replay.fixed_us + nodes_us + f64::from(ops.attention_launches) * (launch + dispatch.compiled_us),
        );
    }

    #[test]
    fn breaks_of_an_engine_without_compilation_are_launched_operation_by_operation() {
        let profile = Profile::builtin("h100-llama-2-7b").expect("built in");
        let piecewise_ns = |eager| {
            let cost = model("h100-llama-2-7b", eager);
            cost.price_as(&decode(1, 100), Execution::Piecewise, Rows(1), Requests(0)).launch_ns as f64
        };
        let (ops, dispatch) = (&profile.engine.ops.figures, &profile.engine.dispatch.figures);
        let more_us = f64::from(ops.attention_launches) * (dispatch.eager_us - dispatch.compiled_us);
        let difference_us = (piecewise_ns(Execution::Eager) - piecewise_ns(Execution::CompiledEager)) / 1e3;
        assert!((difference_us - more_us).abs() < 2e-3, "{difference_us} {more_us}");
    }

    #[test]
    fn an_update_costs_its_share_of_the_nodes() {
        let mut profile = Profile::builtin("h100-llama-2-7b").expect("built in");
        profile.machine.update.figures = Update { update_us: 5.0, node_us: 0.25 };
        let nodes = f64::from(profile.engine.ops.figures.graph_nodes);
        for pieces in [1.0, 33.0] {
            let all_us = pieces * update_us(&profile, pieces);
            assert!((all_us - (5.0 * pieces + 0.25 * nodes)).abs() < 1e-9, "{all_us} for {pieces} pieces");
        }
        profile.machine.update.figures = Update { update_us: 100.0, node_us: 0.0 };
        assert!((update_us(&profile, 33.0) - 100.0).abs() < 1e-12, "of a profile without the second figure");
    }

    #[test]
    fn gaps_are_device_time_of_steps_without_one_graph() {
        let mut profile = Profile::builtin("h100-llama-2-7b").expect("built in");
        let side = EngineSide {
            eager: Execution::CompiledEager,
            attention_layers: 32,
            pieces: 33,
            rows_max: 512,
            head_rows_max: 256,
            drafting: Vec::new(),
        };
        let without = CostModel::new(&profile, &side);
        let gap = |values: [f64; 2]| {
            let mut gap = profile.machine.dense.clone();
            let axis = Axis::new(vec![8.0, 16.0]).expect("they rise");
            gap.figures = Curve::Table(Table::new(axis, values.to_vec()).expect("as many"));
            Some(gap)
        };
        (profile.machine.eager_gap, profile.machine.piecewise_gap) = (gap([200.0, 180.0]), gap([100.0, 60.0]));
        let with = CostModel::new(&profile, &side);
        let work = decode(12, 1000);
        for (execution, rows, gap_us) in [
            (Execution::Eager, 12, 190),
            (Execution::CompiledEager, 12, 190),
            (Execution::CompiledEager, 1, 200),
            (Execution::CompiledEager, 500, 180),
            (Execution::Piecewise, 12, 80),
            (Execution::Piecewise, 500, 60),
            (Execution::Full, 12, 0),
        ] {
            let price = |cost: &CostModel| cost.price_as(&work, execution, Rows(rows), Requests(0));
            assert_eq!(price(&with).gap_ns, gap_us * 1_000, "{execution} of {rows}");
            assert_eq!(price(&with).device().0, price(&without).device().0 + gap_us * 1_000);
            assert_eq!(price(&with).outside, price(&without).outside, "beyond the last rows it is known too");
        }
        for dispatched in [dispatch(RuntimeMode::Full, 16, Some(16)), dispatch(RuntimeMode::Piecewise, 16, None)] {
            let price = with.price(&work, &dispatched);
            let eager = with.eager_period(&work, &dispatched, &price, true);
            assert_eq!(eager.on_line, with.price_eager(&work).period(with.overlap, true));
            assert_eq!(eager.launch_slack, with.price_eager(&work).times().launch_slack(true));
        }
    }

    #[test]
    fn updates_are_launch_time_that_a_step_without_its_graph_does_not_pay() {
        let profile = Profile::builtin("h100-llama-2-7b").expect("built in");
        let cost = model("h100-llama-2-7b", Execution::Eager);
        let (work, dispatched) = (decode(9, 1000), dispatch(RuntimeMode::Piecewise, 16, None));
        let price = cost.price(&work, &dispatched);
        let mut switched = price;
        cost.add_updates(&mut switched, 33);
        assert_eq!(switched.update_ns, (33.0 * profile.machine.update.figures.update_us * 1e3).round() as u64);
        assert_eq!(switched.host().0 - price.host().0, switched.update_ns);
        assert_eq!(switched.times().launch.0 - price.times().launch.0, switched.update_ns);
        let without = |price| cost.eager_period(&work, &dispatched, price, true).on_line;
        assert_eq!(without(&switched), without(&price));
    }

    #[test]
    fn the_planned_launch_is_the_one_that_is_priced() {
        for eager in [Execution::Eager, Execution::CompiledEager] {
            let cost = model("h200-llama-3.1-8b", eager);
            let planned = cost.planned_launch.expect("declared with a range");
            assert_eq!(planned.declared, cost.price_eager(&decode(1, 100)).times().launch);
        }
        assert_eq!(model("textbook", Execution::Eager).planned_launch, None);
    }

    #[test]
    fn prices_outside_the_tables_are_flagged() {
        let cost = model("textbook", Execution::Eager);
        let inside = cost.price_as(&decode(512, 0), Execution::Eager, Rows(512), Requests(0));
        let above = cost.price_as(&decode(513, 0), Execution::Eager, Rows(513), Requests(0));
        assert!(inside.outside.is_empty());
        assert!(above.outside.contains(CostGroup::Dense) && above.dense_ns > inside.dense_ns);
        let far = cost.price_as(&decode(1, 0), Execution::Eager, Rows(TABLE_LIMIT + 1), Requests(0));
        assert!(far.outside.contains(CostGroup::Dense), "beyond the table made at start-up as well");
    }

    #[test]
    fn what_both_hold_is_paid_once_in_a_mixed_step() {
        let execution = Execution::CompiledEager;
        let mut cost = model("a100-llama-3-8b", execution);
        let mut work = decode(16, 1000);
        work.add_chunk(512, 0);
        let price =
            |cost: &CostModel, work: &StepWork| cost.price_as(work, execution, Rows(528), Requests(0)).attention_ns;
        let (sum, alone) = (price(&cost, &work), price(&cost, &decode(16, 1000)));
        let shared = |cost: &mut CostModel, us| cost.attention.as_mut().expect("it has some").shared_us = us;
        shared(&mut cost, 12.5);
        assert_eq!((price(&cost, &work), price(&cost, &decode(16, 1000))), (sum - 12_500, alone));
        shared(&mut cost, 1e9);
        assert!(price(&cost, &work) >= alone.min(sum - alone), "never more than the smaller of both");
    }

    #[test]
    fn separate_kernels_add_and_one_kernel_reads_the_mixed_table() {
        let mut work = decode(16, 1000);
        work.add_chunk(512, 0);
        let split = model("a100-llama-3-8b", Execution::CompiledEager);
        let whole = split.price_as(&work, Execution::CompiledEager, Rows(528), Requests(0));
        let decodes = split.price_as(&decode(16, 1000), Execution::CompiledEager, Rows(528), Requests(0));
        let mut chunk = StepWork { tokens: 512, requests: 1, ..StepWork::default() };
        chunk.add_chunk(512, 0);
        let chunk = split.price_as(&chunk, Execution::CompiledEager, Rows(528), Requests(0));
        assert_eq!(whole.attention_ns, decodes.attention_ns + chunk.attention_ns);
        assert!(!whole.mixed_as_sum);
        let mixed = model("rtx4090-llama-3.1-8b", Execution::CompiledEager);
        let cost = mixed.price_as(&work, Execution::CompiledEager, Rows(528), Requests(0));
        assert!(!cost.mixed_as_sum && cost.attention_ns > 0);
    }
}
