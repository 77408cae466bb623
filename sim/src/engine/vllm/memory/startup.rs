//! The engine's refusal to start with too few KV blocks.

use thiserror::Error;

use super::BlockPool;
use crate::engine::vllm::options::SchedulerOptions;

/// The KV pool cannot hold one request of `max_model_len` tokens: the engine would not start.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "the KV pool is too small: one request of max_model_len = {max_model_len} tokens needs {needed_blocks} blocks of \
     {block_size} tokens, {usable_blocks} are usable (one more is the null block). {}ive the pool at least {} blocks: \
     num_gpu_blocks_override, a higher gpu_memory_utilization, or less graph memory",
    match longest_tokens {
        0 => "G".to_owned(),
        tokens => format!("Lower max_model_len to at most {tokens}, or g"),
    },
    u64::from(*needed_blocks) + 1
)]
pub struct PoolTooSmall {
    /// The longest request allowed, in tokens.
    pub max_model_len: u32,
    /// Tokens per block.
    pub block_size: u32,
    /// Blocks that one request of `max_model_len` fills.
    pub needed_blocks: u32,
    /// Blocks of the pool without the null block.
    pub usable_blocks: u32,
    /// The longest request that the pool holds, in tokens.
    pub longest_tokens: u64,
}

/// Checks that a pool of `num_gpu_blocks` blocks, the null block included, holds one request of `max_model_len`.
///
/// Without that a request alone in the engine would preempt itself for ever.
///
/// # Errors
/// [`PoolTooSmall`], the engine's start-up error.
pub fn check_pool(options: &SchedulerOptions, num_gpu_blocks: u32) -> Result<(), PoolTooSmall> {
    let pool = BlockPool::new(num_gpu_blocks, options.block_size, options.enable_prefix_caching);
    let needed_blocks = pool.blocks_for(options.max_model_len);
    if needed_blocks <= pool.usable() {
        return Ok(());
    }
    Err(PoolTooSmall {
        max_model_len: options.max_model_len,
        block_size: options.block_size,
        needed_blocks,
        usable_blocks: pool.usable(),
        longest_tokens: u64::from(pool.usable()) * u64::from(options.block_size),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(max_model_len: u32) -> SchedulerOptions {
        SchedulerOptions { max_model_len, block_size: 16, ..SchedulerOptions::default() }
    }

    #[test]
    fn the_null_block_does_not_count() {
        assert_eq!(check_pool(&options(160), 11), Ok(()));
        assert!(check_pool(&options(161), 11).is_err());
        assert!(check_pool(&options(160), 10).is_err());
    }

    #[test]
    fn the_message_says_what_is_needed_and_what_to_change() {
        let error = check_pool(&options(4096), 100).expect_err("99 blocks hold 1584 tokens");
        assert_eq!(
            error.to_string(),
            "the KV pool is too small: one request of max_model_len = 4096 tokens needs 256 blocks of 16 tokens, \
             99 are usable (one more is the null block). Lower max_model_len to at most 1584, or give the pool at \
             least 257 blocks: num_gpu_blocks_override, a higher gpu_memory_utilization, or less graph memory"
        );
    }
}
