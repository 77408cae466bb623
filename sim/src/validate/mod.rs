//! Measured runs against predicted ones.
//!
//! ```text
//! folder ─► run (meta, requests, series) ─┬─► outcome, measured ────────────────────────────┐
//!           kernel tables ─► costs        ├─► server, heads ─► simulate ─► outcome, predicted ├─► compare ─► reports
//!           or the series ─► fitted ──────┘                                                  ┘
//! ```
//!
//! Nothing is fitted where there are kernel tables. Both outcomes are read by the same functions.

pub mod cards;
pub mod compare;
pub mod costs;
mod error;
pub mod fitted;
pub mod heads;
pub mod outcome;
pub mod run;
pub mod server;
pub mod simulate;
pub mod step_times;
#[cfg(test)]
mod tests;

use std::path::Path;

use reports::{CostSource, PredictedEvents, RunValidation};

use crate::engine::shape::RuntimeMode;
use crate::record;
use crate::time::SimTime;
use crate::traffic::Request;
use cards::card_of;
use costs::{Carry, Costs};
pub use error::ValidateError;
pub use heads::SharedHeads;
use outcome::Outcome;
use run::{MeasuredRequest, Meta, read_requests, read_series};
pub use run::{RunFiles, Text};
use server::Server;
use simulate::{DecodePricer, Predicted, simulate};

/// What the user says about the runs.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Heads that prompts share; `None` takes the built-in table of the workload, where there is one.
    pub heads: Option<SharedHeads>,
    /// Whether prompts are taken to share nothing.
    pub no_heads: bool,
    /// The bandwidth of the card whose tables are borrowed over that of the run's own.
    pub bandwidth_ratio: Option<f64>,
}

/// Validates one run of `folder`. A run whose card borrows tables has two answers: by the bandwidths of the data sheets, and by
/// those that the cards achieve.
///
/// # Errors
/// Its files or the tables that price it cannot be used, or the simulation cannot be run.
pub fn validate(folder: &Path, files: &RunFiles, settings: &Settings) -> Result<Vec<RunValidation>, ValidateError> {
    let meta_text = Text::read(&files.meta)?;
    let meta = Meta::read(&meta_text)?;
    let (Some(requests), Some(series)) = (&files.requests, &files.series) else {
        return Ok(vec![without_results(files, &meta)]);
    };
    let requests = read_requests(&Text::read(requests)?, meta.num_requests)?;
    let series_text = Text::read(series)?;
    let series = read_series(&series_text)?;
    let measured = Outcome::measured(&requests, &series);
    check_series(&series_text.file, &measured)?;
    let mut server = Server::of(&meta_text.file, &meta, card_of(&files.name), &requests)?;
    let heads = heads(&meta, settings, &mut server.notes);
    let run = Run { files, meta: &meta, server, requests: offered(&requests, &heads), measured };
    let carry = settings.bandwidth_ratio.map_or(Carry::DataSheet, Carry::Given);
    let Some(costs) = Costs::of_tables(folder, &files.name, &meta, carry)? else {
        return Ok(vec![run.fitted()?]);
    };
    let mut answers = vec![run.compared(&costs, costs.lender.is_some().then_some(carry))?];
    let lender_dense = costs.lender.map(|lender| folder.join(format!("kernels_{lender}_dense.csv")));
    if carry == Carry::DataSheet && lender_dense.is_some_and(|table| table.is_file()) {
        let costs = Costs::of_tables(folder, &files.name, &meta, Carry::Achieved)?;
        answers.extend(costs.map(|costs| run.compared(&costs, Some(Carry::Achieved))).transpose()?);
    }
    Ok(answers)
}

/// A measured run, and the server that it is compared with.
struct Run<'a> {
    files: &'a RunFiles,
    meta: &'a Meta,
    server: Server,
    /// As they are offered to it.
    requests: Vec<Request>,
    measured: Outcome,
}

/// Makes sure that the series counts the tokens that the requests received: it is whole, and of this run.
fn check_series(file: &str, measured: &Outcome) -> Result<(), ValidateError> {
    /// What rounded rates may leave out or add.
    const ROUNDING: f64 = 0.02;
    let received: u64 = measured.requests.iter().map(|request| u64::from(request.output_tokens)).sum();
    let counted: f64 = measured.ticks.iter().map(|tick| tick.output_tokens).sum();
    if (counted / received as f64 - 1.0).abs() <= ROUNDING {
        return Ok(());
    }
    let problem = format!("{counted:.0} output tokens in all ticks, but the requests received {received}");
    Err(ValidateError::file(
        file,
        problem,
        "the file may be cut off or of another run: give the one of these requests whole",
    ))
}

/// The requests as they are offered to the simulated server, from time zero on.
fn offered(requests: &[MeasuredRequest], heads: &SharedHeads) -> Vec<Request> {
    let begin_s = requests.first().map_or(0.0, |request| request.queued_s);
    let at = |seconds: f64| SimTime((seconds * 1e9).round() as u64);
    let offered = requests.iter().map(|request| Request {
        shared: heads.of(request.number, request.prompt_tokens),
        ..Request::plain(at(request.queued_s - begin_s), request.prompt_tokens, request.output_tokens)
    });
    offered.collect()
}

