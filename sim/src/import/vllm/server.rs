//! What a vLLM log says about the server: its flags, what the engine made of them, backend, device and model.

use serde_json::Value;

use crate::flags::shell;
use crate::import::python;
use crate::import::settings::{Known, Place, Setting, Settings, Wants};

/// The facts of one server; what a later line says counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VllmServer {
    /// Settings under their names in a scenario.
    pub settings: Settings,
    /// The release as printed, such as `0.33.0` or `0.19.2rc1.dev8+g4b7f5ea1a`.
    pub version: Option<Known<String>>,
    /// The model as it was asked for.
    pub model: Option<Known<String>>,
    /// The first attention backend named: that of most layers.
    pub attention_backend: Option<Known<String>>,
    /// Version of FlashAttention.
    pub flash_attn_version: Option<Known<u64>>,
    /// All memory of the device, GiB.
    pub device_gib: Option<Known<f64>>,
    /// Ranks that each have an engine and a batch of their own.
    pub data_parallel_size: Option<Known<u64>>,
    /// How often a server began in this log.
    pub starts: u32,
}

use Wants::{Real, Sizes, Switch, Whole, Word};

/// Printed names, the keys of a scenario that they are, and their kinds.
const SETTINGS: [(&str, &str, Wants); 28] = [
    ("max_num_seqs", "max_num_seqs", Whole),
    ("max_num_batched_tokens", "max_num_batched_tokens", Whole),
    ("max_model_len", "max_model_len", Whole),
    ("max_seq_len", "max_model_len", Whole),
    ("block_size", "block_size", Whole),
    ("enable_chunked_prefill", "enable_chunked_prefill", Switch),
    ("chunked_prefill_enabled", "enable_chunked_prefill", Switch),
    ("async_scheduling", "async_scheduling", Switch),
    ("long_prefill_token_threshold", "long_prefill_token_threshold", Whole),
    ("scheduling_policy", "policy", Word),
    ("enable_prefix_caching", "enable_prefix_caching", Switch),
    ("gpu_memory_utilization", "gpu_memory_utilization", Real),
    ("num_gpu_blocks_override", "num_gpu_blocks_override", Whole),
    ("max_loras", "max_loras", Whole),
    ("tensor_parallel_size", "tensor_parallel_size", Whole),
    ("decode_context_parallel_size", "decode_context_parallel_size", Whole),
    ("num_speculative_tokens", "num_speculative_tokens", Whole),
    ("num_spec_tokens", "num_speculative_tokens", Whole),
    ("optimization_level", "optimization_level", Whole),
    ("performance_mode", "performance_mode", Word),
    ("cudagraph_capture_sizes", "cudagraph_capture_sizes", Sizes),
    ("max_cudagraph_capture_size", "max_cudagraph_capture_size", Whole),
    ("enforce_eager", "enforce_eager", Switch),
    ("attention_backend", "attention_backend", Word),
    ("method", "spec_method", Word),
    // Not of a scenario: for the words about them, and for releases before graphs had modes.
    ("pipeline_parallel_size", "pipeline_parallel_size", Whole),
    ("full_cuda_graph", "full_cuda_graph", Switch),
    ("use_cudagraph", "use_cudagraph", Switch),
];

impl VllmServer {
    /// Reads a line without its prefix; whether it says anything about the server.
    pub fn read(&mut self, text: &str, place: &Place) -> bool {
        let text = text.trim();
        self.banner(text, place)
            || self.arguments(text, place)
            || self.command_line(text, place)
            || self.sentence(text, place)
    }

    /// The release, where the server begins.
    fn banner(&mut self, text: &str, place: &Place) -> bool {
        let of_server = text.strip_prefix("vLLM API server version ");
        // Newer releases draw their name, with version and model beside it.
        let beside = |what: &str| text.split_once(what).filter(|(art, _)| art.contains('█')).map(|(_, rest)| rest);
        if let Some(version) = of_server.or_else(|| beside(" version ")) {
            self.starts += 1;
            self.version = first_word(version, place);
            return self.version.is_some();
        }
        let Some(model) = beside(" model ") else { return false };
        self.model = first_word(model, place);
        true
    }

    /// The flags that were given, and the configuration that the engine made of them.
    fn arguments(&mut self, text: &str, place: &Place) -> bool {
        if let Some(rest) = text.strip_prefix("non-default args: ") {
            self.python(rest, place);
            return true;
        }
        if let Some(rest) = text.strip_prefix("args: Namespace(") {
            // Releases before 0.8.
            self.python(rest, place);
            return true;
        }
        let begins =
            ["Initializing a V1 LLM engine (v", "Initializing an LLM engine (v", "Initializing a V0 LLM engine (v"];
        let rest = begins.iter().find_map(|begin| text.strip_prefix(begin));
        let Some((version, rest)) = rest.and_then(|rest| rest.split_once(") with config: ")) else { return false };
        self.version = first_word(version, place);
        self.python(rest, place);
        true
    }

