//! The peer's side.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use aisimulate_core::engine::{Backend, EngineConfig, TimingModel};
use aisimulate_core::replay::{
    CURRENT_REPLAY_SPEC_VERSION, DirectRequest, ReplayEngineConfig, ReplayEngineFactory, ReplayRuntimeInput,
    ReplaySpec, ReplayTopology, Replayer,
};

use uuid::Uuid;

use super::{Row, Run};

/// A constant price, that counts passes: those that decode, and those before them that only prefill. One of the latter
/// that a pass without prefill follows is missed, which is one a busy period at most.
#[derive(Default)]
struct ConstantPrice {
    step_ms: f64,
    passes: AtomicU64,
    only_prefilled: AtomicBool,
}

impl TimingModel for ConstantPrice {
    fn prefill_batch_validation_can_fail(&self) -> bool {
        false
    }

    fn prefill_prediction_can_fail(&self) -> bool {
        false
    }

    // A pass that prefills pays once: its prefill is priced first, and whoever decodes beside it adds nothing.
    fn predict_prefill_ms(&self, requests: usize, _: usize, _: usize) -> anyhow::Result<f64> {
        if requests == 0 {
            return Ok(0.0);
        }
        if self.only_prefilled.swap(true, Ordering::Relaxed) {
            self.passes.fetch_add(1, Ordering::Relaxed);
        }
        Ok(self.step_ms)
    }

    fn predict_decode_ms(&self, requests: usize, _: usize, _: usize, _: usize) -> anyhow::Result<f64> {
        if requests == 0 {
            return Ok(0.0);
        }
        self.passes.fetch_add(1, Ordering::Relaxed);
        Ok(if self.only_prefilled.swap(false, Ordering::Relaxed) { 0.0 } else { self.step_ms })
    }
}

/// Serves the rows; making the requests is not timed.
pub(super) fn run(rows: &[Row], rate_multiplier: u32, num_gpu_blocks: usize, step_ms: f64) -> Run {
    let engine = ReplayEngineConfig {
        rank: EngineConfig {
            block_size: 16,
            num_gpu_blocks,
            max_model_len: Some(8192),
            max_num_seqs: 128,
            max_num_batched_tokens: 4096,
            enable_prefix_caching: false,
            enable_chunked_prefill: true,
            ..EngineConfig::for_backend(Backend::Vllm)
        },
        ..ReplayEngineConfig::default()
    };
    let spec = ReplaySpec {
        version: CURRENT_REPLAY_SPEC_VERSION,
        topology: ReplayTopology::aggregated(1),
        engine: serde_json::to_value(engine).expect("plain data"),
        adapters: Default::default(),
        max_sim_time_ms: None,
        max_in_flight: None,
        record_per_request: false,
        sla: Default::default(),
        requests: Vec::new(),
    };
    let requests = (0..).zip(rows).map(|(number, row)| request(number, row, rate_multiplier)).collect();
    let price = Arc::new(ConstantPrice { step_ms, ..ConstantPrice::default() });
    let factory = ReplayEngineFactory::with_timing_model(price.clone());

    let start = Instant::now();
    let replayer = Replayer::new(spec, factory).expect("a valid specification");
    let replayer = replayer.with_runtime_input(ReplayRuntimeInput::Requests(requests));
    let report = replayer.run().expect("a run that ends");
    let wall = start.elapsed();
    assert_eq!(report.request_counts.completed_requests, rows.len(), "the peer completes every request");
    Run {
        wall,
        steps: price.passes.load(Ordering::Relaxed),
        output_tokens: report.request_counts.total_output_tokens as u64,
        simulated_s: report.throughput.duration_ms / 1e3,
    }
}

/// A request whose prompt begins like no other.
fn request(number: u32, row: &Row, rate_multiplier: u32) -> DirectRequest {
    let first = number.wrapping_mul(1_000_003);
    DirectRequest {
        tokens: (0..row.prompt_tokens as u32).map(|offset| first.wrapping_add(offset)).collect(),
        max_output_tokens: row.output_tokens,
        uuid: Some(Uuid::from_u128(u128::from(number) + 1)),
        arrival_timestamp_ms: Some(row.arrival_s * 1e3 / f64::from(rate_multiplier)),
        ..DirectRequest::default()
    }
}
