//! What the engine refuses, and how our messages say so.

use thiserror::Error;

/// A set of flags with which the engine does not start (SGLang specification sections 3, 4 and 9).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EngineError {
    /// The user's decode list is `[]`.
    #[error(
        "`cuda_graph_bs_decode` is empty: list at least one batch size, leave the flag out for the engine's own list, \
         or set disable_decode_cuda_graph = true"
    )]
    EmptyDecodeList,
    /// No decode size is left after alignment: an assertion of the engine.
    #[error(
        "no decode batch size can be captured: none of the {listed} listed sizes is a multiple of {alignment} rows (with \
         {width} tokens per request) and at most {rows} requests; list such sizes in cuda_graph_bs_decode, or set \
         disable_decode_cuda_graph = true"
    )]
    NoDecodeSize {
        /// Sizes before filtering.
        listed: usize,
        /// Rows must be a multiple of this.
        alignment: u32,
        /// Tokens per request.
        width: u32,
        /// Rows of the request pool, aligned.
        rows: u32,
    },
    /// More sizes than this program works with.
    #[error(
        "the {phase} list would have {sizes} sizes, more than the {most} this program works with: lower \
         cuda_graph_max_bs_{phase} or shorten cuda_graph_bs_{phase}"
    )]
    LadderTooLong {
        /// `decode` or `prefill`.
        phase: &'static str,
        /// Sizes asked for.
        sizes: u64,
        /// Most sizes accepted.
        most: u64,
    },
    /// A zero in a list or for a maximum.
    #[error("`{flag}` holds 0: a graph holds at least 1 {unit}; use disable_{phase}_cuda_graph = true for no graphs")]
    ZeroSize {
        /// The flag.
        flag: &'static str,
        /// `request` or `token`.
        unit: &'static str,
        /// `decode` or `prefill`.
        phase: &'static str,
    },
    /// A chunk that does not hold one page.
    #[error(
        "chunked_prefill_size is {chunk}, less than the page of {page_size} tokens: no prompt longer than it could ever \
         be computed; raise chunked_prefill_size to a multiple of page_size, or set it to -1"
    )]
    ChunkBelowPage {
        /// The chunk, in tokens.
        chunk: u32,
        /// The page, in tokens.
        page_size: u32,
    },
    /// Nothing is left for the KV pool.
    #[error(
        "no memory is left for the KV pool: {fraction} of {device} is {usable}, weights and what else is taken need \
         {taken}: raise mem_fraction_static, or lower cuda_graph_max_bs_decode or chunked_prefill_size, from which it \
         follows"
    )]
    NoKvMemory {
        /// `mem_fraction_static`.
        fraction: String,
        /// Memory of the device.
        device: kernels::units::Bytes,
        /// The share of it.
        usable: kernels::units::Bytes,
        /// What is taken from that share.
        taken: kernels::units::Bytes,
    },
    /// The reserve for activations and graphs takes the whole device, so that `mem_fraction_static` comes out at 0 or less.
    #[error(
        "the engine keeps {reserve_mib} MiB free for activations and graphs, and the device has gpu_mem_mib = \
         {device_mib}: give gpu_mem_mib in MiB, as nvidia-smi reports it, or set mem_fraction_static, or lower \
         chunked_prefill_size"
    )]
    ReserveAboveDevice {
        /// What it keeps free, in MiB.
        reserve_mib: u64,
        /// Memory of the device, in MiB.
        device_mib: u32,
    },
    /// The pool cannot hold the shortest request.
    #[error(
        "the KV pool of {tokens} tokens is too small: with pages of {page_size} tokens, a request of one token in and \
         one out needs more than {needed}; raise mem_fraction_static or max_total_tokens"
    )]
    PoolTooSmall {
        /// Tokens of the pool.
        tokens: u64,
        /// Tokens per page.
        page_size: u32,
        /// What the shortest request needs, in tokens.
        needed: u64,
    },
}
