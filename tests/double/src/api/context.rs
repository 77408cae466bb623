//! Primary contexts.
#![expect(unsafe_code, reason = "exported C functions under their own names")]

use super::{number, put, put_if_asked};
use crate::driver::{CALL, Context, LEGACY, OWN, enter};
use crate::driver_rules::Misuse;
use crate::handles::Kind;
use crate::status::Status;
use crate::thread;

/// `CU_COMPUTEMODE_PROHIBITED` and `CU_COMPUTEMODE_EXCLUSIVE_PROCESS`.
const PROHIBITED: i32 = 2;
const EXCLUSIVE_PROCESS: i32 = 3;

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuDevicePrimaryCtxRetain(context: *mut u64, device: i32) -> u32 {
    enter("cuDevicePrimaryCtxRetain", OWN, |driver| {
        let device = driver.device(device)?;
        let is_taken = driver.configuration.compute_mode == EXCLUSIVE_PROCESS && driver.configuration.is_busy;
        if is_taken || driver.configuration.compute_mode == PROHIBITED {
            return Err(Status::DEVICE_UNAVAILABLE);
        }
        if let Some(known) = driver.contexts.get_mut(&device) {
            known.references += 1;
            let handle = known.handle;
            driver.spend(driver.configuration.costs.call_ns);
            return put(driver, context, handle);
        }
        driver.memory.take_fixed(device, driver.configuration.costs.context_bytes)?;
        driver.spend(driver.configuration.costs.context_ns);
        let handle = driver.handle(Kind::Context);
        driver.contexts.insert(device, Context { device, handle, references: 1 });
        driver.timeline.create(LEGACY, true);
        put(driver, context, handle)
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuDevicePrimaryCtxRelease_v2(device: i32) -> u32 {
    enter("cuDevicePrimaryCtxRelease_v2", CALL, |driver| {
        let device = driver.device(device)?;
        let Some(context) = driver.contexts.get_mut(&device) else {
            return Err(driver.violation(Status::INVALID_CONTEXT, "the context was not retained"));
        };
        context.references -= 1;
        if context.references == 0 {
            driver.contexts.remove(&device);
            driver.memory.give_fixed(device, driver.configuration.costs.context_bytes);
            driver.end_context();
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuDevicePrimaryCtxGetState(device: i32, flags: *mut u32, is_active: *mut i32) -> u32 {
    enter("cuDevicePrimaryCtxGetState", CALL, |driver| {
        let device = driver.device(device)?;
        put_if_asked(driver, flags, 0)?;
        put(driver, is_active, i32::from(driver.contexts.contains_key(&device)))
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuDevicePrimaryCtxSetFlags_v2(device: i32, _flags: u32) -> u32 {
    enter("cuDevicePrimaryCtxSetFlags_v2", CALL, |driver| driver.device(device).map(|_| ()))
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuCtxGetCurrent(context: *mut u64) -> u32 {
    enter("cuCtxGetCurrent", CALL, |driver| {
        driver.initialised()?;
        put(driver, context, thread::context())
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuCtxSetCurrent(context: u64) -> u32 {
    enter("cuCtxSetCurrent", CALL, |driver| {
        driver.initialised()?;
        if context != 0 && !driver.contexts.values().any(|known| known.handle == context) {
            return Err(driver.violation(Status::INVALID_CONTEXT, "no such context, or it has ended"));
        }
        thread::set_context(context);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuCtxGetDevice(device: *mut i32) -> u32 {
    enter("cuCtxGetDevice", CALL, |driver| {
        let context = driver.ready()?;
        put(driver, device, number(context.device))
    })
}

/// The double knows one priority.
#[unsafe(no_mangle)]
pub(super) extern "C" fn cuCtxGetStreamPriorityRange(least: *mut i32, greatest: *mut i32) -> u32 {
    enter("cuCtxGetStreamPriorityRange", CALL, |driver| {
        driver.ready()?;
        put_if_asked(driver, least, 0)?;
        put_if_asked(driver, greatest, 0)
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuCtxSynchronize() -> u32 {
    enter("cuCtxSynchronize", CALL, |driver| {
        driver.ready()?;
        if !driver.captures.is_empty() {
            driver.captures.invalidate_all("cuCtxSynchronize");
            return Err(driver.breach(Misuse::SynchronizeContextInCapture, "a stream of the context captures"));
        }
        driver.wait_all()
    })
}
