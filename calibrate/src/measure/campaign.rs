//! A campaign as it runs: warm-up, rounds, stop.

use std::time::Duration;

use kernels::random::Random;

use super::measured::{Campaign, Drift, Measured, Range, StoppedBy};
use super::order_statistics::median;
use super::protocol::{Conditions, Phase, Progress, Protocol, ROUNDS_LEAST, Surroundings, Visit};
use super::resampled::Resampled;
use super::rounds::Rounds;

/// Visits of the first point before the rounds and again after them.
pub(super) const DRIFT_VISITS: usize = 5;
/// Every point is visited this often before visits count: once to see how long it takes, once with its repetitions.
const WARM_UP_ROUNDS: u32 = 2;
/// And no more often than this, should the clock stand still.
const WARM_UP_ROUNDS_MOST: u32 = 10_000;
/// Of the time limit the warm-up takes at most this share.
const WARM_UP_SHARE: f64 = 0.25;
/// A visit repeats no more than this often, even where the clock sees no time pass.
const REPETITIONS_MOST: f64 = 10_000.0;

impl Protocol {
    /// Visits every point in rounds of random order until one of the stop rules ends it.
    ///
    /// # Errors
    /// The first failure of a visit.
    pub fn measure<P, V: Visit<P>>(
        &self,
        points: Vec<P>,
        visit: &mut V,
        surroundings: &mut impl Surroundings,
    ) -> Result<Measured<P>, V::Error> {
        Run::new(self, points, visit, surroundings).run()
    }
}

struct Run<'a, P, V, S> {
    protocol: &'a Protocol,
    points: Vec<P>,
    /// The shortest time of one repetition seen while warming up, by point.
    shortest_ns: Vec<f64>,
    visit: &'a mut V,
    surroundings: &'a mut S,
    random: Random,
    start: Duration,
    unreadable: u32,
}

impl<'a, P, V: Visit<P>, S: Surroundings> Run<'a, P, V, S> {
    fn new(protocol: &'a Protocol, points: Vec<P>, visit: &'a mut V, surroundings: &'a mut S) -> Self {
        Self {
            protocol,
            shortest_ns: vec![f64::INFINITY; points.len()],
            points,
            visit,
            start: surroundings.now(),
            surroundings,
            random: Random::named("rounds", protocol.seed),
            unreadable: 0,
        }
    }

    fn run(mut self) -> Result<Measured<P>, V::Error> {
        let warm_up_visits = self.warm_up()?;
        let before_us = self.first_point()?;
        let mut rounds = Rounds::default();
        let mut conditions = Vec::new();
        let stopped_by = self.rounds(&mut rounds, &mut conditions)?;
        let after_us = self.first_point()?;
        let levels = rounds.levels();
        let (first, second) = levels.split_at(levels.len() / 2);
        let campaign = Campaign {
            seed: self.protocol.seed,
            rounds: rounds.count(),
            warm_up_visits,
            visits: rounds.count() * self.points.len() as u32,
            outliers: rounds.outliers().iter().sum(),
            unreadable: self.unreadable,
            drift: Drift { repeated: ratio(after_us, before_us), halves: ratio(median(second), median(first)) },
            stopped_by,
            seconds: self.elapsed().as_secs_f64(),
            sm_clock_mhz: Range::of(conditions.iter().filter_map(|at: &Conditions| at.sm_clock_mhz)),
            free_bytes: Range::of(conditions.iter().filter_map(|at| at.free).map(|free| free.0 as f64)),
        };
        Ok(Measured::new(self.points, campaign, rounds, conditions))
    }

    /// Visits that do not count, until points and clocks are warm.
    fn warm_up(&mut self) -> Result<u32, V::Error> {
        let enough = self.protocol.warm_up.min(self.protocol.time_limit.mul_f64(WARM_UP_SHARE));
        let mut visits = 0;
        let mut rounds = 0;
        while !self.points.is_empty()
            && rounds < WARM_UP_ROUNDS_MOST
            && (rounds < WARM_UP_ROUNDS || self.elapsed() < enough)
        {
            for point in self.random.order(self.points.len() as u32) {
                self.warm(point as usize, rounds > 0)?;
                visits += 1;
                if rounds >= WARM_UP_ROUNDS && self.elapsed() >= enough {
                    break;
                }
            }
            rounds += 1;
            let left = self.protocol.time_limit.saturating_sub(self.elapsed());
            self.report(Phase::WarmUp, 0, left);
        }
        Ok(visits)
    }

