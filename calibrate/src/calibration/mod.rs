//! One calibration: every part of a plan measured in turn, each result kept in a file as soon as it is there.

mod error;
mod kept;
mod paces;
mod profile;
mod readiness;

use std::ops::ControlFlow;
use std::time::Duration;

use kernels::units::{Requests, Rows};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) use error::{Ended, goes_on};
pub(crate) use kept::Kept;
pub(crate) use paces::Paces;
pub(crate) use profile::{About, profile};
pub(crate) use readiness::{kernels_work, memory_stands_still, refuse_unfit};

use self::paces::CHANGE_MOST;
use crate::device::{HostClock, Interrupts, Session};
use crate::measure::{Estimate, Limits, Phase, Progress, TooNoisy};
use crate::model::Model;
use crate::padding;
use crate::partial::PartialResults;
use crate::plan::{Part, Plan};
use crate::probe::result::{
    Bandwidth, DecodeTable, DenseTable, Executables, HeadTable, LaunchCosts, PrefillTable, Rungs, UpdateCosts,
};
use crate::probe::{
    Bench, ProbeError, Probed, RungPlan, attention, bandwidth, dense, executables, head, launch, pace, rungs, update,
};
use crate::progress::Display;

/// A part that was disturbed is measured once more before it is given up.
const TRIES: u32 = 2;
/// After work that made it hot a device may need a moment: its pace is taken so often before a part begins.
const PACES_MOST: u32 = 5;
/// The staircase is fine up to here at least.
const DENSE_LEAST: Rows = Rows(256);
/// What is measured once more in the end.
const DRIFT_CHECK: [Part; 2] = [Part::Launch, Part::Bandwidth];
/// How often what happens once is repeated.
const REPEATS: u32 = 5;
const QUICK_REPEATS: u32 = 3;

/// What every part found.
pub(crate) struct Results {
    pub(crate) launch: Kept<LaunchCosts>,
    pub(crate) bandwidth: Kept<Bandwidth>,
    pub(crate) dense: Kept<DenseTable>,
    pub(crate) head: Kept<HeadTable>,
    pub(crate) decode: Kept<DecodeTable>,
    pub(crate) prefill: Kept<PrefillTable>,
    pub(crate) rungs: Kept<Rungs>,
    pub(crate) executables: Kept<Executables>,
    /// `None` of a ladder without two rungs that an update can bridge.
    pub(crate) update: Option<Kept<UpdateCosts>>,
    /// How far the machine was another one in the end, if that is worth a warning.
    pub(crate) drift: Option<TooNoisy>,
}

/// A calibration that runs.
pub(crate) struct Calibration<'a> {
    pub(crate) session: &'a mut Session,
    pub(crate) model: Model,
    pub(crate) plan: &'a Plan,
    pub(crate) partial: PartialResults,
    pub(crate) display: Display,
    pub(crate) interrupts: Interrupts,
    pub(crate) time: RunTime,
    pub(crate) paces: Paces,
}

/// The time of a run, by the clock that everything is timed with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunTime {
    clock: HostClock,
    started_ns: u64,
}

impl RunTime {
    /// Of a run that starts now.
    pub(crate) fn start(clock: HostClock) -> Self {
        Self { clock, started_ns: clock.now_ns() }
    }

    /// For how long it has run.
    pub(crate) fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.clock.now_ns().saturating_sub(self.started_ns))
    }
}

