//! Law 9.

use calibrate::profile::{Attention, Axis, Curve, Group, Kind, Overlap, Profile, Surface, Table};
use sim::cost::{CostGroup, Execution, StepCost};
use sim::engine::shape::RuntimeMode;
use sim::observe::{Event, StepScheduled};
use sim::server::Setup;

use crate::house::{House, Law, Watched, for_all, require, vllm};

/// Prices every step a second time, straight from the profile's tables, and finds out from the knots alone whether a
/// figure lies outside them.
struct Prices<'a> {
    profile: &'a Profile,
    setup: &'a Setup,
    inside: u64,
    outside: u64,
    gaps: u64,
}

/// One figure of the profile, read at one place.
struct Figure {
    group: CostGroup,
    us: f64,
    inside: bool,
}

impl Prices<'_> {
    /// The readings of a step's attention, and whether they are a sum that stands in for one kernel.
    fn attention(attention: &Attention, step: &StepScheduled<'_>) -> (Vec<Figure>, bool) {
        let chunks = &step.plan.prefills;
        let chunk = chunks.iter().map(|chunk| f64::from(chunk.tokens).powi(2)).sum::<f64>().sqrt();
        let chunk_tokens: f64 = chunks.iter().map(|chunk| f64::from(chunk.tokens)).sum();
        let product: f64 = chunks.iter().map(|chunk| f64::from(chunk.tokens) * f64::from(chunk.context)).sum();
        let before = product / chunk_tokens;
        let decoding = step.plan.entries.iter().filter(|entry| !entry.prefill);
        let contexts: Vec<f64> = decoding.map(|entry| f64::from(entry.context_tokens + entry.tokens)).collect();
        let decodes = contexts.len() as f64;
        let context = contexts.iter().sum::<f64>() / decodes;
        let decode = || surface(CostGroup::DecodeAttention, &attention.decode, decodes, context);
        let prefill = || surface(CostGroup::PrefillAttention, &attention.prefill, chunk, before);
        match (chunks.is_empty(), contexts.is_empty(), &attention.mixed) {
            (true, _, _) => (vec![decode()], false),
            (false, true, _) => (vec![prefill()], false),
            (false, false, Some(mixed)) if !attention.separate_kernels => {
                let reading = mixed.at(chunk, before, decodes, context);
                let inside = reading.outside.is_none();
                (vec![Figure { group: CostGroup::MixedAttention, us: reading.value, inside }], false)
            }
            (false, false, _) => (vec![decode(), prefill()], !attention.separate_kernels),
        }
    }

    fn launch_us(&self, execution: Execution) -> f64 {
        let (machine, engine) = (&self.profile.machine, &self.profile.engine);
        let (ops, dispatch) = (&engine.ops.figures, &engine.dispatch.figures);
        let (launch, replay) = (machine.launch.figures.launch_us, &machine.replay.figures);
        let layers = f64::from(self.profile.identity.model.attention_layers());
        let nodes = f64::from(ops.graph_nodes) * replay.node_us;
        match execution {
            Execution::Eager => f64::from(ops.eager) * (launch + dispatch.eager_us),
            Execution::CompiledEager => f64::from(ops.compiled) * (launch + dispatch.compiled_us),
            Execution::Full => replay.fixed_us + nodes,
            Execution::Piecewise => {
                let between = f64::from(ops.attention_launches) * (launch + dispatch.compiled_us);
                (layers + 1.0) * replay.fixed_us + nodes + between
            }
        }
    }

    /// Linear between two knots, and as at the nearest beyond them.
    fn gap_ns(&self, execution: Execution, rows: f64) -> u64 {
        let machine = &self.profile.machine;
        let gap = match execution {
            Execution::Eager | Execution::CompiledEager => machine.eager_gap.as_ref(),
            Execution::Piecewise => machine.piecewise_gap.as_ref(),
            Execution::Full => None,
        };
        let Some(Curve::Table(table)) = gap.map(|gap| &gap.figures) else { return 0 };
        let knots: Vec<(f64, f64)> = table.x().iter().copied().zip(table.y().iter().copied()).collect();
        let (first, last) = (knots[0], knots[knots.len() - 1]);
        let between = knots.windows(2).find(|pair| (pair[0].0..=pair[1].0).contains(&rows));
        ns(match between {
            Some(&[(x0, y0), (x1, y1)]) => y0 + (y1 - y0) * (rows - x0) / (x1 - x0),
            _ if rows < first.0 => first.1,
            _ => last.1,
        })
    }

    /// The declared time, or its part for fewer drafts by the schedule of batch sizes.
    fn drafting_ns(&self, requests: u32) -> u64 {
        let options = vllm(self.setup);
        let (most, schedule) = (options.graphs.num_speculative_tokens, &options.graphs.dynamic_sd_schedule);
        let time = options.scheduler.drafter.drafting_time.map_or(0, |time| time.0);
        let tier = schedule.iter().flatten().find(|(first, last, _)| (*first..=*last).contains(&requests));
        let drafts = tier.map_or(most, |&(.., drafts)| drafts.min(most));
        if most == 0 { 0 } else { time * u64::from(drafts) / u64::from(most) }
    }

    fn execution(&self, mode: RuntimeMode) -> Execution {
        match mode {
            RuntimeMode::Full => Execution::Full,
            RuntimeMode::Piecewise => Execution::Piecewise,
            RuntimeMode::None if vllm(self.setup).graphs.enforce_eager => Execution::Eager,
            RuntimeMode::None => Execution::CompiledEager,
        }
    }

    fn check(&mut self, step: &StepScheduled<'_>) -> Result<(), String> {
        let key = &step.dispatch.descriptor;
        let execution = self.execution(key.mode);
        let requests = step.plan.entries.len() as u32;
        let samples = || step.plan.entries.iter().filter(|entry| entry.samples);
        let verified: u32 = samples().map(|entry| entry.drafts).sum();
        let mut figures = vec![
            curve(CostGroup::Dense, &self.profile.machine.dense.figures, f64::from(key.tokens)),
            curve(CostGroup::Head, &self.profile.machine.head.figures, f64::from(requests + verified)),
        ];
        let (mut attention_ns, mut summed) = (0, false);
        if let Some(attention) = self.profile.attention().map(|group| &group.figures) {
            let (read, as_sum) = Self::attention(attention, step);
            summed = as_sum;
            attention_ns = read.iter().map(|figure| ns(figure.us)).sum();
            if key.mode == RuntimeMode::Full {
                let padded = key.requests.map_or(0, |held| held.saturating_sub(requests));
                attention_ns += ns(attention.padded_request_us * f64::from(padded));
            }
            figures.extend(read);
        }
        let host = &self.profile.engine.host.figures;
        let graph = execution.is_graph();
        let mut expected = StepCost {
            dense_ns: ns(figures[0].us),
            head_ns: ns(figures[1].us),
            attention_ns,
            drafting_ns: if samples().next().is_some() { self.drafting_ns(requests) } else { 0 },
            gap_ns: self.gap_ns(execution, f64::from(key.tokens)),
            step_overhead_ns: ns(host.step_overhead_us),
            request_overhead_ns: ns(host.per_request_us * f64::from(requests)),
            launch_ns: ns(self.launch_us(execution)),
            bookkeeping_ns: if graph { ns(host.padding_bookkeeping_us) } else { 0 },
            mixed_as_sum: summed,
            ..StepCost::default()
        };
        self.gaps += u64::from(expected.gap_ns > 0);
        for figure in &figures {
            expected.outside = expected.outside.with(figure.group, !figure.inside);
            let derived = figure.inside && self.is_derived(figure.group, f64::from(key.tokens));
            expected.derived = expected.derived.with(figure.group, derived);
        }
        require(*step.cost == expected, || {
            format!("step {}: {:?}, the profile says {expected:?}", step.step, step.cost)
        })?;
        let all_inside = figures.iter().all(|figure| figure.inside);
        self.inside += u64::from(all_inside);
        self.outside += u64::from(!all_inside);
        Ok(())
    }

    fn is_derived(&self, group: CostGroup, rows: f64) -> bool {
        let machine = &self.profile.machine;
        match group {
            CostGroup::Dense => {
                let beyond = match &machine.dense.figures {
                    Curve::Table(table) => table.measured_to().is_some_and(|last| rows > last),
                    Curve::Line(_) | Curve::Constant(_) => false,
                };
                beyond || machine.dense.provenance.kind == Kind::Derived
            }
            CostGroup::Head => machine.head.provenance.kind == Kind::Derived,
            _ => self.profile.attention().is_some_and(|group| group.provenance.kind == Kind::Derived),
        }
    }
}

