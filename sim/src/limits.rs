//! The largest values a scenario may hold. Each is far beyond any real server and small enough that nothing overflows,
//! runs for ever or fills the memory.

/// Tokens of one prompt or output, and `max_model_len`. Six times the longest context on offer (10 million); a prompt
/// and its output together stay far below `u32::MAX`.
pub const REQUEST_TOKENS_MAX: u32 = 1 << 26;

/// `max_num_seqs` and `max_num_active_seqs`: a thousand times the engine's own largest default.
pub const SEQUENCES_MAX: u32 = 1 << 20;

/// `max_num_batched_tokens`, one captured size, and the tokens of one step: 256 times the engine's largest default.
/// Tables over every size up to it still fit the memory.
pub const STEP_TOKENS_MAX: u32 = 1 << 22;

/// Rungs of one ladder. Capturing so many would take half a day.
pub const RUNGS_MAX: usize = 1 << 16;

/// Candidates of one scenario.
pub const CANDIDATES_MAX: usize = 1 << 10;

/// Tokens per KV block: the largest in use is 1,024.
pub const BLOCK_TOKENS_MAX: u32 = 1 << 16;

/// Blocks of the KV pool.
pub const BLOCKS_MAX: u32 = 1 << 30;

/// Drafts per request and step: the longest published draft is 32 tokens.
pub const DRAFTS_MAX: u32 = 1 << 10;

/// Breaks of a piecewise graph beyond one per attention layer: several for each layer of the deepest models.
pub const GRAPH_BREAKS_MAX: u32 = 1 << 12;

/// LoRA slots: the engine's own limit is 512.
pub const LORAS_MAX: u32 = 512;

/// LoRA adapters that requests ask for, slots aside: a hundred times the largest published fleet on one server.
pub const ADAPTERS_MAX: u32 = 1 << 16;

/// Exponent of a popularity that falls by rank: beyond it all but one request in a thousand go to the first.
pub const ZIPF_MAX: f64 = 10.0;

/// Priorities, groups of shared prefixes, and levels of one group, as written in a scenario.
pub const LABELS_MAX: usize = 1_000;

/// Most images of one step.
pub const IMAGES_MAX: usize = 1 << 12;

/// Ranks of one parallel group, and microbatches.
pub const RANKS_MAX: u32 = 1 << 10;

/// Steps of `prefill_schedule_interval`.
pub const STEP_INTERVAL_MAX: u32 = 1 << 20;

/// Requests of one run, clients of a closed loop aside: days of simulation.
pub const REQUESTS_MAX: u64 = 1_000_000_000;

/// Requests per second: a gap of a microsecond is a thousand times the clock's grain.
pub const RATE_MAX: f64 = 1e6;

/// Requests per second, at least: one every eleven days.
pub const RATE_MIN: f64 = 1e-6;

/// Shape of gamma gaps. Below the range nearly all gaps are zero, above it they are constant to six digits.
pub const BURSTINESS: (f64, f64) = (1e-2, 1e6);

/// Factor on a trace's rate, largest; its inverse is the smallest.
pub const RATE_MULTIPLIER_MAX: f64 = 1e6;

/// Standard deviation of the logarithm of a length: at 5 one draw in six is beyond 148 times the median.
pub const SIGMA_MAX: f64 = 5.0;

/// One count of a histogram; ten million rows of it do not overflow.
pub const COUNT_MAX: u64 = 1_000_000_000_000;

/// Rows of a histogram written in a scenario.
pub const HISTOGRAM_ROWS_MAX: usize = 1_000_000;

/// Any span of time, in seconds: 31 years, a twentieth of what the clock holds.
pub const SPAN_S_MAX: u64 = 1_000_000_000;

/// A memory size, in bytes: 1 PiB.
pub const MEMORY_BYTES_MAX: u64 = 1 << 50;

/// Bytes of a scenario file.
pub const SCENARIO_BYTES_MAX: u64 = 16 << 20;

/// Points of one sweep: its answer holds them all in brief.
pub const SWEEP_POINTS_MAX: u64 = 100_000;

/// Shards of one sweep: merging them opens a file of each, and a process may usually open 1,024.
pub const SHARDS_MAX: u64 = 1_000;
