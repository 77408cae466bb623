//! A whole profile of the parts that tables give.
//!
//! What no table gives is taken from elsewhere, and its provenance says from where: planning figures of public reports for
//! launches, replays, captures, pools and the engine half; for head and attention the bytes and the arithmetic at the rates
//! that the dense table itself reaches.

use calibrate::findings::declared_engine;
use calibrate::profile::{
    Attention, Axis, BUILTIN, Curve, Grid, Group, Identity, Kind, Memory, Overlap, Profile, ProfileError, Provenance,
    Surface, Table,
};
use calibrate::served_model::{ModelRequest, ServedModel};
use calibrate::spelling::closest;
use kernels::geometry::{ModelGeometry, PRESETS};
use kernels::units::Bytes;
use kernels::work::{Work, attention_work, dense_work, head_work};

use super::FitError;
use super::tables::grids::rounded;
use super::tables::vidur::TableShape;
use super::tables::{Parts, Table as Read};

/// The built-in profile whose machine half has the planning figures of public reports.
const PLANNED: &str = "h200-llama-3.1-8b";

/// What the user says of the server that the tables are about.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The profile's name.
    pub name: &'a str,
    /// The device: a name, or a part of one that a built-in profile has.
    pub device: Option<&'a str>,
    /// Its memory.
    pub device_memory: Option<Bytes>,
    /// A preset or a `config.json`.
    pub model: Option<&'a str>,
    /// Tensor-parallel ranks.
    pub ranks: Option<u32>,
    /// `vllm` or `sglang`.
    pub engine: &'a str,
}

/// The model of the tables: the one that is named, else the preset that alone has their shape.
///
/// # Errors
/// No such model, several, or one of another shape than a table's.
pub fn model(request: &Request<'_>, tables: &[Read]) -> Result<ServedModel, FitError> {
    let shapes: Vec<&TableShape> = tables.iter().filter_map(Read::shape).collect();
    let mut ranks: Vec<u32> = tables.iter().filter_map(Read::ranks).collect();
    ranks.dedup();
    if ranks.len() > 1 {
        let problem = format!("tables of {} and of {} tensor-parallel ranks", ranks[0], ranks[1]);
        return Err(FitError::together(problem, "give tables of one server, or say with --tp which rows are meant"));
    }
    let ranks = ranks.first().copied().or(request.ranks).unwrap_or(1);
    let name = match request.model {
        Some(name) => name.to_owned(),
        None => preset_of(&shapes)?,
    };
    let whole = ServedModel::find(&ModelRequest { name: &name, ranks: 1, shapes_only: true })?;
    if let Some((file, problem)) = shapes.iter().find_map(|shape| Some((&shape.file, differs(shape, &whole.geometry)?)))
    {
        return Err(FitError::file(
            file,
            format!("{problem} of {}", whole.name),
            "name the model of the table with --model",
        ));
    }
    Ok(ServedModel::find(&ModelRequest { name: &name, ranks, shapes_only: true })?)
}

/// Where a table is not about this model.
fn differs(shape: &TableShape, model: &ModelGeometry) -> Option<String> {
    let numbers = [
        ("query heads", Some(shape.query_heads), model.query_heads),
        ("KV heads", Some(shape.kv_heads), model.kv_heads),
        ("hidden width", Some(shape.hidden), model.hidden),
        ("MLP width", shape.intermediate, model.intermediate),
    ];
    let mut numbers = numbers.into_iter().filter_map(|(what, found, expected)| Some((what, found?, expected)));
    let (what, found, expected) = numbers.find(|(_, found, expected)| found != expected)?;
    Some(format!("the table is of a model with {what} {found}, not {expected} as"))
}

fn preset_of(shapes: &[&TableShape]) -> Result<String, FitError> {
    let fits = |preset: &&str| {
        let geometry = ModelGeometry::preset(preset).expect("every preset has a geometry");
        !shapes.is_empty() && shapes.iter().all(|shape| differs(shape, &geometry).is_none())
    };
    let fitting: Vec<&str> = PRESETS.into_iter().filter(fits).collect();
    let help = "name it with --model: a preset, or the model's config.json";
    match &fitting[..] {
        [only] => Ok((*only).to_owned()),
        [] if shapes.is_empty() => Err(FitError::together("no table says which model was measured", help)),
        [] => Err(FitError::together(
            "the tables do not say how many layers the model has, and no preset has its shape",
            help,
        )),
        several => Err(FitError::together(
            format!("the tables do not say which model was measured: {} have its shape", several.join(", ")),
            help,
        )),
    }
}

/// The built-in profile of a device, for what the vendor's data sheet and its driver say of it.
fn builtin_of(device: &str) -> Result<Option<Profile>, ProfileError> {
    let mut found = None;
    for name in BUILTIN {
        let profile = Profile::builtin(name)?;
        if names(&profile.identity.device, device) && found.replace(profile).is_some() {
            return Ok(None);
        }
    }
    Ok(found)
}

