//! The exported functions, by group. Each says what it needs, then what it does; the rules live in [`crate::driver`].
//!
//! Their C types are those of `cuda.h`, with every handle as the 64-bit number that it is.

mod capture;
mod context;
pub(crate) mod device;
mod error;
mod event;
mod graph;
mod launch;
mod marker;
mod memory;
mod module;
mod stream;
#[cfg(test)]
mod tests;

use crate::driver::Driver;
use crate::status::{Answer, Status};

/// A count or an ordinal as C's `int`.
fn number(value: usize) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// Writes a result to where the caller wants it.
#[expect(unsafe_code, reason = "out parameters of a C interface")]
fn put<T>(driver: &mut Driver, to: *mut T, value: T) -> Answer {
    if to.is_null() {
        return Err(driver.violation(Status::INVALID_VALUE, "a null pointer where a result should go"));
    }
    // SAFETY: the caller of the driver vouches for its pointers; null was the one that can be told.
    unsafe { to.write(value) };
    Ok(())
}

/// Writes a result that the caller may do without.
fn put_if_asked<T>(driver: &mut Driver, to: *mut T, value: T) -> Answer {
    if to.is_null() { Ok(()) } else { put(driver, to, value) }
}

/// Writes text with its null into a buffer of `room` bytes, cut if need be.
#[expect(unsafe_code, reason = "out parameters of a C interface")]
fn put_text(driver: &mut Driver, to: *mut u8, room: i32, text: &str) -> Answer {
    let Some(room) = usize::try_from(room).ok().filter(|room| *room > 0 && !to.is_null()) else {
        return Err(driver.violation(Status::INVALID_VALUE, "no room for a text"));
    };
    let length = text.len().min(room - 1);
    // SAFETY: the caller gives a buffer of `room` bytes, and at most that many are written.
    unsafe {
        to.copy_from_nonoverlapping(text.as_ptr(), length);
        to.add(length).write(0);
    }
    Ok(())
}
