//! The shape of a dense decoder model: what decides its weights, its KV cache and the work of a step.

use std::ops::Deref;

use crate::units::Bytes;

/// The numbers of a model's configuration, unchecked. [`ModelGeometry::new`] turns them into a usable geometry.
///
/// One tensor-parallel rank: for a sharded model give the shard's heads and widths.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ModelShape {
    /// Decoder layers. Every layer has attention.
    pub layers: u32,
    /// Width of the residual stream (`hidden_size`).
    pub hidden: u32,
    /// Width of the gated MLP (`intermediate_size`).
    pub intermediate: u32,
    /// Query heads per layer.
    pub query_heads: u32,
    /// Key/value heads per layer; fewer than query heads under grouped-query attention.
    pub kv_heads: u32,
    /// Elements of one head.
    pub head_size: u32,
    /// Rows of the embedding and of the LM head (`vocab_size`).
    pub vocabulary: u32,
    /// Bits of one weight: 16 for bf16 and fp16, 8 for fp8, 4 for 4-bit formats.
    pub weight_bits: u32,
    /// Bits of one KV-cache element.
    pub kv_bits: u32,
    /// The LM head is the embedding matrix, stored once.
    pub tied_embeddings: bool,
    /// The QKV projection has a bias.
    pub qkv_bias: bool,
    /// Queries and keys are normalised per head before the rotary embedding.
    pub qk_norm: bool,
}

impl ModelShape {
    /// Every number by its name for people, as it is shown.
    pub fn named(&self) -> [(&'static str, String); 12] {
        [
            ("layers", self.layers.to_string()),
            ("hidden", self.hidden.to_string()),
            ("intermediate", self.intermediate.to_string()),
            ("query heads", self.query_heads.to_string()),
            ("KV heads", self.kv_heads.to_string()),
            ("head size", self.head_size.to_string()),
            ("vocabulary", self.vocabulary.to_string()),
            ("weight bits", self.weight_bits.to_string()),
            ("KV bits", self.kv_bits.to_string()),
            ("tied embeddings", self.tied_embeddings.to_string()),
            ("QKV bias", self.qkv_bias.to_string()),
            ("QK norm", self.qk_norm.to_string()),
        ]
    }
}

/// A model geometry in which every number is usable: positive, of sane size, heads dividing evenly.
///
/// Dereferences to its [`ModelShape`] for reading.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ModelGeometry(ModelShape);

impl Deref for ModelGeometry {
    type Target = ModelShape;
    fn deref(&self) -> &ModelShape {
        &self.0
    }
}

/// A number of a [`ModelShape`] that no model can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} = {value}: expected {expected}")]
pub struct GeometryError {
    /// The field of [`ModelShape`] at fault.
    pub key: &'static str,
    /// Its value.
    pub value: u32,
    /// What would have been accepted.
    pub expected: String,
}

/// Names of the built-in model geometries, for [`ModelGeometry::preset`].
pub const PRESETS: [&str; 11] = [
    "llama-2-7b",
    "llama-2-13b",
    "llama-2-70b",
    "llama-3-8b",
    "llama-3.1-8b",
    "llama-3-70b",
    "llama-3.2-1b",
    "llama-3.2-3b",
    "mistral-7b",
    "qwen2.5-7b",
    "qwen3-8b",
];

/// The name of [`PRESETS`] that is meant. The publisher's name in front, `Meta-`, `-hf` and `-Instruct` make no difference,
/// nor does case.
pub fn preset_name(name: &str) -> Option<&'static str> {
    let name = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
    let name = name.trim_start_matches("meta-").trim_end_matches("-hf").trim_end_matches("-instruct");
    // The releases before v0.3 have another vocabulary, the first a sliding window too.
    let name = if matches!(name, "mistral-7b-v0.3" | "mistral-7b-instruct-v0.3") { "mistral-7b" } else { name };
    PRESETS.into_iter().find(|preset| *preset == name)
}

