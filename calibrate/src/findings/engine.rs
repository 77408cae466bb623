//! The engine half of a measured profile: planning figures, for calibrate sees no engine.

use kernels::geometry::ModelGeometry;
use kernels::work::{OPERATIONS_OUTSIDE_LAYERS, layer_operations, step_operations};

use crate::profile::{Activation, Engine, Group, Ops, Profile, ProfileError};
use kernels::units::Bytes;

/// The built-in profile whose planning figures stand for every engine: those of public reports, with their ranges.
const PLANNED: &str = "h200-llama-3.1-8b";
/// What the built-in sources say of figures that a calibration replaces; these are not.
const REPLACED: &str = "; replace it by a calibration run";
const BYTES_PER_ACTIVATION: u64 = 2;

/// Planning figures for `engine`, with operations and activations counted for this geometry.
///
/// # Errors
/// If the built-in profile cannot be read, which a test excludes.
pub fn declared_engine(engine: &str, model: &ModelGeometry) -> Result<Engine, ProfileError> {
    let mut planned = Profile::builtin(PLANNED)?.engine;
    planned.attention = None;
    let compiled = step_operations(model);
    let per_layer = layer_operations(model).len();
    planned.ops.figures = Ops {
        // Without compilation one operation more a layer is launched alone.
        eager: compiled + model.layers,
        compiled,
        graph_nodes: compiled,
        attention_launches: model.attention_layers(),
    };
    planned.ops.provenance.source = format!(
        "operations counted for this geometry: {} eager and {per_layer} compiled a layer, {OPERATIONS_OUTSIDE_LAYERS} outside \
         the layers",
        per_layer + 1
    );
    planned.ops.provenance.range = Some("a tenth more or less, by what the engine fuses".to_owned());
    planned.activation.figures = Activation {
        // Gate, up and their product, input and output of one MLP are alive at a time.
        per_row: Bytes((3 * u64::from(model.intermediate) + 2 * u64::from(model.hidden)) * BYTES_PER_ACTIVATION),
        ..planned.activation.figures
    };
    planned.activation.provenance.range =
        Some("0.5 to 1.5 GiB plus 0.8 to 2 times the live tensors per row".to_owned());
    not_measured(&mut planned.dispatch, engine);
    not_measured(&mut planned.host, engine);
    not_measured(&mut planned.startup, engine);
    Ok(planned)
}

fn not_measured<T>(group: &mut Group<T>, engine: &str) {
    let source = &mut group.provenance.source;
    if let Some(kept) = source.strip_suffix(REPLACED) {
        *source = kept.to_owned();
    }
    let reports = if engine.eq_ignore_ascii_case("vllm") { "" } else { ", most of them of vLLM" };
    *source = format!(
        "{source}{reports}; calibrate sees no Python engine and does not measure it: fit it to the engine's own logs"
    );
}
