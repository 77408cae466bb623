//! The lines of `VLLM_LOG_BATCHSIZE_INTERVAL`: how often each batch size ran, and how long it took.
//!
//! Every line holds everything since the start, and leaves out sizes that were seen once.

use thiserror::Error;

/// Steps of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchSize {
    /// Scheduled tokens, padded where a graph ran.
    pub tokens: u32,
    /// Steps so far.
    pub count: u64,
    /// Median time of the forward pass, ms.
    pub median_ms: f64,
}

/// A line that begins as one of these and does not go on so.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("expected (batch size, count, median time in ms), found `{found}`")]
pub struct BatchSizeFault {
    /// The part.
    pub found: String,
}

/// Reads a line without its prefix; `Ok(None)` if it is about something else.
///
/// # Errors
/// If it begins as such a line and cannot be read: it may be cut off.
pub fn read(text: &str) -> Result<Option<Vec<BatchSize>>, BatchSizeFault> {
    let Some(rest) = text.trim().strip_prefix("Batchsize forward time stats") else { return Ok(None) };
    let fault = |found: &str| BatchSizeFault { found: found.to_owned() };
    let list = rest.split_once(": [").and_then(|(_, list)| list.strip_suffix(']')).ok_or_else(|| fault(rest))?;
    if list.trim().is_empty() {
        return Ok(Some(Vec::new()));
    }
    let entries = list.trim().strip_prefix('(').and_then(|list| list.strip_suffix(')')).ok_or_else(|| fault(list))?;
    entries.split("), (").map(|entry| one(entry).ok_or_else(|| fault(entry))).collect::<Result<_, _>>().map(Some)
}

fn one(entry: &str) -> Option<BatchSize> {
    let [tokens, count, median_ms] = <[&str; 3]>::try_from(entry.split(',').map(str::trim).collect::<Vec<_>>()).ok()?;
    let size =
        BatchSize { tokens: tokens.parse().ok()?, count: count.parse().ok()?, median_ms: median_ms.parse().ok()? };
    (size.tokens > 0 && size.count > 0 && size.median_ms.is_finite() && size.median_ms >= 0.0).then_some(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str =
        "Batchsize forward time stats (batchsize, count, median_time(ms)): [(8, 1204, 6.91), (2048, 41, 61.37)]";

    #[test]
    fn sizes_are_read() {
        let sizes = read(LINE).expect("readable").expect("such a line");
        assert_eq!(sizes.len(), 2);
        assert_eq!(sizes[1], BatchSize { tokens: 2048, count: 41, median_ms: 61.37 });
        assert_eq!(read("Batchsize forward time stats (batchsize, count, median_time(ms)): []"), Ok(Some(Vec::new())));
        assert_eq!(read("Batch sizes"), Ok(None));
    }

    #[test]
    fn a_line_that_is_cut_off_is_a_fault() {
        for length in "Batchsize forward time stats".len()..LINE.len() {
            assert!(read(&LINE[..length]).is_err(), "{}", &LINE[..length]);
        }
        for (from, to) in [("8, ", "0, "), ("41", "0"), ("6.91", "inf"), ("6.91", "6.91, 1")] {
            assert!(read(&LINE.replacen(from, to, 1)).is_err(), "{to}");
        }
    }
}
