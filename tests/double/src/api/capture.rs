//! Stream capture.
#![expect(unsafe_code, reason = "exported C functions under their own names")]

use std::ptr;

use super::{put, put_if_asked};
use crate::capture::Mode;
use crate::driver::{CALL, Driver, LEGACY, enter};
use crate::driver_rules::Misuse;
use crate::handles::Kind;
use crate::status::{Answer, Status};
use crate::thread;

/// `CUstreamCaptureStatus`.
const NONE: u32 = 0;
const ACTIVE: u32 = 1;
const INVALIDATED: u32 = 2;

fn mode(driver: &mut Driver, number: u32) -> Answer<Mode> {
    Mode::from_number(number)
        .ok_or_else(|| driver.violation(Status::INVALID_VALUE, &format!("no capture mode has the number {number}")))
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuStreamBeginCapture_v2(stream: u64, mode_number: u32) -> u32 {
    enter(
        "cuStreamBeginCapture_v2",
        |costs| costs.capture_ns / 2,
        |driver| {
            driver.ready()?;
            let stream = driver.stream(stream);
            let mode = mode(driver, mode_number)?;
            if stream == LEGACY {
                return Err(driver.breach(Misuse::BeginOnLegacyStream, "the legacy stream cannot capture"));
            }
            if let Some(capture) = driver.captures.of(stream) {
                return Err(driver.breach_in_capture(Misuse::BeginTwice, capture, "the stream captures already"));
            }
            driver.captures.begin(stream, mode, thread::number());
            Ok(())
        },
    )
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuStreamEndCapture(stream: u64, graph: *mut u64) -> u32 {
    enter(
        "cuStreamEndCapture",
        |costs| costs.capture_ns - costs.capture_ns / 2,
        |driver| {
            driver.ready()?;
            let stream = driver.stream(stream);
            put(driver, graph, 0)?;
            let Some(id) = driver.captures.of(stream) else {
                return Err(driver.breach(Misuse::EndWithoutBegin, "the stream does not capture"));
            };
            let Some(capture) = driver.captures.get(id) else { return Err(Status::UNKNOWN) };
            if capture.origin != stream {
                let text = "the capture began on another stream";
                return Err(driver.breach_in_capture(Misuse::EndOnJoinedStream, id, text));
            }
            if capture.mode != Mode::Relaxed && capture.thread != thread::number() {
                let text = "the capture began on another thread";
                return Err(driver.breach_in_capture(Misuse::EndOnOtherThread, id, text));
            }
            let Some(capture) = driver.captures.end(id) else { return Err(Status::UNKNOWN) };
            // What made it invalid was a violation; to end it is how one recovers.
            if capture.invalid.is_some() {
                return Err(Status::STREAM_CAPTURE_INVALIDATED);
            }
            let unjoined = capture.unjoined();
            if !unjoined.is_empty() {
                let text = format!("{} streams were forked and not joined again", unjoined.len());
                return Err(driver.breach(Misuse::EndUnjoined, &text));
            }
            let handle = driver.handle(Kind::Graph);
            driver.graphs.insert(handle, capture.graph);
            put(driver, graph, handle)
        },
    )
}

fn status(driver: &Driver, stream: u64) -> u32 {
    match driver.captures.of(stream).and_then(|id| driver.captures.get(id)) {
        None => NONE,
        Some(capture) if capture.invalid.is_some() => INVALIDATED,
        Some(_) => ACTIVE,
    }
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuStreamIsCapturing(stream: u64, capturing: *mut u32) -> u32 {
    enter("cuStreamIsCapturing", CALL, |driver| {
        driver.ready()?;
        let stream = driver.stream(stream);
        driver.check_legacy(stream)?;
        put(driver, capturing, status(driver, stream))
    })
}

/// Status and number of the capture; the double gives no graph and no nodes before the end.
#[unsafe(no_mangle)]
pub(super) extern "C" fn cuStreamGetCaptureInfo_v2(
    stream: u64,
    capturing: *mut u32,
    number: *mut u64,
    graph: *mut u64,
    nodes: *mut *const u64,
    node_count: *mut usize,
) -> u32 {
    enter("cuStreamGetCaptureInfo_v2", CALL, |driver| {
        driver.ready()?;
        let stream = driver.stream(stream);
        driver.check_legacy(stream)?;
        put(driver, capturing, status(driver, stream))?;
        let id = driver.captures.of(stream).unwrap_or(0);
        put_if_asked(driver, number, id)?;
        put_if_asked(driver, graph, 0)?;
        put_if_asked(driver, nodes, ptr::null())?;
        put_if_asked(driver, node_count, 0)
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuThreadExchangeStreamCaptureMode(mode_number: *mut u32) -> u32 {
    enter("cuThreadExchangeStreamCaptureMode", CALL, |driver| {
        driver.initialised()?;
        if mode_number.is_null() {
            return Err(driver.violation(Status::INVALID_VALUE, "no mode"));
        }
        // SAFETY: the pointer is not null, and the caller vouches for it.
        let wanted = unsafe { mode_number.read() };
        let wanted = mode(driver, wanted)?;
        let before = thread::exchange_mode(wanted);
        put(driver, mode_number, before as u32)
    })
}
