//! The file form of a profile, as TOML holds it. [`super::parse`] checks it and makes a [`super::Profile`] of it.
//!
//! Every number keeps its place in the text, so that a check can point at it; every key says its unit.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::{Kind, Overlap};

pub(super) type Number = Spanned<f64>;
pub(super) type Count = Spanned<i64>;
pub(super) type Text = Spanned<String>;
/// The low and the high end of a range.
pub(super) type Ends = Spanned<Vec<Number>>;
/// One quantity of every rung.
pub(super) type Column = Spanned<Vec<Number>>;

/// The version key alone, read before everything else.
#[derive(Deserialize)]
pub(super) struct SchemaFile {
    pub(super) schema: Option<Count>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProfileFile {
    #[expect(dead_code, reason = "read on its own before the rest; named here so that it is no unknown key")]
    schema: i64,
    pub(super) name: Text,
    pub(super) overlap: Overlap,
    pub(super) identity: IdentityFile,
    pub(super) measurement: Option<MeasurementFile>,
    pub(super) machine: MachineFile,
    pub(super) engine: EngineFile,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IdentityFile {
    pub(super) device: Text,
    pub(super) driver: Option<Text>,
    pub(super) host_cpu: Option<Text>,
    pub(super) engine: Text,
    pub(super) engine_version: Option<Text>,
    pub(super) model_name: Text,
    pub(super) model: ModelFile,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ModelFile {
    pub(super) layers: Count,
    pub(super) hidden: Count,
    pub(super) intermediate: Count,
    pub(super) query_heads: Count,
    pub(super) kv_heads: Count,
    pub(super) head_size: Count,
    pub(super) vocabulary: Count,
    pub(super) weight_bits: Count,
    pub(super) kv_bits: Count,
    pub(super) tied_embeddings: bool,
    pub(super) qkv_bias: bool,
    pub(super) qk_norm: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProvenanceFile {
    pub(super) kind: Kind,
    pub(super) source: Text,
    pub(super) licence: Option<Text>,
    pub(super) method: Option<Text>,
    pub(super) valid: Option<Text>,
    pub(super) range: Option<Text>,
}

/// What a group says about its figures.
#[derive(Clone, Copy)]
pub(super) struct Stated<'a> {
    pub(super) provenance: Option<&'a ProvenanceFile>,
    pub(super) measured: Option<&'a MeasuredFile>,
}

/// `intervals` are those of single figures, `knots` those of tables.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MeasuredFile {
    pub(super) protocol: Option<ProtocolFile>,
    pub(super) held_out: Option<HeldOutFile>,
    pub(super) padding: Option<Spanned<PaddingCostFile>>,
    #[serde(default)]
    pub(super) intervals: BTreeMap<String, Spanned<IntervalFile>>,
    #[serde(default)]
    pub(super) knots: BTreeMap<String, Spanned<KnotIntervalsFile>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProtocolFile {
    pub(super) rounds: Count,
    pub(super) warm_up_visits: Count,
    pub(super) outliers: Count,
    pub(super) drift_ratio: Number,
    pub(super) stopped_by: Text,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HeldOutFile {
    pub(super) sizes: Count,
    pub(super) median_percent: Number,
    pub(super) worst_percent: Number,
    pub(super) worst_at: Number,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PaddingCostFile {
    pub(super) us_per_row: Number,
    pub(super) low: Number,
    pub(super) high: Number,
    pub(super) samples: Count,
    pub(super) to_rows: Number,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IntervalFile {
    pub(super) low: Number,
    pub(super) high: Number,
    pub(super) samples: Count,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KnotIntervalsFile {
    pub(super) low: Spanned<Vec<Number>>,
    pub(super) high: Spanned<Vec<Number>>,
    pub(super) samples: Spanned<Vec<Count>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MeasurementFile {
    pub(super) date: Text,
    pub(super) calibrate_version: Text,
    pub(super) options: Text,
    pub(super) took_s: Number,
    pub(super) cuda_version: Option<Text>,
    pub(super) compute_capability: Option<Text>,
    pub(super) gemm_backend: Text,
    pub(super) tensor_parallel: Option<Count>,
    pub(super) weight_layers: Option<Count>,
    pub(super) sm_clock_mhz: Option<Ends>,
    #[serde(default)]
    pub(super) warning: Vec<KeptWarningFile>,
    #[serde(default)]
    pub(super) not_measured: Vec<NotMeasuredFile>,
    pub(super) full: Option<RungsFile>,
    pub(super) piecewise: Option<RungsFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KeptWarningFile {
    pub(super) code: Text,
    pub(super) what: Text,
    pub(super) advice: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NotMeasuredFile {
    pub(super) what: Text,
    pub(super) why: Text,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RungsFile {
    pub(super) rows: Column,
    pub(super) nodes: Column,
    pub(super) capture_ms: Column,
    pub(super) instantiate_ms: Column,
    pub(super) upload_ms: Column,
    pub(super) pool_growth_bytes: Column,
    pub(super) first_replay_us: Column,
    pub(super) replay_host_us: Column,
    pub(super) replay_device_us: Column,
    pub(super) eager_host_us: Column,
    pub(super) eager_device_us: Column,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MachineFile {
    pub(super) memory: MemoryFile,
    pub(super) dense: DenseFile,
    pub(super) head: HeadFile,
    pub(super) launch: LaunchFile,
    pub(super) replay: ReplayFile,
    pub(super) update: UpdateFile,
    pub(super) pool: PoolFile,
    pub(super) capture: CaptureFile,
    pub(super) bandwidth: Option<BandwidthFile>,
    pub(super) attention: Option<AttentionFile>,
    pub(super) eager_gap: Option<DenseFile>,
    pub(super) piecewise_gap: Option<DenseFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EngineFile {
    pub(super) attention: Option<AttentionFile>,
    pub(super) ops: OpsFile,
    pub(super) dispatch: DispatchFile,
    pub(super) host: HostFile,
    pub(super) activation: ActivationFile,
    pub(super) startup: StartupFile,
}

macro_rules! group_file {
    ($name:ident { $($field:ident: $type:ty),* $(,)? }) => {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(super) struct $name {
            $(pub(super) $field: $type,)*
            provenance: Option<ProvenanceFile>,
            measured: Option<MeasuredFile>,
        }

        impl $name {
            pub(super) fn stated(&self) -> Stated<'_> {
                Stated { provenance: self.provenance.as_ref(), measured: self.measured.as_ref() }
            }
        }
    };
}

group_file!(MemoryFile { total_bytes: Count });
group_file!(DenseFile { table: Option<RowTableFile>, line: Option<LineFile>, constant: Option<ConstantFile> });
group_file!(HeadFile { table: Option<SequenceTableFile>, constant: Option<ConstantFile> });
group_file!(LaunchFile { launch_us: Number });
group_file!(ReplayFile { fixed_us: Number, node_us: Number });
group_file!(UpdateFile { update_us: Number, node_us: Option<Number> });
group_file!(PoolFile {
    base_bytes: Count,
    bytes_per_row: Count,
    full_executable_bytes: Count,
    piecewise_executable_bytes: Count,
});
group_file!(CaptureFile { full_s: Number, piecewise_s: Number, first_extra_s: Number });
group_file!(BandwidthFile { read_gb_per_s: Number });
group_file!(AttentionFile {
    separate_kernels: bool,
    padded_request_us: Number,
    shared_us: Option<Number>,
    decode: DecodeFile,
    prefill: PrefillFile,
    mixed: Option<MixedFile>,
});
group_file!(OpsFile { eager: Count, compiled: Count, graph_nodes: Count, attention_launches: Count });
group_file!(DispatchFile {
    eager_us: Number,
    eager_us_range: Option<Ends>,
    compiled_us: Number,
    compiled_us_range: Option<Ends>,
});
group_file!(HostFile { step_overhead_us: Number, per_request_us: Number, padding_bookkeeping_us: Number });
group_file!(ActivationFile { base_bytes: Count, bytes_per_row: Count });
group_file!(StartupFile {
    trace_s: Number,
    compile_cold_s: Number,
    compile_warm_s: Number,
    memory_profiling_s: Number,
    graph_sample_s: Number,
    kernel_warm_up_s: Number,
    sampler_warm_up_s: Number,
    per_capture_s: Option<Number>,
    other_s: Number,
});

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RowTableFile {
    pub(super) rows: Spanned<Vec<Number>>,
    pub(super) us: Spanned<Vec<Number>>,
    pub(super) measured_to_rows: Option<Number>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SequenceTableFile {
    pub(super) sequences: Spanned<Vec<Number>>,
    pub(super) us: Spanned<Vec<Number>>,
    pub(super) measured_to_sequences: Option<Number>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LineFile {
    pub(super) at_rows: Number,
    pub(super) us: Number,
    pub(super) us_per_row: Number,
    pub(super) valid_rows: Spanned<Vec<Number>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ConstantFile {
    pub(super) us: Number,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DecodeFile {
    pub(super) table: Option<DecodeTableFile>,
    pub(super) constant: Option<ConstantFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DecodeTableFile {
    pub(super) requests: Spanned<Vec<Number>>,
    pub(super) context_tokens: Spanned<Vec<Number>>,
    pub(super) us: Spanned<Vec<Number>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PrefillFile {
    pub(super) table: Option<PrefillTableFile>,
    pub(super) constant: Option<ConstantFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PrefillTableFile {
    pub(super) chunk_tokens: Spanned<Vec<Number>>,
    pub(super) context_tokens: Spanned<Vec<Number>>,
    pub(super) us: Spanned<Vec<Number>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MixedFile {
    pub(super) chunk_tokens: Spanned<Vec<Number>>,
    pub(super) prefill_context_tokens: Spanned<Vec<Number>>,
    pub(super) decode_requests: Spanned<Vec<Number>>,
    pub(super) decode_context_tokens: Spanned<Vec<Number>>,
    pub(super) us: Spanned<Vec<Number>>,
}
