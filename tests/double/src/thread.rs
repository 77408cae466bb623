//! What the driver keeps per thread: its number, its current context, its capture mode.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::capture::Mode;

/// A thread of the process, numbered in the order of first calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadNumber(pub(crate) u32);

thread_local! {
    static NUMBER: Cell<Option<u32>> = const { Cell::new(None) };
    static CONTEXT: Cell<u64> = const { Cell::new(0) };
    static MODE: Cell<Mode> = const { Cell::new(Mode::Global) };
}

static THREADS: AtomicU32 = AtomicU32::new(0);

/// The calling thread.
pub(crate) fn number() -> ThreadNumber {
    NUMBER.with(|number| {
        let given = number.get().unwrap_or_else(|| THREADS.fetch_add(1, Ordering::Relaxed));
        number.set(Some(given));
        ThreadNumber(given)
    })
}

/// Its current context, 0 for none.
pub(crate) fn context() -> u64 {
    CONTEXT.get()
}

pub(crate) fn set_context(context: u64) {
    CONTEXT.set(context);
}

pub(crate) fn mode() -> Mode {
    MODE.get()
}

/// Sets its capture mode and gives the one before.
pub(crate) fn exchange_mode(mode: Mode) -> Mode {
    MODE.replace(mode)
}
