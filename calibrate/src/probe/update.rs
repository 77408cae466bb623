//! What it costs to let one executable serve several rungs: the update itself, and the replay that follows it.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use kernels::step::Place;
use kernels::units::Rows;

use super::bench::{Bench, Campaigns, Point, Probed, Timed};
use super::error::ProbeError;
use super::line::relative_line;
use super::result::{LinearCost, Switch, UpdateCosts};
use crate::device::{Executable, Graph, Session};
use crate::model::Model;

/// Lengths of the graphs that are switched, as sixteenths of a step before its head: from about a segment between two
/// attentions to all of it.
const SIXTEENTHS: [usize; 4] = [1, 4, 8, 16];

/// Two graphs of one topology, and an executable that becomes the one and the other.
struct Pair {
    graphs: [Graph; 2],
    executable: RefCell<Executable>,
    /// Which of the two it is to become next.
    next: Cell<usize>,
}

impl Pair {
    fn switch(&self, session: &mut Session) -> Result<(), ProbeError> {
        let next = self.next.replace(1 - self.next.get());
        Ok(session.update(&mut self.executable.borrow_mut(), &self.graphs[next])?)
    }
}

/// What of a switch is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timing {
    Update,
    NextReplay,
    SteadyReplay,
}

impl Timing {
    /// In words, for messages about a point.
    fn what(self) -> &'static str {
        match self {
            Self::Update => "an update",
            Self::NextReplay => "the replay after an update",
            Self::SteadyReplay => "a later replay",
        }
    }
}

struct Switching<'a> {
    pair: &'a Pair,
    timing: Timing,
}

impl Timed for Switching<'_> {
    fn calls(&self) -> usize {
        1
    }

    fn make(&self, session: &mut Session, calls: Range<usize>) -> Result<(), ProbeError> {
        for _ in calls {
            match self.timing {
                Timing::Update => self.pair.switch(session)?,
                Timing::NextReplay | Timing::SteadyReplay => session.replay(&self.pair.executable.borrow())?,
            }
        }
        Ok(())
    }

    fn before_each(&self, session: &mut Session) -> Result<(), ProbeError> {
        match self.timing {
            Timing::Update => Ok(()),
            Timing::NextReplay => self.pair.switch(session),
            // Whatever was updated before is on the device behind this.
            Timing::SteadyReplay => Ok(session.replay(&self.pair.executable.borrow())?),
        }
    }
}

/// Switches between two rungs: graphs of a sixteenth, a quarter, a half and all of a step before its head.
///
/// # Errors
/// Rungs whose steps have not the same launches, which no update can bridge; not enough memory; or the device fails.
pub fn run(bench: &Bench<'_>, model: &mut Model, rows: [Rows; 2]) -> Result<Probed<UpdateCosts>, ProbeError> {
    let mut planned = Vec::new();
    for rows in rows {
        let shape = model.decode_shape(rows);
        planned.push(bench.on(|session| model.plan(session, &shape))?.only(|place| place != Place::Head));
    }
    let calls = planned[0].calls();
    if calls != planned[1].calls() || rows[0] == rows[1] {
        let given = format!("{} and {} rows", rows[0], rows[1]);
        return Err(ProbeError::plan("rungs to switch between", given, "two rungs whose steps have as many launches"));
    }
    let mut pairs = Vec::new();
    for sixteenths in SIXTEENTHS {
        let first = (calls * sixteenths).div_ceil(16);
        pairs.push(bench.on(|session| {
            let graphs = [planned[0].first(first).capture(session)?, planned[1].first(first).capture(session)?];
            let executable = RefCell::new(session.instantiate(&graphs[0])?);
            Ok::<_, ProbeError>(Pair { graphs, executable, next: Cell::new(1) })
        })?);
    }
    let points = [Timing::Update, Timing::NextReplay, Timing::SteadyReplay].into_iter().flat_map(|timing| {
        pairs.iter().map(move |pair| {
            Point::new(format!("{} of {} nodes", timing.what(), pair.graphs[0].nodes()), Switching { pair, timing })
        })
    });
    let mut campaigns = Campaigns::default();
    let measured = bench.host("updates, host", points.collect(), &mut campaigns)?;
    let times_us = measured.times_us();
    let nodes: Vec<f64> = pairs.iter().map(|pair| pair.graphs[0].nodes() as f64).collect();
    let [fixed_us, each_us] = measured.derive_all(|medians_us| relative_line(&nodes, &medians_us[..nodes.len()]));
    let update_host = LinearCost { fixed_us, each_us };
    let [fixed_us, each_us] = measured.derive_all(|medians_us| relative_line(&nodes, &switches_us(medians_us)));
    let switch_host = LinearCost { fixed_us, each_us };
    let switches = pairs.iter().enumerate().map(|(index, pair)| Switch {
        rows,
        nodes: pair.graphs[0].nodes() as u32,
        update_us: times_us[index],
        next_replay_host_us: times_us[pairs.len() + index],
        replay_host_us: times_us[2 * pairs.len() + index],
    });
    let switches = switches.collect();
    Ok(campaigns.with(UpdateCosts { update_host, switch_host, switches }))
}

/// What switches cost, by graph: the update, and what the replay behind it takes longer than a later one. The medians are
/// those of updates, of the replays behind them and of later replays.
fn switches_us(medians_us: &[f64]) -> Vec<f64> {
    let graphs = medians_us.len() / 3;
    let longer = |graph: usize| (medians_us[graphs + graph] - medians_us[2 * graphs + graph]).max(0.0);
    (0..graphs).map(|graph| medians_us[graph] + longer(graph)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_is_the_update_and_what_the_next_replay_takes_longer() {
        assert_eq!(switches_us(&[10.0, 20.0, 9.0, 5.0, 8.0, 6.0]), [11.0, 20.0]);
    }
}
