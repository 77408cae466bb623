//! The profile of a calibration.

use std::collections::BTreeMap;

use super::{Ended, Results};
use crate::findings::{
    Achieved, Findings, Statement, Unusable, clock_range_mhz, declared_engine, implausible, left_out, machine, rungs,
};
use crate::gemm_backend::GemmBackend;
use crate::graph_mode::Mode;
use crate::measure::{Campaign, Limits};
use crate::partial::Piece;
use crate::plan::Plan;
use crate::profile::{Identity, KeptWarning, Kind, Measurement, NotMeasured, Overlap, Profile};
use crate::served_model::ServedModel;
use kernels::units::Bytes;

/// What a profile says beside the figures.
pub(crate) struct About<'a> {
    pub(crate) name: String,
    pub(crate) device: String,
    pub(crate) is_double: bool,
    pub(crate) driver: Option<String>,
    pub(crate) cuda_version: String,
    pub(crate) compute_capability: (u32, u32),
    pub(crate) host_cpu: Option<String>,
    pub(crate) engine: &'static str,
    pub(crate) memory: Bytes,
    pub(crate) gemm_backend: String,
    pub(crate) model: &'a ServedModel,
    pub(crate) plan: &'a Plan,
    /// The pieces that it was measured in, one at least.
    pub(crate) pieces: &'a [Piece],
}

/// The profile of what was found.
///
/// # Errors
/// Results that make no table.
pub(crate) fn profile(about: &About<'_>, results: &Results) -> Result<Profile, Ended> {
    let attention = (results.decode.found(), results.prefill.found());
    let separate_kernels = results.prefill.result().separate_kernels;
    let findings = Findings {
        memory: about.memory,
        attention_layers: about.model.geometry.attention_layers(),
        launch: results.launch.found(),
        rungs: results.rungs.found(),
        executables: Some(results.executables.found()),
        update: results.update.as_ref().map(super::Kept::found),
        dense: results.dense.found(),
        head: results.head.found(),
        attention: Some(attention),
        bandwidth: Some(results.bandwidth.found()),
    };
    let (version, differs) = (env!("CARGO_PKG_VERSION"), &about.model.differs);
    let device = words(&about.device, "unnamed device");
    let date = about.pieces.first().map(|piece| piece.date.clone()).unwrap_or_default();
    let took_s: f64 = about.pieces.iter().map(|piece| piece.took_s).sum();
    let statement = Statement {
        kind: if about.is_double { Kind::Double } else { Kind::Measured },
        source: format!("calibrate {version} on {device}, {date}"),
        shapes_only: (!differs.is_empty()).then(|| differs.join("; ")),
    };
    let mut machine = machine(&findings, &statement)?;
    let achieved = Achieved::of(results.dense.result(), results.bandwidth.result(), &about.model.geometry);
    if let (Some(achieved), Some(method)) = (&achieved, &mut machine.dense.provenance.method) {
        *method = format!("{method}; {}", achieved.words());
    }
    let is_own_kernel = about.gemm_backend == GemmBackend::Own.to_string();
    let of_kernels = achieved.iter().flat_map(|achieved| achieved.warnings(is_own_kernel));
    let of_figures: Vec<KeptWarning> = of_kernels.chain(implausible(&findings)).collect();
    let model = &about.model.geometry;
    let engine = declared_engine(about.engine, model)
        .map_err(|error| Unusable { what: "planning figures of the engine", problem: error.to_string() })?;
    let clocks = results.campaigns().into_iter().flat_map(BTreeMap::values);
    let layers = model.layers;
    let (major, minor) = about.compute_capability;
    let measurement = Measurement {
        date,
        calibrate_version: version.to_owned(),
        options: options(about.pieces),
        took_s: (took_s * 10.0).round() / 10.0,
        cuda_version: Some(about.cuda_version.clone()),
        compute_capability: Some(format!("{major}.{minor}")),
        gemm_backend: about.gemm_backend.clone(),
        tensor_parallel: about.model.ranks,
        weight_layers: Some(about.plan.memory.weight_layers).filter(|&own| own < layers),
        sm_clock_mhz: clock_range_mhz(clocks),
        warnings: [warnings(about, results), of_figures].concat(),
        not_measured: not_measured(about, results, separate_kernels),
        full: rungs(results.rungs.result(), Mode::Full),
        piecewise: rungs(results.rungs.result(), Mode::Piecewise),
    };
    Ok(Profile {
        name: words(&about.name, "profile"),
        identity: Identity {
            device,
            driver: about.driver.clone().filter(|driver| !driver.trim().is_empty()),
            host_cpu: about.host_cpu.clone().filter(|cpu| !cpu.trim().is_empty()),
            engine: about.engine.to_owned(),
            engine_version: None,
            model_name: words(&about.model.name, "unnamed model"),
            model: model.clone(),
        },
        measurement: Some(measurement),
        overlap: Overlap::Pipelined,
        machine,
        engine,
    })
}

