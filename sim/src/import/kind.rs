//! What a source is, told by its first lines.

use calibrate::stderr::printable;
use serde_json::Value;

use super::error::ImportError;
use super::prometheus::Scrapes;
use super::servegen::Window;
use crate::traffic::{ColumnNames, LabelColumns, TimeUnit, TraceFormat};

/// What a source is read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// The log of a vLLM or SGLang server.
    Log,
    /// Prometheus text of either: one scrape, or two whose difference counts.
    Prometheus,
    /// The result of vllm bench serve or of SGLang's bench_serving.
    Bench,
    /// Steps as rows of tokens, requests, query_len and count.
    Steps,
    /// An Azure trace of 2023, 2024 or 2025.
    Azure,
    /// A BurstGPT trace.
    Burstgpt,
    /// A Mooncake trace.
    Mooncake,
    /// A Vidur trace, or lengths alone.
    Vidur,
    /// Requests of LLMServingSim.
    Llmservingsim,
    /// Requests of a measured vLLM run, a JSON object each.
    VllmRequests,
    /// Windows of a ServeGen client; give its dataset as well.
    ServegenTrace,
    /// Lengths of a ServeGen client; give its windows as well.
    ServegenDataset,
}

/// What a source turned out not to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stranger {
    /// Nothing known.
    Foreign {
        /// Its first lines, shortened.
        head: String,
        /// What it may be, and what to do.
        hint: &'static str,
    },
    /// Costs of steps.
    Costs,
}

/// Lines of a foreign source that a message shows, and characters of each.
const SHOWN: (usize, usize) = (3, 80);

/// Lines among which metrics are looked for.
const METRICS_WITHIN: usize = 200;

impl Kind {
    /// In words.
    #[must_use]
    pub fn what(self) -> &'static str {
        match self {
            Self::Log => "log of a server",
            Self::Prometheus => "Prometheus text",
            Self::Bench => "result of a bench",
            Self::Steps => "histogram of steps",
            Self::Azure => "Azure trace",
            Self::Burstgpt => "BurstGPT trace",
            Self::Mooncake => "Mooncake trace",
            Self::Vidur => "Vidur trace",
            Self::Llmservingsim => "requests of LLMServingSim",
            Self::VllmRequests => "requests of a vLLM run",
            Self::ServegenTrace => "windows of a ServeGen client",
            Self::ServegenDataset => "lengths of a ServeGen client",
        }
    }

    /// What a source with these first bytes is.
    ///
    /// # Errors
    /// If it is nothing known, or no traffic.
    pub fn of(head: &[u8]) -> Result<Self, Stranger> {
        if head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff") {
            let hint =
                "This is UTF-16, as PowerShell writes it: convert it, for instance with `iconv -f UTF-16 -t UTF-8`. ";
            return Err(Self::foreign(head, hint));
        }
        if head.iter().all(u8::is_ascii_whitespace) {
            return Err(Self::foreign(head, "The file is empty. "));
        }
        let text = String::from_utf8_lossy(head);
        let text = text.trim_start_matches('\u{feff}').trim_start();
        let first = text.lines().next().unwrap_or_default().trim_end();
        if text.starts_with(['{', '[']) {
            if let Some(kind) = of_json(text, first) {
                return kind;
            }
        } else if let Some(kind) = of_columns(first) {
            return kind;
        }
        if text.lines().take(METRICS_WITHIN).any(Scrapes::knows) {
            return Ok(Self::Prometheus);
        }
        Ok(Self::Log)
    }

    /// A source that is nothing known.
    #[must_use]
    pub fn foreign(head: &[u8], hint: &'static str) -> Stranger {
        let text = String::from_utf8_lossy(&head[..head.len().min(1 << 12)]);
        let shown = |line: &str| {
            let line: String = line.chars().take(SHOWN.1).collect();
            format!("  {}", printable(line.trim_end()).replace('\t', " "))
        };
        let lines: Vec<String> = text.lines().take(SHOWN.0).map(shown).collect();
        Stranger::Foreign { head: lines.join("\n"), hint }
    }

    /// How the simulator reads such a trace by itself; `None` if it does not.
    #[must_use]
    pub fn trace_format(self) -> Option<TraceFormat> {
        let csv = |[arrival, prompt, output]: [&str; 3], unit| {
            TraceFormat::Csv(Box::new(ColumnNames {
                arrival: arrival.to_owned(),
                prompt: prompt.to_owned(),
                output: output.to_owned(),
                time_unit: Some(unit),
                labels: LabelColumns::default(),
            }))
        };
        match self {
            Self::Azure => Some(TraceFormat::Azure),
            Self::Mooncake => Some(TraceFormat::Mooncake),
            Self::Vidur => Some(TraceFormat::Vidur),
            Self::Burstgpt => Some(csv(["Timestamp", "Request tokens", "Response tokens"], TimeUnit::Seconds)),
            Self::Llmservingsim => Some(csv(["arrival_time_ns", "input_toks", "output_toks"], TimeUnit::Nanoseconds)),
            _ => None,
        }
    }
}