impl Calibration<'_> {
    /// Measures what is not there yet, part by part.
    ///
    /// # Errors
    /// See [`Ended`]; what was measured before is kept.
    pub(crate) fn run(&mut self) -> Result<Results, Ended> {
        self.go_on()?;
        let plan = self.plan;
        let is_quick = plan.is_quick;
        let counts: &[u32] = if is_quick { &launch::QUICK_COUNTS } else { &launch::COUNTS };
        let launch = self.part(Part::Launch, |bench, _| launch::run(bench, counts))?;
        let frame_us: Estimate = launch.result().graph_device.fixed_us;
        let bandwidth = self.part(Part::Bandwidth, |bench, _| bandwidth::run(bench))?;
        let ladder = plan.ladder.descending();
        let repeats = if is_quick { QUICK_REPEATS } else { REPEATS };
        let (modes, context) = (plan.modes.clone(), plan.rung_context);
        let rung_plan = RungPlan { ladder: ladder.clone(), modes, context, ascending: false, repeats };
        let rungs = self.part(Part::Rungs, |bench, model| rungs::run(bench, model, &rung_plan))?;
        let middle = ladder[ladder.len() / 2];
        let executables =
            self.part(Part::Executables, |bench, model| executables::run(bench, model, middle, &plan.modes))?;
        let update = match self.bridged(&ladder)? {
            None => None,
            Some(rows) => Some(self.part(Part::Update, |bench, model| update::run(bench, model, rows))?),
        };
        // Steps that run without a graph visit what a short ladder does not reach.
        let reached: Vec<Rows> = ladder.iter().copied().chain([DENSE_LEAST]).collect();
        let mut sizes = dense::grid(&reached, &self.model.gemm_backend(), is_quick);
        sizes.extend(plan.rows_beyond.iter().copied().map(Rows));
        let padded_most = Rows(padding::rows_most(plan.ladder.largest()));
        let dense = self.part(Part::Dense, |bench, model| dense::run(bench, model, &sizes, padded_most))?;
        let sequences = plan.head_sequences.iter().copied().map(Rows).collect::<Vec<_>>();
        let head = self.part(Part::Head, |bench, model| head::run(bench, model, &sequences))?;
        let [requests, contexts] = &plan.decode;
        let requests = requests.iter().copied().map(Requests).collect::<Vec<_>>();
        let decode =
            self.part(Part::Decode, |bench, model| attention::decode(bench, model, &requests, contexts, frame_us))?;
        let [chunks, before] = &plan.prefill;
        let chunks = chunks.iter().copied().map(Rows).collect::<Vec<_>>();
        let prefill =
            self.part(Part::Prefill, |bench, model| attention::prefill(bench, model, &chunks, before, frame_us))?;
        let drift = self.drift(launch.result(), bandwidth.result())?;
        Ok(Results { launch, bandwidth, dense, head, decode, prefill, rungs, executables, update, drift })
    }

    /// The first two parts once more: what changed since then happened under all others. A campaign notices only what moves
    /// while it runs itself.
    fn drift(&mut self, launch: &LaunchCosts, bandwidth: &Bandwidth) -> Result<Option<TooNoisy>, Ended> {
        self.display.begin("drift since the beginning");
        let [first, second] = DRIFT_CHECK;
        let launch_again =
            self.probe(first, &DRIFT_CHECK, &mut |bench, _| launch::run(bench, &launch::QUICK_COUNTS))?;
        let bandwidth_again = self.probe(second, &[second], &mut |bench, _| bandwidth::run(bench))?;
        let slower = |now: Estimate, before: Estimate| {
            let by = now.value / before.value - 1.0;
            if by.is_finite() { by } else { 0.0 }
        };
        let node = slower(launch_again.result.graph_device.each_us, launch.graph_device.each_us);
        // Less bandwidth is more time.
        let copy = slower(bandwidth.copy_gb_per_s, bandwidth_again.result.copy_gb_per_s);
        let by = if node.abs() > copy.abs() { node } else { copy };
        self.display.end(&format!("{:+.1} %", by * 100.0));
        let beyond = |limit: f64| (by.abs() > limit).then(|| TooNoisy { cause: self.paces.cause(), by, limit });
        match beyond(CHANGE_MOST) {
            Some(drift) => Err(Ended::Changed(drift)),
            None => Ok(beyond(Limits::default().drift)),
        }
    }

    /// That the machine is still the one that the kept parts were measured on. From here on every pace is compared with the
    /// first of the first piece, as in a run of one piece.
    fn go_on(&mut self) -> Result<(), Ended> {
        let Some(first) = self.partial.pieces().first().and_then(|piece| piece.pace) else { return Ok(()) };
        self.paces.push(Duration::ZERO, first);
        self.pace()?;
        match self.pace_before()? {
            Some(changed) => Err(Ended::OtherMachine(changed)),
            None => Ok(()),
        }
    }

    /// What was measured before, else what is measured now and kept.
    fn part<R: Serialize + DeserializeOwned>(
        &mut self,
        part: Part,
        mut probe: impl FnMut(&Bench<'_>, &mut Model) -> Result<Probed<R>, ProbeError>,
    ) -> Result<Kept<R>, Ended> {
        self.display.begin(part.title());
        if let Some(kept) = self.partial.result(part.name())? {
            self.display.end("kept from before");
            return Ok(kept);
        }
        let ahead = self.ahead();
        let mut tries_left = TRIES;
        let kept = loop {
            tries_left -= 1;
            let before = self.pace_before()?;
            let probed = self.probe(part, &ahead, &mut probe)?;
            self.pace()?;
            let after = self.paces.changed();
            // Changed at one end alone, it may have been another machine for all that counts. Measured once more it is
            // kept, for then it is what the part itself does to the device.
            let is_other =
                if tries_left > 0 { before.is_some() || after.is_some() } else { before.is_some() && after.is_some() };
            let kept = match after.or(before).filter(|_| is_other) {
                Some(changed) => Err(changed),
                None => Kept::of(probed),
            };
            match kept {
                Ok(kept) => break kept,
                Err(disturbance) if tries_left == 0 => return Err(Ended::Disturbed { part, disturbance }),
                Err(disturbance) => self.display.note(&format!("measured once more: {disturbance}")),
            }
        };
        let took_s = self.time.elapsed().as_secs_f64();
        if let Some(piece) = self.partial.piece() {
            piece.took_s = took_s;
        }
        self.partial.keep(part.name(), &kept)?;
        self.display.end(&kept.summary());
        Ok(kept)
    }

    /// What is still to be measured.
    fn ahead(&self) -> Vec<Part> {
        let is_kept = |part: &Part| self.partial.probes().any(|kept| kept == part.name());
        Part::ALL.into_iter().filter(|part| !is_kept(part)).chain(DRIFT_CHECK).collect()
    }

    /// The pace before a part, if it is not the one of the beginning; what made the device hot has a moment to pass.
    fn pace_before(&mut self) -> Result<Option<TooNoisy>, Ended> {
        if self.paces.is_empty() {
            self.pace()?;
        }
        for _ in 0..PACES_MOST {
            if self.paces.changed().is_none() {
                break;
            }
            self.pace()?;
        }
        Ok(self.paces.changed())
    }

    fn pace(&mut self) -> Result<(), Ended> {
        let interrupts = self.interrupts;
        let mut heard = |_: &Progress| {
            if interrupts.is_asked_to_end() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let bench = Bench::new(self.session, self.plan.pace_protocol(), Limits::default(), &mut heard)?;
        let pace = pace::run(&bench);
        drop(bench);
        if interrupts.is_asked_to_end() {
            return Err(self.interrupted());
        }
        let pace = pace?;
        if let Some(piece) = self.partial.piece() {
            piece.pace.get_or_insert(pace);
        }
        self.paces.push(self.time.elapsed(), pace);
        Ok(())
    }

    /// Measures a part in its share of the time that is left for it and what is ahead.
    fn probe<R>(
        &mut self,
        part: Part,
        ahead: &[Part],
        probe: &mut impl FnMut(&Bench<'_>, &mut Model) -> Result<Probed<R>, ProbeError>,
    ) -> Result<Probed<R>, Ended> {
        if self.interrupts.is_asked_to_end() {
            return Err(self.interrupted());
        }
        // Each part has a pool to fill, as a server that starts.
        self.model.renew_graph_pool(self.session);
        let (display, interrupts) = (&mut self.display, self.interrupts);
        let mut heard = |progress: &Progress| {
            let done = match progress.phase {
                Phase::WarmUp => 0.0,
                Phase::Rounds => f64::from(progress.rounds) / f64::from(progress.rounds_most.max(1)),
            };
            display.at(done, Some(progress.left));
            if interrupts.is_asked_to_end() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let time = self.plan.time_of(part, ahead, self.time.elapsed());
        let bench = Bench::new(self.session, self.plan.protocol(), Limits::default(), &mut heard)?;
        let bench = bench.within(time, part.campaigns());
        let probed = probe(&bench, &mut self.model);
        drop(bench);
        if interrupts.is_asked_to_end() {
            return Err(self.interrupted());
        }
        Ok(probed?)
    }

    fn interrupted(&self) -> Ended {
        Ended::Interrupted { kept: self.kept() }
    }

    /// Parts whose results are kept.
    pub(crate) fn kept(&self) -> usize {
        self.partial.probes().count()
    }

    /// Two neighbouring rungs whose steps have as many launches, the largest such.
    fn bridged(&self, descending: &[Rows]) -> Result<Option<[Rows; 2]>, Ended> {
        for pair in descending.windows(2) {
            let launches = |rows: Rows| self.model.step_launches(&self.model.decode_shape(rows));
            if launches(pair[0]).map_err(ProbeError::from)? == launches(pair[1]).map_err(ProbeError::from)? {
                return Ok(Some([pair[0], pair[1]]));
            }
        }
        Ok(None)
    }
}
