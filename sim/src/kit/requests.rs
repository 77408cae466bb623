//! The requests of one seed, written down so that a client can send them again.

use std::collections::HashMap;

use serde_json::json;

use super::{KitFile, lines};
use crate::engine::options::EngineOptions;
use crate::time::SimTime;
use crate::traffic::{Request, Traffic, TrafficError};

/// Most requests of a file: hours of a real machine's time.
const REQUESTS_MAX: usize = 20_000;

/// Tokens of a chunk where the server's cache has no blocks.
const CHUNK_TOKENS: u32 = 16;

/// What one seed asks of the server.
pub(super) struct Requests {
    pub(super) seed: u64,
    rows: Vec<Request>,
    /// Clients of a closed loop; `None` where requests come by the clock.
    pub(super) concurrency: Option<u32>,
    /// There were more than fit the file.
    pub(super) cut: bool,
    /// Tokens whose content goes by one number.
    pub(super) chunk_tokens: u32,
}

/// How lengths spread, in tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Lengths {
    pub(super) mean: f64,
    /// Half the width of the uniform distribution of the same mean and standard deviation, as a share of the mean; below 1.
    pub(super) half_width: f64,
}

impl Requests {
    /// Draws the traffic of one seed. Outputs end where the server ends them, since it refuses to be asked for more.
    pub(super) fn draw(traffic: &Traffic, seed: u64, server: &EngineOptions) -> Result<Self, TrafficError> {
        let limit = server.limits().request_tokens.value;
        let mut stream = traffic.open(seed)?;
        let concurrency = stream.concurrency();
        let mut rows: Vec<Request> = Vec::new();
        let mut cut = false;
        while let Some(next) = stream.next_at(SimTime::ZERO) {
            if rows.len() == REQUESTS_MAX {
                cut = true;
                break;
            }
            let mut request = next?;
            let room = limit.saturating_sub(request.prompt_tokens).max(1);
            request.output_tokens = request.output_tokens.min(room);
            rows.push(request);
        }
        let shares = rows.iter().any(|request| !request.shared.segments().is_empty());
        let longest = rows.iter().map(|request| request.prompt_tokens).max().unwrap_or(1);
        let block = server.vllm().map_or(CHUNK_TOKENS, |options| options.scheduler.block_size);
        // Prompts that share nothing need one number each.
        let chunk_tokens = if shares { block } else { longest };
        Ok(Self { seed, rows, concurrency, cut, chunk_tokens })
    }

    pub(super) fn count(&self) -> usize {
        self.rows.len()
    }

    /// Whether any prompt begins like another.
    pub(super) fn shares_prefixes(&self) -> bool {
        self.any(|request| !request.shared.segments().is_empty())
    }

    pub(super) fn any(&self, has: impl Fn(&Request) -> bool) -> bool {
        self.rows.iter().any(has)
    }

    pub(super) fn prompts(&self) -> Lengths {
        Lengths::of(self.rows.iter().map(|request| request.prompt_tokens))
    }

    pub(super) fn outputs(&self) -> Lengths {
        Lengths::of(self.rows.iter().map(|request| request.output_tokens))
    }

    /// Requests per second between the first and the last arrival; `None` of a closed loop and of less than two times.
    pub(super) fn rate(&self) -> Option<f64> {
        let (first, last) = (self.rows.first()?.arrival, self.rows.last()?.arrival);
        let span_s = last.since(first).as_s();
        (self.concurrency.is_none() && span_s > 0.0).then(|| (self.rows.len() - 1) as f64 / span_s)
    }