/// Whether `part` names a device: whole words of its name, one after the other. An A10 is no A100.
fn names(device: &str, part: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty());
        words.map(str::to_lowercase).collect()
    };
    let (device, part) = (words(device), words(part).concat());
    let runs = (0..device.len()).flat_map(|from| (from + 1..=device.len()).map(move |to| from..to));
    !part.is_empty() && runs.into_iter().any(|run| device[run].concat() == part)
}

fn declared(source: &str, range: &str) -> Provenance {
    Provenance {
        kind: Kind::Declared,
        source: source.to_owned(),
        licence: None,
        method: None,
        valid: None,
        range: Some(range.to_owned()),
    }
}

fn derived(source: &str, method: String, valid: String) -> Provenance {
    Provenance {
        kind: Kind::Derived,
        source: source.to_owned(),
        licence: None,
        method: Some(method),
        valid: Some(valid),
        range: None,
    }
}

/// Completes a profile.
///
/// # Errors
/// No dense table, a device whose memory is not known, or figures that no profile may have.
pub fn profile(request: &Request<'_>, model: &ServedModel, parts: Parts) -> Result<Profile, FitError> {
    let planned = Profile::builtin(PLANNED)?.machine;
    let known = request.device.map(builtin_of).transpose()?.flatten();
    let memory = match (request.device_memory, &known) {
        (Some(total), _) => Group {
            figures: Memory { total },
            provenance: declared("given with --device-memory", "exact where it is what the driver reports"),
            measured: None,
        },
        (None, Some(known)) => known.machine.memory.clone(),
        (None, None) => return Err(no_memory(request.device)?),
    };
    let dense = parts.dense.ok_or_else(|| {
        let help = "give a table of linear operations (mlp.csv), steps, or `vllm bench forward` beside it; to fit an engine's \
                    log onto a profile that has one, name it with --onto";
        FitError::together("no table has the dense work over rows, which every profile needs", help)
    })?;
    let rates = Rates::of(&dense, &model.geometry);
    let head = match parts.head {
        Some(head) => head,
        None => head_by_rates(&rates, &model.geometry, &dense),
    };
    let mut engine = declared_engine(request.engine, &model.geometry)?;
    engine.attention = Some(match parts.attention {
        Some(attention) => attention,
        None => attention_by_rates(&rates, &model.geometry, &dense),
    });
    if parts.of_whole_steps {
        let host = &mut engine.host;
        (host.figures.step_overhead_us, host.figures.per_request_us, host.figures.padding_bookkeeping_us) =
            (0.0, 0.0, 0.0);
        host.provenance = derived(
            &dense.provenance.source,
            "0: what the host takes of a step beside its launches is inside the measured steps".to_owned(),
            "for steps like the measured ones".to_owned(),
        );
    }
    let device = match (&known, request.device) {
        (Some(known), _) => known.identity.device.clone(),
        (None, Some(device)) => device.to_owned(),
        (None, None) => "not stated".to_owned(),
    };
    let mut machine = planned;
    (machine.memory, machine.dense, machine.head) = (memory, dense, head);
    machine.bandwidth = known.and_then(|known| known.machine.bandwidth);
    (machine.attention, machine.eager_gap, machine.piecewise_gap) = (None, None, None);
    let profile = Profile {
        name: request.name.to_owned(),
        identity: Identity {
            device,
            driver: None,
            host_cpu: None,
            engine: request.engine.to_owned(),
            engine_version: None,
            model_name: model.name.clone(),
            model: model.geometry.clone(),
        },
        measurement: None,
        overlap: Overlap::Pipelined,
        machine,
        engine,
    };
    // What nobody could read is no profile.
    Ok(Profile::from_toml(&profile.to_toml(), "the fitted profile")?)
}

fn no_memory(device: Option<&str>) -> Result<FitError, ProfileError> {
    let mut devices = Vec::new();
    for name in BUILTIN {
        devices.push(Profile::builtin(name)?.identity.device);
    }
    devices.retain(|device| device.starts_with("NVIDIA"));
    let known: Vec<&str> = devices.iter().map(String::as_str).collect();
    let problem = match device {
        None => "no table says how much memory the device has".to_owned(),
        Some(device) => format!("how much memory the device `{device}` has is not known"),
    };
    let help = match device.and_then(|device| closest(device, &known)) {
        Some(near) => format!("is it {near}? else give --device-memory, as in --device-memory 80GiB"),
        None => format!("give --device-memory, as in 80GiB, or --device with one of {}", known.join(", ")),
    };
    Ok(FitError::together(problem, help))
}

