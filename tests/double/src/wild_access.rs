//! Kernels that touch memory outside every allocation: the guard pages end the process, and this says which kernel it was.
//!
//! A real driver would report an illegal address. Here the kernel runs on the caller's thread and cannot be left in the
//! middle, so that the process dies of its own fault, with a line in the report.
#![expect(unsafe_code, reason = "a signal handler")]

use std::ffi::{CStr, c_int, c_void};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

/// The kernel that runs now, as text that ends with a null.
static KERNEL: AtomicPtr<libc::c_char> = AtomicPtr::new(ptr::null_mut());
/// The report's file, or none.
static REPORT: AtomicI32 = AtomicI32::new(-1);

/// Kernels run on small stacks of their own, on which a handler would not fit.
const STACK_BYTES: usize = 64 << 10;

thread_local! {
    static STACK: Box<[u8; STACK_BYTES]> = {
        let mut stack = Box::new([0; STACK_BYTES]);
        let given = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: STACK_BYTES };
        // SAFETY: the memory is boxed, and lives as long as the thread does.
        unsafe { libc::sigaltstack(&raw const given, ptr::null_mut()) };
        stack
    };
}

/// Runs `kernel`, whose name is known while it runs.
pub(crate) fn watched<T>(name: &CStr, report: Option<&File>, kernel: impl FnOnce() -> T) -> T {
    STACK.with(|_| ());
    REPORT.store(report.map_or(-1, AsRawFd::as_raw_fd), Ordering::Relaxed);
    KERNEL.store(name.as_ptr().cast_mut(), Ordering::Relaxed);
    let before = [libc::SIGSEGV, libc::SIGBUS].map(|signal| (signal, replace_handler(signal)));
    let done = kernel();
    for (signal, handler) in before {
        // SAFETY: the action is the one that was there before.
        unsafe { libc::sigaction(signal, &raw const handler, ptr::null_mut()) };
    }
    done
}

fn replace_handler(signal: c_int) -> libc::sigaction {
    // SAFETY: zeros are a valid action: no flags, the default handler, an empty mask.
    let (mut action, mut before) = unsafe { (std::mem::zeroed::<libc::sigaction>(), std::mem::zeroed()) };
    action.sa_sigaction = on_fault as extern "C" fn(c_int) as usize;
    // The default comes back before the handler is called: the access is then tried again, and ends the process.
    action.sa_flags = libc::SA_ONSTACK | libc::SA_RESETHAND;
    // SAFETY: both pointers are to locals, and the handler calls only what a signal handler may.
    unsafe { libc::sigaction(signal, &raw const action, &raw mut before) };
    before
}

extern "C" fn on_fault(_signal: c_int) {
    let name = KERNEL.load(Ordering::Relaxed);
    for (file, start) in [(libc::STDERR_FILENO, c"driver double: "), (REPORT.load(Ordering::Relaxed), c"violation: ")] {
        for part in [start.as_ptr(), name, c": the kernel touched memory outside every allocation\n".as_ptr()] {
            if file >= 0 && !part.is_null() {
                // SAFETY: the parts end with a null; `strlen` and `write` may be called in a handler.
                unsafe { libc::write(file, part.cast::<c_void>(), libc::strlen(part)) };
            }
        }
    }
}
