//! Heads that prompts of a workload share: what the prefix cache of the real server found and a request file does not say.
//!
//! A table says of pairs of requests that both prompts begin with the same so many tokens. For public workloads it is built
//! in, under the SHA-256 of the workload file that a run's `meta.json` names; for others it comes from a file: such a table,
//! or the prompts themselves.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::ValidateError;
use super::run::{Text, WHOLE, fault_of_json};
use crate::engine::request::{Segment, SharedPrefix};

/// Public workloads whose shared heads are known: SHA-256 of the file, its name, the table.
///
/// Both are casys-kaist/LLMServingSim's (MIT), turns of `ShareGPT` conversations: a later turn of a conversation begins
/// with the whole prompt of an earlier one. The tables hold every pair of prompts that agree in 16 tokens or more.
const WORKLOADS: [(&str, &str, &str); 2] = [
    (
        "05e48b32da530d4a3dd77f3d47c6fe694ac8308d611aa088e38bb10fba2b3b3a",
        "sharegpt-llama-3.1-8b-300-sps10",
        include_str!("workloads/sharegpt-llama-3.1-8b-300-sps10.csv"),
    ),
    (
        "4af54eb2f7ac12b0856a1668e367fc8a330acd37c4f6c3e336ae02229e21a8bb",
        "sharegpt-qwen3-32b-300-sps10",
        include_str!("workloads/sharegpt-qwen3-32b-300-sps10.csv"),
    ),
];

/// The columns of a table.
const COLUMNS: &str = "request,begins_as,tokens";

/// The shortest head that is looked at, in tokens.
const TOKENS_LEAST: u32 = 16;

/// A line of a workload file.
#[derive(Deserialize)]
struct Prompt {
    input_tok_ids: Vec<u32>,
}

/// Every pair of prompts that agree in [`TOKENS_LEAST`] tokens or more. Prompts that begin alike stand side by side when they
/// are sorted, and two of them agree in as much as all between them do.
fn pairs(prompts: &[Vec<u32>]) -> BTreeMap<(u32, u32), u32> {
    let mut order: Vec<u32> = (0..prompts.len() as u32).collect();
    order.sort_unstable_by_key(|&request| &prompts[request as usize]);
    let agree = |a: u32, b: u32| {
        let [a, b] = [a, b].map(|request| &prompts[request as usize]);
        a.iter().zip(b).take_while(|(a, b)| a == b).count() as u32
    };
    let mut pairs = BTreeMap::new();
    for (place, &first) in order.iter().enumerate() {
        let mut before = first;
        let mut tokens = u32::MAX;
        for &next in &order[place + 1..] {
            tokens = tokens.min(agree(before, next));
            if tokens < TOKENS_LEAST {
                break;
            }
            pairs.insert((first.min(next), first.max(next)), tokens);
            before = next;
        }
    }
    pairs
}

/// Which prompts begin alike.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedHeads {
    /// Where the table comes from, in words.
    pub source: String,
    /// `(a request, another one)`, the smaller number first, and the tokens that both prompts begin with.
    pairs: BTreeMap<(u32, u32), u32>,
}

impl SharedHeads {
    /// The built-in table of the workload with this hash.
    #[must_use]
    pub fn of_workload(sha256: &str) -> Option<Self> {
        let &(_, name, table) = WORKLOADS.iter().find(|(hash, ..)| hash.eq_ignore_ascii_case(sha256))?;
        let text = Text { file: name.to_owned(), text: table.to_owned() };
        let heads = Self::read(&text).expect("a test reads every built-in table");
        Some(Self { source: format!("the public workload {name}"), ..heads })
    }

    /// Reads a table, or compares the prompts of a workload file, which begins with an object.
    ///
    /// # Errors
    /// As [`read`](Self::read) and [`of_prompts`](Self::of_prompts).
    pub fn of_file(text: &Text) -> Result<Self, ValidateError> {
        if text.text.trim_start().starts_with('{') { Self::of_prompts(text) } else { Self::read(text) }
    }

