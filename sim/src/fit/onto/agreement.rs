//! Whether logs are those of the engine, the model, the ranks and the device that a profile is about.
//!
//! A fit has no doubts of its own: whatever a step takes longer than the profile's device becomes a cost of the host. So what
//! cannot belong together is refused here, and what may not is said.

use std::collections::BTreeMap;

use calibrate::measure::median;
use calibrate::profile::{Expected, Profile};
use kernels::geometry::{ModelGeometry, preset_name};

use super::cells::{Logged, device_us};
use super::finding::Finding;
use super::log::EngineLog;
use super::steps::Server;
use super::{Fitted, Onto, StepFile};
use crate::cost::Execution;
use crate::fit::FitError;
use crate::fit::measured_step::MeasuredStep;
use crate::import::settings::Known;

/// Steps that take less than this share of the time that the profile's device works on them are no steps of that device: no
/// device figures are so far off.
pub const IMPOSSIBLE: f64 = 0.6;
/// Below this share they are not quite those of that device.
const DOUBTFUL: f64 = 0.9;
/// The fewest steps of a kind whose median says something: one that is far off does not decide.
const KIND_LEAST: usize = 3;
/// A host that takes so many times what is planned is rather a slower device. Planned figures hold within a factor of three.
const SLOWER: f64 = 4.0;

/// What logs are held against.
#[derive(Clone, Copy, Debug)]
pub struct Described<'a> {
    /// The profile that they are fitted onto.
    pub profile: &'a Profile,
    /// The server that is said to have written them.
    pub server: Option<&'a Server>,
    /// The model that its scenario names.
    pub model: Option<&'a str>,
}

