//! What vLLM prints (vLLM specification section 10).

pub mod graph_table;
