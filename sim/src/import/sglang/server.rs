//! What an SGLang log says about the server: its arguments, and what it made of memory.

use serde_json::Value;

use super::command_line;
use crate::flags::shell;
use crate::import::python;
use crate::import::settings::{Known, Place, Setting, Settings, Wants};

/// The facts of one server; what a later line says counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SglangServer {
    /// Settings under their names in a scenario.
    pub settings: Settings,
    /// The model as it was asked for.
    pub model: Option<Known<String>>,
    /// Memory of the device that is free before the weights, GiB: all of it, but for the context.
    pub device_gib: Option<Known<f64>>,
    /// Every how many decode steps a line is printed.
    pub decode_log_interval: Option<Known<u64>>,
    /// How often a server began in this log.
    pub starts: u32,
    /// A command line that the supported release refuses, and why.
    pub refused: Option<Known<String>>,
}

use Wants::{Real, Sizes, Switch, Whole, Word};

/// Printed names, the keys of a scenario that they are, and their kinds. Up to 0.5.10 decode sizes had no phase in their name.
const SETTINGS: [(&str, &str, Wants); 29] = [
    ("context_length", "context_length", Whole),
    ("context_len", "context_length", Whole),
    ("max_prefill_tokens", "max_prefill_tokens", Whole),
    ("prefill_max_requests", "prefill_max_requests", Whole),
    ("page_size", "page_size", Whole),
    ("schedule_conservativeness", "schedule_conservativeness", Real),
    ("enable_mixed_chunk", "enable_mixed_chunk", Switch),
    ("disable_overlap_schedule", "disable_overlap_schedule", Switch),
    ("disable_radix_cache", "disable_radix_cache", Switch),
    ("chunked_prefill_size", "chunked_prefill_size", Whole),
    ("max_running_requests", "max_running_requests", Whole),
    ("max_total_tokens", "max_total_tokens", Whole),
    ("max_total_num_tokens", "max_total_tokens", Whole),
    ("mem_fraction_static", "mem_fraction_static", Real),
    ("tp_size", "tp_size", Whole),
    ("disable_cuda_graph", "disable_cuda_graph", Switch),
    ("disable_cuda_graph_padding", "disable_cuda_graph_padding", Switch),
    ("disable_decode_cuda_graph", "disable_decode_cuda_graph", Switch),
    ("disable_prefill_cuda_graph", "disable_prefill_cuda_graph", Switch),
    ("cuda_graph_max_bs", "cuda_graph_max_bs_decode", Whole),
    ("cuda_graph_max_bs_decode", "cuda_graph_max_bs_decode", Whole),
    ("cuda_graph_max_bs_prefill", "cuda_graph_max_bs_prefill", Whole),
    ("cuda_graph_bs", "cuda_graph_bs_decode", Sizes),
    ("cuda_graph_bs_decode", "cuda_graph_bs_decode", Sizes),
    ("cuda_graph_bs_prefill", "cuda_graph_bs_prefill", Sizes),
    ("cuda_graph_backend_decode", "cuda_graph_backend_decode", Word),
    ("cuda_graph_backend_prefill", "cuda_graph_backend_prefill", Word),
    ("speculative_algorithm", "speculative_algorithm", Word),
    ("speculative_num_draft_tokens", "speculative_num_draft_tokens", Whole),
];

impl SglangServer {
    /// Reads a line without its prefix; whether it says anything about the server.
    pub fn read(&mut self, text: &str, place: &Place) -> bool {
        let text = text.trim();
        if let Some((_, arguments)) = text.split_once("server_args=ServerArgs(") {
            self.starts += 1;
            self.python(arguments, place);
            return true;
        }
        if let Some(free) = text.strip_prefix("Load weight begin. avail mem=") {
            let gib = free.split_once(" GB").and_then(|(gib, _)| python::real(gib)).filter(|gib| *gib > 0.0);
            self.device_gib = gib.map(|value| Known { value, place: place.clone() }).or(self.device_gib.take());
            return true;
        }
        if text.starts_with("max_total_num_tokens=") {
            self.python(text, place);
            return true;
        }
        if let Some((_, rest)) =
            text.split_once("KV Cache is allocated.").and_then(|(_, rest)| rest.split_once("#tokens: "))
        {
            let tokens = rest.split(',').next().and_then(|tokens| Whole.read(tokens));
            self.set("max_total_tokens", tokens, place);
            return true;
        }
        self.command_line(text, place)
    }

    fn python(&mut self, text: &str, place: &Place) {
        for (name, key, wants) in SETTINGS {
            self.set(key, python::value(text, name).and_then(|value| wants.read(value)), place);
        }
        if let Some(model) = python::value(text, "model_path") {
            self.model = Some(Known { value: model.to_owned(), place: place.clone() });
        }
        if let Some(value) = python::value(text, "decode_log_interval").and_then(python::whole_number) {
            self.decode_log_interval = Some(Known { value, place: place.clone() });
        }
    }

