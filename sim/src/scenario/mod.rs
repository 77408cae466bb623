//! Scenario files: one server, its traffic, its objectives, and the candidate ladders to compare.
//!
//! A file is read in two steps. The file form is what TOML may say; [`Scenario`] is what is left when every number and
//! every combination has been checked, so that no later stage meets an invalid value. Every rejection is a
//! [`ScenarioError`] that points at the line, says what was expected and suggests the way out.

mod attention;
mod check;
mod demand;
mod drafts;
mod elsewhere;
mod error;
mod file;
mod form;
mod graphs;
mod objectives;
mod other_graphs;
mod server;
mod sglang;
pub mod size;

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

use calibrate::profile::{Profile, ProfileError};
use kernels::units::Bytes;

use crate::limits::SCENARIO_BYTES_MAX;
use check::Check;
pub use error::ScenarioError;
use file::sglang::SglangFile;
use file::{ProfileFile, ScenarioFile, VllmFile};
use form::{Context, Engine, EngineForm, SglangForm, VllmForm};

use crate::engine::options::EngineOptions;
use crate::engine::vllm::attention::ComputeCapability;
use crate::engine::vllm::device_defaults::Device;
use crate::engine::vllm::encoder::EncoderModel;
use crate::engine::vllm::options::ModelKind;
use crate::time::SimDuration;
use crate::traffic::{Traffic, TrafficKind};

/// A place in the scenario's text, in bytes.
pub type Span = Range<usize>;

/// A checked scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its title.
    pub name: String,
    /// The file as named by the user, for messages.
    pub file: String,
    /// The text of the file, for hashing and for messages.
    pub source: String,
    /// The server, without what candidates change.
    pub server: EngineOptions,
    /// The model, if the scenario names one.
    pub model: Option<Model>,
    /// The machine, as far as the scenario names it.
    pub machine: Machine,
    /// Where the costs come from.
    pub profile: ProfileSource,
    /// Where the scenario names the profile.
    pub profile_span: Span,
    /// What is asked of the server.
    pub traffic: Traffic,
    /// The objectives that a good request meets.
    pub slo: Slo,
    /// What is compared, in the order of the file; never empty.
    pub candidates: Vec<Candidate>,
    /// Limits that a proposal must keep.
    pub budget: Budget,
    /// What is left out of the figures at the start.
    pub warm_up: WarmUp,
    /// What the commands must answer, where that is known.
    pub expect: Vec<Expectation>,
    /// What is accepted but likely to surprise, one sentence each, with its line.
    pub warnings: Vec<String>,
    /// Whether the server's `attention_support` is stated, rather than the default or that of a backend.
    pub states_attention_support: bool,
    traffic_span: Span,
    unsimulated: Vec<Unsimulated>,
}

/// The model that is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// Its name, compared with the profile's.
    pub name: String,
    /// Its class, as its `config.json` names it.
    pub architecture: Option<String>,
    /// What it is, as far as graphs depend on it.
    pub kind: ModelKind,
    /// The longest sequence it was made for, in tokens: the default of `max_model_len` and its upper bound.
    pub max_position_embeddings: Option<u32>,
    /// What it says about its encoder's graphs.
    pub encoder: Option<EncoderModel>,
    /// The sliding window of a YOCO model, in tokens.
    pub sliding_window: Option<u32>,
    /// Where its kind is written, else its name.
    pub span: Span,
}

/// The machine that serves, under the names that its driver and system give; compared with the profile's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// The GPU.
    pub device: Option<String>,
    /// The GPU's compute capability.
    pub compute_capability: Option<ComputeCapability>,
    /// Driver version.
    pub driver: Option<String>,
    /// Host processor.
    pub host_cpu: Option<String>,
}

/// Where the cost profile comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProfileSource {
    /// One of the built-in profiles, by name.
    Builtin(String),
    /// A file, ready to open (the scenario's folder is already joined in front).
    File(PathBuf),
}

impl ProfileSource {
    /// Reads the profile.
    ///
    /// # Errors
    /// If there is no such profile, or it cannot be used.
    pub fn open(&self) -> Result<Profile, ProfileError> {
        match self {
            Self::Builtin(name) => Profile::builtin(name),
            Self::File(path) => Profile::load(path),
        }
    }
}

/// Objectives per request; unset ones are met by every request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slo {
    /// Time to the first token.
    pub ttft: Option<SimDuration>,
    /// Mean time per output token after the first.
    pub tpot: Option<SimDuration>,
    /// Time to the last token.
    pub e2el: Option<SimDuration>,
}

/// One complete set of graph flags.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Its name, unique in the scenario.
    pub name: String,
    /// The server's options with the candidate's own laid over them.
    pub options: EngineOptions,
    /// Where the candidate is written: its ladder if it has one, else its name. Of a server without candidates: the server.
    pub span: Span,
}

