//! The part of a scenario that depends on the server's engine: its options and those of candidates.

use calibrate::spelling::closest;
use serde::de::DeserializeOwned;
use toml::Spanned;

use super::check::Check;
use super::demand::ends;
use super::file::sglang::{SglangCandidateFile, SglangServerFile};
use super::file::{CandidateFile, TrafficFile, VllmServerFile};
use super::{Candidate, Machine, Model, ScenarioError, Span, Unsimulated, graphs, server, sglang};
use crate::engine::options::EngineOptions;
use crate::engine::sglang::options::SglangOptions;
use crate::engine::vllm::device_defaults::Device;
use crate::engine::vllm::options::VllmOptions;
use crate::limits::CANDIDATES_MAX;

/// An engine whose servers can be described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    Vllm,
    Sglang,
}

impl Engine {
    /// Its name in sentences.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Vllm => "vLLM",
            Self::Sglang => "SGLang",
        }
    }

    /// The table of its servers.
    pub(super) const fn table(self) -> &'static str {
        match self {
            Self::Vllm => "server.vllm",
            Self::Sglang => "server.sglang",
        }
    }

    /// Whether the table of its server has this key.
    pub(super) fn states(self, check: &Check<'_>, key: &str) -> bool {
        let (_, engine) = self.table().split_once('.').unwrap_or_default();
        let server = check.top_level("server").and_then(|server| server.get_ref().as_table());
        let table = server.and_then(|server| server.get(engine)).and_then(|table| table.get_ref().as_table());
        table.is_some_and(|table| table.contains_key(key))
    }

    /// The engine that `[server]` names, before anything else is known. Other faults of that table are left to its form.
    pub(super) fn of(check: &Check<'_>) -> Result<Self, ScenarioError> {
        let Some(server) = check.top_level("server").and_then(|server| server.get_ref().as_table()) else {
            return Ok(Self::Vllm);
        };
        let named = |engine: &str| server.contains_key(engine);
        match server.keys().next() {
            Some(other) if !named("vllm") && !named("sglang") => {
                let problem = format!("unknown engine `{}`, expected `vllm` or `sglang`", other.get_ref());
                let help = match closest(other.get_ref(), &["vllm", "sglang"]) {
                    Some(name) => format!("did you mean [server.{name}]?"),
                    None => "describe the server under [server.vllm] or [server.sglang]".to_owned(),
                };
                Err(check.reject(&other.span(), problem, help))
            }
            _ if named("sglang") && !named("vllm") => Ok(Self::Sglang),
            _ => Ok(Self::Vllm),
        }
    }
}

/// What a server's options are read against.
pub(super) struct Context<'scenario> {
    pub(super) model: Option<&'scenario Model>,
    pub(super) machine: &'scenario Machine,
    /// The device whose figures are used, if its profile can be read; asked only where a default depends on it.
    pub(super) device: &'scenario dyn Fn() -> Option<Device>,
    pub(super) traffic: &'scenario TrafficFile,
    /// False for traffic that is a histogram of step shapes.
    pub(super) has_requests: bool,
}

/// The forms of one engine's tables, and how they are checked.
pub(super) trait EngineForm {
    /// `[server]`, with the table of this engine only.
    type Server: DeserializeOwned;
    /// One `[[candidate]]`.
    type Candidate: DeserializeOwned;
    /// What both become.
    type Options: Clone;

    fn server(
        check: &mut Check<'_>,
        file: Self::Server,
        span: &Span,
        context: &Context<'_>,
    ) -> Result<(Self::Options, Vec<Unsimulated>), ScenarioError>;

    fn name(candidate: &Self::Candidate) -> &Spanned<String>;

    /// The server's options with the candidate's own laid over them, and where the candidate is written.
    fn candidate(
        check: &mut Check<'_>,
        file: Self::Candidate,
        server: &Self::Options,
    ) -> Result<(Self::Options, Span), ScenarioError>;

    fn wrap(options: Self::Options) -> EngineOptions;
}

/// vLLM's.
pub(super) enum VllmForm {}

impl EngineForm for VllmForm {
    type Server = VllmServerFile;
    type Candidate = CandidateFile;
    type Options = VllmOptions;

    fn server(
        check: &mut Check<'_>,
        VllmServerFile::Vllm(file): VllmServerFile,
        span: &Span,
        context: &Context<'_>,
    ) -> Result<(VllmOptions, Vec<Unsimulated>), ScenarioError> {
        ends::refuse_for_vllm(check, context.traffic)?;
        server::vllm(check, *file, span, context)
    }

    fn name(candidate: &CandidateFile) -> &Spanned<String> {
        &candidate.name
    }

    fn candidate(
        check: &mut Check<'_>,
        file: CandidateFile,
        server: &VllmOptions,
    ) -> Result<(VllmOptions, Span), ScenarioError> {
        graphs::candidate(check, file, server)
    }

    fn wrap(options: VllmOptions) -> EngineOptions {
        EngineOptions::Vllm(options)
    }
}

/// SGLang's.
pub(super) enum SglangForm {}

impl EngineForm for SglangForm {
    type Server = SglangServerFile;
    type Candidate = SglangCandidateFile;
    type Options = SglangOptions;

    fn server(
        check: &mut Check<'_>,
        SglangServerFile::Sglang(file): SglangServerFile,
        span: &Span,
        context: &Context<'_>,
    ) -> Result<(SglangOptions, Vec<Unsimulated>), ScenarioError> {
        sglang::server(check, *file, span, context)
    }

    fn name(candidate: &SglangCandidateFile) -> &Spanned<String> {
        &candidate.name
    }

    fn candidate(
        check: &mut Check<'_>,
        file: SglangCandidateFile,
        server: &SglangOptions,
    ) -> Result<(SglangOptions, Span), ScenarioError> {
        sglang::candidate(check, file, server)
    }

    fn wrap(options: SglangOptions) -> EngineOptions {
        EngineOptions::Sglang(options)
    }
}

/// The candidates of a scenario; a server without any is compared with nothing and runs as it is.
pub(super) fn candidates<E: EngineForm>(
    check: &mut Check<'_>,
    files: Vec<E::Candidate>,
    server: &E::Options,
    server_span: &Span,
) -> Result<Vec<Candidate>, ScenarioError> {
    if files.is_empty() {
        let (options, span) = (E::wrap(server.clone()), server_span.clone());
        return Ok(vec![Candidate { name: "engine default".to_owned(), options, span }]);
    }
    if let Some(surplus) = files.get(CANDIDATES_MAX) {
        let problem = format!("expected at most {CANDIDATES_MAX} candidates, found {}", files.len());
        return Err(check.reject(&E::name(surplus).span(), problem, "compare fewer at a time"));
    }
    let mut candidates: Vec<Candidate> = Vec::with_capacity(files.len());
    for file in files {
        let name = check.title(E::name(&file))?;
        if candidates.iter().any(|earlier| earlier.name == name) {
            let problem = format!("another candidate is called \"{name}\" already");
            return Err(check.reject(&E::name(&file).span(), problem, "give each candidate a name of its own"));
        }
        let (options, span) = E::candidate(check, file, server)?;
        candidates.push(Candidate { name, options: E::wrap(options), span });
    }
    Ok(candidates)
}
