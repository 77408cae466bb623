//! The lines that SGLang logs, read back to what was fed in.

use serde::Deserialize;
use serde_json::Value;
use sim::import::sglang::captures::{CaptureLine, CapturedPhase, Worker};
use sim::import::sglang::steps::{DecodeLine, PrefillLine, StepLine};

use super::Line;
use crate::vectors::{Tally, vectors};

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum Input {
    Decode {
        running: u32,
        queue: u32,
        graph: bool,
        spec: bool,
        swa: bool,
        pd_decode: bool,
        forward_ct_decode: u64,
        decode_log_interval: u64,
    },
    Prefill {
        new_seq: u32,
        new_token: u32,
        cached: u32,
        running: u32,
        queue: u32,
        pending: u64,
        replay: u32,
        usage: f64,
        graph: bool,
        swa: bool,
        pd: bool,
    },
    CaptureDecode {
        backend: String,
        width: u32,
        bs: Vec<u32>,
        draft: bool,
        spec: bool,
        before_gb: f64,
        after_gb: f64,
    },
    CapturePrefill {
        backend: String,
        chunked_prefill_size: i64,
        configured_num_tokens: Vec<u32>,
        context_len: u32,
        full_prefill_max_req: Option<u32>,
        req_pool_size: u32,
        before_gb: f64,
        after_gb: f64,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Out {
    lines: Vec<String>,
    #[serde(default)]
    num_tokens: Option<Vec<u32>>,
    #[serde(default)]
    full_prefill_max_req: Option<u32>,
}

/// Throughput is the clock's, which was made up there.
fn without_clock(line: Option<StepLine>) -> Option<StepLine> {
    line.map(|line| match line {
        StepLine::Decode(decode) => StepLine::Decode(DecodeLine { gen_tokens_per_s: None, ..decode }),
        prefill @ StepLine::Prefill(_) => prefill,
    })
}

fn steps(lines: &[String]) -> Result<Vec<StepLine>, String> {
    let read = lines.iter().map(|line| {
        // A prefix must not change what is read.
        let printed = format!("[2026-11-29 18:15:10 TP0] {line}");
        let line = sim::import::line::LogLine::of(&printed);
        StepLine::read(&line.text).map(without_clock).map_err(|fault| fault.to_string())
    });
    read.map(|line| line.and_then(|line| line.ok_or_else(|| "not known as a step".to_owned()))).collect()
}

fn captures(lines: &[String]) -> Result<[CaptureLine; 2], String> {
    let read: Result<Vec<CaptureLine>, String> = lines
        .iter()
        .map(|line| {
            let read = CaptureLine::read(line).map_err(|fault| fault.to_string())?;
            read.ok_or_else(|| "not known as a capture".to_owned())
        })
        .collect();
    <[CaptureLine; 2]>::try_from(read?).map_err(|read| format!("{} lines", read.len()))
}

/// Printed to two digits.
fn rounded(gb: f64) -> impl Fn(Option<f64>) -> bool {
    move |printed| printed.is_some_and(|printed| (printed - gb).abs() <= 0.005 + 1e-9)
}

fn require(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what.to_owned()) }
}

