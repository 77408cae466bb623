//! A model's `config.json` as Hugging Face's transformers writes it: Llama, Mistral, Qwen2 and Qwen3, dense, in 16 bits.
//!
//! What decides the work of a step is read strictly; all other keys are passed over. What the kernels do not compute is
//! refused with the reason. With `--shapes-only` its shapes are measured as those of a dense model instead, and the reason
//! is kept.

use kernels::geometry::ModelShape;
use kernels::step::Constants;
use serde_json::{Map, Value};

use crate::stderr::printable;

/// `rope_theta` where a configuration has none, as transformers takes it.
const ROTARY_BASE: f64 = 10_000.0;

/// Why a configuration cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// It is no JSON object.
    #[error("no model configuration: {0}")]
    NoObject(String),
    /// A key that is needed is not there.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A key holds something else than it must.
    #[error("{key} = {value}: expected {expected}")]
    Value {
        /// The key.
        key: &'static str,
        /// What it holds.
        value: String,
        /// What it may hold.
        expected: String,
    },
    /// The kernels compute no such model.
    #[error("{0}")]
    Unsupported(String),
}

impl ConfigError {
    /// The way out.
    pub(super) fn help(&self) -> &'static str {
        match self {
            Self::NoObject(_) => "give the config.json that lies beside the model's weights",
            Self::Missing(_) | Self::Value { .. } => {
                "give the unchanged config.json of a Llama, Mistral, Qwen2 or Qwen3 model"
            }
            Self::Unsupported(_) => {
                "choose a dense 16-bit model of the same shapes, or add --shapes-only: its shapes are then measured as \
                 those of a dense bf16 model, and the profile says that its figures are declared, not measured, for it"
            }
        }
    }
}

/// What a configuration says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Described {
    /// Its own name for the model, where it has one.
    pub(super) name: Option<String>,
    pub(super) shape: ModelShape,
    pub(super) constants: Constants,
    /// What of the model is not computed, one reason each; empty unless `shapes_only`.
    pub(super) differs: Vec<String>,
}

/// Reads a configuration.
///
/// # Errors
/// See [`ConfigError`].
pub(super) fn read(text: &str, shapes_only: bool) -> Result<Described, ConfigError> {
    let value: Value = serde_json::from_str(text.trim_start_matches('\u{feff}'))
        .map_err(|error| ConfigError::NoObject(error.to_string()))?;
    let Value::Object(object) = &value else {
        return Err(ConfigError::NoObject("it is not a JSON object".to_owned()));
    };
    let whole = Keys { object };
    let mut differs = Vec::new();
    let keys = match whole.given("text_config") {
        Some(Value::Object(object)) => {
            differs
                .push("text_config: a model of text and something else; only its text decoder is computed".to_owned());
            Keys { object }
        }
        _ => whole,
    };
    let family = Family::of(keys, &mut differs)?;
    keys.unsupported(whole, family, &mut differs)?;
    if let (Some(first), false) = (differs.first(), shapes_only) {
        return Err(ConfigError::Unsupported(first.clone()));
    }
    Ok(Described {
        name: whole.text("_name_or_path")?.filter(|name| !name.is_empty()).map(base_name),
        shape: keys.shape(family, &mut differs, shapes_only)?,
        constants: keys.constants()?,
        differs,
    })
}

/// The last part of a repository's name or path, on one line and without what a terminal would obey.
fn base_name(path: &str) -> String {
    let path = path.trim_end_matches('/');
    let name = path.rsplit('/').next().unwrap_or(path);
    name.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// What decides how a configuration is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Llama,
    Mistral,
    Qwen2,
    Qwen3,
}

impl Family {
    const NAMES: [(&str, Self); 4] =
        [("llama", Self::Llama), ("mistral", Self::Mistral), ("qwen2", Self::Qwen2), ("qwen3", Self::Qwen3)];

    /// Of another architecture the shapes are read as Llama's.
    fn of(keys: Keys<'_>, differs: &mut Vec<String>) -> Result<Self, ConfigError> {
        let name = keys.text("model_type")?.ok_or(ConfigError::Missing("model_type"))?;
        let known = Self::NAMES.into_iter().find(|(known, _)| *known == name);
        let (_, family) = known.unwrap_or_else(|| {
            let name = printable(name);
            differs.push(format!("model_type = {name}: only llama, mistral, qwen2 and qwen3 are known"));
            ("", Self::Llama)
        });
        Ok(family)
    }
}

