//! Data-parallel ranks that take every step together.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use calibrate::profile::Overlap;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use sim::engine::request::RequestId;
use sim::engine::shape::{FallbackCause, RuntimeMode};
use sim::observe::Event;
use sim::time::SimTime;

use crate::house::{House, Law, Watched, require};
use crate::profiles;

/// One random server, and what each of its ranks is asked.
#[derive(Clone, Debug)]
struct Group {
    runner: &'static str,
    mode: &'static str,
    asynchronous: bool,
    drafts: u32,
    /// Requests a second, prompt and output of each rank.
    ranks: Vec<(f64, u32, u32)>,
}

fn groups() -> impl Strategy<Value = Group> {
    let modes = ["FULL_AND_PIECEWISE", "FULL_DECODE_ONLY", "PIECEWISE", "FULL", "NONE"];
    let rank = (1.0..40.0, 1_u32..300, 1_u32..40);
    (
        proptest::sample::select(vec!["v1", "v2"]),
        proptest::sample::select(modes.to_vec()),
        any::<bool>(),
        proptest::sample::select(vec![0_u32, 0, 1, 3]),
        proptest::collection::vec(rank, 2..=4),
    )
        .prop_map(|(runner, mode, asynchronous, drafts, ranks)| Group {
            runner,
            mode,
            asynchronous,
            drafts,
            ranks,
        })
}

impl Group {
    /// The scenario of these ranks, with constant arrivals and lengths: nothing is drawn.
    fn text(&self, ranks: &[(f64, u32, u32)]) -> String {
        let Self { runner, mode, asynchronous, drafts, .. } = self;
        let mut text = format!(
            "schema = 1\nname = \"ranks\"\n[server.vllm]\nrunner = \"{runner}\"\nmax_num_seqs = 32\n\
             max_num_batched_tokens = 256\nmax_model_len = 512\nnum_gpu_blocks_override = 90\n\
             attention_support = \"ALWAYS\"\nasync_scheduling = {asynchronous}\ncudagraph_mode = \"{mode}\"\n\
             num_speculative_tokens = {drafts}\ndata_parallel_size = {}\n[profile]\nbuiltin = \"a100-llama-3-8b\"\n\
             [traffic]\n",
            ranks.len()
        );
        if *drafts > 0 {
            text += "[traffic.acceptance]\nrates = [1.0, 1.0]\n";
        }
        for (rate, prompt, output) in ranks {
            let written = write!(
                text,
                "[[traffic.rank]]\nrequests = 60\narrivals = {{ constant = {{ rate = {rate} }} }}\n\
                 lengths = {{ fixed = {{ prompt = {prompt}, output = {output} }} }}\n"
            );
            written.expect("writing to a string cannot fail");
        }
        text
    }

    fn open(&self, ranks: &[(f64, u32, u32)]) -> Result<House, String> {
        let profile = profiles::builtin("a100-llama-3-8b", Overlap::Pipelined);
        House::open(&self.text(ranks), Path::new(""), profile)
    }
}

