//! Drafts and prefix-cache hits, counted anew from the entries of the steps.

use std::collections::{BTreeMap, BTreeSet};

use sim::observe::Event;
use sim::scenario::WarmUp;

use crate::house::{Law, Outcome, Watched, for_all, require};

/// What the steps say, one request at a time.
#[derive(Default)]
struct Reuse {
    prompts: BTreeMap<u32, u32>,
    /// Requests that have run and have not been preempted since.
    running: BTreeSet<u32>,
    /// Requests that have run at all.
    begun: BTreeSet<u32>,
    prompt_tokens: u64,
    hit_tokens: u64,
    preempted_hit_tokens: u64,
    verifications: u64,
    drafts: u64,
    placeholders: u64,
}

impl Law for Reuse {
    fn see(&mut self, event: &Event<'_>) -> Result<(), String> {
        match event {
            Event::RequestArrived { id, request, .. } => {
                self.prompts.insert(id.0, request.prompt_tokens);
                require(request.shared.segments().iter().all(|part| part.end_tokens <= request.prompt_tokens), || {
                    format!("{request:?} shares more than it holds")
                })?;
            }
            Event::RequestPreempted { id, .. } => {
                self.running.remove(&id.0);
            }
            Event::StepScheduled(step) => {
                for entry in &step.plan.entries {
                    let found = u64::from(entry.context_tokens);
                    if self.begun.insert(entry.id.0) {
                        self.prompt_tokens += u64::from(self.prompts[&entry.id.0]);
                        self.hit_tokens += found;
                    } else if !self.running.contains(&entry.id.0) {
                        self.preempted_hit_tokens += found;
                    }
                    self.running.insert(entry.id.0);
                    if entry.samples && entry.drafts > 0 {
                        let made = u64::from(!entry.placeholder_drafts);
                        self.verifications += made;
                        self.drafts += made * u64::from(entry.drafts);
                        self.placeholders += 1 - made;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl Reuse {
    fn check(&self, outcome: &Outcome, caches: bool) -> Result<(), String> {
        let (prefixes, drafts) = (&outcome.summary.prefixes, &outcome.summary.drafts);
        let hits = (prefixes.prompt_tokens, prefixes.hit_tokens, prefixes.preempted_hit_tokens);
        // Nobody looks for hits where there is no cache.
        let prompt_tokens = if caches { self.prompt_tokens } else { 0 };
        require(hits == (prompt_tokens, self.hit_tokens, self.preempted_hit_tokens), || {
            format!("{prefixes:?}, counted {} of {}", self.hit_tokens, self.prompt_tokens)
        })?;
        require(caches || (self.hit_tokens, self.preempted_hit_tokens) == (0, 0), || {
            "tokens were found in a cache that is off".to_owned()
        })?;
        require((drafts.verifications, drafts.drafts) == (self.verifications, self.drafts), || {
            format!("{drafts:?}, counted {} drafts in {} verifications", self.drafts, self.verifications)
        })?;
        require(drafts.reached.iter().sum::<u64>() == drafts.accepted && drafts.accepted <= drafts.drafts, || {
            format!("{drafts:?}: positions do not add up")
        })?;
        require(drafts.reached.is_sorted_by(|one, next| one >= next), || format!("{drafts:?}: a position rises"))
    }
}

/// Hits, preempted hits, verifications and drafts of the report are those of the steps.
#[test]
fn drafts_and_hits_are_those_of_the_steps() {
    let needed =
        ["hit tokens", "hit tokens after preemption", "accepted drafts", "late requests", "placeholder drafts"];
    for_all("drafts and hits", 256, &needed, |case, seen| {
        let mut house = case.open()?;
        house.scenario.warm_up = WarmUp::None;
        for candidate in 0..house.setups.len() {
            let mut reuse = Watched(Reuse::default());
            let outcome = house.serve(candidate, &mut reuse)?;
            reuse.0.check(&outcome, house.setups[candidate].options.caches_prefixes())?;
            seen.add_run(&outcome);
            seen.add("hit tokens", reuse.0.hit_tokens);
            seen.add("hit tokens after preemption", reuse.0.preempted_hit_tokens);
            seen.add("accepted drafts", outcome.summary.drafts.accepted);
            seen.add("late requests", outcome.summary.drafts.late);
            seen.add("placeholder drafts", reuse.0.placeholders);
        }
        Ok(())
    });
}
