//! From the lines of a log to steps that a profile can price: how each ran, on how many rows, with how much context.
//!
//! A line of vLLM does not say whether a graph ran: the dispatcher of the server that wrote it does. Steps with prompt tokens
//! are left out: how long they take depends on chunks and contexts that no line tells apart.

use crate::cost::Execution;
use crate::engine::options::EngineOptions;
use crate::engine::plan::GraphPlan;
use crate::engine::shape::EagerKind;
use crate::engine::shape::{RuntimeMode, StepShape};
use crate::fit::FitError;
use crate::fit::measured_step::{Clock, MeasuredStep};

use super::log::EngineLog;

/// The server that wrote a log.
#[derive(Clone, Debug)]
pub struct Server {
    /// Its flags.
    pub options: EngineOptions,
    /// Its graphs.
    pub plan: GraphPlan,
}

impl Server {
    /// What mode NONE means there.
    #[must_use]
    pub fn eager(&self) -> Execution {
        match self.plan.eager_kind() {
            EagerKind::Compiled => Execution::CompiledEager,
            EagerKind::True => Execution::Eager,
        }
    }

    /// How a batch of so many requests that decode as many tokens each runs, and on how many rows.
    pub(super) fn dispatch(&self, requests: u32, query_len: u32) -> (Execution, u32) {
        let shape = StepShape {
            requests,
            tokens: requests * query_len,
            max_query: query_len,
            uniform_v1: query_len == self.options.decode_tokens(),
            uniform_v2: Some(query_len),
            prefilling: false,
            active_loras: 0,
            encoder_inputs: false,
        };
        let descriptor = self.plan.dispatch(&shape).descriptor;
        let execution = match descriptor.mode {
            RuntimeMode::None => self.eager(),
            RuntimeMode::Piecewise => Execution::Piecewise,
            RuntimeMode::Full => Execution::Full,
        };
        (execution, descriptor.tokens)
    }
}

/// The steps of a log, and why lines of it are none.
#[derive(Clone, Debug, Default)]
pub struct LoggedSteps {
    /// Those that can be priced.
    pub steps: Vec<MeasuredStep>,
    /// How many lines are left out, and why.
    pub left_out: Vec<(u64, &'static str)>,
}

const WITH_PROMPTS: &str = "steps with prompt tokens, whose chunks and contexts no line tells apart";
const UNEVEN: &str = "decode steps whose requests have different numbers of tokens";
const MORE: &str =
    "decode steps of more tokens a request than --server decodes: drafts, or outputs that are computed again";
const TOO_LARGE: &str = "batch sizes that are no decode batch: more tokens than the server runs requests";
const MINGLED: &str = "decode lines between which the batch changed, or a prompt ran";
const NO_MODE: &str = "decode lines that do not say whether a graph ran";
const BEYOND: &str = "steps beyond the first million";
const BROKEN: &str = "lines that are cut off or cannot be read";

/// Makes steps of a log's lines. `context` is the mean of a decoding request's KV tokens, where the lines do not say.
///
/// # Errors
/// The lines need the server's flags or the context to be priced, and have neither.
pub fn of_log(log: &EngineLog, server: Option<&Server>, context: Option<f64>) -> Result<LoggedSteps, FitError> {
    let mut made = LoggedSteps::default();
    made.iterations(log, server, context)?;
    made.batch_sizes(log, server, context)?;
    made.decodes(log, server);
    made.left_out.extend([(log.mingled_decodes, MINGLED), (log.broken, BROKEN), (log.beyond, BEYOND)]);
    made.left_out.retain(|(count, _)| *count > 0);
    Ok(made)
}

fn server_of<'a>(log: &EngineLog, server: Option<&'a Server>) -> Result<&'a Server, FitError> {
    server.ok_or_else(|| {
        let problem = "lines of vLLM do not say whether a graph ran";
        let help =
            "name a scenario with the flags of the server that wrote the log: --server SCENARIO [--candidate NAME]";
        FitError::file(&log.file, problem, help)
    })
}

fn no_context(log: &EngineLog) -> FitError {
    let problem = "the lines do not say how much context the requests have";
    let help = "give the mean KV tokens of a decoding request with --context: prompt plus half of the output";
    FitError::file(&log.file, problem, help)
}

