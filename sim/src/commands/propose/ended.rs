//! Ctrl-C ends the search, not the process.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::propose::stop::Stop;

/// A stop that the first SIGINT or SIGTERM asks for; the second ends the process as ever.
pub(super) fn on_signal() -> Stop {
    let stop = Stop::default();
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first signal finds nothing asked for yet. Where a handler cannot be set, Ctrl-C ends the process.
        let _ = flag::register_conditional_default(signal, stop.0.clone());
        let _ = flag::register(signal, stop.0.clone());
    }
    stop
}