    /// A command line of the server, as a shell or a script shows it.
    fn command_line(&mut self, text: &str, place: &Place) -> bool {
        let begins = ["sglang.launch_server ", "sglang serve "];
        let Some(rest) = begins.iter().find_map(|begin| text.split_once(begin)).map(|(_, rest)| rest) else {
            return false;
        };
        let Some(words) = shell::words(rest) else { return false };
        let (graphs, others) = graph_flags(&words);
        match command_line::read(&graphs) {
            Ok(set) => {
                for (name, value) in &set {
                    self.graph_flag(name, value, place);
                }
            }
            Err(refusal) => self.refused = Some(Known { value: refusal.to_string(), place: place.clone() }),
        }
        for (name, value) in others {
            match name.as_str() {
                "model" | "model_path" => self.model = value.map(|value| Known { value, place: place.clone() }),
                "decode_log_interval" => {
                    let interval = value.and_then(|value| python::whole_number(&value));
                    self.decode_log_interval = interval.map(|value| Known { value, place: place.clone() });
                }
                _ => {
                    let name = if name == "tp" || name == "tensor_parallel_size" { "tp_size" } else { name.as_str() };
                    let Some((_, key, wants)) = SETTINGS.iter().find(|(printed, _, _)| *printed == name) else {
                        continue;
                    };
                    self.set(key, wants.read(value.as_deref().unwrap_or("True")), place);
                }
            }
        }
        true
    }

    /// A graph flag as the engine's own parser took it.
    fn graph_flag(&mut self, name: &str, value: &Value, place: &Place) {
        if name == "cuda_graph_config" {
            for phase in ["decode", "prefill"] {
                for (inside, key) in
                    [("backend", "cuda_graph_backend"), ("max_bs", "cuda_graph_max_bs"), ("bs", "cuda_graph_bs")]
                {
                    if let Some(value) = value.get(phase).and_then(|phase| phase.get(inside)) {
                        self.graph_flag(&format!("{key}_{phase}"), value, place);
                    }
                }
            }
            return;
        }
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if let Some((_, key, wants)) = SETTINGS.iter().find(|(printed, _, _)| *printed == name) {
            self.set(key, wants.read(&text), place);
        }
    }

    fn set(&mut self, key: &'static str, value: Option<Setting>, place: &Place) {
        if let Some(value) = value {
            self.settings.set(key, value, place);
        }
    }
}

/// The graph flags with their values, for the engine's own parser; all others by name with underscores.
fn graph_flags(words: &[String]) -> (Vec<String>, Vec<(String, Option<String>)>) {
    let (mut graphs, mut others) = (Vec::new(), Vec::new());
    let mut rest = words.iter().peekable();
    while let Some(word) = rest.next() {
        let Some(flag) = word.strip_prefix("--") else { continue };
        let mut values = Vec::new();
        while let Some(value) = rest.next_if(|word| !word.starts_with("--")) {
            values.push(value.clone());
        }
        if flag.contains("cuda-graph") {
            graphs.push(word.clone());
            graphs.extend(values);
            continue;
        }
        let (name, joined) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (flag, None),
        };
        others.push((name.replace('-', "_"), joined.or_else(|| values.into_iter().next())));
    }
    (graphs, others)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> SglangServer {
        let mut server = SglangServer::default();
        for (line, number) in lines.iter().zip(1..) {
            let place = Place { file: "s.log".to_owned(), line: number };
            assert!(server.read(line, &place), "{line}");
        }
        server
    }

    fn shown(server: &SglangServer, key: &str) -> String {
        server.settings.get(key).map_or_else(|| "none".to_owned(), |known| format!("{} {}", known.value, known.place))
    }

    #[test]
    fn arguments_and_what_memory_holds() {
        let server = read(&[
            "INFO engine.py:177: server_args=ServerArgs(model_path='org/m', context_length=None, mem_fraction_static=0.86, \
             chunked_prefill_size=8192, tp_size=1, cuda_graph_max_bs=32, cuda_graph_bs=[2, 1], decode_log_interval=10, \
             speculative_algorithm=None, disable_radix_cache=True)",
            "Load weight begin. avail mem=78.61 GB",
            "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 383872, KV size: 19.36 GB",
            "max_total_num_tokens=383870, chunked_prefill_size=4096, max_prefill_tokens=16384, max_running_requests=2048, \
             context_len=131072, available_gpu_mem=8.1 GB",
        ]);
        assert_eq!(shown(&server, "context_length"), "131072 s.log:4");
        assert_eq!(shown(&server, "chunked_prefill_size"), "4096 s.log:4");
        assert_eq!(shown(&server, "max_total_tokens"), "383870 s.log:4");
        assert_eq!(shown(&server, "cuda_graph_max_bs_decode"), "32 s.log:1");
        assert_eq!(shown(&server, "cuda_graph_bs_decode"), "[1, 2] s.log:1");
        assert_eq!(shown(&server, "speculative_algorithm"), "none");
        assert_eq!(server.decode_log_interval.expect("printed").value, 10);
        assert_eq!(server.device_gib.expect("printed").value.to_string(), "78.61");
        assert_eq!((server.model.expect("printed").value.as_str(), server.starts), ("org/m", 1));
    }

    #[test]
    fn a_command_line_goes_through_the_engines_parser() {
        let server = read(&[
            "$ python -m sglang.launch_server --model org/m --context-length 4096 --tp 2 --cuda-graph-max-bs-d 64 \
             --cuda-graph-config '{\"prefill\": {\"backend\": \"disabled\"}}' --decode-log-interval=1",
        ]);
        assert_eq!(shown(&server, "cuda_graph_max_bs_decode"), "64 s.log:1");
        assert_eq!(shown(&server, "cuda_graph_backend_prefill"), "\"disabled\" s.log:1");
        assert_eq!(shown(&server, "context_length"), "4096 s.log:1");
        assert_eq!(shown(&server, "tp_size"), "2 s.log:1");
        assert_eq!(server.decode_log_interval.expect("given").value, 1);
        let old = read(&["sglang serve --cuda-graph-max-bs 64"]);
        assert!(old.refused.expect("refused").value.contains("ambiguous option: --cuda-graph-max-bs"));
    }
}
