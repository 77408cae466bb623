//! `sim price`: exact expectations over a histogram of step shapes.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use reports::{EngineReport, PriceReport};

use super::failure::Failure;
use super::format::Format;
use super::inputs::Inputs;
use crate::traffic::TrafficKind;
use crate::{price, record, warnings};

/// Price a histogram of step shapes exactly, without an event loop.
///
/// For a scenario whose traffic is [[traffic.steps]] (tokens, requests, query_len, count): the expected step time of
/// each way to run the steps, padding in every weighting, exact hits, each rung's share and saving, the break-even in
/// padded rows, and the batches for which replay loses.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sim price scenarios/practice.toml
  sim price scenarios/practice.toml --profile textbook --format json

A histogram in a scenario:
  [[traffic.steps]]
  tokens = 9       # tokens of the step
  requests = 9     # requests in it; query_len is the longest of them, tokens / requests without it
  count = 1200     # how many such steps")]
pub(super) struct Arguments {
    /// The scenario file.
    scenario: PathBuf,
    /// Price with this profile instead: a built-in name (`calibrate list`) or a file.
    #[arg(long, value_name = "FILE|NAME")]
    profile: Option<String>,
    /// Price only this candidate; may be given several times.
    #[arg(long = "candidate", value_name = "NAME")]
    candidates: Vec<String>,
    /// How the answer is written.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(super) fn execute(arguments: &Arguments, out: &mut impl Write) -> Result<(), Failure> {
    let mut inputs = Inputs::load(&arguments.scenario, arguments.profile.as_deref())?;
    inputs.select(&arguments.candidates)?;
    let TrafficKind::Steps(histogram) = &inputs.scenario.traffic.kind else {
        return Err(Failure::Usage {
            message: format!("{} describes requests, not a histogram of step shapes", inputs.scenario.file),
            help: Some(
                "run it with `sim run`, or give [[traffic.steps]] rows of tokens, requests, query_len and count"
                    .to_owned(),
            ),
        });
    };
    let setups = inputs.prepare_all()?;
    let mut warnings = warnings::before_run(&inputs.scenario, &inputs.profile, &setups);
    warnings.extend(warnings::attention_left_out(&inputs.profile));
    let candidates = || inputs.scenario.candidates.iter().zip(&setups);
    warnings.extend(
        candidates().filter_map(|(candidate, setup)| warnings::of_histogram(&candidate.name, histogram, setup)),
    );
    super::warn(&warnings);
    let candidates = candidates()
        .map(|(candidate, setup)| {
            record::price(&candidate.name, setup, &inputs.profile, &price::expect(histogram, setup))
        })
        .collect();
    let report = PriceReport {
        scenario: record::scenario(&inputs.scenario, None),
        engine: EngineReport { max_model_len: None, ..record::engine(&inputs.scenario.server) },
        profile: record::profile(&inputs.profile, &inputs.profile_name, &inputs.scenario.server),
        warnings,
        candidates,
    };
    match arguments.format {
        Format::Text => reports::text::price(&report, out),
        Format::Json => reports::json::write(&report, out),
        Format::Csv => reports::rows::price(&report, out),
    }
    .map_err(Failure::Stdout)
}
