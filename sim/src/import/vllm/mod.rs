//! What vLLM prints (vLLM specification section 10).

pub mod batch_sizes;
pub mod drafts;
pub mod graph_table;
pub mod iteration;
pub mod server;
pub mod startup;
pub mod statistics;
