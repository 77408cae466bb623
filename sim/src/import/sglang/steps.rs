//! `Decode batch` and `Prefill batch` lines.

use thiserror::Error;

use super::fields::Fields;

/// A line about one step.
#[derive(Clone, Debug, PartialEq)]
pub enum StepLine {
    /// Every `--decode-log-interval` decode steps one.
    Decode(DecodeLine),
    /// Every step with a prefill; decodes that run along are not in it.
    Prefill(PrefillLine),
}

/// One decode step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DecodeLine {
    /// Requests in the step.
    pub running: u32,
    /// Requests that wait.
    pub queue: Option<u32>,
    /// KV tokens in use; `None` for models with several pools.
    pub tokens: Option<u64>,
    /// Whether a graph ran.
    pub cuda_graph: Option<bool>,
    /// Tokens that one verification yields, with drafts.
    pub accept_len: Option<f64>,
    /// Tokens per second since the line before.
    pub gen_tokens_per_s: Option<f64>,
}

/// One step with a prefill.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PrefillLine {
    /// Requests that prefill.
    pub new_seqs: u32,
    /// Their prompt tokens in this step.
    pub new_tokens: u32,
    /// Prompt tokens found in the cache.
    pub cached_tokens: Option<u32>,
    /// Requests that decode meanwhile.
    pub running: Option<u32>,
    /// Requests that wait.
    pub queue: Option<u32>,
    /// Prompt tokens of those that wait and of what is left of a chunked one.
    pub pending_tokens: Option<u64>,
    /// Tokens run again by the replay layers.
    pub replay_tokens: Option<u32>,
    /// Whether a graph ran.
    pub cuda_graph: Option<bool>,
}

/// A line that begins as one about a step, and does not go on so.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StepFault {
    /// A field is missing.
    #[error("the field `{0}` is missing: the line may be cut off")]
    Missing(&'static str),
    /// A field holds something else.
    #[error("`{field}` is `{value}`")]
    Value {
        /// The field.
        field: &'static str,
        /// What it holds.
        value: String,
    },
}

impl From<(&'static str, &str)> for StepFault {
    fn from((field, value): (&'static str, &str)) -> Self {
        Self::Value { field, value: value.to_owned() }
    }
}

impl StepLine {
    /// Reads a line without its prefix; `Ok(None)` if it is about something else. Older releases write a full stop where
    /// newer ones write a comma, and a step's number may stand before it.
    ///
    /// # Errors
    /// If it begins as a line about a step and cannot be read.
    pub fn read(text: &str) -> Result<Option<Self>, StepFault> {
        if let Some(fields) = behind(text, "Decode batch") {
            return decode(&fields).map(Self::Decode).map(Some);
        }
        if let Some(fields) = behind(text, "Prefill batch") {
            return prefill(&fields).map(Self::Prefill).map(Some);
        }
        Ok(None)
    }
}

/// The fields of a line that begins so.
fn behind<'a>(text: &'a str, begin: &str) -> Option<Fields<'a>> {
    let rest = text.trim_start().strip_prefix(begin)?;
    let rest = match rest.trim_start().strip_prefix('[') {
        Some(numbered) => numbered.split_once(']')?.1,
        None => rest,
    };
    Some(Fields::of(rest.strip_prefix([',', '.'])?))
}

fn decode(fields: &Fields<'_>) -> Result<DecodeLine, StepFault> {
    Ok(DecodeLine {
        running: fields.read("#running-req")?.ok_or(StepFault::Missing("#running-req"))?,
        queue: fields.read("#queue-req")?,
        tokens: fields.read("#token")?,
        cuda_graph: flag(fields)?,
        accept_len: fields.read("accept len")?,
        gen_tokens_per_s: fields.read("gen throughput (token/s)")?,
    })
}

fn prefill(fields: &Fields<'_>) -> Result<PrefillLine, StepFault> {
    Ok(PrefillLine {
        new_seqs: fields.read("#new-seq")?.ok_or(StepFault::Missing("#new-seq"))?,
        new_tokens: fields.read("#new-token")?.ok_or(StepFault::Missing("#new-token"))?,
        cached_tokens: fields.read("#cached-token")?,
        running: fields.read("#running-req")?,
        queue: fields.read("#queue-req")?,
        pending_tokens: fields.read("#pending-token")?,
        replay_tokens: fields.read("#replay-token")?,
        cuda_graph: flag(fields)?,
    })
}

/// `True` or `False` as Python writes them.
fn flag(fields: &Fields<'_>) -> Result<Option<bool>, StepFault> {
    match fields.get("cuda graph") {
        None => Ok(None),
        Some("True") => Ok(Some(true)),
        Some("False") => Ok(Some(false)),
        Some(other) => Err(("cuda graph", other).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_and_new_spellings_say_the_same() {
        let new = "Decode batch, #running-req: 233, #token: 370959, token usage: 0.82, cuda graph: True, \
                   gen throughput (token/s): 4594.01, #queue-req: 317";
        let expected = DecodeLine {
            running: 233,
            queue: Some(317),
            tokens: Some(370_959),
            cuda_graph: Some(true),
            accept_len: None,
            gen_tokens_per_s: Some(4594.01),
        };
        for line in [new.to_owned(), new.replacen(',', ".", 1), new.replacen(',', " [40],", 1)] {
            assert_eq!(StepLine::read(&line), Ok(Some(StepLine::Decode(expected.clone()))), "{line}");
        }
    }

    #[test]
    fn lines_that_are_cut_off_are_faults_and_others_are_nothing() {
        assert_eq!(StepLine::read("Decode batch, #runn"), Err(StepFault::Missing("#running-req")));
        assert_eq!(StepLine::read("Prefill batch, #new-seq: 3"), Err(StepFault::Missing("#new-token")));
        let value = StepFault::Value { field: "cuda graph", value: "Tr".to_owned() };
        assert_eq!(StepLine::read("Decode batch, #running-req: 3, cuda graph: Tr"), Err(value));
        for other in ["", "Decode batches are many", "Prefill", "Engine 000: Running: 4 reqs"] {
            assert_eq!(StepLine::read(other), Ok(None), "{other}");
        }
    }
}
