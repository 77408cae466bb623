//! Results that a signal ends on the way: their temporary files are removed before the process goes.

use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// From here on, a signal that ends the process removes unfinished result files before. Where that cannot be arranged, it
/// ends the process as ever.
pub(super) fn removed_on_signals() {
    let Ok(mut signals) = Signals::new([SIGHUP, SIGINT, SIGTERM]) else { return };
    let watcher = thread::Builder::new().name("signals".to_owned());
    // The thread ends with the process.
    let _ = watcher.spawn(move || {
        for signal in signals.forever() {
            reports::remove_unfinished();
            let _ = emulate_default_handler(signal);
        }
    });
}
