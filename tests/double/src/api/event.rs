//! Events.
#![expect(unsafe_code, reason = "exported C functions under their own names")]

use super::put;
use crate::driver::{CALL, Driver, Event, EventState, enter};
use crate::driver_rules::Misuse;
use crate::handles::Kind;
use crate::status::{Answer, Status};
use crate::timeline::MarkId;

/// `CU_EVENT_BLOCKING_SYNC` and `CU_EVENT_DISABLE_TIMING`.
const BLOCKING_SYNC: u32 = 1;
const DISABLE_TIMING: u32 = 2;

impl Driver {
    /// The event that a handle names.
    pub(crate) fn event(&mut self, handle: u64) -> &mut Event {
        self.must_know(self.events.contains_key(&handle), Misuse::UnknownEvent, "event", handle);
        self.events.get_mut(&handle).expect("it is known")
    }

    /// Where an event was recorded; an error if that is inside a capture.
    fn recorded(&mut self, handle: u64, misuse: Misuse) -> Answer<Option<MarkId>> {
        match self.event(handle).state.clone() {
            EventState::Never => Ok(None),
            EventState::Marked(mark) => Ok(Some(mark)),
            EventState::Captured { capture, .. } => {
                Err(self.breach_in_capture(misuse, capture, "the event was recorded in a capture"))
            }
        }
    }
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuEventCreate(event: *mut u64, flags: u32) -> u32 {
    enter("cuEventCreate", CALL, |driver| {
        driver.ready()?;
        if flags & !(BLOCKING_SYNC | DISABLE_TIMING) != 0 {
            return Err(driver.violation(Status::INVALID_VALUE, &format!("event flags {flags:#x}")));
        }
        let handle = driver.handle(Kind::Event);
        let created = Event { has_timing: flags & DISABLE_TIMING == 0, state: EventState::Never };
        driver.events.insert(handle, created);
        put(driver, event, handle)
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuEventDestroy_v2(event: u64) -> u32 {
    enter("cuEventDestroy_v2", CALL, |driver| {
        driver.ready()?;
        if let EventState::Marked(mark) = driver.event(event).state {
            driver.timeline.forget(mark);
        }
        driver.events.remove(&event);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuEventRecord(event: u64, stream: u64) -> u32 {
    enter("cuEventRecord", CALL, |driver| {
        driver.ready()?;
        let stream = driver.stream(stream);
        driver.event(event);
        let state = match driver.capture_of(stream)? {
            Some(capture) => EventState::Captured { capture, nodes: driver.captures.frontier(capture, stream) },
            None => EventState::Marked(driver.record(stream)?),
        };
        if let EventState::Marked(mark) = std::mem::replace(&mut driver.event(event).state, state) {
            driver.timeline.forget(mark);
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuEventQuery(event: u64) -> u32 {
    enter("cuEventQuery", CALL, |driver| {
        driver.ready()?;
        let mark = driver.recorded(event, Misuse::QueryEventInCapture)?;
        driver.unsafe_call(Misuse::QueryOldEventInCapture)?;
        let Some(mark) = mark else { return Ok(()) };
        driver.query(|timeline, flags| timeline.query(mark, flags))
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuEventSynchronize(event: u64) -> u32 {
    enter("cuEventSynchronize", CALL, |driver| {
        driver.ready()?;
        let mark = driver.recorded(event, Misuse::SynchronizeEventInCapture)?;
        driver.unsafe_call(Misuse::QueryOldEventInCapture)?;
        mark.map_or(Ok(()), |mark| driver.wait_mark(mark))
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuEventElapsedTime(ms: *mut f32, start: u64, end: u64) -> u32 {
    enter("cuEventElapsedTime", CALL, |driver| elapsed(driver, ms, start, end))
}

/// The same with another name for drivers of 12.8 and later.
#[unsafe(no_mangle)]
pub(super) extern "C" fn cuEventElapsedTime_v2(ms: *mut f32, start: u64, end: u64) -> u32 {
    enter("cuEventElapsedTime_v2", CALL, |driver| elapsed(driver, ms, start, end))
}

fn elapsed(driver: &mut Driver, ms: *mut f32, start: u64, end: u64) -> Answer {
    driver.ready()?;
    let mut marks = Vec::with_capacity(2);
    for event in [start, end] {
        if !driver.event(event).has_timing {
            return Err(driver.breach(Misuse::ElapsedWithoutTiming, "the event was made without timing"));
        }
        let Some(mark) = driver.recorded(event, Misuse::QueryEventInCapture)? else {
            return Err(driver.breach(Misuse::ElapsedUnrecorded, "the event was never recorded"));
        };
        marks.push(mark);
    }
    let passed = |driver: &Driver, mark| driver.timeline.passed_ns(mark).filter(|ns| *ns <= driver.timeline.host_ns);
    match (passed(driver, marks[0]), passed(driver, marks[1])) {
        (Some(start_ns), Some(end_ns)) => {
            let elapsed_ns = end_ns as f64 - start_ns as f64;
            put(driver, ms, (elapsed_ns / 1e6) as f32)
        }
        _ => Err(Status::NOT_READY),
    }
}
