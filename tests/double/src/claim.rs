//! Objects that one thread at a time may use: graphs and executables (CUDA driver API documentation, "Graph object thread
//! safety").
//!
//! The double does one call at a time, so that two calls never meet inside it. A claim is taken before the call waits for
//! its turn: whoever finds another thread's claim has called at the same time.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::driver::Driver;
use crate::status::Status;
use crate::thread::{self, ThreadNumber};

static CLAIMS: Mutex<Vec<(u64, ThreadNumber)>> = Mutex::new(Vec::new());

/// This thread's use of an object, until dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    handle: u64,
    /// Another thread used the object when this claim was taken.
    is_contended: bool,
}

fn claims() -> MutexGuard<'static, Vec<(u64, ThreadNumber)>> {
    CLAIMS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Claim {
    pub(crate) fn of(handle: u64) -> Self {
        let (mut claims, thread) = (claims(), thread::number());
        let is_contended = claims.iter().any(|(claimed, by)| *claimed == handle && *by != thread);
        claims.push((handle, thread));
        Self { handle, is_contended }
    }

    /// Records it if another thread was there.
    pub(crate) fn check(&self, driver: &mut Driver) {
        if self.is_contended {
            let text = format!("two threads use {:#x} at the same time", self.handle);
            driver.violation(Status::UNKNOWN, &text);
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let (mut claims, own) = (claims(), (self.handle, thread::number()));
        if let Some(place) = claims.iter().position(|claim| *claim == own) {
            claims.swap_remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_threads_meet_at_one_object_only() {
        let claim = Claim::of(0x77);
        let is_contended = |handle| std::thread::spawn(move || Claim::of(handle).is_contended).join().unwrap();
        assert!(!claim.is_contended && !Claim::of(0x77).is_contended, "one thread does not meet itself");
        assert!(is_contended(0x77) && !is_contended(0x78));
        drop(claim);
        assert!(!is_contended(0x77));
    }
}