/// What the dense table reaches: bytes of weights at its smallest size, arithmetic over its upper half.
#[derive(Clone, Copy, Debug)]
struct Rates {
    bytes_per_us: f64,
    /// Infinite where the table ends before it computes.
    flops_per_us: f64,
}

/// Rows from which on the slope of a table is that of its arithmetic.
const COMPUTING_ROWS: f64 = 1024.0;

impl Rates {
    fn of(dense: &Group<Curve>, model: &ModelGeometry) -> Self {
        let Curve::Table(table) = &dense.figures else {
            return Self { bytes_per_us: f64::INFINITY, flops_per_us: f64::INFINITY };
        };
        let (x, y) = (table.x(), table.y());
        let last = x.len() - 1;
        let half = x.partition_point(|&rows| rows <= x[last] / 2.0).saturating_sub(1).min(last - 1);
        let flops = |rows: f64| dense_work(model, rows as u32).flops;
        let flops_per_us = (flops(x[last]) - flops(x[half])) / (y[last] - y[half]);
        let computes = x[last] >= COMPUTING_ROWS && flops_per_us > 0.0;
        Self {
            bytes_per_us: dense_work(model, x[0] as u32).bytes / y[0],
            flops_per_us: if computes { flops_per_us } else { f64::INFINITY },
        }
    }

    fn us(&self, work: Work) -> f64 {
        rounded(work.roofline_us(self.flops_per_us, self.bytes_per_us).max(0.001))
    }

    fn words(&self) -> String {
        let bytes = format!("{:.0} GB/s, at which the dense table streams its weights", self.bytes_per_us / 1e3);
        if self.flops_per_us.is_finite() {
            format!("{bytes}, never faster than {:.0} TFLOP/s, the slope of its upper half", self.flops_per_us / 1e6)
        } else {
            format!("{bytes}; the table ends before it computes, so arithmetic counts nothing")
        }
    }
}

fn head_by_rates(rates: &Rates, model: &ModelGeometry, dense: &Group<Curve>) -> Group<Curve> {
    const SEQUENCES: [u32; 9] = [1, 8, 16, 32, 64, 128, 256, 512, 1024];
    let us = SEQUENCES.map(|sequences| rates.us(head_work(model, sequences))).to_vec();
    let axis = Axis::new(SEQUENCES.map(f64::from).to_vec()).expect("rising");
    let figures = Curve::Table(Table::new(axis, us).expect("a time for each"));
    let method = format!("no table of it: bytes of the LM head at {}; the sampler is left out", rates.words());
    let provenance =
        derived(&dense.provenance.source, method, "1 to 1024 sequences; no tile edges, no sampler".to_owned());
    Group { figures, provenance, measured: None }
}

fn attention_by_rates(rates: &Rates, model: &ModelGeometry, dense: &Group<Curve>) -> Group<Attention> {
    const REQUESTS: [u32; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
    const CHUNKS: [u32; 9] = [1, 64, 128, 256, 512, 1024, 2048, 4096, 8192];
    const CONTEXTS: [u32; 9] = [0, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768];
    let axis = |knots: &[u32]| Axis::new(knots.iter().map(|&knot| f64::from(knot)).collect()).expect("rising");
    let each = |x: &[u32], us: &dyn Fn(u32, u32) -> f64| {
        let values = x.iter().flat_map(|&x| CONTEXTS.map(|context| us(x, context))).collect();
        Surface::Grid(Grid::new(axis(x), axis(&CONTEXTS), values).expect("a time for each"))
    };
    let figures = Attention {
        decode: each(&REQUESTS, &|requests, context| rates.us(attention_work(model, 1, context) * f64::from(requests))),
        prefill: each(&CHUNKS, &|chunk, context| rates.us(attention_work(model, chunk, context))),
        mixed: None,
        separate_kernels: true,
        padded_request_us: 0.0,
        shared_us: 0.0,
    };
    let method = format!("no table of it: keys and values at {}; a floor that kernels do not reach", rates.words());
    let valid = "decode of 1 to 512 requests, prefill chunks to 8192, contexts to 32768".to_owned();
    Group { figures, provenance: derived(&dense.provenance.source, method, valid), measured: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_named_by_whole_words() {
        let device = "NVIDIA GeForce RTX 4090";
        for part in ["4090", "RTX 4090", "rtx4090", "nvidia geforce rtx 4090", "GeForce-RTX-4090"] {
            assert!(names(device, part), "{part}");
        }
        for part in ["409", "X 4090", "", " ", "4090 D", "RTX 4090 SUPER"] {
            assert!(!names(device, part), "{part}");
        }
        assert!(names("NVIDIA A100-SXM4-80GB", "A100") && !names("NVIDIA A100-SXM4-80GB", "A10"));
    }
}
