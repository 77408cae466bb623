//! The engine's refusal to start with too few KV blocks.

use thiserror::Error;

use super::BlockPool;
use crate::engine::vllm::options::{KvOptions, SchedulerOptions};

/// The KV pool cannot hold one request of `max_model_len` tokens: the engine would not start.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "the KV pool is too small: one request of max_model_len = {max_model_len} tokens needs {needed_blocks} blocks of \
     {block_size} tokens, {usable_blocks} are usable (one more is the null block). {}ive the pool at least {} blocks: {}",
    match longest_tokens {
        0 => "G".to_owned(),
        tokens => format!("Lower max_model_len to at most {tokens}, or g"),
    },
    u64::from(*needed_blocks) + 1,
    match sized_by {
        Some(option) => format!("raise {option}, which sizes it"),
        None => "num_gpu_blocks_override, a higher gpu_memory_utilization, or less graph memory".to_owned(),
    }
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
    /// The option that sizes the pool outright; `None` where it takes what memory is left.
    pub sized_by: Option<&'static str>,
}

/// Checks that a pool of `num_gpu_blocks` blocks, the null block included, holds one request of `max_model_len`.
///
/// Without that a request alone in the engine would preempt itself for ever.
///
/// # Errors
/// [`PoolTooSmall`], the engine's start-up error.
pub fn check_pool(options: &SchedulerOptions, kv: &KvOptions, num_gpu_blocks: u32) -> Result<(), PoolTooSmall> {
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
        sized_by: match kv {
            KvOptions { num_gpu_blocks_override: Some(_), .. } => Some("num_gpu_blocks_override"),
            KvOptions { kv_cache_memory_bytes: Some(_), .. } => Some("kv_cache_memory_bytes"),
            _ => None,
        },
    })
}

#[cfg(test)]
mod tests {
    use kernels::units::Bytes;

    use super::*;

    fn options(max_model_len: u32) -> SchedulerOptions {
        SchedulerOptions { max_model_len, block_size: 16, ..SchedulerOptions::default() }
    }

    #[test]
    fn the_null_block_does_not_count() {
        let check = |max_model_len, blocks| check_pool(&options(max_model_len), &KvOptions::default(), blocks);
        assert_eq!(check(160, 11), Ok(()));
        assert!(check(161, 11).is_err());
        assert!(check(160, 10).is_err());
    }

    #[test]
    fn the_message_says_what_is_needed_and_what_to_change() {
        let error = |kv: &KvOptions| check_pool(&options(4096), kv, 100).expect_err("99 blocks hold 1584 tokens");
        let bytes = KvOptions { kv_cache_memory_bytes: Some(Bytes(1 << 20)), ..KvOptions::default() };
        assert!(
            error(&bytes).to_string().ends_with("at least 257 blocks: raise kv_cache_memory_bytes, which sizes it")
        );
        let both = KvOptions { num_gpu_blocks_override: Some(100), ..bytes };
        assert_eq!(error(&both).sized_by, Some("num_gpu_blocks_override"), "it overrides the bytes");
        let error = error(&KvOptions::default());
        assert_eq!(
            error.to_string(),
            "the KV pool is too small: one request of max_model_len = 4096 tokens needs 256 blocks of 16 tokens, \
             99 are usable (one more is the null block). Lower max_model_len to at most 1584, or give the pool at \
             least 257 blocks: num_gpu_blocks_override, a higher gpu_memory_utilization, or less graph memory"
        );
    }
}
