//! The profile of a calibration.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Ended, Results};
use crate::findings::{
    Achieved, Findings, Statement, Unusable, clock_range_mhz, declared_engine, implausible, left_out, machine, rungs,
};
use crate::gemm_backend::GemmBackend;
use crate::graph_mode::Mode;
use crate::measure::Campaign;
use crate::plan::Plan;
use crate::profile::{Identity, KeptWarning, Kind, Measurement, NotMeasured, Overlap, Profile};
use crate::served_model::ServedModel;
use crate::state::Concern;
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
    pub(crate) concerns: &'a [Concern],
    /// When it began, UTC.
    pub(crate) date: String,
    /// Its options, as typed.
    pub(crate) options: String,
    pub(crate) took: Duration,
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
    let statement = Statement {
        kind: if about.is_double { Kind::Double } else { Kind::Measured },
        source: format!("calibrate {version} on {}, {}", about.device, about.date),
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
        date: about.date.clone(),
        calibrate_version: version.to_owned(),
        options: about.options.clone(),
        took_s: (about.took.as_secs_f64() * 10.0).round() / 10.0,
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
        name: about.name.clone(),
        identity: Identity {
            device: about.device.clone(),
            driver: about.driver.clone(),
            host_cpu: about.host_cpu.clone(),
            engine: about.engine.to_owned(),
            engine_version: None,
            model_name: about.model.name.clone(),
            model: model.clone(),
        },
        measurement: Some(measurement),
        overlap: Overlap::Pipelined,
        machine,
        engine,
    })
}

/// Concerns about the machine, what differs from the model, and what was noisy.
fn warnings(about: &About<'_>, results: &Results) -> Vec<KeptWarning> {
    let of_machine = about.concerns.iter().map(|concern| KeptWarning {
        code: concern.code.to_owned(),
        what: concern.what.clone(),
        advice: Some(concern.advice.clone()),
    });
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
        all.extend(self.update.iter().flat_map(super::Kept::warnings));
        all.extend(self.drift.iter().map(|drift| KeptWarning {
            code: "drift".to_owned(),
            what: format!("from the first part to the last: {drift}"),
            advice: Some("let the card reach its working temperature first, and look at its cooling".to_owned()),
        }));
        all
    }
}
