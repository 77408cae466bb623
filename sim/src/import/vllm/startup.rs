//! What a start says: memory of graphs, KV pool, captures, seconds.

use std::fmt;

/// One fact of a start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StartFact {
    /// What the engine expects graphs to take, GiB.
    EstimatedGraphMemoryGib(f64),
    /// What is left for the KV pool, GiB.
    AvailableKvMemoryGib(f64),
    /// The KV pool, tokens.
    KvTokens(u64),
    /// A capture that went through: graphs of `full` or of pieces, and seconds.
    Captured {
        /// Whether they are FULL graphs; else PIECEWISE.
        full: bool,
        /// Graphs.
        graphs: u32,
        /// How long it took, s.
        seconds: f64,
    },
    /// All captures together.
    CapturingFinished {
        /// How long they took, s.
        seconds: f64,
        /// What they took, GiB.
        gib: f64,
    },
    /// What graphs hold and what the engine expected, GiB.
    GraphPool {
        /// What they hold, GiB.
        actual_gib: f64,
        /// What it expected, GiB.
        estimated_gib: f64,
    },
    /// From profiling to the last warm-up, s.
    EngineInitS(f64),
}

impl StartFact {
    /// Which fact it is.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::EstimatedGraphMemoryGib(_) => "estimated graph memory",
            Self::AvailableKvMemoryGib(_) => "memory left for the KV cache",
            Self::KvTokens(_) => "KV cache",
            Self::Captured { full: true, .. } => "FULL captures",
            Self::Captured { full: false, .. } => "PIECEWISE captures",
            Self::CapturingFinished { .. } => "all captures",
            Self::GraphPool { .. } => "graph pool",
            Self::EngineInitS(_) => "start of the engine",
        }
    }
}

/// As a sentence says it.
impl fmt::Display for StartFact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EstimatedGraphMemoryGib(gib) | Self::AvailableKvMemoryGib(gib) => write!(f, "{gib} GiB"),
            Self::KvTokens(tokens) => write!(f, "{tokens} tokens"),
            Self::Captured { graphs, seconds, .. } => write!(f, "{graphs} in {seconds} s"),
            Self::CapturingFinished { seconds, gib } => write!(f, "{seconds} s, {gib} GiB"),
            Self::GraphPool { actual_gib, estimated_gib } => {
                write!(f, "{actual_gib} GiB, estimated {estimated_gib} GiB")
            }
            Self::EngineInitS(seconds) => write!(f, "{seconds} s"),
        }
    }
}

/// Reads a line without its prefix; `None` if it is about something else or cut off.
#[must_use]
pub fn read(text: &str) -> Option<StartFact> {
    let text = text.trim();
    if let Some(rest) = text.strip_prefix("Estimated CUDA graph memory: ") {
        return Some(StartFact::EstimatedGraphMemoryGib(gib(rest.strip_suffix(" total").unwrap_or(rest))?));
    }
    if let Some(rest) = text.strip_prefix("Available KV cache memory: ") {
        return Some(StartFact::AvailableKvMemoryGib(gib(rest)?));
    }
    if let Some(rest) = text.strip_prefix("GPU KV cache size: ") {
        // Newer releases go on with the concurrency that it allows.
        let (tokens, _) = rest.split_once(" tokens")?;
        let tokens = tokens.replace(',', "");
        return Some(StartFact::KvTokens(tokens.parse().ok()?));
    }
    if let Some(rest) = text.strip_prefix("Graph capturing finished in ") {
        let (seconds, gib_text) = rest.split_once(" secs, took ")?;
        return Some(StartFact::CapturingFinished { seconds: number(seconds)?, gib: gib(gib_text)? });
    }
    if let Some(rest) = text.strip_prefix("CUDA graph pool memory: ") {
        let (actual, rest) = rest.split_once(" (actual), ")?;
        let (estimated, _) = rest.split_once(" (estimated)")?;
        return Some(StartFact::GraphPool { actual_gib: gib(actual)?, estimated_gib: gib(estimated)? });
    }
    if let Some(rest) = text.strip_prefix("init engine ") {
        let (_, rest) = rest.rsplit_once(" took ")?;
        let (seconds, _) = rest.split_once(" s")?;
        return Some(StartFact::EngineInitS(number(seconds)?));
    }
    captured(text)
}

/// A finished progress bar: `Capturing CUDA graphs (decode, FULL): 100%|###| 70/70 [00:17<00:00,  4.10it/s]`.
fn captured(text: &str) -> Option<StartFact> {
    let (what, rest) = text.strip_prefix("Capturing CUDA graphs (")?.split_once("): ")?;
    let (done, rest) = rest.rsplit_once("| ")?.1.split_once(" [")?;
    let (done, all) = done.split_once('/')?;
    let (elapsed, _) = rest.split_once('<')?;
    let full = what.ends_with("FULL");
    if done != all || !(full || what.ends_with("PIECEWISE")) {
        return None;
    }
    Some(StartFact::Captured { full, graphs: done.parse().ok()?, seconds: clock(elapsed)? })
}

/// `mm:ss` or `h:mm:ss`.
fn clock(text: &str) -> Option<f64> {
    let parts: Option<Vec<f64>> = text.split(':').map(|part| part.trim().parse::<u32>().ok().map(f64::from)).collect();
    match parts?.as_slice() {
        [minutes, seconds] => Some(60.0 * minutes + seconds),
        [hours, minutes, seconds] => Some(3600.0 * hours + 60.0 * minutes + seconds),
        _ => None,
    }
}

fn gib(text: &str) -> Option<f64> {
    number(text.trim().strip_suffix(" GiB")?)
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fact_of_a_start_is_read() {
        let cases = [
            ("Estimated CUDA graph memory: 0.67 GiB total", StartFact::EstimatedGraphMemoryGib(0.67)),
            ("Available KV cache memory: 12.40 GiB", StartFact::AvailableKvMemoryGib(12.4)),
            ("GPU KV cache size: 188,640 tokens", StartFact::KvTokens(188_640)),
            (
                "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE): 100%|##########| 102/102 [00:21<00:00,  4.77it/s]",
                StartFact::Captured { full: false, graphs: 102, seconds: 21.0 },
            ),
            (
                "Capturing CUDA graphs (decode, FULL): 100%|##########| 70/70 [1:00:17<00:00,  4.10it/s]",
                StartFact::Captured { full: true, graphs: 70, seconds: 3617.0 },
            ),
            (
                "Graph capturing finished in 39 secs, took 1.68 GiB",
                StartFact::CapturingFinished { seconds: 39.0, gib: 1.68 },
            ),
            (
                "CUDA graph pool memory: 1.68 GiB (actual), 0.67 GiB (estimated), difference: 1.01 GiB (60.0%).",
                StartFact::GraphPool { actual_gib: 1.68, estimated_gib: 0.67 },
            ),
            ("init engine (profile, create kv cache, warmup model) took 59.52 seconds", StartFact::EngineInitS(59.52)),
        ];
        for (line, fact) in cases {
            assert_eq!(read(line), Some(fact), "{line}");
        }
    }

    #[test]
    fn half_a_bar_and_other_lines_say_nothing() {
        for line in [
            "Capturing CUDA graphs (decode, FULL):  50%|#####     | 35/70 [00:08<00:09,  4.10it/s]",
            "Capturing CUDA graphs (decode, FULL): 100%|####",
            "GPU KV cache size: many tokens",
            "Available KV cache memory: NaN GiB",
            "init engine",
            "",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
    }
}