impl Law for Prices<'_> {
    fn see(&mut self, event: &Event<'_>) -> Result<(), String> {
        let Event::StepScheduled(step) = event else { return Ok(()) };
        self.check(step)
    }
}

fn curve(group: CostGroup, curve: &Curve, x: f64) -> Figure {
    let inside = match curve {
        Curve::Table(table) => within(table.x(), x),
        Curve::Line(line) => within(&line.valid, x),
        Curve::Constant(_) => true,
    };
    Figure { group, us: curve.at(x).value, inside }
}

fn surface(group: CostGroup, surface: &Surface, x: f64, y: f64) -> Figure {
    let inside = match surface {
        Surface::Grid(grid) => {
            let [columns, rows] = grid.axes();
            within(columns.knots(), x) && within(rows.knots(), y)
        }
        Surface::Constant(_) => true,
    };
    Figure { group, us: surface.at(x, y).value, inside }
}

fn within(knots: &[f64], x: f64) -> bool {
    knots[0] <= x && x <= knots[knots.len() - 1]
}

fn ns(us: f64) -> u64 {
    (us * 1e3).round() as u64
}

/// Ranges that small runs leave, one attention kernel for prefills and decodes without a table of both, and gaps of steps
/// that are not one graph.
fn narrow(house: &mut House) -> Result<(), String> {
    if let Curve::Line(line) = &mut house.profile.machine.dense.figures {
        line.valid = [3.0, 40.0];
    }
    if let Some(attention) = house.profile.engine.attention.as_mut() {
        attention.figures.separate_kernels &= house.profile.overlap == Overlap::Pipelined;
    }
    let gap = |rows: [f64; 3], us: [f64; 3]| {
        let axis = Axis::new(rows.to_vec()).expect("they rise");
        let figures = Curve::Table(Table::new(axis, us.to_vec()).expect("as many"));
        Some(Group { figures, ..house.profile.machine.dense.clone() })
    };
    let gaps = (gap([2.0, 9.0, 33.0], [210.5, 190.25, 230.0]), gap([4.0, 8.0, 16.0], [90.0, 130.0, 70.125]));
    (house.profile.machine.eager_gap, house.profile.machine.piecewise_gap) = gaps;
    house.prepare_again(|_| {})
}

/// Every price is the profile's, term by term, and a figure read outside its range always carries its flag.
#[test]
fn law_9_no_cost_from_outside_its_range_without_a_flag() {
    for_all(
        "law 9",
        192,
        &["steps inside", "steps outside", "steps with gaps", "mixed attention as sum"],
        |case, seen| {
            let mut house = case.open()?;
            narrow(&mut house)?;
            for (candidate, setup) in house.setups.iter().enumerate() {
                let mut prices = Watched(Prices { profile: &house.profile, setup, inside: 0, outside: 0, gaps: 0 });
                let outcome = house.serve(candidate, &mut prices)?;
                let (totals, before) = (&outcome.summary.steps, &outcome.summary.steps_before_cut);
                let flagged = totals.outside_steps + before.outside_steps;
                require(flagged == prices.0.outside, || {
                    format!("{flagged} steps flagged, {} outside", prices.0.outside)
                })?;
                seen.add_run(&outcome);
                seen.add("steps inside", prices.0.inside);
                seen.add("steps outside", prices.0.outside);
                seen.add("steps with gaps", prices.0.gaps);
                seen.add("mixed attention as sum", totals.mixed_as_sum_steps);
            }
            Ok(())
        },
    );
}
