//! Ctrl-C while something is measured: heard, and acted on between two timings.

use std::sync::atomic::{AtomicBool, Ordering};

/// Set by the signal, never cleared.
static HEARD: AtomicBool = AtomicBool::new(false);

/// Whether the user wants to end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interrupts(&'static AtomicBool);

impl Interrupts {
    /// From now on the first Ctrl-C (or `SIGTERM`) is only noted; the second ends the process at once, as ever.
    pub(crate) fn listen() -> Self {
        #[cfg(unix)]
        {
            let note = note as extern "C" fn(libc::c_int) as libc::sighandler_t;
            for signal in [libc::SIGINT, libc::SIGTERM] {
                // SAFETY: all zeros is a valid action (no flags, an empty mask), and the handler only stores to an atomic,
                // which is allowed in a signal handler. A refusal leaves the default, which ends the process.
                unsafe {
                    let mut action: libc::sigaction = std::mem::zeroed();
                    action.sa_sigaction = note;
                    // The default comes back with the first signal. Calls that it interrupts go on.
                    action.sa_flags = libc::SA_RESETHAND | libc::SA_RESTART;
                    libc::sigaction(signal, &raw const action, std::ptr::null_mut());
                }
            }
        }
        Self(&HEARD)
    }

    /// Whether a signal has come.
    pub(crate) fn is_asked_to_end(self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(unix)]
extern "C" fn note(_signal: libc::c_int) {
    HEARD.store(true, Ordering::Relaxed);
}
