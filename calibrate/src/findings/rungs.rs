//! Rung by rung what captures cost, as a profile states it.

use super::stated::rounded;
use crate::graph_mode::Mode;
use crate::measure::Estimate;
use crate::probe::result::{RungCosts, Rungs};
use crate::profile;

/// The rungs of one mode, ascending; `None` if none was captured.
pub fn rungs(found: &Rungs, mode: Mode) -> Option<profile::Rungs> {
    let mut rungs: Vec<&RungCosts> = found.rungs.iter().filter(|rung| rung.mode == mode).collect();
    rungs.sort_by_key(|rung| rung.rows.0);
    rungs.dedup_by_key(|rung| rung.rows.0);
    if rungs.is_empty() {
        return None;
    }
    let column = |of: &dyn Fn(&RungCosts) -> f64| rungs.iter().map(|rung| of(rung)).collect::<Vec<f64>>();
    let times = |of: fn(&RungCosts) -> Estimate, factor: f64| {
        column(&|rung: &RungCosts| rounded(of(rung).value * factor).max(0.0))
    };
    Some(profile::Rungs {
        rows: column(&|rung: &RungCosts| f64::from(rung.rows.0)),
        nodes: column(&|rung: &RungCosts| f64::from(rung.nodes)),
        capture_ms: times(|rung| rung.capture_us, 1e-3),
        instantiate_ms: times(|rung| rung.instantiate_us, 1e-3),
        upload_ms: times(|rung| rung.upload_us, 1e-3),
        pool_growth_bytes: column(&|rung: &RungCosts| rung.pool_growth.0 as f64),
        first_replay_us: times(|rung| rung.first_replay_us, 1.0),
        replay_host_us: times(|rung| rung.replay_host_us, 1.0),
        replay_device_us: times(|rung| rung.replay_device_us, 1.0),
        eager_host_us: times(|rung| rung.eager_host_us, 1.0),
        eager_device_us: times(|rung| rung.eager_device_us, 1.0),
    })
}