/// Which prompts begin alike, and a note of where that comes from.
fn heads(meta: &Meta, settings: &Settings, notes: &mut Vec<String>) -> SharedHeads {
    let built_in = || meta.dataset_hash.as_deref().and_then(SharedHeads::of_workload);
    let found = if settings.no_heads { None } else { settings.heads.clone().or_else(built_in) };
    notes.push(match &found {
        Some(heads) => format!("{} pairs of prompts begin alike, by {}", heads.len(), heads.source),
        None if settings.no_heads => "prompts are taken to share nothing, as asked".to_owned(),
        None => "what the prompts were is not recorded: they are taken to share nothing, so that a prefix cache finds \
                 only what preemption left there"
            .to_owned(),
    });
    found.unwrap_or_default()
}

fn without_results(files: &RunFiles, meta: &Meta) -> RunValidation {
    RunValidation {
        run: files.name.clone(),
        model: meta.model.clone(),
        device: costs::device(&files.name, meta),
        ran: format!("vllm {}", meta.vllm_version),
        simulated: None,
        requests: 0,
        carried_by: None,
        is_fitted: false,
        reason: Some("no result files: only its meta.json is there".to_owned()),
        notes: Vec::new(),
        costs: Vec::new(),
        figures: Vec::new(),
        step_times: Vec::new(),
        decode_errors: None,
        predicted: None,
    }
}

impl Run<'_> {
    fn predicted(&self, costs: &Costs) -> Result<Predicted, ValidateError> {
        let tick_s = outcome::percentile(&self.measured.of_ticks(|tick| tick.seconds), 0.5).unwrap_or(1.0);
        simulate(&self.files.name, &self.server.options, &costs.profile, self.requests.clone(), tick_s)
    }

    /// Everything, priced by kernel tables.
    fn compared(&self, costs: &Costs, carry: Option<Carry>) -> Result<RunValidation, ValidateError> {
        let predicted = self.predicted(costs)?;
        let pricer = DecodePricer::new(&self.files.name, &self.server.options, &costs.profile)?;
        let outcome = &predicted.outcome;
        Ok(RunValidation {
            carried_by: carry.map(|carry| carry.words().to_owned()),
            figures: compare::figures(&self.measured, outcome),
            step_times: compare::step_times(&self.measured, outcome, &|tick| pricer.ms(tick)),
            decode_errors: compare::decode_errors(&self.measured, outcome),
            ..self.answer(costs, &predicted)
        })
    }

    /// The queue alone, priced by the run's own series.
    fn fitted(&self) -> Result<RunValidation, ValidateError> {
        let Some(costs) = Costs::fitted(&self.files.name, self.meta, &self.measured) else {
            let why = "no kernel tables of this card and model, and no tick of the series without prompts to take step times \
                       from";
            return Ok(RunValidation { reason: Some(why.to_owned()), ..without_results(self.files, self.meta) });
        };
        let predicted = self.predicted(&costs)?;
        let reason = "no kernel tables of this card and model: step times are fitted to the run's own series, so only the \
                      queue is judged";
        Ok(RunValidation {
            is_fitted: true,
            reason: Some(reason.to_owned()),
            figures: compare::queue_figures(&self.measured, &predicted.outcome),
            ..self.answer(&costs, &predicted)
        })
    }

    /// What every answer says.
    fn answer(&self, costs: &Costs, predicted: &Predicted) -> RunValidation {
        let mut notes = self.server.notes.clone();
        if predicted.refused > 0 {
            notes.push(format!("{} requests are longer than max_model_len and were refused", predicted.refused));
        }
        let parts = costs.parts.iter().map(|(part, from)| CostSource { part: (*part).to_owned(), from: from.clone() });
        RunValidation {
            simulated: Some(record::engine(&self.server.options)),
            requests: self.measured.requests.len() as u64,
            reason: None,
            notes,
            costs: parts.collect(),
            predicted: Some(events(predicted)),
            ..without_results(self.files, self.meta)
        }
    }
}

/// What the simulated server did that the measured one did not record.
fn events(predicted: &Predicted) -> PredictedEvents {
    let summary = &predicted.summary;
    let fired = |mode| {
        let rungs = summary.rungs.rungs.keys().filter(move |graph| graph.mode == mode);
        rungs.map(|graph| graph.tokens).max()
    };
    PredictedEvents {
        steps: summary.steps.steps,
        mixed_steps: predicted.mixed_steps,
        eager_steps: summary.rungs.fallbacks.values().sum(),
        preemptions: predicted.preemptions,
        prompt_hit_tokens: summary.prefixes.hit_tokens,
        preempted_hit_tokens: summary.prefixes.preempted_hit_tokens,
        running_most: u64::from(predicted.running_most),
        largest_full: fired(RuntimeMode::Full),
        largest_piecewise: fired(RuntimeMode::Piecewise),
        outside_steps: summary.steps.outside_steps,
    }
}
