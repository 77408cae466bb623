//! Begin and end of a capture session.

use super::fields::Fields;
use super::steps::StepFault;
use crate::import::vllm::graph_table::list;

/// Whose graphs are captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worker {
    /// The model that answers.
    Target,
    /// The model that drafts.
    Draft,
}

/// For which steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapturedPhase {
    /// Decode steps.
    Decode,
    /// Verifications of drafts.
    Verify,
    /// Prefills.
    Prefill,
    /// Prefills of the drafting model.
    Extend,
}

/// A line about a capture session: it begins, or it has ended. Fields that only the other of the two has are `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct CaptureLine {
    /// Whose graphs; `None` in releases up to 0.5.10.
    pub worker: Option<Worker>,
    /// For which steps; `None` in releases up to 0.5.10.
    pub phase: Option<CapturedPhase>,
    /// Whether it has ended.
    pub ended: bool,
    /// `full` or `breakable`.
    pub backend: Option<String>,
    /// Tokens of each request.
    pub tokens_per_request: Option<u32>,
    /// The sizes: requests, or tokens of a prefill.
    pub sizes: Option<Vec<u32>>,
    /// How long it took, s.
    pub elapsed_s: Option<f64>,
    /// Device memory that it took, static buffers and attention state included, GB of 2^30 bytes.
    pub mem_usage_gb: Option<f64>,
    /// Device memory that is left, GB of 2^30 bytes.
    pub avail_mem_gb: Option<f64>,
}

impl CaptureLine {
    /// Reads a line without its prefix; `Ok(None)` if it is about something else.
    ///
    /// # Errors
    /// If it begins as such a line and a field of it cannot be read.
    pub fn read(text: &str) -> Result<Option<Self>, StepFault> {
        let Some((head, rest)) = text.trim().strip_prefix("Capture ").and_then(split_head) else { return Ok(None) };
        let (who, ended) = head;
        let Some((worker, phase)) = who_of(who) else { return Ok(None) };
        // Older releases part fields by full stops: `Time elapsed: 54.61 s. mem usage=1.93 GB. avail mem=8.16 GB.`
        let parted = rest.replace(". ", ", ");
        let fields = Fields::of(parted.trim_end_matches('.'));
        let sizes = |name: &'static str| {
            let value = fields.get(name);
            value.map(|value| list(value).ok_or_else(|| StepFault::from((name, value)))).transpose()
        };
        Ok(Some(Self {
            worker,
            phase,
            ended,
            backend: fields.get("backend").map(str::to_owned),
            tokens_per_request: fields.read("num_tokens_per_req")?,
            sizes: match sizes("bs")? {
                Some(sizes) => Some(sizes),
                None => sizes("num_tokens")?,
            },
            elapsed_s: match measured(&fields, "elapsed", " s")? {
                Some(elapsed_s) => Some(elapsed_s),
                None => measured(&fields, "Time elapsed", " s")?,
            },
            mem_usage_gb: measured(&fields, "mem usage", " GB")?,
            avail_mem_gb: measured(&fields, "avail mem", " GB")?,
        }))
    }
}

/// The ladder that releases up to 0.5.10 print: `Capture cuda graph bs [1, 2, 4]`.
#[must_use]
pub fn old_ladder(text: &str) -> Option<Vec<u32>> {
    list(text.trim().strip_prefix("Capture cuda graph bs ")?)
}

/// One size of a capture, as its progress bar names it before it is captured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CaptureProgress {
    /// Whether the size is in tokens of a prefill; else it is in requests.
    pub prefill: bool,
    /// The size.
    pub size: u32,
    /// Device memory that is left before it, GB of 2^30 bytes.
    pub avail_mem_gb: f64,
}

impl CaptureProgress {
    /// Reads `Capturing batches (bs=256 avail_mem=12.34 GB): …`; `None` if the line is about something else or cut off.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let text = text.trim_start();
        let (prefill, rest) = match text.strip_prefix("Capturing batches (bs=") {
            Some(rest) => (false, rest),
            None => (true, text.strip_prefix("Capturing prefill shape (num_tokens=")?),
        };
        let (size, rest) = rest.split_once(' ')?;
        let (avail, _) = rest.strip_prefix("avail_mem=")?.split_once(" GB)")?;
        let avail_mem_gb = avail.parse().ok().filter(|gb: &f64| gb.is_finite())?;
        Some(Self { prefill, size: size.parse().ok()?, avail_mem_gb })
    }
}