    /// A row for each request, as vLLM's `timed_trace` and Mooncake traces have them: seconds, tokens, and a number for
    /// the content of each chunk of the prompt. Chunks that lie in a shared head have the number of that head.
    pub(super) fn file(&self) -> KitFile {
        let mut contents: HashMap<(u64, u32), u64> = HashMap::new();
        let mut fresh = 0_u64;
        let mut row = |request: &Request| {
            let chunks = request.prompt_tokens.div_ceil(self.chunk_tokens);
            let ids: Vec<u64> = (0..chunks)
                .map(|chunk| {
                    let end = u64::from(chunk + 1) * u64::from(self.chunk_tokens);
                    let head = request.shared.segments().iter().find(|segment| u64::from(segment.end_tokens) >= end);
                    let mut next = || {
                        fresh += 1;
                        fresh
                    };
                    match head {
                        Some(segment) => *contents.entry((segment.content, chunk)).or_insert_with(next),
                        None => next(),
                    }
                })
                .collect();
            let row = json!({
                "timestamp": request.arrival.since(SimTime::ZERO).as_s(),
                "input_length": request.prompt_tokens,
                "output_length": request.output_tokens,
                "hash_ids": ids,
            });
            row.to_string()
        };
        let text = lines(self.rows.iter().map(&mut row));
        KitFile { name: self.file_name(), text }
    }

    pub(super) fn file_name(&self) -> String {
        format!("requests-{}.jsonl", self.seed)
    }
}

impl Lengths {
    fn of(lengths: impl Iterator<Item = u32> + Clone) -> Self {
        let count = lengths.clone().count().max(1) as f64;
        let mean = lengths.clone().map(f64::from).sum::<f64>() / count;
        let variance = lengths.map(|length| (f64::from(length) - mean).powi(2)).sum::<f64>() / count;
        // A uniform distribution of half width w has the standard deviation w / sqrt(3).
        let half_width = if mean > 0.0 { (3.0 * variance).sqrt() / mean } else { 0.0 };
        Self { mean, half_width: half_width.min(0.99) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::engine::request::{Segment, SharedPrefix};

    fn written(rows: Vec<Request>, chunk_tokens: u32) -> Vec<Value> {
        let drawn = Requests { seed: 7, rows, concurrency: None, cut: false, chunk_tokens };
        drawn.file().text.lines().map(|line| serde_json::from_str(line).expect("a row is JSON")).collect()
    }

    #[test]
    fn prompts_agree_exactly_where_their_heads_do() {
        let head = |ends: &[(u64, u32)]| {
            let segments: Vec<Segment> =
                ends.iter().map(|&(content, end_tokens)| Segment { content, end_tokens }).collect();
            SharedPrefix::new(&segments)
        };
        let request = |prompt, shared| Request { shared, ..Request::plain(SimTime(1_500_000_000), prompt, 3) };
        let rows = written(
            vec![
                request(80, head(&[(11, 32), (12, 50)])),
                request(60, head(&[(11, 32), (13, 60)])),
                request(80, SharedPrefix::default()),
                request(80, head(&[(11, 32), (12, 50)])),
            ],
            16,
        );
        let ids = |row: usize| -> Vec<u64> {
            rows[row]["hash_ids"].as_array().expect("a list").iter().filter_map(Value::as_u64).collect()
        };
        assert_eq!((ids(0).len(), ids(1).len(), ids(2).len()), (5, 4, 5));
        assert_eq!(ids(0)[..2], ids(1)[..2], "the first 32 tokens are the same");
        assert_eq!(ids(0)[..3], ids(3)[..3], "the 48 tokens in whole chunks of the head");
        assert!(ids(0)[3..].iter().all(|id| !ids(3).contains(id)), "the chunk that the head ends in is nobody else's");
        let all: Vec<u64> = [ids(0), ids(1)[2..].to_vec(), ids(2)].concat();
        let distinct: std::collections::BTreeSet<u64> = all.iter().copied().collect();
        assert_eq!(distinct.len(), all.len(), "and nothing else");
        assert_eq!((rows[0]["timestamp"].as_f64(), rows[0]["input_length"].as_u64()), (Some(1.5), Some(80)));
    }

    #[test]
    fn a_uniform_distribution_gives_its_own_width_back() {
        let lengths = Lengths::of(50..=150);
        assert!((lengths.mean - 100.0).abs() < 1e-9, "{lengths:?}");
        assert!((lengths.half_width - 0.505).abs() < 0.002, "{lengths:?}");
        assert_eq!(Lengths::of([8, 8].into_iter()), Lengths { mean: 8.0, half_width: 0.0 });
    }
}