    /// One visit that shows how long a repetition takes.
    fn warm(&mut self, point: usize, repeat: bool) -> Result<(), V::Error> {
        let repetitions = if repeat { self.repetitions(point) } else { 1 };
        let ns = self.visit.visit(&self.points[point], repetitions)?.0 / f64::from(repetitions);
        if ns >= 0.0 {
            self.shortest_ns[point] = self.shortest_ns[point].min(ns);
        }
        Ok(())
    }

    /// So many that a visit lasts long enough for its clock.
    fn repetitions(&self, point: usize) -> u32 {
        let wanted = (self.protocol.visit.as_nanos() as f64 / self.shortest_ns[point]).ceil();
        let most = self.visit.repetitions_most(&self.points[point]).max(1);
        // The time may be 0: infinity is clamped as everything else is.
        (wanted.clamp(1.0, REPETITIONS_MOST) as u32).min(most)
    }

    /// One visit that counts, in microseconds a repetition.
    fn time_us(&mut self, point: usize) -> Result<f64, V::Error> {
        let repetitions = self.repetitions(point);
        let us = self.visit.visit(&self.points[point], repetitions)?.us() / f64::from(repetitions);
        if us.is_finite() && us >= 0.0 {
            return Ok(us);
        }
        self.unreadable += 1;
        Ok(0.0)
    }

    /// The first point several times over: compared before and after the rounds it shows drift.
    fn first_point(&mut self) -> Result<f64, V::Error> {
        let visits = if self.points.is_empty() { 0 } else { DRIFT_VISITS };
        let readings: Result<Vec<f64>, _> = (0..visits).map(|_| self.time_us(0)).collect();
        Ok(median(&readings?))
    }

    fn rounds(&mut self, rounds: &mut Rounds, conditions: &mut Vec<Conditions>) -> Result<StoppedBy, V::Error> {
        let least = self.protocol.rounds_least.max(ROUNDS_LEAST);
        let most = self.protocol.rounds_most.max(least);
        let begin = self.elapsed();
        let mut look_at = least;
        let mut expected = most;
        while rounds.count() < most {
            conditions.push(self.surroundings.conditions());
            let mut round = vec![0.0; self.points.len()];
            for point in self.random.order(self.points.len() as u32) {
                round[point as usize] = self.time_us(point as usize)?;
            }
            rounds.0.push(round);
            let done = rounds.count();
            if done >= look_at {
                let widest = Resampled::of(rounds, self.protocol.seed).widest_half_width();
                if widest <= self.protocol.half_width_target {
                    return Ok(StoppedBy::Target);
                }
                // The width falls with the root of the rounds. Looking after every round would end campaigns at lucky ones.
                let need = f64::from(done) * (widest / self.protocol.half_width_target).powi(2);
                expected = (need.min(f64::from(most)) as u32).max(done + 1).min(most);
                look_at = done + done.div_ceil(4);
            }
            let each = self.elapsed().saturating_sub(begin).div_f64(f64::from(done));
            let until_limit = self.protocol.time_limit.saturating_sub(self.elapsed());
            self.report(
                Phase::Rounds,
                done,
                each.mul_f64(f64::from(expected.saturating_sub(done).max(1))).min(until_limit),
            );
            if done >= ROUNDS_LEAST && each > until_limit {
                return Ok(StoppedBy::TimeLimit);
            }
        }
        Ok(StoppedBy::RoundLimit)
    }

    fn elapsed(&mut self) -> Duration {
        self.surroundings.now().saturating_sub(self.start)
    }

    fn report(&mut self, phase: Phase, rounds: u32, left: Duration) {
        let rounds_most = self.protocol.rounds_most.max(self.protocol.rounds_least).max(ROUNDS_LEAST);
        self.surroundings.progress(&Progress { phase, rounds, rounds_most, left });
    }
}

/// How much longer than `before`, 1 where nothing can be said.
fn ratio(after: f64, before: f64) -> f64 {
    if before > 0.0 && after.is_finite() { after / before } else { 1.0 }
}
