//! What a profile's figures are about.

use kernels::geometry::ModelGeometry;

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