/// `target decode CUDA graph begin.` and what follows it.
fn split_head(text: &str) -> Option<((&str, bool), &str)> {
    let lower = text.to_ascii_lowercase();
    let at = lower.find("cuda graph ")?;
    let rest = &text[at + "cuda graph ".len()..];
    let (word, fields) = rest.split_once('.')?;
    let ended = match word {
        "begin" => false,
        "end" => true,
        _ => return None,
    };
    Some(((text[..at].trim(), ended), fields.trim()))
}

fn who_of(words: &str) -> Option<(Option<Worker>, Option<CapturedPhase>)> {
    if words.is_empty() {
        return Some((None, None));
    }
    let (worker, phase) = words.split_once(' ')?;
    let worker = match worker {
        "target" => Worker::Target,
        "draft" => Worker::Draft,
        _ => return None,
    };
    let phase = match phase {
        "decode" => CapturedPhase::Decode,
        "verify" => CapturedPhase::Verify,
        "prefill" => CapturedPhase::Prefill,
        "extend" => CapturedPhase::Extend,
        _ => return None,
    };
    Some((Some(worker), Some(phase)))
}

fn measured(fields: &Fields<'_>, name: &'static str, unit: &str) -> Result<Option<f64>, StepFault> {
    let Some(value) = fields.get(name) else { return Ok(None) };
    let number = value.trim_end_matches('.').strip_suffix(unit).and_then(|number| number.trim().parse::<f64>().ok());
    number.filter(|number| number.is_finite()).map(Some).ok_or_else(|| (name, value).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_and_the_old_ladder() {
        let bar = "Capturing batches (bs=256 avail_mem=12.34 GB):   0%|          | 0/36 [00:00<?, ?it/s]";
        let read = CaptureProgress { prefill: false, size: 256, avail_mem_gb: 12.34 };
        assert_eq!(CaptureProgress::read(bar), Some(read));
        let bar = "Capturing prefill shape (num_tokens=8192 avail_mem=7.00 GB)";
        assert_eq!(CaptureProgress::read(bar), Some(CaptureProgress { prefill: true, size: 8192, avail_mem_gb: 7.0 }));
        assert_eq!(CaptureProgress::read("Capturing batches (bs=2"), None);
        assert_eq!(old_ladder("Capture cuda graph bs [1, 2, 4]"), Some(vec![1, 2, 4]));
        assert_eq!(old_ladder("Capture cuda graph bs [1, 2"), None);
    }

    #[test]
    fn releases_of_several_years_are_read() {
        let read = |text: &str| CaptureLine::read(text).expect("readable").expect("a capture");
        let begin = read(
            "Capture target decode CUDA graph begin. backend=full, num_tokens_per_req=1, bs=[1, 2, 4], avail mem=7.10 GB",
        );
        assert_eq!(
            (begin.worker, begin.phase, begin.ended),
            (Some(Worker::Target), Some(CapturedPhase::Decode), false)
        );
        assert_eq!(begin.sizes, Some(vec![1, 2, 4]));
        assert_eq!(begin.avail_mem_gb, Some(7.10));
        let end = read("Capture target decode CUDA graph end. elapsed=0.89 s, mem usage=0.15 GB, avail mem=6.95 GB.");
        assert_eq!(
            (end.ended, end.elapsed_s, end.mem_usage_gb, end.avail_mem_gb),
            (true, Some(0.89), Some(0.15), Some(6.95))
        );
        let old = read("Capture cuda graph begin. This can take up to several minutes. avail mem=12.01 GB");
        assert_eq!((old.worker, old.ended, old.avail_mem_gb), (None, false, Some(12.01)));
        let old = read("Capture cuda graph end. Time elapsed: 54.61 s. mem usage=1.93 GB. avail mem=8.16 GB.");
        assert_eq!((old.elapsed_s, old.mem_usage_gb, old.avail_mem_gb), (Some(54.61), Some(1.93), Some(8.16)));
    }

    #[test]
    fn other_lines_are_nothing_and_broken_ones_are_faults() {
        for other in
            ["Capture", "Capture cuda graph bs [1, 2]", "Capture my CUDA graph begin. x=1", "Capturing batches"]
        {
            assert_eq!(CaptureLine::read(other), Ok(None), "{other}");
        }
        assert!(CaptureLine::read("Capture target decode CUDA graph end. elapsed=a s").is_err());
        assert!(CaptureLine::read("Capture target decode CUDA graph end. bs=[1; 2]").is_err());
    }
}
