//! What calls check before they do anything, and what a breach of a rule comes to.

use super::{Context, Driver, LEGACY};
use crate::capture::CaptureId;
use crate::driver_rules::{CaptureAfter, Misuse};
use crate::status::{Answer, Status};
use crate::thread;

impl Driver {
    /// A breach that no rule of the table names: recorded, and answered with `status`.
    pub(crate) fn violation(&mut self, status: Status, text: &str) -> Status {
        let name =
            Status::name(status.0).map_or_else(|| status.0.to_string(), |name| name.to_string_lossy().into_owned());
        self.report.violation(&format!("{}: {text} ({name})", self.function));
        status
    }

    /// A breach of a rule: recorded, and answered as the table says.
    pub(crate) fn breach(&mut self, misuse: Misuse, text: &str) -> Status {
        let rule = misuse.rule();
        let Some(status) = misuse.status() else { self.crash(misuse, text) };
        self.violation(Status(status), &format!("{}: {text}", rule.name))
    }

    /// A breach of a rule by a stream that is in a capture.
    pub(crate) fn breach_in_capture(&mut self, misuse: Misuse, capture: CaptureId, text: &str) -> Status {
        if misuse.rule().capture == CaptureAfter::Invalidated {
            self.captures.invalidate(capture, self.function);
        }
        self.breach(misuse, text)
    }

    /// What makes a real driver fault: the process ends here.
    pub(crate) fn crash(&mut self, misuse: Misuse, text: &str) -> ! {
        let line = format!("{}: {}: {text}", self.function, misuse.rule().name);
        self.report.violation(&line);
        self.report.close(self.timeline.host_ns);
        eprintln!("driver double: {line}");
        std::process::abort();
    }

    /// A real driver follows whatever handle it is given: the process ends with one that was never given out, or whose
    /// object is gone.
    pub(crate) fn must_know(&mut self, is_known: bool, misuse: Misuse, kind: &str, handle: u64) {
        if !is_known {
            self.crash(misuse, &format!("no {kind} has the handle {handle:#x}"));
        }
    }

    /// What nearly every call needs: `cuInit`, no fault before, and a context that is current on this thread.
    pub(crate) fn ready(&mut self) -> Answer<Context> {
        self.initialised()?;
        let current = thread::context();
        let Some(context) = self.contexts.values().find(|context| context.handle == current).copied() else {
            return Err(self.breach(Misuse::NoCurrentContext, "no context is current on this thread"));
        };
        match self.sticky {
            Some(status) => Err(status),
            None => Ok(context),
        }
    }

    pub(crate) fn initialised(&mut self) -> Answer {
        if self.is_initialised {
            return Ok(());
        }
        Err(self.breach(Misuse::CallBeforeInit, "cuInit was not called, or failed"))
    }

    /// A device by its ordinal.
    pub(crate) fn device(&mut self, ordinal: i32) -> Answer<usize> {
        self.initialised()?;
        let device = usize::try_from(ordinal).ok().filter(|device| *device < self.configuration.devices as usize);
        device.ok_or_else(|| self.breach(Misuse::DeviceOutOfRange, &format!("device {ordinal}")))
    }

    /// A call that is potentially unsafe during a capture: refused, and the captures that forbid it invalid, unless the
    /// thread's mode allows it.
    pub(crate) fn unsafe_call(&mut self, misuse: Misuse) -> Answer {
        let forbidding = self.captures.forbidding(thread::number(), thread::mode());
        if forbidding.is_empty() {
            return Ok(());
        }
        for capture in forbidding {
            self.captures.invalidate(capture, self.function);
        }
        Err(self.breach(misuse, "a capture is under way, and this thread's mode is not relaxed"))
    }

    /// The stream that a handle names.
    pub(crate) fn stream(&mut self, handle: u64) -> u64 {
        let stream = if handle == 0 { LEGACY } else { handle };
        self.must_know(self.timeline.has(stream), Misuse::UnknownStream, "stream", handle);
        stream
    }

    /// The legacy stream waits for blocking streams, and so cannot be used while one captures.
    pub(crate) fn check_legacy(&mut self, stream: u64) -> Answer {
        if stream != LEGACY {
            return Ok(());
        }
        let captured = self.captures.streams();
        let Some(blocking) = captured.into_iter().find(|stream| self.timeline.is_blocking(*stream)) else {
            return Ok(());
        };
        let text = "a blocking stream captures, and the legacy stream would wait for it";
        match self.captures.of(blocking) {
            Some(capture) => Err(self.breach_in_capture(Misuse::LegacyBesideCapture, capture, text)),
            None => Ok(()),
        }
    }

    /// The capture that a stream is in, if that is still valid.
    pub(crate) fn capture_of(&mut self, stream: u64) -> Answer<Option<CaptureId>> {
        let Some(id) = self.captures.of(stream) else { return Ok(None) };
        match self.captures.get(id).and_then(|capture| capture.invalid) {
            Some(by) => {
                Err(self.breach(Misuse::LaunchAfterInvalidation, &format!("the capture is invalid since {by}")))
            }
            None => Ok(Some(id)),
        }
    }
}
