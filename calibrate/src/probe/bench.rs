//! What every probe works with: the device, the gate, the clocks, and how work becomes a campaign of timings.

mod pacing;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::time::Duration;

use kernels::units::Bytes;
use serde::{Deserialize, Serialize};

use super::clock_rate::ClockRate;
use super::error::ProbeError;
use super::gate::{Gate, QUEUED_MOST};
use super::stopwatch::Stopwatch;
use crate::device::{Event, Session};
use crate::measure::{
    Campaign, Conditions, Estimate, Gauge, Limits, Measured, Nanoseconds, Progress, Protocol, Surroundings, TooNoisy,
    Visit, widest,
};

pub(super) use self::pacing::Looks;
use self::pacing::Paced;

/// Tries of one measurement whose gate opened by itself.
const TRIES: u32 = 3;

/// Repetitions behind one gate: a graph may take more of a queue than one place. The self-check tries as many.
const REPETITIONS_MOST: usize = 32;

/// How long the gate stays shut behind the last call, so that this too has reached the device when the first may start.
const SETTLING_NS: u64 = 20_000;

/// What a probe found, and how.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probed<R> {
    /// What it found.
    pub result: R,
    /// How its times were measured, by what was timed.
    pub campaigns: BTreeMap<String, Campaign>,
    /// What disturbed them beyond the limits, which makes the result worthless; by what was timed.
    #[serde(skip)]
    pub disturbances: Vec<(String, TooNoisy)>,
    /// What moved within the limits, but by so much that whoever reads the result is to know.
    #[serde(skip)]
    pub remarks: Vec<(String, TooNoisy)>,
}

/// Who hears how far a campaign is, and may end it.
pub type Heard<'a> = &'a mut dyn FnMut(&Progress) -> ControlFlow<()>;

/// A device, ready for probes.
pub struct Bench<'a> {
    session: RefCell<&'a mut Session>,
    protocol: Protocol,
    limits: Limits,
    gate: Gate,
    clock_rate: ClockRate,
    events: [Event; 2],
    stopwatch: Stopwatch,
    heard: RefCell<Heard<'a>>,
    is_ended: Cell<bool>,
    shared_time: Option<SharedTime>,
    paced: Option<Paced<'a>>,
}

/// Time that several campaigns share with everything done between them.
struct SharedTime {
    until_ns: u64,
    campaigns_left: Cell<u32>,
}

/// Work of which a point of a campaign is made.
pub(super) trait Timed {
    /// Calls of the driver in one repetition.
    fn calls(&self) -> usize;

    /// Makes some of them, counted from 0, one behind the other.
    fn make(&self, session: &mut Session, calls: Range<usize>) -> Result<(), ProbeError>;

    /// What a visit needs beforehand; not timed.
    fn prepare(&self, session: &mut Session) -> Result<(), ProbeError> {
        let _ = session;
        Ok(())
    }

    /// What a repetition needs beforehand when its host time is taken; not timed.
    fn before_each(&self, session: &mut Session) -> Result<(), ProbeError> {
        let _ = session;
        Ok(())
    }
}

/// A point of a campaign.
pub(super) struct Point<'w> {
    pub(super) name: String,
    pub(super) work: Box<dyn Timed + 'w>,
}

impl<'w> Point<'w> {
    pub(super) fn new(name: impl Into<String>, work: impl Timed + 'w) -> Self {
        Self { name: name.into(), work: Box::new(work) }
    }
}

/// Campaigns of a probe so far.
#[derive(Default)]
pub(super) struct Campaigns {
    by_name: BTreeMap<String, Campaign>,
    disturbances: Vec<(String, TooNoisy)>,
    remarks: Vec<(String, TooNoisy)>,
}

impl Campaigns {
    /// Notes which of these figures is known worst, if that is worth a word.
    pub(super) fn note_widest<'a>(
        &mut self,
        bench: &Bench<'_>,
        name: &str,
        figures: impl Iterator<Item = (String, &'a Estimate)>,
    ) {
        self.remarks.extend(widest(figures, &bench.limits).map(|wide| (name.to_owned(), wide)));
    }

    pub(super) fn with<R>(self, result: R) -> Probed<R> {
        Probed { result, campaigns: self.by_name, disturbances: self.disturbances, remarks: self.remarks }
    }
}

impl<'a> Bench<'a> {
    /// Makes a session ready for probes, which time by this protocol. `heard` hears how far each campaign is, and may end
    /// it: then every probe gives [`ProbeError::Ended`].
    ///
    /// # Errors
    /// The device fails.
    pub fn new(
        session: &'a mut Session,
        protocol: Protocol,
        limits: Limits,
        heard: Heard<'a>,
    ) -> Result<Self, ProbeError> {
        let gate = Gate::new(session)?;
        let clock_rate = ClockRate::new(session)?;
        let events = [session.event()?, session.event()?];
        let stopwatch = Stopwatch::new(session.host_clock());
        let (session, heard) = (RefCell::new(session), RefCell::new(heard));
        let is_ended = Cell::new(false);
        let (shared_time, paced) = (None, None);
        Ok(Self { session, protocol, limits, gate, clock_rate, events, stopwatch, heard, is_ended, shared_time, paced })
    }