impl Described<'_> {
    /// Refuses a log of another engine than the profile's and the server's, and one whose drafts no line tells.
    ///
    /// # Errors
    /// If the log is such a one.
    pub fn check(&self, log: &EngineLog) -> Result<(), FitError> {
        log.engines().into_iter().try_for_each(|engine| self.same_engine(&log.file, engine))?;
        self.without_drafts(log)
    }

    /// Refuses a server of another engine than the profile's.
    ///
    /// # Errors
    /// If it is one.
    pub fn check_server(&self) -> Result<(), FitError> {
        self.server.map_or(Ok(()), |server| self.same_engine("--server", server.options.engine()))
    }

    fn same_engine(&self, what: &str, engine: &str) -> Result<(), FitError> {
        let (profile, ours) = (&self.profile.name, &self.profile.identity.engine);
        let (problem, help) = if !ours.eq_ignore_ascii_case(engine) {
            (
                format!("{what} is of {engine}, and the engine half of profile {profile} is that of {ours}"),
                "fit onto a profile of that engine: `calibrate` measures one with --engine, and `sim fit` makes one of tables with \
                 --engine",
            )
        } else if let Some(server) = self.server.filter(|server| server.options.engine() != engine) {
            (
                format!("{what} is of {engine}, and --server describes a server of {}", server.options.engine()),
                "name the scenario of the server that wrote the log",
            )
        } else {
            return Ok(());
        };
        Err(FitError::together(problem, help))
    }

    /// SGLang's lines have the tokens of a step and not its drafts. vLLM's have both, if the server is the one described.
    fn without_drafts(&self, log: &EngineLog) -> Result<(), FitError> {
        let help = "fit the log of the same server without speculative decoding";
        let of_sglang = log.sglang.settings.word("speculative_algorithm").is_some()
            || log.decodes.iter().any(|(_, step)| step.accept_len.is_some());
        if of_sglang {
            let problem = "steps with drafts: what is drafted and verified in them no line tells";
            return Err(FitError::file(&log.file, problem, help));
        }
        let drafts = log.vllm.settings.whole("num_speculative_tokens").unwrap_or_default();
        let described = self.server.map_or(0, |server| u64::from(server.options.decode_tokens() - 1));
        if drafts != described && !(log.iterations.is_empty() && log.batch_sizes.is_empty()) {
            let problem = format!("its server drafts {drafts} tokens a step, the one of --server {described}");
            let help = "name the scenario of the server that wrote the log, with its num_speculative_tokens";
            return Err(FitError::file(&log.file, problem, help));
        }
        Ok(())
    }

    /// Where a log's own lines tell of another model or another number of ranks: a sentence each.
    #[must_use]
    pub fn doubts(&self, log: &EngineLog) -> Vec<String> {
        [self.other_model(log), self.other_ranks(log)].concat()
    }

    fn other_model(&self, log: &EngineLog) -> Vec<String> {
        let Some(Known { value: theirs, place }) = log.vllm.model.as_ref().or(log.sglang.model.as_ref()) else {
            return Vec::new();
        };
        let ours = &self.profile.identity.model_name;
        let geometry = preset_name(theirs).and_then(ModelGeometry::preset);
        let is_same = match &geometry {
            _ if file_name(theirs).eq_ignore_ascii_case(file_name(ours)) => true,
            Some(_) => self.profile.mismatches(&Expected { model: geometry.clone(), ..Expected::default() }).is_empty(),
            None => false,
        };
        let of_profile = (!is_same).then(|| match geometry {
            Some(_) => format!("{place}: the server runs {theirs}, and the profile's costs are those of {ours}"),
            None => format!(
                "{place}: the server runs {theirs}, whose shapes are not known here; the profile's costs are those of {ours}"
            ),
        });
        let of_scenario = self.model.filter(|model| {
            let both = [theirs.as_str(), model].map(|name| preset_name(name).and_then(ModelGeometry::preset));
            !file_name(theirs).eq_ignore_ascii_case(file_name(model)) && (both[0] != both[1] || both[0].is_none())
        });
        let of_scenario =
            of_scenario.map(|model| format!("{place}: the server runs {theirs}, the one of --server {model}"));
        of_profile.into_iter().chain(of_scenario).collect()
    }

    fn other_ranks(&self, log: &EngineLog) -> Vec<String> {
        let of_vllm =
            log.vllm.settings.get("tensor_parallel_size").zip(log.vllm.settings.whole("tensor_parallel_size"));
        let of_sglang = log.sglang.settings.get("tp_size").zip(log.sglang.settings.whole("tp_size"));
        let Some((Known { place, .. }, theirs)) = of_vllm.or(of_sglang) else { return Vec::new() };
        let ours = u64::from(self.profile.tensor_parallel());
        let of_profile = (theirs != ours).then(|| {
            format!(
                "{place}: {theirs} tensor-parallel ranks run the model, and the profile is of {ours}: what a device takes more or \
                 less is then taken for the host's"
            )
        });
        let described = self.server.map(|server| u64::from(server.options.ranks().0)).filter(|ranks| *ranks != theirs);
        let of_server = described
            .map(|ranks| format!("{place}: {theirs} tensor-parallel ranks, the server of --server has {ranks}"));
        of_profile.into_iter().chain(of_server).collect()
    }
}

/// The last part of a name or a path.
fn file_name(name: &str) -> &str {
    name.trim_end_matches('/').rsplit('/').next().unwrap_or(name)
}

/// Refuses a file that is given twice: steps that a figure is fitted to would judge it, too.
///
/// # Errors
/// If two files hold the same bytes, by their SHA-256.
pub fn refuse_twice(files: &[StepFile]) -> Result<(), FitError> {
    for (place, StepFile { file, sha256, .. }) in files.iter().enumerate() {
        if let Some(before) = files[..place].iter().find(|before| before.sha256 == *sha256) {
            let problem = format!("the same bytes as {}", before.file);
            return Err(FitError::file(
                file,
                problem,
                "give every log once: steps that are fitted cannot judge the fit",
            ));
        }
    }
    Ok(())
}

