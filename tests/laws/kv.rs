//! Law 5.

use std::collections::BTreeSet;

use sim::observe::Event;
use sim::server::Setup;

use crate::house::{Law, Watched, for_all, require, vllm};
use crate::ledger::Ledger;

/// Holds the pool against the blocks that the requests must hold, counted from their tokens.
pub(crate) struct Blocks {
    ledger: Ledger,
    block_size: u32,
    usable: u32,
    watermark: u32,
    /// Requests may share blocks.
    shares: bool,
    /// Tokens beyond the computed ones for which a request may hold blocks: rejected drafts and those to come.
    ahead: u32,
    max_model_len: u32,
    pub(crate) used_max: u32,
}

impl Blocks {
    pub(crate) fn new(setup: &Setup) -> Self {
        let options = &vllm(setup).scheduler;
        Self {
            ledger: Ledger::new(setup),
            block_size: options.block_size,
            usable: setup.kv_pool.num_gpu_blocks - 1,
            watermark: (options.watermark * f64::from(setup.kv_pool.num_gpu_blocks)) as u32,
            shares: options.enable_prefix_caching,
            ahead: match vllm(setup).graphs.num_speculative_tokens {
                0 => 0,
                drafts => 3 * (1 + drafts),
            },
            max_model_len: options.max_model_len,
            used_max: 0,
        }
    }

    /// The fewest and the most blocks that the running requests can hold.
    fn used(&self) -> (u32, u32) {
        let blocks = |tokens: u32| tokens.min(self.max_model_len).div_ceil(self.block_size);
        let running = || self.ledger.live.values().filter(|live| live.running).map(|live| live.computed);
        let each = running().map(blocks);
        let least = if self.shares { each.max().unwrap_or(0) } else { each.sum() };
        (least, running().map(|computed| blocks(computed + self.ahead)).sum())
    }
}

impl Law for Blocks {
    fn see(&mut self, event: &Event<'_>) -> Result<(), String> {
        let ran_before: BTreeSet<u32> =
            self.ledger.live.iter().filter(|(_, live)| live.running).map(|(&id, _)| id).collect();
        self.ledger.see(event)?;
        let Event::StepScheduled(step) = event else { return Ok(()) };
        require(step.usable_blocks == self.usable, || {
            format!("step {}: a pool of {} blocks, not {}", step.step, step.usable_blocks, self.usable)
        })?;
        let used = self.usable - step.free_blocks;
        let (least, most) = self.used();
        require((least..=most).contains(&used), || {
            format!("step {}: {used} used of {}, from tokens {least} to {most}", step.step, self.usable)
        })?;
        let admitted = step.plan.entries.iter().filter(|entry| !ran_before.contains(&entry.id.0)).count();
        let others_ran = step.running as usize > admitted;
        require(admitted == 0 || !others_ran || step.free_blocks >= self.watermark, || {
            format!("step {}: an admission left {} blocks of {}", step.step, step.free_blocks, self.watermark)
        })?;
        self.used_max = self.used_max.max(used);
        Ok(())
    }
}

/// Blocks used, counted from the tokens of each running request, and blocks free add up to the pool at every step; no
/// admission beside running requests goes below the watermark.
#[test]
fn law_5_used_and_free_blocks_are_the_pool() {
    for_all("law 5", 192, &["full pools", "preemptions"], |case, seen| {
        let house = case.open()?;
        for candidate in 0..house.setups.len() {
            let mut blocks = Watched(Blocks::new(&house.setups[candidate]));
            let outcome = house.serve(candidate, &mut blocks)?;
            let (after, before) = (&outcome.summary.steps, &outcome.summary.steps_before_cut);
            let peak = after.used_blocks_max.max(before.used_blocks_max);
            require(peak == blocks.0.used_max, || format!("a peak of {peak}, counted {}", blocks.0.used_max))?;
            seen.add_run(&outcome);
            seen.add("full pools", u64::from(blocks.0.used_max == blocks.0.usable));
            seen.add("preemptions", outcome.end.preemptions);
        }
        Ok(())
    });
}