impl LoggedSteps {
    fn iterations(&mut self, log: &EngineLog, server: Option<&Server>, context: Option<f64>) -> Result<(), FitError> {
        let (mut with_prompts, mut uneven, mut more) = (0, 0, 0);
        for (line, step, kv_share) in &log.iterations {
            let requests = step.generation_requests;
            if step.context_requests > 0 || step.context_tokens > 0 {
                with_prompts += 1;
                continue;
            }
            if requests == 0 || !step.generation_tokens.is_multiple_of(requests) || step.elapsed_ms <= 0.0 {
                uneven += 1;
                continue;
            }
            let server = server_of(log, server)?;
            let query_len = step.generation_tokens / requests;
            if query_len > server.options.decode_tokens() {
                more += 1;
                continue;
            }
            let (execution, rows) = server.dispatch(requests, query_len);
            let of_share =
                kv_share.zip(log.kv_tokens).map(|(share, tokens)| share * tokens as f64 / f64::from(requests));
            let context = context.or(of_share).ok_or_else(|| no_context(log))?;
            let mut work = MeasuredStep::work(requests, context, 0, 0);
            work.tokens = step.generation_tokens;
            work.drafts = step.generation_tokens - requests;
            self.steps.push(MeasuredStep {
                line: *line,
                execution,
                rows,
                work,
                us: step.elapsed_ms * 1e3,
                count: 1,
                clock: Clock::Period,
            });
        }
        if more as usize > self.steps.len() {
            let problem =
                format!("{more} of its decode steps have more tokens a request than --server decodes: drafts");
            let help = "name the scenario of the server that wrote the log, with its num_speculative_tokens";
            return Err(FitError::file(&log.file, problem, help));
        }
        self.left_out.extend([(with_prompts, WITH_PROMPTS), (uneven, UNEVEN), (more, MORE)]);
        Ok(())
    }

    fn batch_sizes(&mut self, log: &EngineLog, server: Option<&Server>, context: Option<f64>) -> Result<(), FitError> {
        let mut too_large = 0;
        for (line, sizes) in log.batch_sizes.values() {
            for size in sizes {
                let server = server_of(log, server)?;
                let query_len = server.options.decode_tokens();
                let requests = size.tokens / query_len;
                if requests == 0 || requests > server.options.limits().requests.value || size.median_ms <= 0.0 {
                    too_large += 1;
                    continue;
                }
                // The size is the padded one: its own batch runs on it.
                let (execution, rows) = server.dispatch(requests, query_len);
                let context = context.ok_or_else(|| no_context(log))?;
                self.steps.push(MeasuredStep {
                    line: *line,
                    execution,
                    rows,
                    work: MeasuredStep::work(requests, context, 0, 0),
                    us: size.median_ms * 1e3,
                    count: size.count,
                    clock: Clock::Forward,
                });
            }
        }
        self.left_out.push((too_large, TOO_LARGE));
        Ok(())
    }

    fn decodes(&mut self, log: &EngineLog, server: Option<&Server>) {
        let mut no_mode = 0;
        for (line, step) in &log.decodes {
            let (Some(graph), Some(rate)) = (step.cuda_graph, step.gen_tokens_per_s) else {
                no_mode += 1;
                continue;
            };
            let requests = step.running;
            let tokens = f64::from(requests) * step.accept_len.unwrap_or(1.0).max(1.0);
            let context = step.tokens.map_or(0.0, |tokens| tokens as f64 / f64::from(requests));
            let captured = log.decode_sizes.iter().copied().filter(|&size| size >= requests).min();
            let (execution, rows) = match (graph, server, captured) {
                (false, ..) => (Execution::Eager, requests),
                (true, _, Some(size)) => (Execution::Full, size),
                (true, Some(server), None) => (Execution::Full, server.dispatch(requests, 1).1),
                (true, None, None) => (Execution::Full, requests),
            };
            self.steps.push(MeasuredStep {
                line: *line,
                execution,
                rows,
                work: MeasuredStep::work(requests, context, 0, 0),
                us: tokens / rate * 1e6,
                count: 1,
                clock: Clock::Period,
            });
        }
        self.left_out.push((no_mode, NO_MODE));
    }
}