    /// With so much time from now on for everything, captures and other preparations included: each of so many campaigns
    /// gets an equal part of what is left when it begins, instead of the protocol's limit. Its least rounds are run in any
    /// case.
    #[must_use]
    pub fn within(mut self, time: Duration, campaigns: u32) -> Self {
        let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let until_ns = self.stopwatch.now_ns().saturating_add(time_ns);
        self.shared_time = Some(SharedTime { until_ns, campaigns_left: Cell::new(campaigns) });
        self
    }

    /// The time of the campaign that begins now; `None` where no time is shared.
    fn share(&self) -> Option<Duration> {
        let SharedTime { until_ns, campaigns_left } = self.shared_time.as_ref()?;
        let campaigns = campaigns_left.get().max(1);
        campaigns_left.set(campaigns - 1);
        Some(Duration::from_nanos(until_ns.saturating_sub(self.stopwatch.now_ns())) / campaigns)
    }

    /// How the campaign that begins now is run.
    fn protocol(&self) -> Protocol {
        let time_limit = self.share().unwrap_or(self.protocol.time_limit);
        Protocol { time_limit, ..self.protocol.clone() }
    }

    /// When a series that begins now, and is no campaign, has had its share of the time; by [`Self::is_past`].
    pub(super) fn series_ends_ns(&self) -> u64 {
        let share = self.share().map_or(u64::MAX, |share| u64::try_from(share.as_nanos()).unwrap_or(u64::MAX));
        self.stopwatch.now_ns().saturating_add(share)
    }

    /// Whether it is later than that.
    pub(super) fn is_past(&self, ns: u64) -> bool {
        self.stopwatch.now_ns() > ns
    }

    /// Does something on the device.
    pub(super) fn on<T>(&self, act: impl FnOnce(&mut Session) -> T) -> T {
        act(&mut self.session.borrow_mut())
    }

    /// Free memory of the device.
    pub(super) fn free(&self) -> Result<Bytes, ProbeError> {
        Ok(self.on(Session::memory)?.0)
    }

    /// Unless whoever hears has ended it.
    fn go_on(&self) -> Result<(), ProbeError> {
        if self.is_ended.get() { Err(ProbeError::Ended) } else { Ok(()) }
    }

    /// Refuses what needs more memory than there is.
    pub(super) fn require(&self, what: &'static str, bytes: u64) -> Result<(), ProbeError> {
        let (needs, free) = (Bytes(bytes), self.free()?);
        if needs > free { Err(ProbeError::Memory { what, needs, free }) } else { Ok(()) }
    }

    /// Host time of something done once, in microseconds, the device idle before.
    pub(super) fn once_us<T, E>(&self, act: impl FnOnce(&mut Session) -> Result<T, E>) -> Result<(f64, T), ProbeError>
    where
        ProbeError: From<E>,
    {
        self.on(|session| {
            session.synchronize()?;
            let (ns, done) = self.stopwatch.time(|| act(session));
            Ok((ns / 1e3, done?))
        })
    }

    /// A host time that was taken elsewhere, without what reading the clock so often took, in microseconds.
    pub(super) fn without_readings_us(&self, ns: f64, readings: usize) -> f64 {
        self.stopwatch.without_readings(ns, readings) / 1e3
    }

    /// The medians of a few readings of each of several things, which no campaign can take, for each is the first of its
    /// kind.
    pub(super) fn of_readings(&self, what: &'static str, readings: &[Vec<f64>]) -> Result<Vec<Estimate>, ProbeError> {
        Estimate::of_each(readings, self.protocol.seed)
            .ok_or_else(|| ProbeError::plan(what, format!("{readings:?}"), "one finite reading at least of each"))
    }