impl ModelGeometry {
    /// Checks a shape.
    ///
    /// # Errors
    /// [`GeometryError`] names the first field that is zero, absurdly large, or does not fit its neighbours.
    pub fn new(shape: ModelShape) -> Result<Self, GeometryError> {
        let ranged: [(&'static str, u32, u32); 7] = [
            ("layers", shape.layers, 1_000),
            ("hidden", shape.hidden, 1 << 17),
            ("intermediate", shape.intermediate, 1 << 19),
            ("query_heads", shape.query_heads, 1_024),
            ("kv_heads", shape.kv_heads, 1_024),
            ("head_size", shape.head_size, 1_024),
            ("vocabulary", shape.vocabulary, 1 << 22),
        ];
        for (key, value, most) in ranged {
            if value == 0 || value > most {
                return Err(GeometryError { key, value, expected: format!("1 to {most}") });
            }
        }
        for (key, value) in [("weight_bits", shape.weight_bits), ("kv_bits", shape.kv_bits)] {
            if !matches!(value, 4 | 8 | 16 | 32) {
                return Err(GeometryError { key, value, expected: "4, 8, 16 or 32".into() });
            }
        }
        if !shape.query_heads.is_multiple_of(shape.kv_heads) {
            let expected = format!("a divisor of query_heads = {}", shape.query_heads);
            return Err(GeometryError { key: "kv_heads", value: shape.kv_heads, expected });
        }
        Ok(Self(shape))
    }

    /// The geometry of a well-known model, bf16 weights and KV cache, from its published configuration; by a name that
    /// [`preset_name`] knows.
    pub fn preset(name: &str) -> Option<Self> {
        let shape =
            |layers, hidden, intermediate, query_heads, kv_heads, head_size, vocabulary, tied_embeddings| ModelShape {
                layers,
                hidden,
                intermediate,
                query_heads,
                kv_heads,
                head_size,
                vocabulary,
                weight_bits: 16,
                kv_bits: 16,
                tied_embeddings,
                qkv_bias: false,
                qk_norm: false,
            };
        let shape = match preset_name(name)? {
            "llama-2-7b" => shape(32, 4096, 11008, 32, 32, 128, 32_000, false),
            "llama-2-13b" => shape(40, 5120, 13824, 40, 40, 128, 32_000, false),
            "llama-2-70b" => shape(80, 8192, 28672, 64, 8, 128, 32_000, false),
            "llama-3-8b" | "llama-3.1-8b" => shape(32, 4096, 14336, 32, 8, 128, 128_256, false),
            "llama-3-70b" => shape(80, 8192, 28672, 64, 8, 128, 128_256, false),
            "llama-3.2-1b" => shape(16, 2048, 8192, 32, 8, 64, 128_256, true),
            "llama-3.2-3b" => shape(28, 3072, 8192, 24, 8, 128, 128_256, true),
            "mistral-7b" => shape(32, 4096, 14336, 32, 8, 128, 32_768, false),
            "qwen2.5-7b" => ModelShape { qkv_bias: true, ..shape(28, 3584, 18944, 28, 4, 128, 152_064, false) },
            "qwen3-8b" => ModelShape { qk_norm: true, ..shape(36, 4096, 12288, 32, 8, 128, 151_936, false) },
            _ => return None,
        };
        Some(Self::new(shape).expect("the presets are valid shapes"))
    }

    /// Layers with attention: the N of "N+1 pieces" of a PIECEWISE descriptor.
    pub fn attention_layers(&self) -> u32 {
        self.layers
    }

    /// Elements of the query projection's output.
    pub fn query_width(&self) -> u64 {
        u64::from(self.query_heads) * u64::from(self.head_size)
    }

    /// Elements of the key (or value) projection's output.
    pub fn kv_width(&self) -> u64 {
        u64::from(self.kv_heads) * u64::from(self.head_size)
    }

    /// Weights of one decoder layer.
    pub fn layer_parameters(&self) -> u64 {
        let hidden = u64::from(self.hidden);
        let qkv_width = self.query_width() + 2 * self.kv_width();
        let attention = hidden * qkv_width + self.query_width() * hidden;
        let bias = if self.qkv_bias { qkv_width } else { 0 };
        let head_norms = if self.qk_norm { 2 * u64::from(self.head_size) } else { 0 };
        let mlp = 3 * hidden * u64::from(self.intermediate);
        attention + bias + head_norms + mlp + 2 * hidden
    }

    /// Weights of the whole model: layers, final norm, embedding, and the LM head unless it is tied.
    pub fn parameters(&self) -> u64 {
        let hidden = u64::from(self.hidden);
        let matrices = if self.tied_embeddings { 1 } else { 2 };
        u64::from(self.layers) * self.layer_parameters() + hidden + matrices * hidden * u64::from(self.vocabulary)
    }

    /// Bytes of all weights at [`ModelShape::weight_bits`]; scales of quantised formats are not counted.
    pub fn weights_bytes(&self) -> Bytes {
        Bytes(self.parameters() * u64::from(self.weight_bits) / 8)
    }

    /// Bytes that one token of context takes in the KV cache, all layers.
    pub fn kv_bytes_per_token(&self) -> Bytes {
        Bytes(u64::from(self.layers) * 2 * self.kv_width() * u64::from(self.kv_bits) / 8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parameter counts as published on the models' cards: 6.74, 13.02, 68.98, 8.03, 8.03, 70.55, 1.24, 3.21, 7.25, 7.62 and
    /// 8.19 billion.
    #[test]
    fn presets_have_the_published_sizes() {
        let sizes = PRESETS.map(|name| ModelGeometry::preset(name).unwrap().parameters());
        assert_eq!(
            sizes,
            [
                6_738_415_616,
                13_015_864_320,
                68_976_648_192,
                8_030_261_248,
                8_030_261_248,
                70_553_706_496,
                1_235_814_400,
                3_212_749_824,
                7_248_023_552,
                7_615_616_512,
                8_190_735_360
            ]
        );
    }

    #[test]
    fn llama_3_8b_memory_by_hand() {
        let model = ModelGeometry::preset("llama-3-8b").unwrap();
        assert_eq!(model.weights_bytes(), Bytes(2 * 8_030_261_248));
        // 32 layers x keys and values x 8 heads x 128 elements x 2 bytes.
        assert_eq!(model.kv_bytes_per_token(), Bytes(131_072));
        let llama_2 = ModelGeometry::preset("llama-2-7b").unwrap();
        assert_eq!(llama_2.kv_bytes_per_token(), Bytes(524_288));
        assert_eq!(model.attention_layers(), 32);
    }

    #[test]
    fn quantised_weights_and_cache_shrink() {
        let shape = ModelShape { weight_bits: 4, kv_bits: 8, ..ModelShape::clone(&preset()) };
        let model = ModelGeometry::new(shape).unwrap();
        assert_eq!(model.weights_bytes(), Bytes(8_030_261_248 / 2));
        assert_eq!(model.kv_bytes_per_token(), Bytes(65_536));
    }

    fn preset() -> ModelGeometry {
        ModelGeometry::preset("llama-3-8b").unwrap()
    }

    #[test]
    fn impossible_shapes_are_refused_by_name() {
        let refused = |change: fn(&mut ModelShape)| {
            let mut shape = ModelShape::clone(&preset());
            change(&mut shape);
            ModelGeometry::new(shape).unwrap_err().to_string()
        };
        assert_eq!(refused(|shape| shape.layers = 0), "layers = 0: expected 1 to 1000");
        assert_eq!(refused(|shape| shape.hidden = u32::MAX), "hidden = 4294967295: expected 1 to 131072");
        assert_eq!(refused(|shape| shape.weight_bits = 7), "weight_bits = 7: expected 4, 8, 16 or 32");
        assert_eq!(refused(|shape| shape.kv_heads = 5), "kv_heads = 5: expected a divisor of query_heads = 32");
        assert_eq!(refused(|shape| shape.kv_heads = 64), "kv_heads = 64: expected a divisor of query_heads = 32");
    }

    #[test]
    fn unknown_presets_are_none() {
        assert_eq!(ModelGeometry::preset("gpt-17"), None);
        assert_eq!(preset_name("mistralai/Mistral-7B-v0.1"), None);
    }

    #[test]
    fn presets_go_by_the_publishers_names_too() {
        let meant = ["meta-llama/Llama-3.1-8B-Instruct", "mistralai/Mistral-7B-Instruct-v0.3", "Qwen/Qwen3-8B"];
        assert_eq!(meant.map(preset_name), [Some("llama-3.1-8b"), Some("mistral-7b"), Some("qwen3-8b")]);
    }
}
