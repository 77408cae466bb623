//! Facts for tests.

use reports::{
    CostTerms, DescriptorRecord, EngineReport, LadderSizes, RequestRecord, STEP_SCHEMA, StepHeader, StepRecord,
};

/// A step that ends 20 ms after it began; on a FULL graph of so many tokens, or above the ceiling without one.
pub(crate) fn step(number: u64, start_ns: u64, rows: u32, rung: Option<u32>) -> StepRecord {
    let cost = CostTerms {
        dense_ns: 0,
        head_ns: 0,
        attention_ns: 0,
        drafting_ns: 0,
        gap_ns: 0,
        device_ns: 17_300_000,
        step_overhead_ns: 0,
        request_overhead_ns: 0,
        launch_ns: 0,
        update_ns: 0,
        bookkeeping_ns: 0,
        host_ns: 0,
        step_ns: 17_300_000,
    };
    let descriptor = |tokens| DescriptorRecord {
        mode: "FULL".into(),
        tokens,
        requests: Some(tokens),
        uniform: Some(1),
        max_query: None,
        loras: 0,
        ubatches: 1,
        prefix_chunks: None,
    };
    StepRecord {
        step: number,
        start_ns,
        end_ns: start_ns.saturating_add(20_000_000),
        rank: 0,
        mode: rung.map_or("NONE", |_| "FULL").into(),
        descriptor: rung.map(descriptor),
        real_rows: rows,
        padded_rows: rung.map_or(0, |tokens| tokens - rows.min(tokens)),
        prefills: Vec::new(),
        decode_requests: rows,
        decode_context: u64::from(rows) * 1_000,
        sampled: rows,
        drafts: 0,
        accepted: 0,
        active_loras: 0,
        running: rows,
        waiting: rows / 10,
        preempted: 0,
        kv_used_blocks: u64::from(rows) * 60,
        kv_total_blocks: 27_664,
        fallback: rung.is_none().then(|| "above_ceiling".into()),
        relaxed: false,
        artifact: rung.map_or_else(|| "compiled eager".into(), |tokens| format!("FULL {tokens}").into()),
        saved_ns: rung.map(|tokens| 40_000 - i64::from(tokens) * 1_000),
        cost,
        outside_range: false,
        derived: true,
    }
}

/// A request that finished 2 s after it came.
pub(crate) fn request(id: u64, arrival_s: f64, good: bool) -> RequestRecord {
    RequestRecord {
        candidate: "engine default".to_owned(),
        seed: 7,
        id,
        arrival_s,
        prompt_tokens: 1_000,
        output_tokens: 100,
        outcome: "finished".to_owned(),
        ttft_ms: Some(if good { 200.0 } else { 1_200.0 }),
        tpot_ms: Some(18.0),
        e2el_ms: Some(2_000.0),
        preemptions: 0,
        good: Some(good),
    }
}

/// What the steps of a candidate belong to.
pub(crate) fn header(candidate: &str, capture_sizes: &[u32]) -> StepHeader {
    StepHeader {
        schema: STEP_SCHEMA,
        version: "0.1.0".to_owned(),
        scenario: "Chunked prefill against a 512-token ceiling".to_owned(),
        scenario_sha256: "5c".repeat(32),
        profile: "a100-llama-3-8b".to_owned(),
        profile_sha256: "a1".repeat(32),
        seed: 7,
        engine: EngineReport {
            name: "vllm".into(),
            version: "0.33.0".to_owned(),
            runner: Some("v2".into()),
            max_num_seqs: 256,
            max_num_batched_tokens: 8_192,
            max_model_len: Some(16_384),
            attention_support: Some("UNIFORM_BATCH".to_owned()),
            async_scheduling: Some(true),
        },
        candidate: candidate.to_owned(),
        cudagraph_mode: if capture_sizes.is_empty() { "NONE" } else { "FULL_AND_PIECEWISE" }.to_owned(),
        capture_sizes: capture_sizes.to_vec(),
        ladders: vec![LadderSizes { phase: "all".into(), unit: "tokens".into(), sizes: capture_sizes.to_vec() }],
    }
}
