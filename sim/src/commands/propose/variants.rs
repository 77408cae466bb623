//! `--also`: other settings of the server that a proposal may come with.

use miette::Diagnostic;
use toml::Value;

use super::super::failure::Failure;
use super::super::inputs::Inputs;
use super::Arguments;
use crate::engine::options::EngineOptions;
use crate::sweep::{Axis, Base, Grid, Key};

/// Most combinations that are searched.
const VARIANTS_MAX: u64 = 64;

/// One server that ladders are looked for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Variant {
    /// What is set beside the ladders, as `key = value`; empty for the server as it is.
    pub settings: Vec<String>,
    /// The server.
    pub options: EngineOptions,
}

/// The server as it is, then every combination of the settings that may be changed.
///
/// # Errors
/// A key or value that is none of the server's, and a server that cannot be.
pub(super) fn variants(arguments: &Arguments, inputs: &Inputs) -> Result<Vec<Variant>, Failure> {
    let current = &inputs.scenario.candidates[0];
    // Without compilation there are no graphs: proposals compile.
    let is_eager = current.options.vllm().is_some_and(|options| options.graphs.enforce_eager);
    let lifted = if is_eager { vec!["enforce_eager = false".to_owned()] } else { Vec::new() };
    let mut variants = vec![Variant { settings: lifted.clone(), options: current.options.clone() }];
    if arguments.also.is_empty() {
        return Ok(variants);
    }
    let base = Base::load(&arguments.scenario, arguments.profile.as_deref())?;
    let refuse = |message: String, help: Option<String>| Failure::Usage { message: renamed(&message), help };
    let words = |error: &dyn Diagnostic| error.help().map(|help| renamed(&help.to_string()));
    let axes: Vec<Axis> = arguments
        .also
        .iter()
        .map(|text| text.parse::<Axis>().map_err(|error| refuse(error.to_string(), words(&error))))
        .collect::<Result<_, _>>()?;
    let grid = Grid::new(axes, base.table(), None).map_err(|error| refuse(error.to_string(), words(&error)))?;
    if let Some((key, _)) = grid.axes().iter().find(|(key, _)| !is_of_server(key)) {
        let message = format!("--also {key}: ladders are compared on the same traffic, prices and objectives");
        return Err(refuse(
            message,
            Some("give a flag of the server, such as max_num_seqs or cudagraph_mode".to_owned()),
        ));
    }
    if let Some((key, _)) = grid.axes().iter().find(|(key, _)| is_list(key)) {
        let message = format!("--also {key}: capture sizes are what is searched");
        return Err(refuse(message, Some("leave it out".to_owned())));
    }
    if grid.points() > VARIANTS_MAX {
        let message = format!("--also asks for {} combinations; at most {VARIANTS_MAX} are searched", grid.points());
        return Err(refuse(message, Some("give fewer keys or values".to_owned())));
    }
    for point in 0..grid.points() {
        let settings = grid.settings(point);
        let options = server(&base, &settings, &current.name).map_err(|failure| at(&base, &settings, &failure))?;
        let set = settings.iter().map(|(key, value)| format!("{key} = {value}"));
        let variant = Variant { settings: lifted.iter().cloned().chain(set).collect(), options };
        if variant.options != current.options {
            variants.push(variant);
        }
    }
    if variants.len() == 1 {
        let message = format!("--also {}: no value changes the server in force", arguments.also.join(" --also "));
        let help = format!("where candidate `{}` sets the key itself, write candidate.KEY=...", current.name);
        return Err(Failure::Usage { message, help: Some(help) });
    }
    Ok(variants)
}

/// The server in force with these settings.
fn server(base: &Base, settings: &[(&Key, &Value)], candidate: &str) -> Result<EngineOptions, Failure> {
    let varied = base.point(settings).map_err(|message| Failure::Point { message, help: None })?;
    let mut inputs = Inputs::of(base.parse(&varied)?)?;
    inputs.select(&[candidate.to_owned()])?;
    Ok(inputs.scenario.candidates.swap_remove(0).options)
}

fn at(base: &Base, settings: &[(&Key, &Value)], failure: &Failure) -> Failure {
    let set: Vec<String> = settings.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    let help = failure.help().map(|help| help.to_string());
    let message = failure.to_string();
    Failure::Point { message: format!("--also {}: {}", set.join(", "), base.without_place(&message)), help }
}

fn is_of_server(key: &Key) -> bool {
    let key = key.to_string();
    key.starts_with("server.") || key.starts_with("candidate.")
}

fn is_list(key: &Key) -> bool {
    const LISTS: [&str; 11] = [
        "cudagraph_capture_sizes",
        "max_cudagraph_capture_size",
        "prefill_cudagraph_capture_token_sizes",
        "max_prefill_cudagraph_capture_tokens",
        "decode_cudagraph_capture_request_sizes",
        "max_decode_cudagraph_capture_requests",
        "max_decode_cudagraph_capture_tokens",
        "cuda_graph_bs_decode",
        "cuda_graph_bs_prefill",
        "cuda_graph_max_bs_decode",
        "cuda_graph_max_bs_prefill",
    ];
    let key = key.to_string();
    key.rsplit('.').next().is_some_and(|last| LISTS.contains(&last))
}

/// What the sweep's reader says of its own option, said of this one.
fn renamed(text: &str) -> String {
    text.replace("--vary", "--also")
}