    /// Settings in what Python prints.
    fn python(&mut self, text: &str, place: &Place) {
        let given = |name: &str| python::value(text, name);
        for (name, key, wants) in SETTINGS {
            // The methods of other things are no speculative one.
            let inside = if key == "spec_method" { given("speculative_config") } else { Some(text) };
            let value = inside.and_then(|inside| python::value(inside, name));
            self.set(key, value.and_then(|value| wants.read(value)), place);
        }
        if given("speculative_config") == Some("None") {
            self.settings.forget("num_speculative_tokens");
        }
        self.mode(given("cudagraph_mode"), place);
        self.other(&given, place);
    }

    /// What a setting of another name or form says.
    fn other<'a>(&mut self, given: &impl Fn(&str) -> Option<&'a str>, place: &Place) {
        if given("enable_lora").and_then(python::switch) == Some(true) && self.settings.whole("max_loras").is_none() {
            self.set("max_loras", Some(Setting::Whole(1)), place);
        }
        if let Some(bytes) = given("kv_cache_memory_bytes").and_then(python::whole_number) {
            self.set("kv_cache_memory_bytes", Some(Setting::Word(format!("{bytes}B"))), place);
        }
        if let Some(ranks) = given("data_parallel_size").and_then(python::whole_number) {
            self.data_parallel_size = Some(Known { value: ranks, place: place.clone() });
        }
        if let Some(model) = given("model").filter(|model| *model != "None") {
            self.model = first_word(model, place);
        }
    }

    /// A command line of the server, as a shell or a script shows it.
    fn command_line(&mut self, text: &str, place: &Place) -> bool {
        let begins = ["vllm serve ", "vllm.entrypoints.openai.api_server "];
        let Some(rest) = begins.iter().find_map(|begin| text.split_once(begin)).map(|(_, rest)| rest) else {
            return false;
        };
        let Some(words) = shell::words(rest) else { return false };
        let mut words = words.iter().map(String::as_str).peekable();
        if let Some(model) = words.next_if(|word| !word.starts_with('-')) {
            self.model = first_word(model, place);
        }
        while let Some(word) = words.next() {
            let Some(flag) = word.strip_prefix('-') else { continue };
            let (flag, joined) = flag.split_once('=').map_or((flag, None), |(flag, value)| (flag, Some(value)));
            let mut following = || joined.or_else(|| words.next_if(|word| !word.starts_with("--")));
            self.flag(&flag.trim_start_matches('-').replace('-', "_"), &mut following, place);
        }
        true
    }

    /// One flag, by its name with underscores.
    fn flag<'a>(&mut self, name: &str, value: &mut impl FnMut() -> Option<&'a str>, place: &Place) {
        let (name, given) = match name.strip_prefix("no_") {
            Some(name) => (name, Some("False")),
            None => (name, None),
        };
        if let Some((_, key, wants)) = SETTINGS.iter().find(|(printed, _, _)| *printed == name) {
            let value = given.or_else(&mut *value).unwrap_or("True");
            self.set(key, wants.read(value), place);
            return;
        }
        match (name, given.or_else(value)) {
            ("compilation_config" | "O" | "speculative_config", Some(json)) => self.json(json, place),
            ("model", Some(model)) => self.model = first_word(model, place),
            (name, value) => {
                if let Some(key) = name.strip_prefix("O.").or_else(|| name.strip_prefix("compilation_config.")) {
                    self.python(&format!("{{'{key}': {}}}", value.unwrap_or_default()), place);
                } else {
                    let given = |asked: &str| (asked == name).then_some(value.unwrap_or("True"));
                    self.other(&given, place);
                }
            }
        }
    }

    /// An object in JSON.
    fn json(&mut self, text: &str, place: &Place) {
        let Ok(Value::Object(object)) = serde_json::from_str(text) else { return };
        for (name, value) in object {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            if name == "cudagraph_mode" {
                self.mode(Some(&text), place);
            } else if let Some((_, key, wants)) = SETTINGS.iter().find(|(printed, _, _)| *printed == name) {
                self.set(key, wants.read(&text), place);
            }
        }
    }

    /// What single lines say.
    fn sentence(&mut self, text: &str, place: &Place) -> bool {
        let whole = |text: &str| python::whole_number(text.trim_end_matches('.')).map(Setting::Whole);
        if let Some(tokens) = text.strip_prefix("Using max model len ") {
            self.set("max_model_len", whole(tokens), place);
        } else if let Some(tokens) = text.strip_prefix("Chunked prefill is enabled with max_num_batched_tokens=") {
            self.set("max_num_batched_tokens", whole(tokens), place);
        } else if text == "Asynchronous scheduling is enabled." {
            self.set("async_scheduling", Some(Setting::Switch(true)), place);
        } else if text == "Asynchronous scheduling is disabled." {
            self.set("async_scheduling", Some(Setting::Switch(false)), place);
        } else if text == "Using V2 Model Runner" {
            self.set("runner", Some(Setting::Word("v2".to_owned())), place);
        } else if let Some(version) = text.strip_prefix("Using FlashAttention version ") {
            self.flash_attn_version = python::whole_number(version).map(|value| Known { value, place: place.clone() });
        } else if let Some(backend) = attention_backend(text) {
            self.attention_backend.get_or_insert_with(|| Known { value: backend.to_owned(), place: place.clone() });
        } else if let Some(gib) = device_gib(text) {
            self.device_gib = Some(Known { value: gib, place: place.clone() });
        } else {
            return false;
        }
        true
    }

    /// Major and minor number of the release, if it was printed.
    #[must_use]
    pub fn release(&self) -> Option<(u32, u32)> {
        let mut parts = self.version.as_ref()?.value.split(['.', 'r', '+']);
        let mut number = || parts.next().and_then(|part| part.parse().ok());
        Some((number()?, number()?))
    }

    fn set(&mut self, key: &'static str, value: Option<Setting>, place: &Place) {
        if key == "attention_backend" {
            if let Some(Setting::Word(value)) = value {
                self.attention_backend = Some(Known { value, place: place.clone() });
            }
        } else if let Some(value) = value {
            self.settings.set(key, value, place);
        }
    }

    fn mode(&mut self, printed: Option<&str>, place: &Place) {
        let mode = printed.and_then(graph_mode).map(|mode| Setting::Word(mode.to_owned()));
        self.set("cudagraph_mode", mode, place);
    }
}