/// Runs a property over random groups, the same on every run.
fn for_groups(cases: u32, property: impl Fn(&Group) -> Result<(), String>) {
    let config = Config { cases, failure_persistence: None, rng_seed: RngSeed::Fixed(11), ..Config::default() };
    let outcome = TestRunner::new(config).run(&groups(), |group| property(&group).map_err(TestCaseError::fail));
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

/// What every rank ran in one step of the group.
#[derive(Default)]
struct Agreement {
    /// Of the round that is being told: when, and each rank's mode, rows, real tokens and cause.
    round: Vec<(SimTime, SimTime, RuntimeMode, u32, u32, Option<FallbackCause>)>,
    dummies: Vec<u32>,
    dummy_steps: u64,
    agreed_graphs: u64,
    gave_up: u64,
    delivered: BTreeMap<RequestId, u32>,
    asked: BTreeMap<RequestId, u32>,
}

impl Agreement {
    fn close_round(&mut self) -> Result<(), String> {
        let round = std::mem::take(&mut self.round);
        let dummies = std::mem::take(&mut self.dummies);
        let Some(&(_, end, mode, rows, ..)) = round.first() else { return Ok(()) };
        for &(_, its_end, its_mode, its_rows, tokens, cause) in &round {
            require(its_end == end, || "ranks end together".to_owned())?;
            require((its_mode == RuntimeMode::None) == (mode == RuntimeMode::None), || {
                "either every rank has a graph or none has".to_owned()
            })?;
            require(mode == RuntimeMode::None || its_rows == rows, || format!("{its_rows} rows beside {rows}"))?;
            require(its_rows >= tokens, || "no rank runs fewer rows than it has tokens".to_owned())?;
            self.gave_up += u64::from(cause == Some(FallbackCause::OtherRank));
        }
        self.agreed_graphs += u64::from(mode != RuntimeMode::None && round.len() > 1);
        self.dummy_steps += dummies.len() as u64;
        require(mode == RuntimeMode::None || dummies.iter().all(|&dummy| dummy == rows), || {
            format!("idle ranks run {dummies:?} rows beside {rows}")
        })
    }
}

impl Law for Agreement {
    fn see(&mut self, event: &Event<'_>) -> Result<(), String> {
        match event {
            Event::RequestArrived { id, request, .. } => {
                self.asked.insert(*id, request.output_tokens);
            }
            Event::StepScheduled(step) => {
                if self.round.first().is_some_and(|(scheduled, ..)| *scheduled != step.span.scheduled) {
                    self.close_round()?;
                }
                let graph = &step.dispatch.descriptor;
                let (scheduled, end) = (step.span.scheduled, step.span.end);
                self.round.push((scheduled, end, graph.mode, graph.tokens, step.work.tokens, step.dispatch.cause));
            }
            Event::DummyStepRun { at, rows, .. } => {
                if self.round.first().is_some_and(|(scheduled, ..)| scheduled != at) {
                    self.close_round()?;
                }
                self.dummies.push(*rows);
            }
            Event::StepApplied { outcome, .. } => {
                self.close_round()?;
                for delivered in &outcome.delivered {
                    *self.delivered.entry(delivered.id).or_default() += delivered.tokens;
                }
            }
            Event::RequestRefused { .. } | Event::RequestPreempted { .. } => {}
        }
        Ok(())
    }
}

/// All ranks run a graph of one size or none does, all end together, and every request gets its tokens on its rank.
#[test]
fn ranks_run_what_they_agreed_on() {
    let totals = std::cell::RefCell::new([0; 3]);
    for_groups(64, |group| {
        let house = group.open(&group.ranks)?;
        let mut law = Watched(Agreement::default());
        house.serve(0, &mut law)?;
        law.0.close_round()?;
        let law = law.0;
        require(law.asked.len() == 60 * group.ranks.len(), || format!("{} requests", law.asked.len()))?;
        require(law.asked == law.delivered, || "every request gets its tokens".to_owned())?;
        let mut totals = totals.borrow_mut();
        for (total, seen) in totals.iter_mut().zip([law.dummy_steps, law.agreed_graphs, law.gave_up]) {
            *total += seen;
        }
        Ok(())
    });
    let [dummy_steps, agreed_graphs, gave_up] = totals.into_inner();
    println!("ranks: {dummy_steps} dummy steps, {agreed_graphs} steps with an agreed graph, {gave_up} given up");
    assert!(dummy_steps > 0 && agreed_graphs > 0 && gave_up > 0);
}

/// The steps of the first rank, as far as they do not depend on how ranks are numbered.
#[derive(Default)]
struct FirstRank(Vec<(SimTime, SimTime, RuntimeMode, u32, u64)>);

impl Law for FirstRank {
    fn see(&mut self, event: &Event<'_>) -> Result<(), String> {
        if let Event::StepScheduled(step) = event
            && step.rank == 0
        {
            let graph = &step.dispatch.descriptor;
            self.0.push((step.span.scheduled, step.span.end, graph.mode, graph.tokens, step.cost.device().0));
        }
        Ok(())
    }
}

/// Ranks that are asked the same agree on what one would run alone: a group of twins steps as its first rank does.
#[test]
fn twins_step_as_one_rank_alone() {
    for_groups(48, |group| {
        let steps = |ranks: &[(f64, u32, u32)]| -> Result<_, String> {
            let mut first = Watched(FirstRank::default());
            group.open(ranks)?.serve(0, &mut first)?;
            Ok(first.0.0)
        };
        let alone = steps(&group.ranks[..1])?;
        let twins = steps(&[group.ranks[0]; 3])?;
        require(!alone.is_empty(), || "steps".to_owned())?;
        let differs = alone.iter().zip(&twins).position(|(one, other)| one != other);
        require(alone == twins, || format!("step {differs:?} of {} differs", alone.len()))
    });
}