/// Refuses steps that are faster than the profile's device, and says which are almost. Each kind of execution is judged on its
/// own: steps with graphs that no device can have run so fast must not hide among many that launches slow down, nor a few in
/// each of many files.
///
/// # Errors
/// If the steps of a kind, in a file or in all of them, take less in the median than that device can work them off in.
pub fn refuse_faster(onto: &Onto<'_>, files: &[StepFile]) -> Result<Vec<String>, FitError> {
    let logged: Vec<Logged<'_>> =
        files.iter().flat_map(|file| file.steps.iter().map(|step| Logged { file: &file.file, step })).collect();
    let model = onto.model(onto.profile, &logged);
    let identity = &onto.profile.identity;
    let device = format!("{} by profile {}", identity.device, onto.profile.name);
    let mut doubts = Vec::new();
    let together = files.iter().map(|file| file.file.as_str()).collect::<Vec<_>>().join(", ");
    let of_files = files.iter().flat_map(|file| kinds(&file.steps).into_iter().map(|kind| (file.file.as_str(), kind)));
    let of_all = kinds(files.iter().flat_map(|file| &file.steps)).into_iter().map(|kind| (together.as_str(), kind));
    let of_files: Vec<_> = of_files.collect();
    let count = of_files.len();
    for (place, (file, (kind, steps))) in of_files.into_iter().chain(of_all.filter(|_| files.len() > 1)).enumerate() {
        let shares: Vec<f64> = steps.iter().map(|step| step.us / device_us(step, &model).max(1.0)).collect();
        let share = median(&shares);
        if share < IMPOSSIBLE {
            let fast = steps.iter().zip(&shares).find(|(_, of_step)| **of_step <= share);
            let example = fast.map_or(String::new(), |(step, _)| {
                let (ms, device_ms) = (step.us / 1e3, device_us(step, &model) / 1e3);
                format!("; that of line {} took {ms:.2} ms, and the device alone takes {device_ms:.2} ms", step.line)
            });
            let problem = format!(
                "its {kind} are faster than the device: {share:.2} of the time of {device} in the median{example}"
            );
            let help = "the log is of a faster device, a smaller model or more ranks, or of other flags or contexts than --server \
                        and --context say, or its times are no milliseconds; fit it onto a profile of what wrote it";
            return Err(FitError::file(file, problem, help));
        }
        // What is said of one file is not said of all again.
        if share < DOUBTFUL && (place < count || doubts.is_empty()) {
            doubts.push(format!(
                "{file}: its {kind} take {share:.2} of the time of {device} in the median: the device, the model or the contexts \
                 are not quite those of the log"
            ));
        }
    }
    Ok(doubts)
}

/// Steps by how they ran, each kind with its name: those of which there are enough to judge, or all together where there are few
/// of every kind.
fn kinds<'a>(steps: impl IntoIterator<Item = &'a MeasuredStep>) -> Vec<(String, Vec<&'a MeasuredStep>)> {
    let mut by_execution: BTreeMap<Execution, Vec<&MeasuredStep>> = BTreeMap::new();
    for step in steps {
        by_execution.entry(step.execution).or_default().push(step);
    }
    let all: Vec<&MeasuredStep> = by_execution.values().flatten().copied().collect();
    let enough = by_execution.into_iter().filter(|(_, steps)| steps.len() >= KIND_LEAST);
    let kinds: Vec<_> = enough.map(|(execution, steps)| (format!("{execution} steps"), steps)).collect();
    if kinds.is_empty() && !all.is_empty() { vec![("steps".to_owned(), all)] } else { kinds }
}

/// Where the host comes out at so much more than was planned that the device may be slower instead.
#[must_use]
pub fn slower(given: &Profile, fitted: &Fitted<'_>) -> Option<String> {
    let planned_us = given.engine.host.figures.step_overhead_us;
    let Finding::Fitted { value, .. } = fitted.host.step_overhead_us else { return None };
    (value > SLOWER * planned_us).then(|| {
        format!(
            "engine.host.step_overhead_us comes out at {value:.0} us, {:.0} times what the profile had: a slower device or a larger \
             model looks the same; believe it only if the profile is of the device and the model that wrote the log",
            value / planned_us
        )
    })
}