/// The mode in what was printed: its name, alone or in an enumeration, or the numbers behind it (specification section 1).
#[must_use]
pub fn graph_mode(printed: &str) -> Option<&'static str> {
    let name = printed.trim_matches(['<', '>', '"']).trim_start_matches("CUDAGraphMode.");
    let name = name.split(':').next().unwrap_or_default().trim();
    let modes = ["NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"];
    let numbers = ["0", "1", "2", "2, 0", "2, 1"];
    let inside = name.trim_matches(['[', ']', '(', ')']);
    modes.into_iter().find(|mode| name.eq_ignore_ascii_case(mode)).or_else(|| {
        let compact = inside.split(',').map(str::trim).collect::<Vec<_>>().join(", ");
        numbers.into_iter().position(|number| number == compact).map(|place| modes[place])
    })
}

/// `Using FLASH_ATTN attention backend out of …`, `Using AttentionBackendEnum.FLASH_ATTN backend.`, and older wordings.
fn attention_backend(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("Using ")?;
    if rest.starts_with("Flash Attention backend") {
        return Some("FLASH_ATTN");
    }
    if rest.starts_with("FlashInfer backend") {
        return Some("FLASHINFER");
    }
    let (name, _) = rest
        .split_once(" attention backend")
        .or_else(|| rest.strip_prefix("AttentionBackendEnum.").and_then(|rest| rest.split_once(" backend")))?;
    let is_name =
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
    is_name.then_some(name)
}

/// `Free memory on device cuda:0 (78.68/79.15 GiB) on startup. …`: all of it.
fn device_gib(text: &str) -> Option<f64> {
    let (_, rest) = text.strip_prefix("Free memory on device")?.split_once('(')?;
    let (_, all) = rest.split_once(" GiB)")?.0.split_once('/')?;
    python::real(all).filter(|gib| *gib > 0.0)
}

