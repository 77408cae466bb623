//! What is left for the KV pool.

use calibrate::profile::Profile;
use kernels::units::Bytes;

use crate::engine::vllm::options::{KvOptions, SchedulerOptions};

/// The KV pool, and how its size came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvPool {
    /// Blocks, null blocks included.
    pub num_gpu_blocks: u32,
    /// Of these, blocks that no request can hold: vLLM keeps a null block, SGLang's pages are counted without one.
    pub null_blocks: u32,
    /// Tokens per block.
    pub block_size: u32,
    /// What the size follows from.
    pub origin: KvOrigin,
}

/// What a KV pool's size follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvOrigin {
    /// `num_gpu_blocks_override`: graph memory does not touch it.
    Override,
    /// `kv_cache_memory_bytes`: graph memory does not touch it.
    Given {
        /// The bytes given.
        kv: Bytes,
    },
    /// The rest of the device memory that the engine may use.
    Rest {
        /// `gpu_memory_utilization` of the device memory.
        requested: Bytes,
        /// Model weights.
        weights: Bytes,
        /// Peak activations of the largest step.
        activations: Bytes,
        /// What the engine sets aside for captured graphs.
        graphs: Bytes,
    },
    /// SGLang: `mem_fraction_static` of the device, less the weights. Graphs and activations are paid from the rest of the
    /// device, the slack.
    Fraction {
        /// The fraction follows from the engine's reserve, and that from the ladders; otherwise it is given.
        from_reserve: bool,
    },
    /// SGLang: what weights, graphs and activations leave of the device once the graphs are captured.
    AfterCapture,
}

impl KvOrigin {
    /// Whether other graphs would leave another pool.
    #[must_use]
    pub fn follows_graphs(self) -> bool {
        match self {
            Self::Override | Self::Given { .. } => false,
            Self::Rest { .. } | Self::AfterCapture => true,
            Self::Fraction { from_reserve } => from_reserve,
        }
    }
}

/// What an engine expects its graphs to hold, and what it does about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GraphReserve {
    /// The engine's own estimate; `None` where it makes none.
    pub estimate: Option<Bytes>,
    /// What it keeps out of the KV pool: the estimate or nothing.
    pub set_aside: Bytes,
}

/// The blocks of a KV pool if graphs took other memory out of it; a null block included. `None` where the pool's size is
/// given, so that no graph touches it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KvBlocks {
    /// If graphs took nothing.
    pub without_graphs: Option<u32>,
    /// If they took what the engine estimates.
    pub less_estimate: Option<u32>,
    /// If they took what the model says they hold.
    pub less_actual: Option<u32>,
}

/// No memory is left for the KV pool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no memory is left for the KV pool: {utilization} of {device} is {requested}, weights take {weights}, activations \
     {activations}, graphs {graphs}"
)]
pub struct NoKvMemory {
    utilization: String,
    device: Bytes,
    requested: Bytes,
    weights: Bytes,
    activations: Bytes,
    graphs: Bytes,
}

impl KvPool {
    /// Sizes the pool as vLLM does (specification section 9): an override or a given size wins; otherwise utilisation
    /// times device memory, less weights, activations and what is set aside for graphs, in whole blocks.
    ///
    /// # Errors
    /// If the graphs, weights and activations leave less than one block.
    pub fn size(
        profile: &Profile,
        scheduler: &SchedulerOptions,
        kv: &KvOptions,
        graphs: Bytes,
    ) -> Result<Self, NoKvMemory> {
        let block_size = scheduler.block_size;
        let pool = |num_gpu_blocks, origin| Self { num_gpu_blocks, null_blocks: 1, block_size, origin };
        if let Some(blocks) = kv.num_gpu_blocks_override {
            return Ok(pool(blocks, KvOrigin::Override));
        }
        let model = &profile.identity.model;
        let block_bytes = model.kv_bytes_per_token().0 * u64::from(block_size);
        let whole_blocks = |bytes: u64| u32::try_from(bytes / block_bytes).unwrap_or(u32::MAX);
        if let Some(given) = kv.kv_cache_memory_bytes {
            return Ok(pool(whole_blocks(given.0), KvOrigin::Given { kv: given }));
        }
        let device = profile.machine.memory.figures.total;
        let requested = Bytes((device.0 as f64 * kv.gpu_memory_utilization) as u64);
        let weights = model.weights_bytes();
        let activations = activation_bytes(profile, scheduler.max_num_batched_tokens);
        let taken = weights.0.saturating_add(activations.0).saturating_add(graphs.0);
        let rest = requested.0.saturating_sub(taken);
        if rest < block_bytes {
            return Err(NoKvMemory {
                utilization: format!("{:.2}", kv.gpu_memory_utilization),
                device,
                requested,
                weights,
                activations,
                graphs,
            });
        }
        Ok(pool(whole_blocks(rest), KvOrigin::Rest { requested, weights, activations, graphs }))
    }

