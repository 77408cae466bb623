//! The graph flags of a command line as SGLang's own parser takes them: abbreviations, spellings of numbers, refusals.
//!
//! Flags that have nothing to do with graphs are not known here, so a whole command line must be reduced to its graph flags
//! before. The refusals are those of 0.5.23 [V cli].

use serde_json::{Map, Value};
use thiserror::Error;

/// What a flag takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    /// Nothing.
    Nothing,
    /// One word.
    Word,
    /// One whole number.
    Number,
    /// One whole number, or thousands as `32k`.
    ReadableNumber,
    /// Whole numbers, at least one.
    Numbers,
    /// An object of phases.
    Phases,
}

const FLAGS: [(&str, Takes); 13] = [
    ("--cuda-graph-backend-decode", Takes::Word),
    ("--cuda-graph-backend-prefill", Takes::Word),
    ("--cuda-graph-bs-decode", Takes::Numbers),
    ("--cuda-graph-bs-prefill", Takes::Numbers),
    ("--cuda-graph-config", Takes::Phases),
    ("--cuda-graph-max-bs-decode", Takes::Number),
    ("--cuda-graph-max-bs-prefill", Takes::Number),
    ("--cuda-graph-max-seq-len-prefill", Takes::Number),
    ("--cuda-graph-prefill-max-context", Takes::ReadableNumber),
    ("--disable-cuda-graph", Takes::Nothing),
    ("--disable-cuda-graph-padding", Takes::Nothing),
    ("--disable-decode-cuda-graph", Takes::Nothing),
    ("--disable-prefill-cuda-graph", Takes::Nothing),
];

/// The keys of each phase of `--cuda-graph-config`.
const PHASES: [(&str, &[&str]); 2] = [
    ("decode", &["backend", "max_bs", "bs"]),
    (
        "prefill",
        &[
            "backend",
            "max_bs",
            "bs",
            "max_context_size",
            "full_prefill_max_req",
            "full_prefill_prefix_chunk_tokens",
            "max_seq_len",
        ],
    ),
];

/// A command line that SGLang would not start with.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// An abbreviation of several flags.
    #[error("ambiguous option: {given} could match {}", matches.join(", "))]
    Ambiguous {
        /// What was given.
        given: String,
        /// The flags that it may mean.
        matches: Vec<&'static str>,
    },
    /// Words that belong to no flag.
    #[error("unrecognized arguments: {}", .0.join(" "))]
    Unrecognized(Vec<String>),
    /// A flag's value is missing or of another kind.
    #[error("argument {flag}: {problem}")]
    Value {
        /// The flag.
        flag: &'static str,
        /// What is wrong.
        problem: String,
    },
}

/// Reads the words of a command line; flags come under their names with underscores, the last of each counts.
///
/// # Errors
/// What SGLang refuses to start with.
pub fn read(words: &[String]) -> Result<Map<String, Value>, Refusal> {
    let (mut set, mut strange) = (Map::new(), Vec::new());
    let mut rest = words;
    while let Some((word, behind)) = rest.split_first() {
        rest = behind;
        let (name, joined) = match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
            _ => (word.as_str(), None),
        };
        let Some((flag, takes)) = known(name)? else {
            strange.push(word.clone());
            continue;
        };
        let given: Vec<String> = if let Some(value) = joined {
            vec![value]
        } else {
            let most = match takes {
                Takes::Nothing => 0,
                Takes::Numbers => usize::MAX,
                _ => 1,
            };
            let values = rest.iter().take_while(|word| !word.starts_with("--")).take(most).count();
            let (values, next) = rest.split_at(values);
            rest = next;
            values.to_vec()
        };
        let value = value(takes, &given).map_err(|problem| Refusal::Value { flag, problem })?;
        set.insert(flag.trim_start_matches('-').replace('-', "_"), value);
    }
    if strange.is_empty() { Ok(set) } else { Err(Refusal::Unrecognized(strange)) }
}