/// Limits that a proposal must keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// Device memory for graphs.
    pub graph_memory: Option<Bytes>,
    /// Time until the server answers.
    pub startup: Option<SimDuration>,
}

/// What is left out of the figures at the start of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WarmUp {
    /// Nothing.
    #[default]
    None,
    /// Requests that arrive before this time.
    Time(SimDuration),
    /// The first requests to arrive.
    Requests(u64),
}

/// A figure that a command must answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// Which command.
    pub command: Command,
    /// Which candidate; `None` for a figure of the whole answer.
    pub candidate: Option<String>,
    /// The field of the command's JSON; a dot goes one level down, a number picks from a list.
    pub figure: String,
    /// Its value.
    pub value: ExpectedValue,
    /// Largest absolute difference allowed.
    pub within: f64,
    /// Where it is written.
    pub span: Span,
}

/// A command whose answer can be expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Command {
    /// `sim run`.
    Run,
    /// `sim price`.
    Price,
    /// `sim ladder`.
    Ladder,
}

/// The value of an expectation.
#[derive(Clone, Debug, PartialEq)]
pub enum ExpectedValue {
    /// A number.
    Number(f64),
    /// A list of numbers, such as a ladder.
    Numbers(Vec<f64>),
    /// A word, such as a mode.
    Text(String),
}

/// Something that options and ladders know but the event loop does not yet.
#[derive(Clone, Debug)]
struct Unsimulated {
    what: String,
    help: String,
    span: Span,
}

impl Unsimulated {
    /// `what` ends in "is" or "are", and names the key.
    fn new(what: &str, help: &str, span: Span) -> Self {
        Self { what: format!("{what} not simulated yet"), help: help.to_owned(), span }
    }
}

/// The keys at the top of a scenario.
pub const TOP_LEVEL_KEYS: [&str; 12] = [
    "schema",
    "name",
    "server",
    "model",
    "machine",
    "profile",
    "traffic",
    "slo",
    "candidate",
    "budget",
    "warm_up",
    "expect",
];

/// Every key of the server's table of one engine, `vllm` or `sglang`.
#[must_use]
pub fn server_keys(engine: &str) -> &'static [&'static str] {
    if engine == "sglang" { SglangFile::KEYS } else { VllmFile::KEYS }
}

/// The version of the file form that this program reads.
const SCHEMA: i64 = 1;

impl Scenario {
    /// Reads and checks a scenario file.
    ///
    /// # Errors
    /// A file that cannot be read, and everything [`Scenario::parse`] rejects.
    pub fn load(path: &Path) -> Result<Self, ScenarioError> {
        Self::load_on(path, None)
    }

    /// As [`Scenario::load`], on the device of another profile than the scenario's own.
    ///
    /// # Errors
    /// As [`Scenario::load`].
    pub fn load_on(path: &Path, profile: Option<&Profile>) -> Result<Self, ScenarioError> {
        let (text, file) = Self::read_file(path)?;
        Self::read(&text, &file, path.parent().unwrap_or(Path::new("")), profile)
    }

