//! The lines of `--enable-logging-iteration-details`: one a step. Newer releases put the engine before it and the use of the
//! KV cache behind it.

use thiserror::Error;

/// One step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Iteration {
    /// The engine's own number of the step.
    pub number: u64,
    /// Requests that prefill.
    pub context_requests: u32,
    /// Their tokens.
    pub context_tokens: u32,
    /// Requests that decode.
    pub generation_requests: u32,
    /// Their tokens, drafts included.
    pub generation_tokens: u32,
    /// How long the step took, ms.
    pub elapsed_ms: f64,
}

/// A line that begins as one of these and does not go on so.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("expected `{expected}` in `{found}`")]
pub struct IterationFault {
    /// What comes next in such a line.
    pub expected: &'static str,
    /// The rest of the line.
    pub found: String,
}

impl Iteration {
    /// Reads a line without its prefix; `Ok(None)` if it is about something else, or about a step that a rank without
    /// requests runs to keep the others company.
    ///
    /// # Errors
    /// If it begins as such a line and cannot be read: it may be cut off.
    pub fn read(text: &str) -> Result<Option<Self>, IterationFault> {
        let text = text.trim();
        let Some(rest) = without_engine(text).strip_prefix("Iteration(") else { return Ok(None) };
        if text.contains("(dummy)") {
            return Ok(None);
        }
        let (number, rest) = counted(rest, "): ")?;
        let (context_requests, rest) = counted(rest, " context requests, ")?;
        let (context_tokens, rest) = counted(rest, " context tokens, ")?;
        let (generation_requests, rest) = counted(rest, " generation requests, ")?;
        let (generation_tokens, rest) = counted(rest, " generation tokens, ")?;
        let behind = "iteration elapsed time: ";
        let fault = |expected| IterationFault { expected, found: rest.to_owned() };
        let (elapsed_ms, _) =
            rest.strip_prefix(behind).and_then(|rest| rest.split_once(" ms")).ok_or_else(|| fault(behind))?;
        let elapsed_ms = elapsed_ms.parse().ok().filter(|ms: &f64| ms.is_finite() && *ms >= 0.0);
        Ok(Some(Self {
            number,
            context_requests: small(context_requests, " context requests")?,
            context_tokens: small(context_tokens, " context tokens")?,
            generation_requests: small(generation_requests, " generation requests")?,
            generation_tokens: small(generation_tokens, " generation tokens")?,
            elapsed_ms: elapsed_ms.ok_or_else(|| fault("a time in ms"))?,
        }))
    }
}

/// Without `Engine 000: `.
fn without_engine(text: &str) -> &str {
    let numbered = text.strip_prefix("Engine ").and_then(|rest| rest.split_once(": "));
    match numbered {
        Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => rest,
        _ => text,
    }
}

/// A number and what follows `behind` it.
fn counted<'a>(rest: &'a str, behind: &'static str) -> Result<(u64, &'a str), IterationFault> {
    let parts = rest.split_once(behind).and_then(|(number, rest)| Some((number.trim().parse().ok()?, rest)));
    parts.ok_or_else(|| IterationFault { expected: behind, found: rest.to_owned() })
}

fn small(number: u64, expected: &'static str) -> Result<u32, IterationFault> {
    u32::try_from(number).map_err(|_| IterationFault { expected, found: number.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "Iteration(17): 2 context requests, 900 context tokens, 30 generation requests, 60 generation \
                        tokens, iteration elapsed time: 23.50 ms";

    #[test]
    fn a_step_is_read() {
        let step = Iteration {
            number: 17,
            context_requests: 2,
            context_tokens: 900,
            generation_requests: 30,
            generation_tokens: 60,
            elapsed_ms: 23.5,
        };
        assert_eq!(Iteration::read(LINE), Ok(Some(step)));
        let newer = format!("Engine 000: {LINE}, GPU KV cache usage: 4.5%");
        assert_eq!(Iteration::read(&newer), Ok(Some(step)));
        assert_eq!(Iteration::read(&format!("{newer} (dummy)")), Ok(None), "nobody's step");
        for other in ["Iterations are many", "Engine 000: Avg prompt", &format!("Engine x: {LINE}")] {
            assert_eq!(Iteration::read(other), Ok(None), "{other}");
        }
    }

    #[test]
    fn a_line_that_is_cut_off_is_a_fault_wherever_it_is_cut() {
        for length in "Iteration(".len()..LINE.len() {
            assert!(Iteration::read(&LINE[..length]).is_err(), "{}", &LINE[..length]);
        }
        assert!(Iteration::read(&LINE.replace("900", "5000000000")).is_err());
        assert!(Iteration::read(&LINE.replace("23.50", "NaN")).is_err());
    }
}
