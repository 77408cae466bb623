//! Recorded traces, where this machine has them.

use std::path::{Path, PathBuf};

use sim::traffic::{BadRows, Request, TraceSource, Traffic, TrafficKind, Unsorted};

/// A trace's path; `None`, said aloud, where it is missing. A relative `RUNGWISE_SHARED` starts at the repository's
/// root.
pub(crate) fn shared_trace(name: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let shared = std::env::var_os("RUNGWISE_SHARED").unwrap_or_else(|| "../shared".into());
    let path = root.join(shared).join("traces").join(name);
    if path.is_file() {
        return Some(path);
    }
    println!("skipped: no {name}");
    None
}

/// All rows of a trace.
pub(crate) fn requests(path: &Path) -> Vec<Request> {
    let source = TraceSource {
        path: path.to_owned(),
        format: None,
        rate_multiplier: 1.0,
        limit: None,
        unsorted: Unsorted::Refuse,
        bad_rows: BadRows::Refuse,
    };
    let traffic = Traffic::plain(0, None, TrafficKind::Trace(source));
    traffic.open(0).expect("a trace opens").collect::<Result<_, _>>().expect("a trace reads")
}
