//! Who is admitted to one prefill step, and the ratio by which running requests reserve.

use serde::Deserialize;
use serde_json::{Value, json};
use sim::engine::sglang::scheduler::adder::{AddResult, Claim, PrefillAdder, PrefillLimits};
use sim::engine::sglang::scheduler::ratio::NewTokenRatio;

use super::check_answers;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    available: u32,
    evictable: u32,
    free_slots: u32,
    page_size: u32,
    max_prefill_tokens: u32,
    chunked_prefill_size: Option<i64>,
    mixed_chunk: bool,
    new_token_ratio: f64,
    prefill_max_requests: Option<u32>,
    radix_disabled: bool,
    running: Vec<Running>,
    waiting: Vec<Waiting>,
    chunked: Option<Waiting>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Running {
    prompt: u32,
    max_new: u32,
    out: u32,
    ignore_eos: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Waiting {
    prompt: u32,
    prefix: u32,
    max_new: u32,
    ignore_eos: bool,
}

impl Waiting {
    fn claim(&self) -> Claim {
        Claim { prompt: self.prompt, produced: 0, max_new: self.max_new, ignore_eos: self.ignore_eos }
    }
}

/// The engine's walk over the waiting queue around the adder.
fn admit(input: &Input) -> Value {
    let limits = PrefillLimits {
        max_prefill_tokens: input.max_prefill_tokens,
        chunked_prefill_size: input
            .chunked_prefill_size
            .and_then(|chunk| u32::try_from(chunk).ok())
            .filter(|&chunk| chunk > 0),
        page_size: input.page_size,
        prefill_max_requests: input.prefill_max_requests,
        radix_disabled: input.radix_disabled,
    };
    let claims = input.running.iter().map(|running| Claim {
        prompt: running.prompt,
        produced: running.out,
        max_new: running.max_new,
        ignore_eos: running.ignore_eos,
    });
    let decode_rows = if input.mixed_chunk { input.running.len() as u32 } else { 0 };
    let pool = i64::from(input.available) + i64::from(input.evictable);
    let mut adder = PrefillAdder::new(limits, input.new_token_ratio, claims, decode_rows);
    let (mut admitted, mut extend_tokens, mut unfinished) = (Vec::new(), 0, false);
    if let Some(chunked) = &input.chunked {
        let left = chunked.prompt - chunked.prefix;
        let tokens = adder.resume(left, chunked.claim(), pool, u32::MAX);
        unfinished = tokens < left;
        extend_tokens += tokens;
        admitted.push(json!({ "req": "chunked", "extend_len": tokens }));
    }
    let (mut results, mut hits, mut new_chunked, mut stop) = (Vec::new(), 0, None, "queue_end");
    for (index, waiting) in input.waiting.iter().enumerate() {
        if adder.state(pool) == AddResult::Other {
            stop = "budget_other";
            break;
        }
        if adder.admitted() >= input.free_slots {
            stop = "slots";
            break;
        }
        let (admission, result) = adder.add(waiting.prompt - waiting.prefix, waiting.claim(), pool);
        if let Some(admission) = admission {
            hits += waiting.prefix;
            extend_tokens += admission.tokens;
            new_chunked = admission.chunked.then_some(index).or(new_chunked);
            admitted.push(json!({ "req": index, "extend_len": admission.tokens }));
        }
        results.push(name(result));
        if result != AddResult::Continue {
            stop = name(result);
            break;
        }
    }
    json!({
        "admitted": admitted,
        "results": results,
        "stop": stop,
        "new_chunked": new_chunked,
        "chunked_unfinished": unfinished,
        "extend_tokens": extend_tokens,
        "log_hit_tokens": hits,
    })
}

fn name(result: AddResult) -> &'static str {
    match result {
        AddResult::Continue => "CONTINUE",
        AddResult::NoToken => "NO_TOKEN",
        AddResult::Other => "OTHER",
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RatioInput {
    schedule_conservativeness: f64,
    ops: Vec<Vec<Value>>,
}

fn ratios(input: &RatioInput) -> Value {
    let mut ratio = NewTokenRatio::new(input.schedule_conservativeness);
    let mut values = Vec::new();
    for operation in &input.ops {
        match (operation[0].as_str(), operation.get(1)) {
            (Some("decay"), Some(steps)) => (0..steps.as_u64().unwrap_or(0)).for_each(|_| ratio.step()),
            (Some("reset"), None) => ratio.reset(),
            (Some("retract"), Some(left)) => {
                let left: Vec<(u32, u32)> = serde_json::from_value(left.clone()).expect("pairs of tokens");
                ratio.retracted(left);
            }
            _ => return json!(format!("unknown operation {operation:?}")),
        }
        values.push(ratio.current());
    }
    json!({ "init": ratio.initial(), "min": ratio.least(), "decay": ratio.decay(), "values": values })
}

#[test]
fn sched() {
    check_answers("sglang/sched.jsonl", admit);
}

#[test]
fn new_token_ratio() {
    check_answers("sglang/new_token_ratio.jsonl", ratios);
}
