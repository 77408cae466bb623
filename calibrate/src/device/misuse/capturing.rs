//! Misuses during captures.

use std::ptr;

use cudarc::driver::sys::CUstream;

use super::Tried;
use super::calls::empty_module;
use super::stage::{BLOCKING, Mode, NON_BLOCKING, NotTried, Stage, must};
use crate::driver_rules::{CaptureAfter, Misuse};

/// Performs a misuse of this group; `None` for those of others.
pub(super) fn attempt(stage: &Stage, misuse: Misuse) -> Option<Tried> {
    let stream = stage.stream;
    Some(match misuse {
        Misuse::LoadInCapture => during(stage, Mode::Global, |stage| Ok(stage.load(&empty_module("8.0", 80)).0)),
        Misuse::LazyLoadInCapture => during(stage, Mode::Global, |stage| Ok(stage.launch(stream))),
        Misuse::BeginOnLegacyStream => Ok((stage.begin(ptr::null_mut(), Mode::Global), CaptureAfter::None)),
        Misuse::BeginTwice => during(stage, Mode::Global, |stage| Ok(stage.begin(stream, Mode::Global))),
        Misuse::EndWithoutBegin => Ok((stage.end(stream).0, CaptureAfter::None)),
        Misuse::EndTwice => end_twice(stage),
        Misuse::EndOnOtherThread => {
            during(stage, Mode::Global, |stage| stage.elsewhere(|stage| stage.end(stage.stream).0))
        }
        Misuse::EndOnJoinedStream => end_on_joined_stream(stage),
        Misuse::EndUnjoined => end_unjoined(stage),
        Misuse::AllocateInCapture => during(stage, Mode::Global, allocate),
        Misuse::AllocateRelaxed => during(stage, Mode::Global, allocate_relaxed),
        Misuse::AllocateOnOtherThread => {
            during(stage, Mode::Global, |stage| stage.elsewhere(|stage| stage.allocate(1 << 20).0))
        }
        Misuse::AllocateBesideThreadLocal => {
            during(stage, Mode::ThreadLocal, |stage| stage.elsewhere(|stage| stage.allocate(1 << 20).0))
        }
        Misuse::AllocateInRelaxedCapture => during(stage, Mode::Relaxed, allocate),
        Misuse::AllocateAsyncInCapture => {
            during(stage, Mode::Global, |stage| stage.allocated_async(1 << 20, stream).map(|_| 0))
        }
        Misuse::FreeInCapture => during_with(stage, |stage| stage.allocated(4 << 20), Stage::free),
        Misuse::FreeForeignInCapture => during_with(
            stage,
            |stage| stage.allocated_async(1 << 20, stream),
            |stage, address| stage.free_async(address, stream),
        ),
        Misuse::SynchronizeInCapture => during(stage, Mode::Global, |stage| Ok(stage.synchronize(stream))),
        Misuse::SynchronizeContextInCapture => during(stage, Mode::Relaxed, |stage| Ok(stage.synchronize_context())),
        Misuse::QueryStreamInCapture => during(stage, Mode::Global, |stage| Ok(stage.query(stream))),
        Misuse::QueryEventInCapture => {
            during(stage, Mode::Global, |stage| Ok(stage.query_event(stage.recorded(stream)?)))
        }
        Misuse::SynchronizeEventInCapture => {
            during(stage, Mode::Global, |stage| Ok(stage.synchronize_event(stage.recorded(stream)?)))
        }
        Misuse::QueryOldEventInCapture => during_with(stage, |stage| stage.recorded(stream), Stage::query_event),
        Misuse::LaunchAfterInvalidation => during(stage, Mode::Global, |stage| {
            allocate(stage)?;
            Ok(stage.launch(stream))
        }),
        Misuse::EndAfterInvalidation => end_after_invalidation(stage),
        Misuse::LegacyBesideCapture => legacy_beside_capture(stage),
        Misuse::WaitForUncapturedEvent => {
            during_with(stage, |stage| stage.recorded(stream), |stage, event| stage.wait(stream, event))
        }
        Misuse::MergeCaptures => merge_captures(stage),
        Misuse::CopyInCapture => during(stage, Mode::Global, |stage| Ok(stage.copy_now(stage.memory, &[0; 16]))),
        _ => return None,
    })
}