fn check(input: &Input, out: &Out) -> Result<(), String> {
    match input {
        Input::Decode { running, queue, graph, spec, swa, pd_decode, forward_ct_decode, decode_log_interval } => {
            let lines = steps(&out.lines)?;
            if forward_ct_decode % decode_log_interval != 0 {
                return require(lines.is_empty(), "a line between two intervals");
            }
            let [StepLine::Decode(line)] = lines.as_slice() else { return Err(format!("{lines:?}")) };
            require(line.tokens.is_some() != *swa, "KV tokens of one pool")?;
            require(line.accept_len.is_some() == *spec, "drafts")?;
            require(out.lines[0].contains("#prealloc-req") == *pd_decode, "the fields of a decode server")?;
            let (tokens, accept_len) = (line.tokens, line.accept_len);
            let expected = DecodeLine {
                running: *running,
                queue: Some(*queue),
                tokens,
                cuda_graph: Some(*graph),
                accept_len,
                gen_tokens_per_s: None,
            };
            require(*line == expected, &format!("{line:?}"))
        }
        Input::Prefill { new_seq, new_token, cached, running, queue, pending, replay, usage, graph, swa, pd } => {
            require((0.0..=1.0).contains(usage), "a share")?;
            require(out.lines[0].contains("#bootstrap-req") == *pd, "the fields of a prefill server")?;
            require(out.lines[0].contains("swa token usage") == *swa, "the fields of two pools")?;
            let expected = PrefillLine {
                new_seqs: *new_seq,
                new_tokens: *new_token,
                cached_tokens: Some(*cached),
                running: Some(*running),
                queue: Some(*queue),
                pending_tokens: Some(*pending),
                replay_tokens: (*replay > 0).then_some(*replay),
                cuda_graph: Some(*graph),
            };
            let lines = steps(&out.lines)?;
            require(lines == [StepLine::Prefill(expected)], &format!("{lines:?}"))
        }
        Input::CaptureDecode { backend, width, bs, draft, spec, before_gb, after_gb } => {
            let [begin, end] = captures(&out.lines)?;
            let worker = if *draft { Worker::Draft } else { Worker::Target };
            let phase = if *spec { CapturedPhase::Verify } else { CapturedPhase::Decode };
            for line in [&begin, &end] {
                require((line.worker, line.phase) == (Some(worker), Some(phase)), "whose capture")?;
            }
            require(begin.backend.as_ref() == Some(backend), "the backend")?;
            require(begin.tokens_per_request == Some(*width), "the width")?;
            require(end.sizes.as_ref() == Some(bs), "the sizes")?;
            memory(&begin, &end, *before_gb, *after_gb)
        }
        Input::CapturePrefill {
            backend,
            chunked_prefill_size,
            configured_num_tokens,
            context_len,
            full_prefill_max_req,
            req_pool_size,
            before_gb,
            after_gb,
        } => {
            let [begin, end] = captures(&out.lines)?;
            for line in [&begin, &end] {
                require(line.phase == Some(CapturedPhase::Prefill), "a prefill")?;
            }
            require(begin.backend.as_ref() == Some(backend), "the backend")?;
            require(begin.sizes == out.num_tokens, "the sizes")?;
            // The sizes that so many requests of the model's length can fill.
            let requests = out.full_prefill_max_req.unwrap_or(*req_pool_size);
            let most = u64::from(requests) * u64::from(*context_len);
            let fitting: Vec<u32> =
                configured_num_tokens.iter().copied().filter(|&size| u64::from(size) <= most).collect();
            require(begin.sizes.as_ref() == Some(&fitting), "the sizes that requests can fill")?;
            require(*chunked_prefill_size > 0 && full_prefill_max_req.is_none_or(|most| most >= requests), "requests")?;
            memory(&begin, &end, *before_gb, *after_gb)
        }
    }
}

fn memory(begin: &CaptureLine, end: &CaptureLine, before_gb: f64, after_gb: f64) -> Result<(), String> {
    require(!begin.ended && end.ended && end.elapsed_s.is_some(), "begin and end")?;
    require(rounded(before_gb)(begin.avail_mem_gb), "memory before")?;
    require(rounded(after_gb)(end.avail_mem_gb), "memory after")?;
    require(rounded(before_gb - after_gb)(end.mem_usage_gb), "memory used")
}

#[test]
fn log_lines() {
    let name = "sglang/log_lines.jsonl";
    let Some(lines) = vectors(name) else { return };
    let mut tally = Tally::new(name);
    for line in lines {
        let text = line.to_string();
        let outcome = serde_json::from_value::<Line<Input>>(line)
            .and_then(|line| Ok((line.input, serde_json::from_value::<Out>(Value::clone(&line.out))?)))
            .map_err(|error| format!("not understood: {error}"))
            .and_then(|(input, out)| check(&input, &out));
        tally.count(outcome.map_err(|message| format!("{message}\n  line {text}")));
    }
    tally.finish();
}
