//! Device memory: what captured graphs hold, and what is left for the KV pool.

use calibrate::profile::Profile;
use kernels::units::Bytes;

use crate::engine::shape::{Descriptor, RuntimeMode};
use crate::engine::vllm::options::{KvOptions, SchedulerOptions};

/// Device memory of a set of captured graphs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GraphMemory {
    /// The pool that all graphs share: captured largest first, it is about what the largest needs.
    pub pool: Bytes,
    /// The executables, one figure per descriptor.
    pub executables: Bytes,
}

impl GraphMemory {
    /// The memory of `descriptors`, captured largest first into one pool; nothing without descriptors.
    #[must_use]
    pub fn of(profile: &Profile, descriptors: &[Descriptor]) -> Self {
        let Some(largest) = descriptors.iter().map(|descriptor| descriptor.tokens).max() else {
            return Self::default();
        };
        let pool = &profile.machine.pool.figures;
        let executables = descriptors.iter().map(|descriptor| match descriptor.mode {
            RuntimeMode::Full => pool.full_executable.0,
            RuntimeMode::Piecewise => pool.piecewise_executable.0,
            RuntimeMode::None => 0,
        });
        Self { pool: Bytes(pool.base.0 + pool.per_row.0 * u64::from(largest)), executables: Bytes(executables.sum()) }
    }

    /// Pool and executables together.
    #[must_use]
    pub fn total(&self) -> Bytes {
        Bytes(self.pool.0 + self.executables.0)
    }
}

/// The KV pool, and how its size came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvPool {
    /// Blocks, the null block included.
    pub num_gpu_blocks: u32,
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
        /// Captured graphs.
        graphs: Bytes,
    },
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
    /// times device memory, less weights, activations and graphs, in whole blocks.
    ///
    /// # Errors
    /// If the graphs, weights and activations leave less than one block.
    pub fn size(
        profile: &Profile,
        scheduler: &SchedulerOptions,
        kv: &KvOptions,
        graphs: GraphMemory,
    ) -> Result<Self, NoKvMemory> {
        let block_size = scheduler.block_size;
        let pool = |num_gpu_blocks, origin| Self { num_gpu_blocks, block_size, origin };
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
        let graphs = graphs.total();
        let rest = requested.0.saturating_sub(weights.0 + activations.0 + graphs.0);
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

    /// Bytes of the pool.
    #[must_use]
    pub fn bytes(&self, profile: &Profile) -> Bytes {
        let token_bytes = profile.identity.model.kv_bytes_per_token().0;
        Bytes(u64::from(self.num_gpu_blocks) * u64::from(self.block_size) * token_bytes)
    }

    /// Tokens that the pool holds: one block, the null block, is never usable.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        u64::from(self.num_gpu_blocks.saturating_sub(1)) * u64::from(self.block_size)
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

    fn descriptor(mode: RuntimeMode, tokens: u32) -> Descriptor {
        Descriptor { mode, tokens, requests: None, uniform: None, max_query: None, loras: 0, ubatches: 1 }
    }

    #[test]
    fn the_pool_is_the_largest_rungs_and_executables_add_up() {
        let profile = Profile::builtin("a100-llama-3-8b").expect("built in");
        let pool = profile.machine.pool.figures;
        let few = [descriptor(RuntimeMode::Piecewise, 512), descriptor(RuntimeMode::Full, 256)];
        let more = [&few[..], &[descriptor(RuntimeMode::Full, 8)]].concat();
        assert_eq!(GraphMemory::of(&profile, &few).pool, GraphMemory::of(&profile, &more).pool);
        assert_eq!(GraphMemory::of(&profile, &few).pool.0, pool.base.0 + 512 * pool.per_row.0);
        assert_eq!(
            GraphMemory::of(&profile, &more).executables.0,
            pool.piecewise_executable.0 + 2 * pool.full_executable.0
        );
        assert_eq!(GraphMemory::of(&profile, &[]), GraphMemory::default());
    }

    #[test]
    fn graphs_come_out_of_the_kv_pool_unless_its_size_is_given() {
        let profile = Profile::builtin("a100-llama-3-8b").expect("built in");
        let scheduler = SchedulerOptions::default();
        let gib = GraphMemory { pool: Bytes(1 << 30), executables: Bytes(0) };
        let size = |kv: &KvOptions, graphs| KvPool::size(&profile, &scheduler, kv, graphs).expect("room");
        let rest = KvOptions::default();
        let lost = size(&rest, GraphMemory::default()).tokens() - size(&rest, gib).tokens();
        let token_bytes = profile.identity.model.kv_bytes_per_token().0;
        assert!(lost.abs_diff((1 << 30) / token_bytes) <= u64::from(scheduler.block_size));
        let given = KvOptions { num_gpu_blocks_override: Some(1000), ..KvOptions::default() };
        assert_eq!(size(&given, gib).tokens(), 999 * 16, "the null block is never usable");
        let bytes = KvOptions { kv_cache_memory_bytes: Some(Bytes(token_bytes * 16 * 10)), ..KvOptions::default() };
        assert_eq!(size(&bytes, gib).num_gpu_blocks, 10);
    }

    #[test]
    fn no_room_is_said_with_every_term() {
        let profile = Profile::builtin("a100-llama-3-8b").expect("built in");
        let kv = KvOptions { gpu_memory_utilization: 0.2, ..KvOptions::default() };
        let error = KvPool::size(&profile, &SchedulerOptions::default(), &kv, GraphMemory::default())
            .expect_err("weights alone take more")
            .to_string();
        assert!(error.contains("0.20 of") && error.contains("weights take"), "{error}");
    }
}
