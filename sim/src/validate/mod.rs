//! Measured runs against predicted ones.
//!
//! ```text
//! folder ─► run (meta, requests, series) ─┬─► outcome, measured ────────────────────────────┐
//!  filed ─► kernel tables ─► costs        ├─► server, heads ─► simulate ─► outcome, predicted ├─► compare ─► reports
//!           or the series ─► fitted ──────┘                                                  ┘
//! ```
//!
//! Nothing is fitted where there are kernel tables. Both outcomes are read by the same functions.

pub mod cards;
pub mod compare;
pub mod costs;
mod error;
pub mod filed;
pub mod fitted;
pub mod heads;
pub mod outcome;
pub mod run;
pub mod server;
pub mod simulate;
pub mod step_times;
#[cfg(test)]
mod tests;
pub mod unsimulated;

use std::path::Path;

use kernels::geometry::ModelGeometry;
use reports::{CostSource, PredictedEvents, RunValidation};

use crate::engine::shape::RuntimeMode;
use crate::record;
use crate::time::SimTime;
use crate::traffic::Request;
use costs::{Carry, Costs};
pub use error::ValidateError;
pub use heads::SharedHeads;
use outcome::{Outcome, Tick, most};
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
    /// The geometry of models that are not built in.
    pub model: Option<ModelGeometry>,
}

/// Validates one run of `folder`. A run whose card borrows tables has two answers: by the bandwidths of the data sheets, and by
/// those that the cards achieve.
///
/// # Errors
/// Its files or the tables that price it cannot be used, or the simulation cannot be run.
pub fn validate(folder: &Path, files: &RunFiles, settings: &Settings) -> Result<Vec<RunValidation>, ValidateError> {
    let meta_text = Text::read(files.meta()?)?;
    let meta = Meta::read(&meta_text)?;
    filed::check(&meta_text.file, &files.name, &meta)?;
    let Some((requests, series)) = files.results()? else { return Ok(vec![without_results(files, &meta)]) };
    let requests = read_requests(&Text::read(requests)?, meta.num_requests)?;
    let series_text = Text::read(series)?;
    let series = read_series(&series_text)?;
    let measured = Outcome::measured(&requests, &series);
    check_series(&series_text.file, &measured, &meta)?;
    let mut server = Server::of(&meta_text.file, &meta, costs::capability(&files.name, &meta), &requests)?;
    server.notes.extend(filed::doubt(&files.name, &meta));
    let heads = heads(&meta, settings, &mut server.notes);
    let run = Run { files, meta: &meta, server, requests: offered(&requests, &heads), measured };
    let geometry = settings.model.as_ref();
    let carry = settings.bandwidth_ratio.map_or(Carry::DataSheet, Carry::Given);
    let Some(costs) = Costs::of_tables(folder, &files.name, &meta, geometry, carry)? else {
        return Ok(vec![run.fitted()?]);
    };
    let mut answers = vec![run.compared(&costs, costs.lender.is_some().then_some(carry))?];
    let lender_dense = costs.lender.map(|lender| folder.join(format!("kernels_{lender}_dense.csv")));
    if carry == Carry::DataSheet && lender_dense.is_some_and(|table| table.is_file()) {
        let costs = Costs::of_tables(folder, &files.name, &meta, geometry, Carry::Achieved)?;
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

/// Makes sure that the series is of the requests and whole: it counts their tokens, takes their time, and never more of them
/// than there are; and that its share of the KV pool is in percent.
fn check_series(file: &str, measured: &Outcome, meta: &Meta) -> Result<(), ValidateError> {
    /// What rounded rates may leave out or add.
    const ROUNDING: f64 = 0.02;
    /// Ticks before the first request and after the last token.
    const TICKS_AROUND: f64 = 2.0;
    let refuse = |problem: String| {
        let help = "the file may be cut off or of another run: give the one of these requests whole";
        Err(ValidateError::file(file, problem, help))
    };
    let received: u64 = measured.requests.iter().map(|request| u64::from(request.output_tokens)).sum();
    let counted: f64 = measured.ticks.iter().map(|tick| tick.output_tokens).sum();
    if (counted / received as f64 - 1.0).abs() > ROUNDING {
        return refuse(format!("{counted:.0} output tokens in all ticks, but the requests received {received}"));
    }
    let seconds = measured.of_ticks(|tick| tick.seconds);
    let (wall_s, series_s, tick_s) = (measured.wall_s(), seconds.iter().sum::<f64>(), most(&seconds).unwrap_or(0.0));
    if (series_s - wall_s).abs() > ROUNDING * wall_s + TICKS_AROUND * tick_s {
        return refuse(format!("{series_s:.1} s of ticks, but the requests took {wall_s:.1} s"));
    }
    let there = most(&measured.of_ticks(|tick| tick.running + tick.waiting)).unwrap_or(0.0);
    if there > measured.requests.len() as f64 {
        return refuse(format!(
            "{there} requests running and waiting in a tick, but there are {}",
            measured.requests.len()
        ));
    }
    let Some(kv) = meta.kv_cache else { return Ok(()) };
    match kv_too_small(measured, f64::from(kv.num_gpu_blocks) * f64::from(kv.block_size)) {
        Some(tick) => {
            let percent = tick.kv_share.unwrap_or_default() * 100.0;
            let problem = format!(
                "kv_cache_pct is {percent} in a tick at whose end {} requests ran, whose prompts take far more",
                tick.running
            );
            Err(ValidateError::file(file, problem, "give the share of the KV pool in percent, 0 to 100"))
        }
        None => Ok(()),
    }
}

/// A tick whose share of a pool of `tokens` is less than a tenth of the shortest prompts that can have run at its end. Prompts
/// that begin alike, or are not yet computed whole, take less than their lengths; a share that was meant as a percentage is a
/// hundred times too small.
fn kv_too_small(measured: &Outcome, tokens: f64) -> Option<&Tick> {
    const LEAST: f64 = 0.1;
    let mut prompts: Vec<u32> = measured.requests.iter().map(|request| request.prompt_tokens).collect();
    prompts.sort_unstable();
    let held = |tick: &Tick| prompts.iter().take(tick.running as usize).map(|&tokens| f64::from(tokens)).sum::<f64>();
    let known = || measured.ticks.iter().filter(|tick| tick.kv_share.is_some());
    let fullest = known().max_by(|a, b| held(a).total_cmp(&held(b)))?;
    (fullest.kv_share? * tokens < LEAST * held(fullest)).then_some(fullest)
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
            let why =
                format!("{}, and no tick of the series without prompts to take step times from", self.no_tables());
            return Ok(RunValidation { reason: Some(why), ..without_results(self.files, self.meta) });
        };
        let predicted = self.predicted(&costs)?;
        let reason =
            format!("{}: step times are fitted to the run's own series, so only the queue is judged", self.no_tables());
        Ok(RunValidation {
            is_fitted: true,
            reason: Some(reason),
            figures: compare::queue_figures(&self.measured, &predicted.outcome),
            ..self.answer(&costs, &predicted)
        })
    }

    fn no_tables(&self) -> String {
        format!("no kernels_{}_dense.csv, and no other table of this card, model and ranks", self.files.name)
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
