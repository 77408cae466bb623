//! What the command line asks for.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use calibrate::stderr::printable;
use reports::ProposeQuestion;

use super::super::failure::Failure;
use super::super::inputs::Inputs;
use super::Arguments;
use crate::engine::options::EngineOptions;
use crate::engine::vllm::options::CudagraphMode;
use crate::propose::limits::Limits;
use crate::propose::objective::Objective;
use crate::propose::search::Question;
use crate::scenario::Candidate;
use crate::time::SimDuration;
use crate::traffic::StepHistogram;

/// What is asked, with what it is asked of.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) objective: Objective,
    limits: Limits,
    one_change: bool,
}

impl Asked {
    /// The command line's budgets come before the scenario's.
    pub(super) fn of(arguments: &Arguments, inputs: &Inputs) -> Self {
        let budget = &inputs.scenario.budget;
        let limits = Limits {
            graph_memory: arguments.graph_memory.or(budget.graph_memory),
            startup_s: arguments.startup.map(|time| time.as_secs_f64()).or(budget.startup.map(SimDuration::as_s)),
            descriptors: arguments.max_descriptors,
        };
        let one_change = arguments.one_change;
        Self { one_change, objective: arguments.objective, limits }
    }

    pub(super) fn question<'a>(
        &self,
        current: &'a Candidate,
        base: &'a EngineOptions,
        seeds: &'a [u64],
        final_seeds: &'a [u64],
    ) -> Question<'a> {
        Question {
            current: &current.options,
            base,
            objective: self.objective,
            limits: self.limits,
            seeds,
            final_seeds,
            one_change: self.one_change,
        }
    }

    pub(super) fn report(&self, also: &[String]) -> ProposeQuestion {
        ProposeQuestion {
            objective: self.objective.name().into(),
            graph_memory_bytes: self.limits.graph_memory.map(|bytes| bytes.0),
            startup_s: self.limits.startup_s,
            descriptors: self.limits.descriptors,
            also: also.to_vec(),
        }
    }
}

/// The histogram of a file.
///
/// # Errors
/// If it cannot be read, with the line.
pub(super) fn histogram(path: &Path) -> Result<StepHistogram, Failure> {
    let shown = printable(&path.display().to_string());
    let help = "write a header `tokens,requests,query_len,count` and one row for each shape of a step".to_owned();
    let file = File::open(path).map_err(|error| Failure::NoProposal {
        message: format!("cannot open {shown}: {error}"),
        help: Some("check the spelling and the permissions of --from".to_owned()),
    })?;
    StepHistogram::read_csv(BufReader::new(file))
        .map_err(|problem| Failure::NoProposal { message: format!("{shown}: {problem}"), help: Some(help) })
}

/// The options with a mode that has graphs: where they are off, the engine's default.
pub(super) fn with_graphs(options: &EngineOptions) -> EngineOptions {
    let mut options = options.clone();
    match &mut options {
        EngineOptions::Vllm(vllm) => {
            let graphs = &mut vllm.graphs;
            graphs.enforce_eager = false;
            graphs.cudagraph_mode = graphs.cudagraph_mode.filter(|&mode| mode != CudagraphMode::None);
        }
        EngineOptions::Sglang(sglang) => sglang.graphs.disable_cuda_graph = false,
    }
    options
}
