//! What a profile's figures are about.

use kernels::geometry::{ModelGeometry, ModelShape};

use super::Profile;
use crate::served_model::rank_of;

/// What a profile's figures are about: the keys that a scenario is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The GPU, as its driver names it.
    pub device: String,
    /// Driver version.
    pub driver: Option<String>,
    /// Host processor.
    pub host_cpu: Option<String>,
    /// The engine, lower case: `vllm` or `sglang`.
    pub engine: String,
    /// Its version.
    pub engine_version: Option<String>,
    /// The model that the whole-model figures belong to.
    pub model_name: String,
    /// That model's geometry.
    pub model: ModelGeometry,
}

/// What a scenario says about itself; fields that it leaves open are not compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// The GPU.
    pub device: Option<String>,
    /// Driver version.
    pub driver: Option<String>,
    /// Host processor.
    pub host_cpu: Option<String>,
    /// The engine.
    pub engine: Option<String>,
    /// Its version.
    pub engine_version: Option<String>,
    /// The model's geometry.
    pub model: Option<ModelGeometry>,
}

impl Profile {
    /// Where the profile is about something else than a scenario says it runs on: one warning per difference.
    ///
    /// Names compare without regard to case. What either side leaves open is not compared.
    pub fn mismatches(&self, expected: &Expected) -> Vec<String> {
        let identity = &self.identity;
        let names = [
            ("device", Some(&identity.device), expected.device.as_ref()),
            ("driver", identity.driver.as_ref(), expected.driver.as_ref()),
            ("host CPU", identity.host_cpu.as_ref(), expected.host_cpu.as_ref()),
            ("engine", Some(&identity.engine), expected.engine.as_ref()),
            ("engine version", identity.engine_version.as_ref(), expected.engine_version.as_ref()),
        ];
        let named = names.into_iter().filter_map(|(what, ours, theirs)| {
            let (ours, theirs) = (ours?, theirs?);
            let differs = !ours.eq_ignore_ascii_case(theirs);
            differs.then(|| format!("profile {}: {what} is {ours}, the scenario says {theirs}", self.name))
        });
        let model = expected.model.iter().flat_map(|theirs| self.model_mismatches(theirs));
        named.chain(model).collect()
    }

    fn model_mismatches(&self, whole: &ModelGeometry) -> Vec<String> {
        let ours = &self.identity.model;
        // A model that does not divide among the ranks differs anyway.
        let theirs = &rank_of(whole, self.tensor_parallel()).unwrap_or_else(|_| ModelShape::clone(whole));
        let numbers = [
            ("layers", ours.layers, theirs.layers),
            ("hidden", ours.hidden, theirs.hidden),
            ("intermediate", ours.intermediate, theirs.intermediate),
            ("query_heads", ours.query_heads, theirs.query_heads),
            ("kv_heads", ours.kv_heads, theirs.kv_heads),
            ("head_size", ours.head_size, theirs.head_size),
            ("vocabulary", ours.vocabulary, theirs.vocabulary),
            ("weight_bits", ours.weight_bits, theirs.weight_bits),
            ("kv_bits", ours.kv_bits, theirs.kv_bits),
            ("tied_embeddings", ours.tied_embeddings.into(), theirs.tied_embeddings.into()),
            ("qkv_bias", ours.qkv_bias.into(), theirs.qkv_bias.into()),
            ("qk_norm", ours.qk_norm.into(), theirs.qk_norm.into()),
        ];
        let differing = numbers.into_iter().filter(|(_, ours, theirs)| ours != theirs);
        differing
            .map(|(key, ours, theirs)| {
                let (profile, model) = (&self.name, &self.identity.model_name);
                format!(
                    "profile {profile}: its costs are those of {model} with {key} = {ours}, the scenario says {theirs}"
                )
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_said_is_nothing_compared() {
        let profile = Profile::builtin("rtx4090-llama-3.1-8b").unwrap();
        assert!(profile.mismatches(&Expected::default()).is_empty());
        let same = Expected {
            device: Some("nvidia geforce rtx 4090".into()),
            driver: Some("any: the profile states none".into()),
            engine: Some("vllm".into()),
            engine_version: Some("0.19.0".into()),
            model: ModelGeometry::preset("llama-3.1-8b"),
            ..Expected::default()
        };
        assert!(profile.mismatches(&same).is_empty());
    }

    #[test]
    fn one_rank_is_compared_with_one_rank() {
        let text = include_str!("../../../tests/calibrate/double.toml");
        let mut profile = Profile::from_toml(text, "double.toml").unwrap();
        let whole = ModelGeometry::preset("llama-3.1-8b").unwrap();
        let expected = Expected { model: Some(whole.clone()), ..Expected::default() };
        assert!(profile.mismatches(&expected).is_empty());
        profile.measurement.as_mut().unwrap().tensor_parallel = 2;
        assert_eq!(
            profile.mismatches(&expected).len(),
            4,
            "the whole model is no rank: query and KV heads, MLP, vocabulary"
        );
        profile.identity.model = ModelGeometry::new(rank_of(&whole, 2).unwrap()).unwrap();
        assert!(profile.mismatches(&expected).is_empty());
    }

    #[test]
    fn each_difference_is_one_warning() {
        let profile = Profile::builtin("rtx4090-llama-3.1-8b").unwrap();
        let mut shape = ModelShape::clone(&profile.identity.model);
        shape.layers = 16;
        shape.kv_bits = 8;
        let expected = Expected {
            device: Some("NVIDIA L4".into()),
            engine_version: Some("0.33.0".into()),
            model: Some(ModelGeometry::new(shape).unwrap()),
            ..Expected::default()
        };
        assert_eq!(
            profile.mismatches(&expected),
            [
                "profile rtx4090-llama-3.1-8b: device is NVIDIA GeForce RTX 4090, the scenario says NVIDIA L4",
                "profile rtx4090-llama-3.1-8b: engine version is 0.19.0, the scenario says 0.33.0",
                "profile rtx4090-llama-3.1-8b: its costs are those of meta-llama/Llama-3.1-8B with layers = 32, the \
                 scenario says 16",
                "profile rtx4090-llama-3.1-8b: its costs are those of meta-llama/Llama-3.1-8B with kv_bits = 16, the \
                 scenario says 8",
            ]
        );
    }
}