    /// The text of a scenario file, unchecked, and the file's name in messages.
    ///
    /// # Errors
    /// A file that cannot be read, or is too large to be a scenario.
    pub fn read_file(path: &Path) -> Result<(String, String), ScenarioError> {
        let file = path.display().to_string();
        let unreadable = |source| ScenarioError::Unreadable { file: file.clone(), source };
        let mut text = String::new();
        let opened = File::open(path).map_err(unreadable)?;
        opened.take(SCENARIO_BYTES_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
        if text.len() as u64 > SCENARIO_BYTES_MAX {
            return Err(ScenarioError::TooLarge { file });
        }
        Ok((text, file))
    }

    /// The error of a text that is not TOML, at its place.
    #[must_use]
    pub fn not_toml(text: &str, file: &str, error: &toml::de::Error) -> ScenarioError {
        let message = format!("this is not TOML: {}", error.message());
        ScenarioError::rejected(text, file, &error.span().unwrap_or(0..0), message, String::new())
    }

    /// Checks the text of a scenario. `file` is its name in messages; relative paths inside it start at `base_dir`.
    /// Of a trace only the first line is read.
    ///
    /// # Errors
    /// Text that is not TOML, unknown or missing keys, values outside their range, and combinations that the engine
    /// would refuse.
    pub fn parse(text: &str, file: &str, base_dir: &Path) -> Result<Self, ScenarioError> {
        Self::read(text, file, base_dir, None)
    }

    fn read(text: &str, file: &str, base_dir: &Path, replacement: Option<&Profile>) -> Result<Self, ScenarioError> {
        let check = Check::new(text, file)?;
        check_schema(&check)?;
        match Engine::of(&check)? {
            Engine::Vllm => Self::read_as::<VllmForm>(check, base_dir, replacement),
            Engine::Sglang => Self::read_as::<SglangForm>(check, base_dir, replacement),
        }
    }

    /// Reads a scenario whose server is one of the engine `E`.
    fn read_as<E: EngineForm>(
        mut check: Check<'_>,
        base_dir: &Path,
        replacement: Option<&Profile>,
    ) -> Result<Self, ScenarioError> {
        let form: ScenarioFile<E::Server, E::Candidate> =
            toml::from_str(check.text()).map_err(|error| check.reject_form(&error))?;
        let name = check.title(&form.name)?;
        let model = form.model.as_ref().map(|model| objectives::model(&check, model)).transpose()?;
        let machine = objectives::machine(&check, form.machine.as_ref())?;
        let has_requests = form.traffic.get_ref().steps.is_none() && form.traffic.get_ref().steps_file.is_none();
        let server_span = form.server.span();
        let (profile, profile_span) = profile(&check, form.profile.get_ref(), base_dir)?;
        let device = || match replacement {
            Some(replacement) => Some(Device::of(replacement)),
            None => profile.open().ok().as_ref().map(Device::of),
        };
        let context = Context {
            model: model.as_ref(),
            machine: &machine,
            device: &device,
            traffic: form.traffic.get_ref(),
            has_requests,
        };
        let (options, unsimulated) = E::server(&mut check, form.server.into_inner(), &server_span, &context)?;
        let server = E::wrap(options.clone());
        let traffic = demand::traffic(&mut check, form.traffic.get_ref(), &form.traffic.span(), &server, base_dir)?;
        other_graphs::refuse_images_before_main(&check, form.traffic.get_ref(), &server)?;
        demand::ends::warn_about_cut_outputs(&mut check, form.traffic.get_ref(), &traffic.kind);
        let candidates = form::candidates::<E>(&mut check, form.candidate, &options, &server_span)?;
        Ok(Self {
            name,
            file: check.file().to_owned(),
            source: check.text().to_owned(),
            profile,
            profile_span,
            slo: objectives::slo(&check, &form.slo)?,
            budget: objectives::budget(&check, &form.budget)?,
            warm_up: objectives::warm_up(&check, form.warm_up.as_ref(), &traffic)?,
            expect: objectives::expectations(&check, &form.expect, &candidates)?,
            states_attention_support: Engine::Vllm.states(&check, "attention_support"),
            warnings: check.warnings,
            server,
            model,
            machine,
            traffic,
            candidates,
            traffic_span: form.traffic.span(),
            unsimulated,
        })
    }

    /// Whether the event loop knows everything this scenario asks for.
    ///
    /// # Errors
    /// The first option that is understood (ladders, keys and dispatch can be computed) but not simulated yet, traffic
    /// without requests, and drafts of which nobody says how many are accepted.
    pub fn simulable(&self) -> Result<(), ScenarioError> {
        if let Some(Unsimulated { what, help, span }) = self.unsimulated.first() {
            return Err(self.reject(span.clone(), what, help));
        }
        if matches!(self.traffic.kind, TrafficKind::Steps(_)) {
            let message = "traffic: a histogram of step shapes has no requests to simulate";
            return Err(self.reject(self.traffic_span.clone(), message, "use `sim price` for this scenario"));
        }
        if self.server.decode_tokens() > 1 && self.traffic.acceptance.is_none() {
            let message = "traffic: how many of the drafts are accepted is not given";
            let help = "add [traffic.acceptance] with rates = [0.8, 0.6], one for each position, as the server logs them \
                        (or a recorded cycle); `sim ladder` and `sim explain` do without";
            return Err(self.reject(self.traffic_span.clone(), message, help));
        }
        Ok(())
    }

    /// An error of a later stage, pointed at a place of this scenario.
    #[must_use]
    pub fn reject(&self, span: Span, message: impl Into<String>, help: impl Into<String>) -> ScenarioError {
        ScenarioError::rejected(&self.source, &self.file, &span, message.into(), help.into())
    }
}

/// Checks the version of the file form first, so that a newer file is not reported as full of unknown keys.
fn check_schema(check: &Check<'_>) -> Result<(), ScenarioError> {
    let help = format!("this program reads schema = {SCHEMA}");
    let Some(schema) = check.top_level("schema") else {
        return Err(check.reject(&(0..0), "schema is missing", format!("add schema = {SCHEMA} as the first line")));
    };
    let number = schema.get_ref().as_integer().and_then(|number| number.as_str().parse().ok());
    if number == Some(SCHEMA) {
        return Ok(());
    }
    Err(check.reject(&schema.span(), "this is another version of the scenario form", help))
}

fn profile(check: &Check<'_>, file: &ProfileFile, base_dir: &Path) -> Result<(ProfileSource, Span), ScenarioError> {
    Ok(match file {
        ProfileFile::Builtin(name) => (ProfileSource::Builtin(check.title(name)?), name.span()),
        ProfileFile::File(path) => (ProfileSource::File(base_dir.join(check.title(path)?)), path.span()),
    })
}

#[cfg(test)]
mod tests;