/// The keys of a configuration.
#[derive(Clone, Copy)]
struct Keys<'a> {
    object: &'a Map<String, Value>,
}

impl<'a> Keys<'a> {
    /// What a key holds; `null` is nothing.
    fn given(self, key: &str) -> Option<&'a Value> {
        self.object.get(key).filter(|value| !value.is_null())
    }

    fn wrong(key: &'static str, value: &Value, expected: &str) -> ConfigError {
        let mut value = printable(&value.to_string());
        if let Some((end, _)) = value.char_indices().nth(60) {
            value.truncate(end);
            value.push_str("...");
        }
        ConfigError::Value { key, value, expected: expected.to_owned() }
    }

    fn text(self, key: &'static str) -> Result<Option<&'a str>, ConfigError> {
        let read = |value: &'a Value| value.as_str().ok_or_else(|| Self::wrong(key, value, "text"));
        self.given(key).map(read).transpose()
    }

    fn switch(self, key: &'static str) -> Result<Option<bool>, ConfigError> {
        let read = |value: &Value| value.as_bool().ok_or_else(|| Self::wrong(key, value, "true or false"));
        self.given(key).map(read).transpose()
    }

    fn count(self, key: &'static str) -> Result<Option<u32>, ConfigError> {
        let read = |value: &Value| {
            let count = value.as_u64().and_then(|count| u32::try_from(count).ok());
            count.ok_or_else(|| Self::wrong(key, value, "a whole number, at most 4294967295"))
        };
        self.given(key).map(read).transpose()
    }

    fn needed(self, key: &'static str) -> Result<u32, ConfigError> {
        match self.count(key)? {
            Some(0) => Err(Self::wrong(key, &Value::from(0), "at least 1")),
            count => count.ok_or(ConfigError::Missing(key)),
        }
    }

    fn positive(self, key: &'static str) -> Result<Option<f64>, ConfigError> {
        let read = |value: &Value| {
            // The kernels take it in 32 bits.
            let is_usable = |number: &f64| (*number as f32).is_normal() && *number > 0.0;
            let number = value.as_f64().filter(is_usable);
            number.ok_or_else(|| Self::wrong(key, value, "a number of 32 bits, 1.2e-38 to 3.4e38"))
        };
        self.given(key).map(read).transpose()
    }

    /// Everything that makes a step another one than the kernels compute.
    fn unsupported(self, whole: Keys<'_>, family: Family, differs: &mut Vec<String>) -> Result<(), ConfigError> {
        let quantized = whole.given("quantization_config").or_else(|| self.given("quantization_config"));
        if let Some(quantization) = quantized {
            let method = quantization.get("quant_method").and_then(Value::as_str).unwrap_or("of an unknown method");
            differs.push(format!(
                "quantization_config: weights are quantized ({}); only 16-bit weights are multiplied",
                printable(method)
            ));
        }
        for key in ["dtype", "torch_dtype"] {
            let Some(dtype) = self.text(key)? else { continue };
            if !matches!(dtype, "bfloat16" | "float16") {
                differs.push(format!("{key} = {}: only bfloat16 and float16 are known", printable(dtype)));
            }
        }
        for key in ["num_experts", "num_local_experts", "n_routed_experts", "moe_intermediate_size"] {
            if self.count(key)?.is_some_and(|count| count > 1) {
                differs.push(format!("{key}: a mixture of experts; only dense MLPs are computed"));
                break;
            }
        }
        if self.given("kv_lora_rank").is_some() {
            differs.push(
                "kv_lora_rank: multi-head latent attention (MLA); only attention over keys and values is computed"
                    .to_owned(),
            );
        }
        self.other_attention(family, differs)?;
        self.other_layers(family, differs)
    }

    fn other_attention(self, family: Family, differs: &mut Vec<String>) -> Result<(), ConfigError> {
        let window = self.count("sliding_window")?;
        let is_used = self.switch("use_sliding_window")?.unwrap_or(!matches!(family, Family::Qwen2 | Family::Qwen3));
        let longest = self.count("max_position_embeddings")?.unwrap_or(u32::MAX);
        if let Some(window) = window.filter(|&window| is_used && window < longest) {
            differs.push(format!("sliding_window = {window} is in use: only attention over all context is computed"));
        }
        // A window is named by both keys; one that holds all context, or is in use, has been judged above.
        let is_judged = |kind: &str| kind == "sliding_attention" && window.is_some() && is_used;
        let kinds = self.given("layer_types").and_then(Value::as_array);
        let mut kinds = kinds.into_iter().flatten().filter_map(Value::as_str);
        if let Some(kind) = kinds.find(|&kind| kind != "full_attention" && !is_judged(kind)) {
            differs.push(format!("layer_types holds {}: only full_attention is computed", printable(kind)));
        }
        if self.positive("partial_rotary_factor")?.is_some_and(|factor| factor < 1.0) {
            differs.push("partial_rotary_factor: only a rotary embedding of whole heads is computed".to_owned());
        }
        Ok(())
    }

    fn other_layers(self, family: Family, differs: &mut Vec<String>) -> Result<(), ConfigError> {
        if let Some(activation) = self.text("hidden_act")?
            && activation != "silu"
        {
            differs.push(format!("hidden_act = {}: only silu is computed", printable(activation)));
        }
        if family != Family::Qwen2 && self.switch("attention_bias")? == Some(true) {
            differs.push("attention_bias: a bias of the output projection is not computed".to_owned());
        }
        if self.switch("mlp_bias")? == Some(true) {
            differs.push("mlp_bias: a bias of the MLP is not computed".to_owned());
        }
        Ok(())
    }

    fn shape(self, family: Family, differs: &mut Vec<String>, shapes_only: bool) -> Result<ModelShape, ConfigError> {
        let (hidden, query_heads) = (self.needed("hidden_size")?, self.needed("num_attention_heads")?);
        let head_size = match self.count("head_dim")? {
            Some(size) => size,
            None if hidden.is_multiple_of(query_heads) => hidden / query_heads,
            None => return Err(ConfigError::Missing("head_dim")),
        };
        let head_size = match head_size {
            64 | 128 => head_size,
            other => {
                let reason = format!("head_dim = {other}: only heads of 64 and 128 are computed");
                if !shapes_only {
                    return Err(ConfigError::Unsupported(reason));
                }
                let nearest = if other <= 64 { 64 } else { 128 };
                differs.push(format!("{reason}; measured with {nearest}"));
                nearest
            }
        };
        Ok(ModelShape {
            layers: self.needed("num_hidden_layers")?,
            hidden,
            intermediate: self.needed("intermediate_size")?,
            query_heads,
            kv_heads: self.count("num_key_value_heads")?.unwrap_or(query_heads),
            head_size,
            vocabulary: self.needed("vocab_size")?,
            weight_bits: 16,
            kv_bits: 16,
            tied_embeddings: self.switch("tie_word_embeddings")?.unwrap_or(false),
            qkv_bias: family == Family::Qwen2,
            qk_norm: family == Family::Qwen3,
        })
    }

    /// Scaling of the rotary embedding changes its angles, not its work.
    fn constants(self) -> Result<Constants, ConfigError> {
        let rope = match self.given("rope_parameters") {
            Some(Value::Object(object)) => Keys { object }.positive("rope_theta")?,
            _ => None,
        };
        let rotary_base = self.positive("rope_theta")?.or(rope).unwrap_or(ROTARY_BASE);
        let epsilon = self.positive("rms_norm_eps")?.ok_or(ConfigError::Missing("rms_norm_eps"))?;
        Ok(Constants { epsilon: epsilon as f32, rotary_base: rotary_base as f32 })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// As published for Llama 3.1 8B, without what is not read.
    pub(in super::super) const LLAMA: &str = r#"{
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
        "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "vocab_size": 128256, "rms_norm_eps": 1e-05, "rope_theta": 500000.0,
        "hidden_act": "silu", "attention_bias": false, "mlp_bias": false, "tie_word_embeddings": false,
        "rope_scaling": { "rope_type": "llama3", "factor": 8.0 }, "max_position_embeddings": 131072
    }"#;

    /// [`LLAMA`] with keys set; `null` takes one away.
    fn with(changes: &[(&str, Value)]) -> String {
        let mut config: Map<String, Value> = serde_json::from_str(LLAMA).unwrap();
        for (key, value) in changes {
            config.insert((*key).to_owned(), value.clone());
        }
        Value::Object(config).to_string()
    }

    fn refused(changes: &[(&str, Value)]) -> String {
        read(&with(changes), false).unwrap_err().to_string()
    }

    #[test]
    fn published_configurations_are_the_presets() {
        use kernels::geometry::ModelGeometry;
        use serde_json::json;
        let same = |text: &str, preset: &str| {
            let described = read(text, false).unwrap();
            assert_eq!(ModelGeometry::new(described.shape).ok(), ModelGeometry::preset(preset), "{preset}");
            assert_eq!(Some(described.constants), Constants::preset(preset), "{preset}");
        };
        same(LLAMA, "llama-3.1-8b");
        let mistral = [
            ("model_type", json!("mistral")),
            ("vocab_size", json!(32_768)),
            ("rope_theta", json!(1_000_000.0)),
            ("head_dim", json!(128)),
            ("sliding_window", Value::Null),
        ];
        same(&with(&mistral), "mistral-7b");
        let qwen2 = [
            ("model_type", json!("qwen2")),
            ("hidden_size", json!(3584)),
            ("intermediate_size", json!(18_944)),
            ("num_hidden_layers", json!(28)),
            ("num_attention_heads", json!(28)),
            ("num_key_value_heads", json!(4)),
            ("vocab_size", json!(152_064)),
            ("rms_norm_eps", json!(1e-6)),
            ("rope_theta", json!(1e6)),
            ("sliding_window", json!(131_072)),
            ("use_sliding_window", json!(false)),
        ];
        same(&with(&qwen2), "qwen2.5-7b");
        let qwen3 = [
            ("model_type", json!("qwen3")),
            ("intermediate_size", json!(12_288)),
            ("num_hidden_layers", json!(36)),
            ("head_dim", json!(128)),
            ("vocab_size", json!(151_936)),
            ("rms_norm_eps", json!(1e-6)),
            ("rope_theta", Value::Null),
            ("rope_parameters", json!({ "rope_type": "default", "rope_theta": 1_000_000 })),
        ];
        same(&with(&qwen3), "qwen3-8b");
    }

    #[test]
    fn what_is_not_computed_is_refused_with_its_reason() {
        use serde_json::json;
        let refusals = [
            refused(&[("quantization_config", json!({ "quant_method": "fp8" }))]),
            refused(&[("quantization_config", json!({ "quant_method": "awq", "bits": 4 }))]),
            refused(&[("torch_dtype", json!("float32"))]),
            refused(&[("num_experts", json!(128))]),
            refused(&[("num_local_experts", json!(8))]),
            refused(&[("kv_lora_rank", json!(512))]),
            refused(&[("model_type", json!("mistral")), ("sliding_window", json!(4096))]),
            refused(&[("layer_types", json!(["full_attention", "linear_attention"]))]),
            refused(&[
                ("model_type", json!("mistral")),
                ("sliding_window", json!(1_000_000)),
                ("layer_types", json!(["sliding_attention", "linear_attention"])),
            ]),
            refused(&[("head_dim", json!(96))]),
            refused(&[("model_type", json!("gemma2"))]),
            refused(&[("hidden_act", json!("gelu"))]),
            refused(&[("attention_bias", json!(true))]),
            refused(&[("mlp_bias", json!(true))]),
            refused(&[("partial_rotary_factor", json!(0.5))]),
            refused(&[("text_config", serde_json::from_str(LLAMA).unwrap())]),
        ];
        insta::assert_snapshot!(refusals.join("\n"), @r#"
        quantization_config: weights are quantized (fp8); only 16-bit weights are multiplied
        quantization_config: weights are quantized (awq); only 16-bit weights are multiplied
        torch_dtype = float32: only bfloat16 and float16 are known
        num_experts: a mixture of experts; only dense MLPs are computed
        num_local_experts: a mixture of experts; only dense MLPs are computed
        kv_lora_rank: multi-head latent attention (MLA); only attention over keys and values is computed
        sliding_window = 4096 is in use: only attention over all context is computed
        layer_types holds linear_attention: only full_attention is computed
        layer_types holds linear_attention: only full_attention is computed
        head_dim = 96: only heads of 64 and 128 are computed
        model_type = gemma2: only llama, mistral, qwen2 and qwen3 are known
        hidden_act = gelu: only silu is computed
        attention_bias: a bias of the output projection is not computed
        mlp_bias: a bias of the MLP is not computed
        partial_rotary_factor: only a rotary embedding of whole heads is computed
        text_config: a model of text and something else; only its text decoder is computed
        "#);
    }

    #[test]
    fn wrong_values_name_their_key() {
        use serde_json::json;
        let refusals = [
            refused(&[("num_hidden_layers", json!(1.5))]),
            refused(&[("hidden_size", json!("4096"))]),
            refused(&[("vocab_size", json!(-1))]),
            refused(&[("rms_norm_eps", json!(0))]),
            refused(&[("rms_norm_eps", json!(1e-60))]),
            refused(&[("rope_theta", json!(1e300))]),
            refused(&[("rms_norm_eps", Value::Null)]),
            refused(&[("model_type", Value::Null)]),
            refused(&[("intermediate_size", Value::Null)]),
            refused(&[("tie_word_embeddings", json!("no"))]),
            refused(&[("num_attention_heads", json!(33))]),
            refused(&[("num_attention_heads", json!(0))]),
            refused(&[("hidden_size", json!("x".repeat(200)))]),
            read("[1]", false).unwrap_err().to_string(),
            read("{", false).unwrap_err().to_string(),
        ];
        insta::assert_snapshot!(refusals.join("\n"), @r#"
        num_hidden_layers = 1.5: expected a whole number, at most 4294967295
        hidden_size = "4096": expected a whole number, at most 4294967295
        vocab_size = -1: expected a whole number, at most 4294967295
        rms_norm_eps = 0: expected a number of 32 bits, 1.2e-38 to 3.4e38
        rms_norm_eps = 1e-60: expected a number of 32 bits, 1.2e-38 to 3.4e38
        rope_theta = 1e+300: expected a number of 32 bits, 1.2e-38 to 3.4e38
        rms_norm_eps is missing
        model_type is missing
        intermediate_size is missing
        tie_word_embeddings = "no": expected true or false
        head_dim is missing
        num_attention_heads = 0: expected at least 1
        hidden_size = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...: expected a whole number, at most 4294967295
        no model configuration: it is not a JSON object
        no model configuration: EOF while parsing an object at line 1 column 1
        "#);
    }

    #[test]
    fn shapes_alone_are_read_and_what_differs_is_kept() {
        use serde_json::json;
        let changes = [
            ("quantization_config", json!({ "quant_method": "fp8" })),
            ("head_dim", json!(96)),
            ("model_type", json!("phi3")),
        ];
        let described = read(&with(&changes), true).unwrap();
        assert_eq!(described.shape.head_size, 128);
        assert_eq!(described.differs.len(), 3, "{:?}", described.differs);
        // A value that is wrong stays wrong.
        assert!(read(&with(&[("hidden_size", json!("4096"))]), true).is_err());
    }

    #[test]
    fn one_expert_and_a_window_as_wide_as_the_context_are_neither() {
        use serde_json::json;
        assert!(read(&with(&[("num_local_experts", json!(1)), ("sliding_window", json!(131_072))]), false).is_ok());
        assert!(read(&with(&[("use_sliding_window", json!(false)), ("sliding_window", json!(4096))]), false).is_ok());
    }

    #[test]
    fn a_byte_order_mark_is_passed_over_and_a_name_stays_a_name() {
        use serde_json::json;
        assert!(read(&format!("\u{feff}{LLAMA}"), false).is_ok());
        let described = read(&with(&[("_name_or_path", json!("org/\u{1b}[31mred\nline"))]), false).unwrap();
        assert_eq!(described.name.as_deref(), Some("?[31mred?line"));
    }

    /// Every key taken away, and every key with every kind of value: an answer, never a panic.
    #[test]
    fn odd_configurations_get_an_answer() {
        use serde_json::json;
        let config: Map<String, Value> = serde_json::from_str(LLAMA).unwrap();
        let odd = [Value::Null, json!(0), json!(-1), json!(1e300), json!(""), json!([]), json!({}), json!(u64::MAX)];
        for key in config.keys().map(String::as_str).chain(["text_config", "quantization_config", "layer_types"]) {
            for value in &odd {
                for shapes_only in [false, true] {
                    let _ = read(&with(&[(key, value.clone())]), shapes_only);
                }
            }
        }
    }
}