/// The flag of this name, or the only one that begins so.
fn known(name: &str) -> Result<Option<(&'static str, Takes)>, Refusal> {
    if let Some(exact) = FLAGS.iter().find(|(flag, _)| *flag == name) {
        return Ok(Some(*exact));
    }
    if !name.starts_with("--") {
        return Ok(None);
    }
    let begun: Vec<_> = FLAGS.iter().filter(|(flag, _)| flag.starts_with(name)).copied().collect();
    match begun.as_slice() {
        [] => Ok(None),
        [only] => Ok(Some(*only)),
        several => {
            Err(Refusal::Ambiguous { given: name.to_owned(), matches: several.iter().map(|(flag, _)| *flag).collect() })
        }
    }
}

fn value(takes: Takes, given: &[String]) -> Result<Value, String> {
    let number =
        |word: &String| word.trim().parse::<i64>().map(Value::from).map_err(|_| format!("invalid int value: '{word}'"));
    let one = || given.first().ok_or_else(|| "expected one argument".to_owned());
    match takes {
        Takes::Nothing if given.is_empty() => Ok(Value::Bool(true)),
        Takes::Nothing => Err(format!("ignored explicit argument '{}'", given[0])),
        Takes::Word => one().map(|word| Value::from(word.clone())),
        Takes::Number => number(one()?),
        Takes::ReadableNumber => {
            let word = one()?;
            readable(word).map(Value::from).ok_or_else(|| format!("invalid value: '{word}'"))
        }
        Takes::Numbers if given.is_empty() => Err("expected at least one argument".to_owned()),
        Takes::Numbers => given.iter().map(number).collect(),
        Takes::Phases => phases(one()?),
    }
}

/// `32000`, `32k` for thousands, `32K` for 1,024 each; `m` and `M`, `g` and `G` likewise.
fn readable(word: &str) -> Option<u64> {
    let Some(unit) = word.chars().last().filter(char::is_ascii_alphabetic) else { return word.parse().ok() };
    let each = match unit {
        'k' => 1_000,
        'm' => 1_000_000,
        'g' => 1_000_000_000,
        'K' => 1 << 10,
        'M' => 1 << 20,
        'G' => 1 << 30,
        _ => return None,
    };
    word[..word.len() - 1].parse::<u64>().ok()?.checked_mul(each)
}

fn phases(text: &str) -> Result<Value, String> {
    let config: Value = serde_json::from_str(text).map_err(|error| format!("--cuda-graph-config: {error}"))?;
    let object = config.as_object().ok_or("--cuda-graph-config: expected an object in JSON")?;
    for (phase, keys) in object {
        let Some((_, known)) = PHASES.iter().find(|(name, _)| name == phase) else {
            let names = PHASES.map(|(name, _)| format!("'{name}'")).join(", ");
            return Err(format!("--cuda-graph-config: unknown phase '{phase}', expected one of ({names})"));
        };
        let Some(keys) = keys.as_object() else {
            return Err(format!("--cuda-graph-config['{phase}']: expected an object in JSON"));
        };
        if let Some(key) = keys.keys().find(|key| !known.contains(&key.as_str())) {
            let names = known.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
            return Err(format!("--cuda-graph-config['{phase}']: unknown key '{key}', expected one of ({names})"));
        }
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn flags_may_be_abbreviated_and_joined_with_their_values() {
        let set =
            read(&words("--cuda-graph-max-bs-d 64 --cuda-graph-prefill-max-context=2K --disable-pre")).expect("fine");
        assert_eq!(set["cuda_graph_max_bs_decode"], 64);
        assert_eq!(set["cuda_graph_prefill_max_context"], 2048);
        assert_eq!(set["disable_prefill_cuda_graph"], true);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (line, problem) in [
            ("--cuda-graph-bs-decode", "argument --cuda-graph-bs-decode: expected at least one argument"),
            ("--cuda-graph-max-bs-decode many", "argument --cuda-graph-max-bs-decode: invalid int value: 'many'"),
            ("--disable-cuda-graph=1", "argument --disable-cuda-graph: ignored explicit argument '1'"),
            ("word --cuda-graph-bs-decode 1", "unrecognized arguments: word"),
            (
                "--cuda-graph-prefill-max-context 9999999999999999999g",
                "argument --cuda-graph-prefill-max-context: invalid value: '9999999999999999999g'",
            ),
        ] {
            assert_eq!(read(&words(line)).expect_err(line).to_string(), problem);
        }
    }
}
