//! The table of `--cudagraph-metrics`: made of steps, and read back.

use serde::Deserialize;
use serde_json::json;
use sim::import::vllm::graph_table::{GraphTable, GraphTableReader, TableFault, TableStep};

use crate::vectors::check_lines;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    vllm: String,
    cudagraph_mode: String,
    capture_sizes: Option<Vec<u32>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    stats: Vec<(u32, u32, u32, String)>,
}

/// The same text line by line, as a process prints it with its prefix, colours and line ends.
fn read_back(text: &str) -> Result<GraphTable, TableFault> {
    let mut reader = GraphTableReader::default();
    for line in text.lines() {
        let printed =
            format!("\u{1b}[0;36m(APIServer pid=1)\u{1b}[0;0m INFO 01-31 00:00:00 [cuda_graph.py:123] {line}\r\n");
        let line = sim::import::line::LogLine::of(&printed);
        assert_eq!(line.origin, "APIServer pid=1");
        if let TableStep::Over(table) = reader.take(&line.text)? {
            return Ok(table);
        }
    }
    reader.finish()
}

#[test]
fn cudagraph_log() {
    check_lines("vllm/cudagraph_log.jsonl", |config: &Config, input: &Input| {
        assert_eq!(config.vllm, "0.33.0");
        if input.stats.is_empty() {
            return json!({ "text": "" });
        }
        let table = GraphTable::of(
            &config.cudagraph_mode,
            config.capture_sizes.as_deref().unwrap_or_default(),
            input.stats.iter().cloned(),
        );
        let text = table.text();
        match read_back(&text) {
            Ok(read) if read == table => json!({ "text": text }),
            other => json!({ "read back": format!("{other:?}") }),
        }
    });
}