    /// Times work on the device: between two events, with all of it queued up behind a gate.
    ///
    /// Work of more calls than a queue holds is cut into pieces that are timed one by one and added up, which leaves out what
    /// lies between two pieces, one gap between kernels in 480.
    pub(super) fn device<'w>(
        &self,
        name: &str,
        points: Vec<Point<'w>>,
        campaigns: &mut Campaigns,
    ) -> Result<Measured<Point<'w>>, ProbeError> {
        self.measure(name, points, &mut DeviceVisit(self), Gauge::DEVICE, campaigns)
    }

    /// Times work on the host, the device idle before each repetition, and before each piece of one that has more calls than
    /// a queue holds.
    pub(super) fn host<'w>(
        &self,
        name: &str,
        points: Vec<Point<'w>>,
        campaigns: &mut Campaigns,
    ) -> Result<Measured<Point<'w>>, ProbeError> {
        self.measure(name, points, &mut HostVisit(self), Gauge::HOST, campaigns)
    }

    fn measure<'w, V: Visit<Point<'w>, Error = ProbeError>>(
        &self,
        name: &str,
        points: Vec<Point<'w>>,
        visit: &mut V,
        gauges: &[Gauge],
        campaigns: &mut Campaigns,
    ) -> Result<Measured<Point<'w>>, ProbeError> {
        let measured = self.protocol().measure(points, visit, &mut Around(self))?;
        let disturbances = measured.disturbances(&self.limits, |point| point.name.clone());
        campaigns.disturbances.extend(disturbances.into_iter().map(|disturbance| (name.to_owned(), disturbance)));
        self.compare(name, gauges, &measured, campaigns);
        campaigns.by_name.insert(name.to_owned(), measured.campaign.clone());
        Ok(measured)
    }

    /// Device time of some calls, `repetitions` times one behind the other, in microseconds.
    fn gated_us(&self, work: &dyn Timed, calls: &Range<usize>, repetitions: u32) -> Result<f64, ProbeError> {
        let [start, end] = &self.events;
        for _ in 0..TRIES {
            let us = self.on(|session| {
                self.gate.shut(session)?;
                let queued = self.queue(session, work, calls, repetitions);
                self.stopwatch.wait(SETTLING_NS);
                // Whatever happened: nothing may stay shut.
                self.gate.open();
                queued?;
                Ok::<_, ProbeError>(session.elapsed_us(start, end)?)
            })?;
            if !self.gate.has_timed_out() {
                return Ok(us);
            }
        }
        Err(ProbeError::Gate { timeout_ms: self.gate.timeout_ms() })
    }

    fn queue(
        &self,
        session: &mut Session,
        work: &dyn Timed,
        calls: &Range<usize>,
        repetitions: u32,
    ) -> Result<(), ProbeError> {
        let [start, end] = &self.events;
        session.record(start)?;
        for _ in 0..repetitions {
            work.make(session, calls.clone())?;
        }
        Ok(session.record(end)?)
    }
}

/// Calls in pieces that a queue holds.
fn pieces(calls: usize) -> impl Iterator<Item = Range<usize>> {
    (0..calls).step_by(QUEUED_MOST).map(move |start| start..calls.min(start + QUEUED_MOST))
}

struct DeviceVisit<'b, 'a>(&'b Bench<'a>);

impl<'w> Visit<Point<'w>> for DeviceVisit<'_, '_> {
    type Error = ProbeError;

    fn visit(&mut self, point: &Point<'w>, repetitions: u32) -> Result<Nanoseconds, ProbeError> {
        let Self(bench) = self;
        bench.go_on()?;
        bench.on(|session| point.work.prepare(session))?;
        let calls = point.work.calls();
        let mut us = 0.0;
        for piece in pieces(calls) {
            us += bench.gated_us(&*point.work, &piece, repetitions)?;
        }
        Ok(Nanoseconds::from_us(us))
    }

    fn repetitions_most(&self, point: &Point<'w>) -> u32 {
        (QUEUED_MOST / point.work.calls().max(1)).clamp(1, REPETITIONS_MOST) as u32
    }
}

struct HostVisit<'b, 'a>(&'b Bench<'a>);

impl<'w> Visit<Point<'w>> for HostVisit<'_, '_> {
    type Error = ProbeError;

    fn visit(&mut self, point: &Point<'w>, repetitions: u32) -> Result<Nanoseconds, ProbeError> {
        let Self(bench) = self;
        bench.go_on()?;
        bench.on(|session| {
            point.work.prepare(session)?;
            let mut ns = 0.0;
            for _ in 0..repetitions {
                point.work.before_each(session)?;
                for piece in pieces(point.work.calls()) {
                    session.synchronize()?;
                    let (took_ns, done) = bench.stopwatch.time(|| point.work.make(session, piece));
                    done?;
                    ns += took_ns;
                }
            }
            session.synchronize()?;
            Ok(Nanoseconds(ns))
        })
    }
}

struct Around<'b, 'a>(&'b Bench<'a>);

impl Surroundings for Around<'_, '_> {
    fn now(&mut self) -> Duration {
        Duration::from_nanos(self.0.stopwatch.now_ns())
    }

    fn conditions(&mut self) -> Conditions {
        self.look()
    }

    fn progress(&mut self, progress: &Progress) {
        if (self.0.heard.borrow_mut())(progress).is_break() {
            self.0.is_ended.set(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_every_call_once() {
        for calls in [0, 1, 479, 480, 481, 960, 1_001] {
            let cut: Vec<_> = pieces(calls).collect();
            assert!(cut.iter().all(|piece| !piece.is_empty() && piece.len() <= QUEUED_MOST));
            assert_eq!(cut.into_iter().flatten().collect::<Vec<_>>(), (0..calls).collect::<Vec<_>>());
        }
    }
}