/// Performs a misuse while the stage's stream captures, and ends the capture.
fn during(stage: &Stage, mode: Mode, misuse: impl FnOnce(&Stage) -> Result<u32, NotTried>) -> Tried {
    stage.begun(stage.stream, mode)?;
    let status = misuse(stage)?;
    Ok((status, stage.capture_after(stage.stream)))
}

/// The same during a GLOBAL capture, with something made before it.
fn during_with<T>(
    stage: &Stage,
    before: impl FnOnce(&Stage) -> Result<T, NotTried>,
    misuse: impl FnOnce(&Stage, T) -> u32,
) -> Tried {
    let made = before(stage)?;
    must("cuStreamSynchronize", stage.synchronize(stage.stream))?;
    during(stage, Mode::Global, |stage| Ok(misuse(stage, made)))
}

#[expect(clippy::unnecessary_wraps, reason = "it stands where other misuses can fail")]
fn allocate(stage: &Stage) -> Result<u32, NotTried> {
    Ok(stage.allocate(1 << 20).0)
}

/// What PyTorch does when its pool grows during a capture.
fn allocate_relaxed(stage: &Stage) -> Result<u32, NotTried> {
    stage.exchange_mode(Mode::Relaxed)?;
    let status = allocate(stage);
    stage.exchange_mode(Mode::Global)?;
    status
}

fn end_twice(stage: &Stage) -> Tried {
    stage.begun(stage.stream, Mode::Global)?;
    must("cuLaunchKernel", stage.launch(stage.stream))?;
    stage.ended(stage.stream)?;
    Ok((stage.end(stage.stream).0, CaptureAfter::None))
}

/// Forks a second stream off the capture, with work of its own.
fn fork(stage: &Stage) -> Result<CUstream, NotTried> {
    let forked = stage.new_stream(NON_BLOCKING)?;
    stage.begun(stage.stream, Mode::Global)?;
    must("cuLaunchKernel", stage.launch(stage.stream))?;
    let event = stage.recorded(stage.stream)?;
    must("cuStreamWaitEvent", stage.wait(forked, event))?;
    must("cuLaunchKernel", stage.launch(forked))?;
    Ok(forked)
}

fn end_on_joined_stream(stage: &Stage) -> Tried {
    let forked = fork(stage)?;
    let (status, _) = stage.end(forked);
    Ok((status, stage.capture_after(stage.stream)))
}

fn end_unjoined(stage: &Stage) -> Tried {
    fork(stage)?;
    Ok((stage.end(stage.stream).0, CaptureAfter::None))
}

fn end_after_invalidation(stage: &Stage) -> Tried {
    stage.begun(stage.stream, Mode::Global)?;
    allocate(stage)?;
    Ok((stage.end(stage.stream).0, CaptureAfter::None))
}

fn legacy_beside_capture(stage: &Stage) -> Tried {
    let blocking = stage.new_stream(BLOCKING)?;
    stage.begun(blocking, Mode::Global)?;
    let status = stage.launch(ptr::null_mut());
    Ok((status, stage.capture_after(blocking)))
}

fn merge_captures(stage: &Stage) -> Tried {
    let other = stage.new_stream(NON_BLOCKING)?;
    stage.begun(other, Mode::Global)?;
    must("cuLaunchKernel", stage.launch(other))?;
    let event = stage.recorded(other)?;
    stage.begun(stage.stream, Mode::Global)?;
    let status = stage.wait(stage.stream, event);
    let capture = stage.capture_after(stage.stream);
    stage.capture_after(other);
    Ok((status, capture))
}
