//! Names of statuses.
#![expect(unsafe_code, reason = "exported C functions under their own names")]

use std::ffi::{CStr, c_char};
use std::ptr;

use crate::status::Status;

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuGetErrorName(status: u32, name: *mut *const c_char) -> u32 {
    put_name(status, name)
}

/// The double's texts are the names again.
#[unsafe(no_mangle)]
pub(super) extern "C" fn cuGetErrorString(status: u32, text: *mut *const c_char) -> u32 {
    put_name(status, text)
}

/// These two need no driver state: they can be called at any time, from any thread.
fn put_name(status: u32, to: *mut *const c_char) -> u32 {
    if to.is_null() {
        return Status::INVALID_VALUE.0;
    }
    let name = Status::name(status);
    // SAFETY: the pointer is not null, and the caller vouches for it.
    unsafe { to.write(name.map_or(ptr::null(), CStr::as_ptr)) };
    if name.is_some() { 0 } else { Status::INVALID_VALUE.0 }
}