fn first_word(text: &str, place: &Place) -> Option<Known<String>> {
    let word = text.split_whitespace().next()?;
    Some(Known { value: word.to_owned(), place: place.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> VllmServer {
        let mut server = VllmServer::default();
        for (line, number) in lines.iter().zip(1..) {
            let place = Place { file: "server.log".to_owned(), line: number };
            assert!(server.read(line, &place), "{line}");
        }
        server
    }

    fn shown(server: &VllmServer, key: &str) -> String {
        server.settings.get(key).map_or_else(|| "none".to_owned(), |known| format!("{} {}", known.value, known.place))
    }

    #[test]
    fn the_engines_own_words_win_over_what_was_asked_for() {
        let server = read(&[
            "vLLM API server version 0.33.0",
            "non-default args: {'model_tag': 'org/m', 'model': 'org/m', 'max_model_len': -1, 'max_num_seqs': 128, \
             'speculative_config': {'method': 'mtp', 'num_speculative_tokens': 3}, 'enable_lora': True, \
             'served_model_name': ['a', 'b'], 'kv_cache_memory_bytes': 1073741824}",
            "Using max model len 8192",
            "Chunked prefill is enabled with max_num_batched_tokens=4096.",
            "Asynchronous scheduling is enabled.",
            "Initializing a V1 LLM engine (v0.33.0) with config: model='org/m', speculative_config=SpeculativeConfig(\
             method='mtp', model='org/m', num_spec_tokens=3), max_seq_len=8192, tensor_parallel_size=1, \
             data_parallel_size=2, enforce_eager=False, enable_prefix_caching=True, compilation_config={'mode': \
             <CompilationMode.VLLM_COMPILE: 3>, 'method': 'none', 'cudagraph_mode': <CUDAGraphMode.FULL_AND_PIECEWISE: (2, 1)>, \
             'cudagraph_capture_sizes': [4, 2, 1]}",
            "Using V2 Model Runner",
            "Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN', 'FLASHINFER'].",
            "Using FlashAttention version 3",
            "Free memory on device cuda:0 (78.68/79.15 GiB) on startup. Desired GPU memory utilization is (0.9, 71.24 GiB).",
        ]);
        assert_eq!(shown(&server, "max_num_seqs"), "128 server.log:2");
        assert_eq!(shown(&server, "max_model_len"), "8192 server.log:6");
        assert_eq!(shown(&server, "max_num_batched_tokens"), "4096 server.log:4");
        assert_eq!(shown(&server, "num_speculative_tokens"), "3 server.log:6");
        assert_eq!(shown(&server, "spec_method"), "\"mtp\" server.log:6");
        assert_eq!(shown(&server, "cudagraph_mode"), "\"FULL_AND_PIECEWISE\" server.log:6");
        assert_eq!(shown(&server, "cudagraph_capture_sizes"), "[1, 2, 4] server.log:6");
        assert_eq!(shown(&server, "runner"), "\"v2\" server.log:7");
        assert_eq!(shown(&server, "max_loras"), "1 server.log:2");
        assert_eq!(shown(&server, "kv_cache_memory_bytes"), "\"1073741824B\" server.log:2");
        assert_eq!(server.version.expect("printed").value, "0.33.0");
        assert_eq!(server.model.expect("printed").value, "org/m");
        assert_eq!(server.attention_backend.expect("printed").value, "FLASH_ATTN");
        assert_eq!(server.flash_attn_version.expect("printed").value, 3);
        assert_eq!(server.device_gib.expect("printed").value.to_string(), "79.15");
        assert_eq!((server.data_parallel_size.expect("printed").value, server.starts), (2, 1));
    }

    #[test]
    fn a_command_line_sets_flags_in_every_spelling() {
        let server = read(&[
            "+ vllm serve org/m --max-num-seqs=64 --max-num-batched-tokens 2048 --no-enable-prefix-caching --enforce-eager \
             --compilation-config '{\"cudagraph_mode\": \"full\", \"cudagraph_capture_sizes\": [1, 2]}' \
             -O.max_cudagraph_capture_size=2 --enable-lora --port 8000",
        ]);
        assert_eq!(shown(&server, "max_num_seqs"), "64 server.log:1");
        assert_eq!(shown(&server, "max_num_batched_tokens"), "2048 server.log:1");
        assert_eq!(shown(&server, "enable_prefix_caching"), "false server.log:1");
        assert_eq!(shown(&server, "enforce_eager"), "true server.log:1");
        assert_eq!(shown(&server, "cudagraph_mode"), "\"FULL\" server.log:1");
        assert_eq!(shown(&server, "cudagraph_capture_sizes"), "[1, 2] server.log:1");
        assert_eq!(shown(&server, "max_cudagraph_capture_size"), "2 server.log:1");
        assert_eq!(shown(&server, "max_loras"), "1 server.log:1");
    }

    #[test]
    fn modes_have_names_and_numbers() {
        for (printed, mode) in [
            ("<CUDAGraphMode.FULL_DECODE_ONLY: (2, 0)>", "FULL_DECODE_ONLY"),
            ("[2, 1]", "FULL_AND_PIECEWISE"),
            ("(2,0)", "FULL_DECODE_ONLY"),
            ("1", "PIECEWISE"),
            ("0", "NONE"),
            ("full", "FULL"),
            ("CUDAGraphMode.NONE", "NONE"),
        ] {
            assert_eq!(graph_mode(printed), Some(mode), "{printed}");
        }
        assert_eq!((graph_mode("3"), graph_mode("<X>"), graph_mode("")), (None, None, None));
    }

    #[test]
    fn other_lines_say_nothing() {
        let mut server = VllmServer::default();
        let place = Place { file: String::new(), line: 1 };
        for line in [
            "",
            "Using the thing",
            "Using my attention backend",
            "version 3 of model b",
            "Free memory on device (a/b GiB)",
        ] {
            assert!(!server.read(line, &place), "{line}");
        }
        assert_eq!(server, VllmServer::default());
    }
}