/// A text that a profile can hold: not an empty one, which files and drivers may give.
fn words(text: &str, otherwise: &str) -> String {
    let text = text.trim();
    if text.is_empty() { otherwise.to_owned() } else { text.to_owned() }
}

/// What was typed for each piece, one after the other.
fn options(pieces: &[Piece]) -> String {
    pieces.iter().map(|piece| piece.options.as_str()).collect::<Vec<_>>().join(", then ")
}

/// That the machine was looked at when each began: what changed by less than the limits is in the figures.
fn in_pieces(pieces: &[Piece]) -> Option<KeptWarning> {
    let limits = Limits::default();
    let dates: Vec<&str> = pieces.iter().map(|piece| piece.date.as_str()).collect();
    (pieces.len() > 1).then(|| KeptWarning {
        code: "resumed".to_owned(),
        what: format!(
            "measured in {} pieces, which began {}: when each began, device and host were within {:.0} % and {:.0} % of what \
             they were for the first, and parts of one may differ from those of another by so much",
            pieces.len(),
            dates.join(", "),
            limits.pace * 100.0,
            limits.host_pace * 100.0
        ),
        advice: Some("measure in one piece where so much matters".to_owned()),
    })
}

/// Concerns about the machine, of every piece, what differs from the model, and what was noisy.
fn warnings(about: &About<'_>, results: &Results) -> Vec<KeptWarning> {
    let mut of_machine: Vec<KeptWarning> = Vec::new();
    for warning in about.pieces.iter().flat_map(|piece| &piece.warnings) {
        if !of_machine.contains(warning) {
            of_machine.push(warning.clone());
        }
    }
    let of_machine = of_machine.into_iter().chain(in_pieces(about.pieces));
    let of_model = about.model.differs.iter().map(|reason| KeptWarning {
        code: "shapes_only".to_owned(),
        what: format!("only the shapes of the model were measured: {reason}"),
        advice: Some("take its figures for planning figures".to_owned()),
    });
    of_machine.chain(of_model).chain(results.noise()).collect()
}

fn not_measured(about: &About<'_>, results: &Results, separate_kernels: bool) -> Vec<NotMeasured> {
    let mut list = left_out(about.model.ranks, separate_kernels);
    for (mode, other) in [(Mode::Full, Mode::Piecewise), (Mode::Piecewise, Mode::Full)] {
        if !about.plan.modes.contains(&mode) {
            list.push(NotMeasured {
                what: format!("{mode} graphs"),
                why: format!(
                    "only {other} was captured: executables and seconds of captures of {mode} are made of its figures, and \
                     gaps of those of empty kernels"
                ),
            });
        }
    }
    if results.update.is_none() {
        list.push(NotMeasured {
            what: "updates of executables".to_owned(),
            why: "no two rungs of the ladder have steps of as many launches: a planning figure stands in".to_owned(),
        });
    }
    list
}

impl Results {
    fn campaigns(&self) -> Vec<&BTreeMap<String, Campaign>> {
        let mut all = vec![
            self.launch.campaigns(),
            self.bandwidth.campaigns(),
            self.dense.campaigns(),
            self.head.campaigns(),
            self.decode.campaigns(),
            self.prefill.campaigns(),
            self.rungs.campaigns(),
            self.executables.campaigns(),
        ];
        all.extend(self.update.as_ref().map(super::Kept::campaigns));
        all
    }

    fn noise(&self) -> Vec<KeptWarning> {
        let mut all = [
            self.launch.warnings(),
            self.bandwidth.warnings(),
            self.dense.warnings(),
            self.head.warnings(),
            self.decode.warnings(),
            self.prefill.warnings(),
            self.rungs.warnings(),
            self.executables.warnings(),
        ]
        .concat();
        all.extend(self.update.iter().flat_map(super::Kept::warnings).cloned());
        all.extend(self.drift.iter().map(|drift| KeptWarning {
            code: "drift".to_owned(),
            what: format!("from the first part to the last: {drift}"),
            advice: Some("let the card reach its working temperature first, and look at its cooling".to_owned()),
        }));
        all
    }
}