    /// Reads a table: `request,begins_as,tokens`, one pair a row.
    ///
    /// # Errors
    /// A row is no such pair, or contradicts another one.
    pub fn read(text: &Text) -> Result<Self, ValidateError> {
        let file = &text.file;
        let mut pairs = BTreeMap::new();
        let mut lines = text.lines();
        let (first, header) = lines.next().unwrap_or((1, ""));
        if header.split(',').map(str::trim).ne(COLUMNS.split(',')) {
            let problem = format!("the columns are `{}`", calibrate::stderr::printable(header.trim()));
            return Err(ValidateError::line(
                file,
                first,
                problem,
                format!("a table of shared heads begins with {COLUMNS}"),
            ));
        }
        for (line, row) in lines {
            let refuse = |problem: String| Err(ValidateError::line(file, line, problem, WHOLE));
            let cells: Option<Vec<u32>> = row.split(',').map(|cell| cell.trim().parse().ok()).collect();
            let Some(&[a, b, tokens]) = cells.as_deref() else {
                return refuse(format!("`{}`, expected three whole numbers", calibrate::stderr::printable(row)));
            };
            if a == b || tokens == 0 {
                return refuse(format!(
                    "request {a} and request {b} share {tokens} tokens, expected two requests and 1 or more"
                ));
            }
            if pairs.insert((a.min(b), a.max(b)), tokens).is_some() {
                return refuse(format!("requests {a} and {b} are on an earlier line too"));
            }
        }
        let heads = Self { source: file.clone(), pairs };
        match heads.contradiction() {
            Some([a, b, c]) => {
                let problem = format!("requests {a}, {b} and {c} cannot begin with these numbers of tokens in common");
                Err(ValidateError::file(
                    file,
                    problem,
                    "list every pair of prompts that begin alike, with its longest head",
                ))
            }
            None => Ok(heads),
        }
    }

    /// Compares the prompts of a workload file, token by token: one object a line with `input_tok_ids`, the line's place being
    /// the request's number. Heads of less than 16 tokens fill no block of vLLM and are left out.
    ///
    /// # Errors
    /// A line is no such object.
    pub fn of_prompts(text: &Text) -> Result<Self, ValidateError> {
        let mut prompts: Vec<Vec<u32>> = Vec::new();
        for (line, json) in text.lines() {
            let prompt: Prompt = serde_json::from_str(json).map_err(|error| {
                let problem = format!("no request with input_tok_ids: {}", fault_of_json(&error));
                ValidateError::line(&text.file, line, problem, "give the workload file with the tokens of its prompts")
            })?;
            prompts.push(prompt.input_tok_ids);
        }
        Ok(Self { source: text.file.clone(), pairs: pairs(&prompts) })
    }

    /// The table, as [`read`](Self::read) takes it.
    #[must_use]
    pub fn table(&self) -> String {
        let rows = self.pairs.iter().map(|(&(a, b), tokens)| (b, a, tokens));
        let mut rows: Vec<_> = rows.collect();
        rows.sort_unstable();
        rows.into_iter().fold(format!("{COLUMNS}\n"), |text, (b, a, tokens)| text + &format!("{b},{a},{tokens}\n"))
    }

    /// Pairs of prompts that begin alike.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether no prompts begin alike.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// The requests that it speaks of.
    pub fn requests(&self) -> impl Iterator<Item = u32> {
        let numbers: BTreeSet<u32> = self.pairs.keys().flat_map(|&(a, b)| [a, b]).collect();
        numbers.into_iter()
    }

    fn tokens(&self, a: u32, b: u32) -> u32 {
        self.pairs.get(&(a.min(b), a.max(b))).copied().unwrap_or(0)
    }

    /// Who begins like a request, and in how many tokens.
    fn like(&self, request: u32) -> Vec<(u32, u32)> {
        let other = |(&(a, b), &tokens): (&(u32, u32), &u32)| match request {
            _ if request == a => Some((b, tokens)),
            _ if request == b => Some((a, tokens)),
            _ => None,
        };
        self.pairs.iter().filter_map(other).collect()
    }

    /// Three requests that cannot be: two that agree with a third in some tokens agree with each other in as many.
    fn contradiction(&self) -> Option<[u32; 3]> {
        self.requests().find_map(|request| {
            let like = self.like(request);
            let pairs =
                like.iter().enumerate().flat_map(|(place, one)| like[place + 1..].iter().map(move |two| (one, two)));
            pairs.into_iter().find_map(|(&(one, tokens_one), &(two, tokens_two))| {
                let (shared, least) = (self.tokens(one, two), tokens_one.min(tokens_two));
                let agrees = if tokens_one == tokens_two { shared >= least } else { shared == least };
                (!agrees).then_some([request, one, two])
            })
        })
    }

    /// The head of a request's prompt, of `prompt_tokens` tokens, as the prefix cache sees it.
    #[must_use]
    pub fn of(&self, request: u32, prompt_tokens: u32) -> SharedPrefix {
        let like = self.like(request);
        let ends: BTreeSet<u32> = like.iter().map(|&(_, tokens)| tokens.min(prompt_tokens)).collect();
        let segments = ends.into_iter().map(|end_tokens| {
            // Everybody who begins with the same tokens names them after the first of them.
            let first = like.iter().filter(|&&(_, tokens)| tokens >= end_tokens).map(|&(other, _)| other).min();
            let first = first.map_or(request, |first| first.min(request));
            Segment { content: u64::from(first) << 32 | u64::from(end_tokens), end_tokens }
        });
        SharedPrefix::new(&segments.collect::<Vec<_>>())
    }
}
