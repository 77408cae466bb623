//! Results that a signal ends on the way: their temporary files are removed before the process goes.

use std::fs;
use std::sync::Once;
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// From here on, a signal that ends the process removes unfinished result files before. Where that cannot be arranged, it
/// ends the process as ever; one that whoever started the process lets it ignore, as `nohup` does, stays ignored.
pub(super) fn removed_on_signals() {
    static ARRANGED: Once = Once::new();
    ARRANGED.call_once(arrange);
}

fn arrange() {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ending = [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| !is_ignored(*signal, &status));
    let Ok(mut signals) = Signals::new(ending) else { return };
    let watcher = thread::Builder::new().name("signals".to_owned());
    // The thread ends with the process.
    let _ = watcher.spawn(move || {
        for signal in signals.forever() {
            reports::remove_unfinished();
            let _ = emulate_default_handler(signal);
        }
    });
}

/// Whether a process ignores a signal, by its status as Linux shows it: a mask in hexadecimal, the first signal in bit 0.
fn is_ignored(signal: i32, status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    mask >> (signal - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_those_of_the_mask() {
        let status = "Name:\tsim\nSigIgn:\t0000000000001001\nSigCgt:\t00000000ffffffff\n";
        assert!(is_ignored(SIGHUP, status));
        assert!(!is_ignored(SIGINT, status) && !is_ignored(SIGTERM, status));
        assert!(!is_ignored(SIGHUP, "") && !is_ignored(SIGHUP, "SigIgn:\tx\n"));
    }
}
