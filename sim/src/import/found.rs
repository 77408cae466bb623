//! Everything that the sources of one import say, and the steps that the scenario is made of.

use calibrate::stderr::printable;

use super::input::{Origin, Packing};
use super::kind::Kind;
use super::log::{Faults, Log};
use super::parts::Parts;
use super::prometheus::{Restarted, Scrapes};
use super::requests::Requests;
use super::servegen::{Dataset, Window};
use super::settings::{Known, Place};
use super::steps::{OpenSteps, SeenSteps, Shape};
use super::vllm::statistics::Guesses;
use crate::limits::DRAFTS_MAX;

/// The engine that a scenario is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Engine {
    /// vLLM.
    Vllm,
    /// SGLang.
    Sglang,
}

/// One source, read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Name, hash and size.
    pub origin: Origin,
    /// What it was read as.
    pub kind: Kind,
    /// Its lines.
    pub lines: u64,
    /// Lines with bytes that are no UTF-8; these were replaced.
    pub replaced_lines: u64,
    /// Lines of which only the first MiB was read.
    pub cut_lines: u64,
    /// Why reading ended before the end.
    pub broken: Option<String>,
}

impl Source {
    /// What it is, in words.
    #[must_use]
    pub fn what(&self) -> String {
        let packed = match self.origin.packing {
            Packing::Plain => "",
            Packing::Gzip => ", gzip",
            Packing::Zstd => ", zstd",
        };
        format!("{}{packed}", self.kind.what())
    }
}

/// What all sources say together.
#[derive(Debug, Default)]
pub struct Found {
    /// The sources, in the order given.
    pub sources: Vec<Source>,
    /// What logs say.
    pub log: Log,
    /// Lines of these whose ends have not come yet.
    pub parts: Parts,
    /// Lines of these whose ends never came.
    pub missing_ends: Faults,
    /// What metrics say.
    pub scrapes: Scrapes,
    /// Steps that were given as such.
    pub given_steps: SeenSteps,
    /// Windows of a ServeGen client.
    pub windows: Vec<Window>,
    /// Its lengths.
    pub dataset: Option<Dataset>,
    /// Requests, of the source that was given last.
    pub requests: Option<Requests>,
    /// Sources of requests that a later one took the place of.
    pub other_requests: Vec<&'static str>,
}

/// Steps with where they are from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepSource {
    /// What they were read from.
    pub what: &'static str,
    /// The steps.
    pub steps: SeenSteps,
    /// What this source does not resolve, in sentences.
    pub unresolved: Vec<String>,
    /// What must stand beside every answer about these steps.
    pub caution: Option<&'static str>,
}

/// Steps that nothing counts.
pub const STATISTICS: &str = "statistics lines";

/// What any answer from them must say.
const STATISTICS_CAUTION: &str = "the steps are guessed from statistics lines of the log, averages over ten seconds: batches between two \
                                  lines and short prefills are not in them; start the server with --cudagraph-metrics or, where \
                                  that prints no table, --enable-logging-iteration-details, and import its log again before you \
                                  trust an answer";

/// The same of batch size lines.
const BATCH_SIZES_CAUTION: &str = "the steps are from batch size lines of the log: sizes there are padded where a graph ran, those seen \
                                   only once are missing, and requests are not counted; start the server with --cudagraph-metrics or, \
                                   where that prints no table, --enable-logging-iteration-details, and import its log again before \
                                   you trust an answer";

/// Share of drafts that is accepted where nothing says so: a common figure of drafting models.
pub const ACCEPTED: f64 = 0.7;

/// Tokens of a full step where the log does not say its limit: the engine's smallest default.
const BUDGET_TOKENS: u32 = 2048;

impl Found {
    /// The engine whose lines were read, if any were.
    #[must_use]
    pub fn engine(&self) -> Option<Engine> {
        let log = &self.log;
        let sglang = &log.sglang_steps;
        let of_sglang = !log.sglang.settings.is_empty()
            || log.captured.iter().any(Option::is_some)
            || self.scrapes.engines()[1]
            || !(sglang.decodes.is_empty() && sglang.prefills.is_empty() && sglang.replays.is_empty());
        let of_vllm = !log.vllm.settings.is_empty()
            || log.configured.is_some()
            || !log.start.is_empty()
            || !log.iterations.is_empty()
            || !log.batch_sizes().is_empty()
            || self.scrapes.engines()[0]
            || !log.statistics.is_empty();
        match (of_vllm, of_sglang) {
            (false, false) => None,
            (true, true) if log.prefixed[1] > log.prefixed[0] => Some(Engine::Sglang),
            (true, _) => Some(Engine::Vllm),
            (false, true) => Some(Engine::Sglang),
        }
    }

