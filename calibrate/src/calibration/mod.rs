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
use kept::Ends;
pub(crate) use kept::Kept;
pub(crate) use paces::Paces;
pub(crate) use profile::{About, profile};
pub(crate) use readiness::{kernels_work, memory_stands_still, refuse_unfit};

use crate::device::{HostClock, Interrupts, Session};
use crate::measure::{Cause, Estimate, Gauge, Limits, Pace, Phase, Progress, TooNoisy};
use crate::model::Model;
use crate::padding;
use crate::partial::PartialResults;
use crate::plan::{Part, Plan};
use crate::probe::result::{
    Bandwidth, DecodeTable, DenseTable, Executables, HeadTable, LaunchCosts, PrefillTable, Rungs, UpdateCosts,
};
use crate::probe::{
    Bench, PaceWork, ProbeError, Probed, RungPlan, attention, bandwidth, dense, executables, head, launch, rungs,
    update,
};
use crate::progress::Display;

/// A part that was disturbed is measured once more before it is given up.
const TRIES: u32 = 2;
/// After work that made it hot a device may need a moment: its pace is taken so often before a part begins.
const PACES_MOST: u32 = 5;
/// The staircase is fine up to here at least.
const DENSE_LEAST: Rows = Rows(256);
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
    pub(crate) pace_work: PaceWork,
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
        let drift = self.drift()?;
        Ok(Results { launch, bandwidth, dense, head, decode, prefill, rungs, executables, update, drift })
    }

    /// How far the machine moved from the first part to the last.
    fn drift(&mut self) -> Result<Option<TooNoisy>, Ended> {
        self.display.begin("drift since the beginning");
        // The parts since the last one of the host looked at the device alone.
        if let Some(changed) = self.pace_before(Gauge::ALL)? {
            return Err(Ended::Changed(changed));
        }
        let (by, drift) = self.paces.drift();
        self.display.end(&format!("{:+.1} %", by * 100.0));
        Ok(drift)
    }

    /// That the machine is still the one that the kept parts were measured on. From here on every pace is compared with the
    /// first of the first piece, as in a run of one piece.
    fn go_on(&mut self) -> Result<(), Ended> {
        let Some(first) = self.partial.pieces().first().and_then(|piece| piece.pace) else { return Ok(()) };
        self.paces.push(Duration::ZERO, first);
        self.pace()?;
        match self.pace_before(Gauge::ALL)? {
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
            let before = self.pace_before(part.gauges())?;
            let probed = self.probe(part, &ahead, &mut probe)?;
            self.pace()?;
            let ends = Ends { before, after: self.paces.changed(part.gauges()) };
            match ends.judge(part, probed, tries_left == 0) {
                Ok(kept) => break kept,
                Err(disturbance) if tries_left == 0 => return Err(Ended::Disturbed { part, disturbance }),
                Err(disturbance) => {
                    self.display.note(&format!("measured once more: {disturbance}"));
                    self.doubt_the_first_pace(&disturbance);
                }
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

    /// Where the machine is faster than in the beginning, and nothing is kept yet, it was the beginning that was disturbed.
    fn doubt_the_first_pace(&mut self, disturbance: &TooNoisy) {
        let is_faster = matches!(disturbance.cause, Cause::Pace { .. }) && disturbance.by < 0.0;
        if is_faster && self.kept() == 0 {
            self.paces = Paces::default();
            if let Some(piece) = self.partial.piece() {
                piece.pace = None;
            }
        }
    }

    /// What is still to be measured.
    fn ahead(&self) -> Vec<Part> {
        let is_kept = |part: &Part| self.partial.probes().any(|kept| kept == part.name());
        Part::ALL.into_iter().filter(|part| !is_kept(part)).collect()
    }

    /// The pace before a part, if it is not the one of the beginning; what made the device hot has a moment to pass.
    fn pace_before(&mut self, gauges: &[Gauge]) -> Result<Option<TooNoisy>, Ended> {
        if self.paces.first().is_none() {
            let steady = self.steady_pace()?;
            self.push(steady);
        }
        for _ in 0..PACES_MOST {
            if self.paces.changed(gauges).is_none() {
                break;
            }
            self.pace()?;
        }
        Ok(self.paces.changed(gauges))
    }

    /// The first pace: a card that was idle needs a moment until its clocks are up.
    fn steady_pace(&mut self) -> Result<Pace, Ended> {
        let limits = Limits { pace: Limits::default().drift, ..Limits::default() };
        let mut pace = self.take_pace()?;
        for _ in 0..PACES_MOST {
            let before = std::mem::replace(&mut pace, self.take_pace()?);
            if pace.changed_from(&before, Gauge::DEVICE, &limits).is_none() {
                break;
            }
        }
        Ok(pace)
    }

    fn pace(&mut self) -> Result<(), Ended> {
        let pace = self.take_pace()?;
        self.push(pace);
        Ok(())
    }

    fn push(&mut self, pace: Pace) {
        if let Some(piece) = self.partial.piece() {
            piece.pace.get_or_insert(pace);
        }
        self.paces.push(self.time.elapsed(), pace);
    }

    fn take_pace(&mut self) -> Result<Pace, Ended> {
        let mut heard = |_: &Progress| ControlFlow::Continue(());
        let bench = Bench::new(self.session, self.plan.protocol(), Limits::default(), &mut heard)?;
        let pace = bench.pace(&self.pace_work, self.plan.pace_warm_up());
        drop(bench);
        if self.interrupts.is_asked_to_end() {
            return Err(self.interrupted());
        }
        Ok(pace?)
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
        let bench = match self.paces.first() {
            Some(first) => bench.paced_by(&self.pace_work, first),
            None => bench,
        };
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
