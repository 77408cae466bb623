//! Conformance with the real engines: every golden vector, line by line.
//!
//! `cargo test --test conformance -- --nocapture` prints `file: matched/total` per file. The vectors lie in
//! `tests/golden`; `RUNGWISE_GOLDEN` names another folder with the same layout (`vllm/`, `sglang/`).

mod agreement;
mod dispatcher_v1;
mod engine_config;
mod graph_table;
mod grids;
mod ladder;
mod manager_v2;
mod modes;
mod scheduler_trace;
mod sglang;
mod vectors;
