//! A bench that knows how fast the machine was in the beginning, and looks in every round whether it still is.

use std::time::Duration;

use super::{Around, Bench, Campaigns, Timed};
use crate::device::Session;
use crate::measure::{Conditions, Gauge, Measured, Pace, TooNoisy};
use crate::probe::error::ProbeError;
use crate::probe::pace::{LAUNCHES, PaceWork};

/// Readings whose medians are a pace.
const READINGS: usize = 8;

/// Something done once.
struct Once<F>(F);

impl<F: Fn(&mut Session) -> Result<(), ProbeError>> Timed for Once<F> {
    fn calls(&self) -> usize {
        1
    }

    fn make(&self, session: &mut Session, calls: std::ops::Range<usize>) -> Result<(), ProbeError> {
        calls.into_iter().try_for_each(|_| (self.0)(session))
    }
}

/// What is compared in every round.
#[derive(Clone, Copy)]
pub(super) struct Paced<'a> {
    work: &'a PaceWork,
    then: Pace,
}

impl<'a> Bench<'a> {
    /// Compares the machine in every round with what it was when this work took so long: what changed beyond the limits
    /// disturbs a campaign.
    #[must_use]
    pub(crate) fn paced_by(mut self, work: &'a PaceWork, then: Pace) -> Self {
        self.paced = Some(Paced { work, then });
        self
    }

    /// How fast the machine is now, by the medians of a few readings behind a warm-up.
    ///
    /// # Errors
    /// The device fails.
    pub(crate) fn pace(&self, work: &PaceWork, warm_up: Duration) -> Result<Pace, ProbeError> {
        let warm_ns = self.stopwatch.now_ns().saturating_add(u64::try_from(warm_up.as_nanos()).unwrap_or(u64::MAX));
        let mut last = self.reading(work)?;
        while !self.is_past(warm_ns) {
            last = self.reading(work)?;
        }
        let readings = (0..READINGS).map(|_| self.reading(work)).collect::<Result<Vec<_>, _>>()?;
        Ok(Pace::median(&readings).unwrap_or(last))
    }

    fn reading(&self, work: &PaceWork) -> Result<Pace, ProbeError> {
        let replay = Once(|session: &mut Session| Ok(session.replay(&work.graph)?));
        let copy = Once(|session: &mut Session| Ok(session.launch(&work.copy.launch)?));
        let host_us = |calls: usize, call: &dyn Timed| {
            self.on(|session| {
                session.synchronize()?;
                let (ns, done) = self.stopwatch.time(|| (0..calls).try_for_each(|_| call.make(session, 0..1)));
                done?;
                session.synchronize()?;
                Ok::<_, ProbeError>(ns / 1e3)
            })
        };
        // Once untimed: whatever ran before left the caches in another state.
        self.on(|session| {
            replay.make(session, 0..1)?;
            copy.make(session, 0..1)
        })?;
        Ok(Pace {
            graph_us: self.gated_us(&replay, &(0..1), 1)?,
            copy_us: self.gated_us(&copy, &(0..1), 1)?,
            launches_us: host_us(LAUNCHES, &Once(|session: &mut Session| Ok(session.launch(&work.null)?)))?,
            replay_us: host_us(1, &replay)?,
            sm_clock_mhz: self.on(|session| self.clock_rate.mhz(session))?,
        })
    }

    /// What a campaign of these times has to say of the machine that it ran on.
    pub(super) fn compare<P>(&self, name: &str, gauges: &[Gauge], measured: &Measured<P>, campaigns: &mut Campaigns) {
        let Some((paced, now)) = self.paced.zip(measured.pace()) else { return };
        if let Some(changed) = now.changed_from(&paced.then, gauges, &self.limits) {
            campaigns.disturbances.push((name.to_owned(), changed));
        } else if let Some(moved) = now.moved_from(&paced.then, gauges, &self.limits) {
            campaigns.remarks.push((name.to_owned(), moved));
        }
    }
}

/// Looks at the machine between things that are done once, and so are in no round.
pub(in crate::probe) struct Looks<'b, 'a> {
    bench: &'b Bench<'a>,
    name: &'static str,
    last: Look,
}

/// How the machine was another one than in the beginning.
#[derive(Clone, Debug, Default)]
struct Look {
    changed: Option<TooNoisy>,
    /// Of the host, whose work this is: within the limits, but worth a word.
    moved: Option<TooNoisy>,
}

impl<'b, 'a> Looks<'b, 'a> {
    pub(in crate::probe) fn begin(bench: &'b Bench<'a>, name: &'static str) -> Result<Self, ProbeError> {
        let mut looks = Self { bench, name, last: Look::default() };
        looks.last = looks.look()?;
        Ok(looks)
    }

    /// What was done since the last look was disturbed if the machine was another one at both, and perhaps if it had moved
    /// at both.
    pub(in crate::probe) fn again(&mut self, campaigns: &mut Campaigns) -> Result<(), ProbeError> {
        let now = self.look()?;
        if let (Some(_), Some(changed)) = (&self.last.changed, &now.changed) {
            campaigns.disturbances.push((self.name.to_owned(), changed.clone()));
        } else if let (Some(_), Some(moved)) = (self.last.any(), now.any()) {
            campaigns.remarks.push((self.name.to_owned(), moved.clone()));
        }
        self.last = now;
        Ok(())
    }

    fn look(&self) -> Result<Look, ProbeError> {
        let Some(paced) = self.bench.paced else { return Ok(Look::default()) };
        let (now, limits) = (self.bench.reading(paced.work)?, &self.bench.limits);
        Ok(Look {
            changed: now.changed_from(&paced.then, Gauge::ALL, limits),
            moved: now.moved_from(&paced.then, Gauge::HOST, limits),
        })
    }
}

impl Look {
    fn any(&self) -> Option<&TooNoisy> {
        self.changed.as_ref().or(self.moved.as_ref())
    }
}

impl Around<'_, '_> {
    /// Where a reading fails there is none; the next visit tells of a device that failed.
    pub(super) fn look(&self) -> Conditions {
        let free = self.0.free().ok();
        let pace = self.0.paced.and_then(|paced| self.0.reading(paced.work).ok());
        let clock = || self.0.on(|session| self.0.clock_rate.mhz(session)).ok().flatten();
        Conditions { sm_clock_mhz: pace.map_or_else(clock, |pace| pace.sm_clock_mhz), free, pace }
    }
}
