//! The largest values a scenario may hold. Each is far beyond any real server and small enough that nothing overflows,
//! runs for ever or fills the memory.

/// Tokens of one prompt or output, and `max_model_len`. Six times the longest context on offer (10 million); a prompt
/// and its output together stay far below `u32::MAX`.
pub const REQUEST_TOKENS_MAX: u32 = 1 << 26;
