//! Streams.
#![expect(unsafe_code, reason = "exported C functions under their own names")]

use super::put;
use crate::driver::{CALL, Driver, EventState, LEGACY, enter};
use crate::driver_rules::Misuse;
use crate::handles::Kind;
use crate::status::{Answer, Status};
use crate::timeline::Work;

/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: u32 = 1;

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuStreamCreate(stream: *mut u64, flags: u32) -> u32 {
    enter("cuStreamCreate", CALL, |driver| create(driver, stream, flags))
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuStreamCreateWithPriority(stream: *mut u64, flags: u32, _priority: i32) -> u32 {
    enter("cuStreamCreateWithPriority", CALL, |driver| create(driver, stream, flags))
}

fn create(driver: &mut Driver, stream: *mut u64, flags: u32) -> Answer {
    driver.ready()?;
    if flags & !NON_BLOCKING != 0 {
        return Err(driver.violation(Status::INVALID_VALUE, &format!("stream flags {flags:#x}")));
    }
    let handle = driver.handle(Kind::Stream);
    driver.timeline.create(handle, flags & NON_BLOCKING == 0);
    put(driver, stream, handle)
}

/// Work that is left is done all the same, as the documentation says. A capture that the stream is in is lost.
#[unsafe(no_mangle)]
pub(super) extern "C" fn cuStreamDestroy_v2(stream: u64) -> u32 {
    enter("cuStreamDestroy_v2", CALL, |driver| {
        driver.ready()?;
        let stream = driver.stream(stream);
        if stream == LEGACY {
            return Err(driver.violation(Status::INVALID_HANDLE, "the legacy stream cannot be destroyed"));
        }
        if let Some(capture) = driver.captures.of(stream) {
            driver.captures.invalidate(capture, "cuStreamDestroy_v2");
            driver.violation(Status::STREAM_CAPTURE_INVALIDATED, "the stream is in a capture, which is lost");
            if driver.captures.get(capture).is_some_and(|capture| capture.origin == stream) {
                driver.captures.end(capture);
            }
        }
        driver.timeline.destroy(stream);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuStreamSynchronize(stream: u64) -> u32 {
    enter("cuStreamSynchronize", CALL, |driver| {
        driver.ready()?;
        let stream = driver.stream(stream);
        if let Some(capture) = driver.captures.of(stream) {
            return Err(driver.breach_in_capture(Misuse::SynchronizeInCapture, capture, "the stream captures"));
        }
        driver.check_legacy(stream)?;
        driver.unsafe_call(Misuse::SynchronizeInCapture)?;
        driver.wait_stream(stream)
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuStreamQuery(stream: u64) -> u32 {
    enter("cuStreamQuery", CALL, |driver| {
        driver.ready()?;
        let stream = driver.stream(stream);
        if let Some(capture) = driver.captures.of(stream) {
            return Err(driver.breach_in_capture(Misuse::QueryStreamInCapture, capture, "the stream captures"));
        }
        driver.check_legacy(stream)?;
        driver.unsafe_call(Misuse::QueryStreamInCapture)?;
        driver.query(|timeline, flags| timeline.query_stream(stream, flags))
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuStreamGetFlags(stream: u64, flags: *mut u32) -> u32 {
    enter("cuStreamGetFlags", CALL, |driver| {
        driver.ready()?;
        let stream = driver.stream(stream);
        let is_blocking = driver.timeline.is_blocking(stream);
        put(driver, flags, if is_blocking { 0 } else { NON_BLOCKING })
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuStreamWaitEvent(stream: u64, event: u64, flags: u32) -> u32 {
    enter("cuStreamWaitEvent", CALL, |driver| {
        driver.ready()?;
        let stream = driver.stream(stream);
        if flags != 0 {
            return Err(driver.violation(Status::NOT_SUPPORTED, "the double knows no flags here"));
        }
        let state = driver.event(event).state.clone();
        let capture = driver.capture_of(stream)?;
        match (capture, state) {
            // The documentation: an event that was not recorded is waited for at once.
            (_, EventState::Never) => Ok(()),
            (None, EventState::Marked(mark)) => driver.enqueue(stream, Work::Wait(mark)),
            (Some(capture), EventState::Marked(_)) => {
                let text = "the event was recorded outside the capture";
                Err(driver.breach_in_capture(Misuse::WaitForUncapturedEvent, capture, text))
            }
            (capture, EventState::Captured { capture: of_event, nodes }) => {
                if driver.captures.get(of_event).is_none() {
                    let text = "the event was recorded in a capture that has ended";
                    return Err(driver.violation(Status::CAPTURED_EVENT, text));
                }
                if let Some(other) = capture.filter(|capture| *capture != of_event) {
                    driver.captures.invalidate(of_event, "cuStreamWaitEvent");
                    let text = "the event belongs to another capture";
                    return Err(driver.breach_in_capture(Misuse::MergeCaptures, other, text));
                }
                driver.captures.join(of_event, stream, &nodes);
                Ok(())
            }
        }
    })
}