/// A source that begins as JSON does.
fn of_json(text: &str, first: &str) -> Option<Result<Kind, Stranger>> {
    let has = |name: &str| text.contains(&format!("\"{name}\""));
    if let Ok(Value::Object(row)) = serde_json::from_str(first) {
        let has = |names: &[&str]| names.iter().all(|name| row.contains_key(*name));
        if has(&["message"]) || has(&["log", "stream"]) || has(&["textPayload"]) {
            return Some(Ok(Kind::Log));
        }
        if has(&["timestamp", "input_length"]) {
            return Some(Ok(Kind::Mooncake));
        }
        if has(&["input_toks", "output_toks"]) {
            return Some(Ok(Kind::VllmRequests));
        }
    }
    if has("median_us") && has("case") {
        return Some(Err(Stranger::Costs));
    }
    if !text.starts_with('{') {
        return None;
    }
    if has("input_tokens") && has("output_tokens") && !has("completed") {
        return Some(Ok(Kind::ServegenDataset));
    }
    let bench = ["input_lens", "request_rate", "request_throughput", "total_input_tokens", "num_prompts"];
    bench.iter().any(|name| has(name)).then_some(Ok(Kind::Bench))
}

/// A source whose first line names columns, or is a window.
fn of_columns(first: &str) -> Option<Result<Kind, Stranger>> {
    let names: Vec<&str> = first.split(',').map(|name| name.trim().trim_matches('"')).collect();
    let has = |wanted: &[&str]| wanted.iter().all(|name| names.contains(name));
    if names.iter().any(|name| name.starts_with("time_stats.") || *name == "time_us" || *name == "time_ms") {
        return Some(Err(Stranger::Costs));
    }
    let tables: [(&[&str], Kind); 5] = [
        (&["Request tokens", "Response tokens"], Kind::Burstgpt),
        (&["ContextTokens", "GeneratedTokens"], Kind::Azure),
        (&["num_prefill_tokens", "num_decode_tokens"], Kind::Vidur),
        (&["arrival_time_ns", "input_toks", "output_toks"], Kind::Llmservingsim),
        (&["tokens", "requests", "query_len", "count"], Kind::Steps),
    ];
    let table = tables.iter().find(|(wanted, _)| has(wanted)).map(|(_, kind)| Ok(*kind));
    table.or_else(|| Window::read(first).is_ok().then_some(Ok(Kind::ServegenTrace)))
}

impl Stranger {
    /// The message.
    #[must_use]
    pub fn error(self, name: &str) -> ImportError {
        let name = printable(name);
        let Self::Foreign { head, hint } = self else { return ImportError::Costs { name } };
        let help = format!(
            "{hint}Known are logs and metrics of vLLM and SGLang servers, results of their benches, and the traces that --help \
             lists, plain or packed with gzip or zstd; --from says which it is"
        );
        ImportError::Foreign { name, head, help }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lines_tell_what_a_source_is() {
        for (head, kind) in [
            ("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT", Kind::Burstgpt),
            (
                "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type",
                Kind::Burstgpt,
            ),
            ("TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,374,44", Kind::Azure),
            ("TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n", Kind::Azure),
            ("arrived_at,num_prefill_tokens,num_decode_tokens\n", Kind::Vidur),
            ("num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n", Kind::Vidur),
            ("arrival_time_ns,input_toks,output_toks\n", Kind::Llmservingsim),
            ("0,1.5,2.5,Gamma,0.4,0.4\n600,0,0,,0,0\n", Kind::ServegenTrace),
            ("{\"timestamp\": 0, \"input_length\": 5, \"output_length\": 1, \"hash_ids\": [0]}\n", Kind::Mooncake),
            (
                "{\"request_id\": \"a\", \"input_toks\": 5, \"output_toks\": 1, \"queued_ts\": 1.0}\n",
                Kind::VllmRequests,
            ),
            ("{\n  \"0\": {\n    \"input_tokens\": \"{}\",\n    \"output_tokens\": \"{}\"", Kind::ServegenDataset),
            ("{\"date\": \"x\", \"num_prompts\": 3, \"request_rate\": \"inf\", \"comp", Kind::Bench),
            ("{\"message\": \"words\"}\n", Kind::Log),
            ("{\"log\":\"words\\n\",\"stream\":\"stdout\",\"time\":\"2026\"}\n", Kind::Log),
            ("# HELP process_x y\nprocess_x 1\n# TYPE vllm:x counter\n", Kind::Prometheus),
            ("tokens,requests,query_len,count\n", Kind::Steps),
            ("anything else", Kind::Log),
        ] {
            assert_eq!(Kind::of(head.as_bytes()), Ok(kind), "{head}");
        }
    }

    #[test]
    fn costs_are_no_traffic() {
        for head in [
            "[{\"case\": \"decode8\", \"requests\": [], \"median_us\": 6910.4",
            "layer,tokens,time_us\n",
            "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us",
            "time_stats.mlp_up_proj.median,num_tokens",
        ] {
            assert_eq!(Kind::of(head.as_bytes()), Err(Stranger::Costs), "{head}");
        }
    }
}