    /// The blocks that graphs of other sizes would leave: 0 if they leave no room for one.
    #[must_use]
    pub fn blocks_with(
        &self,
        profile: &Profile,
        scheduler: &SchedulerOptions,
        kv: &KvOptions,
        graphs: Bytes,
    ) -> Option<u32> {
        self.origin
            .follows_graphs()
            .then(|| Self::size(profile, scheduler, kv, graphs).map_or(0, |pool| pool.num_gpu_blocks))
    }

    /// Bytes of the pool.
    #[must_use]
    pub fn bytes(&self, profile: &Profile) -> Bytes {
        let token_bytes = profile.identity.model.kv_bytes_per_token().0;
        Bytes(u64::from(self.num_gpu_blocks) * u64::from(self.block_size) * token_bytes)
    }

    /// Tokens that the pool holds: a null block is never usable.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        u64::from(self.num_gpu_blocks.saturating_sub(self.null_blocks)) * u64::from(self.block_size)
    }
}

/// Peak activations of a step of `step_tokens_max` tokens, the largest there is.
#[must_use]
pub fn activation_bytes(profile: &Profile, step_tokens_max: u32) -> Bytes {
    let activation = &profile.engine.activation.figures;
    Bytes(activation.base.0 + activation.per_row.0 * u64::from(step_tokens_max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphs_come_out_of_the_kv_pool_unless_its_size_is_given() {
        let profile = Profile::builtin("a100-llama-3-8b").expect("built in");
        let scheduler = SchedulerOptions::default();
        let (nothing, gib) = (Bytes(0), Bytes(1 << 30));
        let size = |kv: &KvOptions, graphs| KvPool::size(&profile, &scheduler, kv, graphs).expect("room");
        let rest = KvOptions::default();
        let lost = size(&rest, nothing).tokens() - size(&rest, gib).tokens();
        let token_bytes = profile.identity.model.kv_bytes_per_token().0;
        assert!(lost.abs_diff((1 << 30) / token_bytes) <= u64::from(scheduler.block_size));
        let given = KvOptions { num_gpu_blocks_override: Some(1000), ..KvOptions::default() };
        assert_eq!(size(&given, gib).tokens(), 999 * 16, "the null block is never usable");
        let bytes = KvOptions { kv_cache_memory_bytes: Some(Bytes(token_bytes * 16 * 10)), ..KvOptions::default() };
        assert_eq!(size(&bytes, gib).num_gpu_blocks, 10);
        assert_eq!(size(&bytes, gib).blocks_with(&profile, &scheduler, &bytes, nothing), None, "given outright");
        let blocks = |graphs| size(&rest, nothing).blocks_with(&profile, &scheduler, &rest, graphs);
        assert_eq!(blocks(gib), Some(size(&rest, gib).num_gpu_blocks));
        assert_eq!(blocks(Bytes(1 << 50)), Some(0), "no room at all");
    }

    #[test]
    fn no_room_is_said_with_every_term() {
        let profile = Profile::builtin("a100-llama-3-8b").expect("built in");
        let kv = KvOptions { gpu_memory_utilization: 0.2, ..KvOptions::default() };
        let error = KvPool::size(&profile, &SchedulerOptions::default(), &kv, Bytes(0))
            .expect_err("weights alone take more")
            .to_string();
        assert!(error.contains("0.20 of") && error.contains("weights take"), "{error}");
    }
}