    /// The sources of one kind, by name.
    #[must_use]
    pub fn names_of(&self, kind: Kind) -> String {
        let named = self.sources.iter().filter(|source| source.kind == kind);
        named.map(|source| printable(&source.origin.name)).collect::<Vec<_>>().join(", ")
    }

    /// Takes requests; of several sources the last one counts.
    pub fn set_requests(&mut self, requests: Requests) {
        if let Some(before) = self.requests.replace(requests) {
            self.other_requests.push(before.what);
        }
    }

    /// The lines that could not be read.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.log.faults
    }

    /// What of the sources was not read, in sentences.
    #[must_use]
    pub fn not_read(&self) -> Vec<String> {
        let mut sentences: Vec<String> = Vec::new();
        for Source { origin, cut_lines, broken, .. } in &self.sources {
            if let Some(problem) = broken {
                sentences.push(format!("{}: reading ended early, {problem}", origin.name));
            }
            if *cut_lines > 0 {
                sentences.push(format!("{}: of {cut_lines} lines only the first MiB was read", origin.name));
            }
        }
        if let Some((place, problem)) = &self.faults().first {
            let count = self.faults().count;
            let lines = if count == 1 { "1 line" } else { &format!("{count} lines") };
            sentences.push(format!("{lines} could not be read, the first at {place}: {problem}"));
        }
        sentences
    }

    /// Tokens of each request in a decode step.
    #[must_use]
    pub fn decode_tokens(&self, engine: Engine) -> u32 {
        let tokens = match engine {
            Engine::Vllm => {
                self.log.vllm.settings.whole("num_speculative_tokens").map(|drafts| drafts.saturating_add(1))
            }
            Engine::Sglang => {
                let settings = &self.log.sglang.settings;
                let drafts = settings.word("speculative_algorithm").and(settings.whole("speculative_num_draft_tokens"));
                drafts.or(self.log.decode_width.map(u64::from))
            }
        };
        // More is refused where the scenario is checked.
        let most = u64::from(DRAFTS_MAX) + 1;
        tokens.map_or(1, |tokens| tokens.clamp(1, most) as u32)
    }

    /// The share of verifications that accepted at least so many drafts, for each number from one, and who says so; `None` if
    /// nobody does. SGLang tells only the mean: each draft is taken to be accepted as often as the one before it was.
    #[must_use]
    pub fn accepted(&self, engine: Engine) -> Option<(Vec<f64>, &'static str)> {
        let drafts = self.decode_tokens(engine) - 1;
        match engine {
            Engine::Vllm => {
                let mut rates = self.log.drafts.rates()?;
                rates.truncate(drafts as usize);
                Some((rates, "from the lines about drafts"))
            }
            Engine::Sglang => {
                let seen = &self.log.sglang_steps;
                let beyond_one = seen.accepted_len / seen.verifications - 1.0;
                (seen.verifications > 0.0 && beyond_one.is_finite())
                    .then(|| (falling(drafts, beyond_one), "from the mean accept len of the decode lines"))
            }
        }
        .filter(|(rates, _)| !rates.is_empty())
    }

    /// Tokens that a decode step yields of each request.
    fn accepted_len(&self, engine: Engine) -> f64 {
        let drafts = f64::from(self.decode_tokens(engine) - 1);
        let said = self.log.drafts.accepted_len().filter(|_| drafts > 0.0);
        said.unwrap_or(1.0 + ACCEPTED * drafts).min(1.0 + drafts)
    }

    /// The steps of the source that tells most of each, with what else was there; `None` if none tells of any.
    #[must_use]
    pub fn steps(&self, engine: Engine) -> Option<StepSource> {
        let sources = match engine {
            Engine::Vllm => [
                self.given(),
                self.iterations(),
                self.graph_tables(),
                self.batch_sizes(),
                self.iteration_tokens(),
                self.statistics(),
            ],
            Engine::Sglang => [self.given(), self.sglang_steps(), self.passes(), None, None, None],
        };
        let mut there = sources.into_iter().flatten();
        let mut best = there.next()?;
        let others: Vec<&str> = there.map(|source| source.what).filter(|what| *what != STATISTICS).collect();
        if !others.is_empty() {
            best.unresolved
                .push(format!("The {} tell of the same steps and were not added to them.", others.join(" and the ")));
        }
        let left_out = best.steps.left_out.saturating_add(self.log.left_out);
        if left_out > 0 {
            best.unresolved.push(format!(
                "{left_out} steps are left out: no step can be as told, or there are too many different ones."
            ));
        }
        Some(best)
    }

    fn given(&self) -> Option<StepSource> {
        let steps = self.given_steps.clone();
        (!steps.is_empty()).then_some(StepSource { what: "histogram", steps, unresolved: Vec::new(), caution: None })
    }

    fn iterations(&self) -> Option<StepSource> {
        let unresolved = vec![
            "Tokens and requests of each step are exact; of several prefills in one step the longest is not told and taken to be \
             their mean."
                .to_owned(),
        ];
        let steps = self.log.iterations.clone();
        (!steps.is_empty()).then_some(StepSource { what: "iteration lines", steps, unresolved, caution: None })
    }

    fn graph_tables(&self) -> Option<StepSource> {
        let steps = self.log.graph_steps(self.decode_tokens(Engine::Vllm));
        let unresolved = vec![
            "Tokens of each step are exact; the tables do not count requests. A FULL step is a decode batch, so its requests \
             follow; those of PIECEWISE and NONE steps do not."
                .to_owned(),
        ];
        (!steps.is_empty()).then_some(StepSource { what: "graph tables", steps, unresolved, caution: None })
    }

    fn batch_sizes(&self) -> Option<StepSource> {
        let sizes = self.log.batch_sizes();
        let ladder = self.ladder();
        let mut steps = SeenSteps::default();
        for (tokens, count) in &sizes {
            // A step of a captured size may have been padded to it.
            let rung = ladder.binary_search(tokens).ok();
            let below = rung.map_or(tokens - 1, |rung| if rung == 0 { 0 } else { ladder[rung - 1] });
            steps.add_open(OpenSteps { least_tokens: below + 1, most_tokens: *tokens, may_decode: true }, *count);
        }
        let padded = if ladder.is_empty() {
            "Sizes are as run, padded where a graph ran; the ladder is not known, so every size is taken as it is."
        } else {
            "Sizes are as run, padded where a graph ran: a captured size stands for all sizes down to the next captured one."
        };
        let unresolved = vec![
            padded.to_owned(),
            "Sizes that were seen only once are not in these lines, and requests are not counted.".to_owned(),
        ];
        (!steps.is_empty()).then_some(StepSource {
            what: "batch size lines",
            steps,
            unresolved,
            caution: Some(BATCH_SIZES_CAUTION),
        })
    }

    /// Steps as vLLM's metrics count them: by ranges of tokens.
    fn iteration_tokens(&self) -> Option<StepSource> {
        let steps = self.scrapes.iteration_tokens();
        let mut unresolved = vec![
            "The metric counts steps by ranges of tokens: one of 9 to 16 tokens may be any of them, so which of these sizes pay is \
             not told. It counts a prompt whole in the step that ends it, and drafts only where they were accepted."
                .to_owned(),
        ];
        if let Some(tokens) = self.scrapes.counted_tokens() {
            unresolved.push(format!("All its steps together have {tokens} tokens, by its own sum."));
        }
        unresolved.extend(self.ranks_of_metrics());
        (!steps.is_empty()).then_some(StepSource { what: "metrics", steps, unresolved, caution: None })
    }

    /// Of which ranks the metrics count steps, and since when, where that may not be what was meant.
    fn ranks_of_metrics(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        if let Some(restarted) = self.scrapes.restarted() {
            sentences.push(match restarted {
                Restarted::Certainly => {
                    "The server began anew between two scrapes, and what it ran before is left out.".to_owned()
                }
                Restarted::Perhaps => {
                    "A counter fell between two scrapes: the server began anew, and what it ran before is left out. Scrapes go in \
                     order of time; if these do not, give them in the other order."
                        .to_owned()
                }
            });
        }
        if let Some(ranks) = self.scrapes.several_ranks() {
            sentences.push(format!(
                "The metrics are of several data-parallel ranks of one server, and their steps are added up: {ranks}. One that is \
                 in one scrape only counts since its start."
            ));
        }
        sentences
    }

    /// Steps as SGLang's metrics count them: with a graph and without.
    fn passes(&self) -> Option<StepSource> {
        let passes = self.scrapes.passes()?;
        let settings = &self.log.sglang.settings;
        let ceiling = |captured: &Option<Known<Vec<u32>>>, key: &str| {
            let captured = captured.as_ref().and_then(|known| known.value.last());
            captured.or(settings.sizes(key).and_then(<[u32]>::last)).copied()
        };
        let [decode, prefill] = &self.log.captured;
        let limit = |key: &str| settings.whole(key).and_then(|limit| u32::try_from(limit).ok());
        // Without the ladder nobody knows which sizes a graph stands for.
        let decode = ceiling(decode, "cuda_graph_bs_decode").or(limit("cuda_graph_max_bs_decode"))?;
        let prefill = ceiling(prefill, "cuda_graph_bs_prefill").unwrap_or(0);
        let (above_decode, above_prefill) = (decode.saturating_add(1), prefill.saturating_add(1));
        let running = limit("max_running_requests").unwrap_or(decode.saturating_mul(2)).max(above_decode);
        let chunk = limit("chunked_prefill_size").unwrap_or(BUDGET_TOKENS).max(above_prefill);
        let mut steps = SeenSteps::default();
        let ranges = [
            (1, decode, true, passes.decode[0]),
            (above_decode, running, true, passes.decode[1]),
            (2, prefill, false, passes.prefill[0]),
            (above_prefill, chunk, false, passes.prefill[1]),
        ];
        for (least_tokens, most_tokens, may_decode, count) in ranges {
            if count > 0 {
                steps.add_open(OpenSteps { least_tokens, most_tokens, may_decode }, count);
            }
        }
        let mut unresolved = vec![
            "The metrics count passes with a graph and without, not their sizes: any size up to the ceiling, or above it, may be \
             meant. `Decode batch` lines of the log tell more."
                .to_owned(),
        ];
        unresolved.extend(self.ranks_of_metrics());
        (!steps.is_empty()).then_some(StepSource { what: "metrics", steps, unresolved, caution: None })
    }

    /// Steps behind the statistics lines, which every vLLM server prints: a rough guess.
    fn statistics(&self) -> Option<StepSource> {
        let (width, log) = (self.decode_tokens(Engine::Vllm), &self.log);
        let tokens_a_step = self.accepted_len(Engine::Vllm);
        let Guesses { by_running, left_out, busy } = log.statistics.guesses(tokens_a_step);
        let budget = log.vllm.settings.whole("max_num_batched_tokens").and_then(|tokens| u32::try_from(tokens).ok());
        let mut steps = SeenSteps::default();
        for (running, guess) in by_running {
            let shape = Shape { tokens: running.saturating_mul(width), requests: running, query_len: width };
            if guess.decodes >= 0.5 {
                steps.add(shape, guess.decodes.round() as u64);
            }
            let budget = budget.unwrap_or(BUDGET_TOKENS).max(running.saturating_mul(width).saturating_add(1));
            let prompts = budget - (running - 1).saturating_mul(width);
            let prefills = (guess.prompt_tokens / f64::from(prompts)).round();
            if prefills >= 1.0 {
                steps.add(Shape { tokens: budget, requests: running, query_len: prompts }, prefills as u64);
            }
        }
        let mut unresolved = vec![
            "Nothing in the log counts steps. They are guessed from the statistics lines: each stands for as many decode steps \
             as make its output tokens in ten seconds, of as many requests as ran on average at its line and at the one before, \
             and for as many full steps as its prompts need. Batches between two lines and short prefills are not told: start \
             the server with --cudagraph-metrics or, where that prints no table, --enable-logging-iteration-details before you \
             trust an answer."
                .to_owned(),
        ];
        if left_out > 0 {
            unresolved.push(format!(
                "{left_out} of {busy} statistics lines with tokens are left out: no request, or too few for their tokens, ran at \
                 both ends of these ten seconds."
            ));
        }
        if width > 1 {
            let from =
                if log.drafts.accepted_len().is_some() { "as the lines about drafts say" } else { "an assumption" };
            unresolved.push(format!("A decode step yields {tokens_a_step:.2} tokens of each request, {from}."));
        }
        (!steps.is_empty()).then_some(StepSource {
            what: STATISTICS,
            steps,
            unresolved,
            caution: Some(STATISTICS_CAUTION),
        })
    }

    /// The ladder in force of a vLLM server, ascending; empty if not known.
    #[must_use]
    pub fn ladder(&self) -> &[u32] {
        let configured = self.log.configured.as_ref().map(|configured| configured.value.1.as_slice());
        configured.or(self.log.vllm.settings.sizes("cudagraph_capture_sizes")).unwrap_or_default()
    }

    /// Decode steps that one line of SGLang's log stands for, and where that was read.
    #[must_use]
    pub fn decode_interval(&self) -> (u64, Option<&Place>) {
        let known = self.log.sglang.decode_log_interval.as_ref().filter(|known| known.value > 0);
        known.map_or((40, None), |known| (known.value, Some(&known.place)))
    }

    fn sglang_steps(&self) -> Option<StepSource> {
        let (seen, width) = (&self.log.sglang_steps, self.decode_tokens(Engine::Sglang));
        let (interval, _) = self.decode_interval();
        let is_mixed = self.log.sglang.settings.is_on("enable_mixed_chunk") == Some(true);
        let mut steps = SeenSteps::default();
        let mut decodes = |requests: u32, count: u64| {
            let shape = Shape { tokens: requests.saturating_mul(width), requests, query_len: width };
            if requests > 0 {
                steps.add(shape, count);
            }
        };
        for ((requests, graph), count) in &seen.decodes {
            // Replays have lines of their own.
            if seen.replays.is_empty() || *graph == Some(false) {
                decodes(*requests, count.saturating_mul(interval));
            }
        }
        for (requests, count) in &seen.replays {
            decodes(*requests, *count);
        }
        for ((requests, tokens, running), count) in &seen.prefills {
            // A chunk's requests and tokens with the decodes that ride along.
            let beside = if is_mixed { *running } else { 0 };
            let longest = if *requests == 0 { 0 } else { tokens.div_ceil(*requests) };
            let (requests, tokens) = (requests.saturating_add(beside), tokens.saturating_add(beside));
            if tokens > 0 {
                steps.add(Shape { tokens, requests, query_len: longest.max(1) }, *count);
            }
        }
        let mut unresolved = vec![format!(
            "Each decode line stands for {interval} steps like it: what ran between two lines is not told."
        )];
        if !seen.replays.is_empty() {
            unresolved = vec!["Decode steps with a graph are counted one by one by their replay lines.".to_owned()];
        }
        unresolved.push("Of several prefills in one step the longest is taken to be their mean.".to_owned());
        (!steps.is_empty()).then_some(StepSource { what: "decode and prefill lines", steps, unresolved, caution: None })
    }
}

/// Shares that fall by the same factor from draft to draft and add up to this sum.
fn falling(drafts: u32, sum: f64) -> Vec<f64> {
    let shares = |factor: f64| (1..=drafts).map(move |draft| factor.powf(f64::from(draft)));
    // The sum rises with the factor.
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if shares(middle).sum::<f64>() < sum {
            low = middle;
        } else {
            high = middle;
        }
    }
    shares(high).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn falling_shares_add_up() {
        for (drafts, sum) in [(1, 0.4), (3, 1.5), (3, 2.999), (15, 4.0)] {
            let shares = falling(drafts, sum);
            assert_eq!(shares.len(), drafts as usize);
            assert!((shares.iter().sum::<f64>() - sum).abs() < 1e-9, "{shares:?}");
            assert!(shares.is_sorted_by(|before, after| before >= after), "{shares:?}");
        }
        assert!(falling(3, 0.0).iter().all(|share| *share < 1e-9));
        assert_eq!((falling(2, 5.0), falling(0, 1.0)), (vec![1.0, 1.0], Vec::new()));
    }
}
