//! What launches and graph nodes cost: ladders of kernels that do nothing, launched one by one and as a graph.
//!
//! The ladder ends below 500, so that the queue of launches never fills and the host never waits. Of the device's lines the
//! empty kernel itself is a part, as it is a part of every real kernel's time.

use kernels::launch::Null;

use super::bench::{Bench, Campaigns, Point, Probed};
use super::error::ProbeError;
use super::gate::QUEUED_MOST;
use super::graph_of::graph_of;
use super::line::relative_line;
use super::result::{LaunchCosts, LaunchRung, LinearCost};
use super::work::{Launches, Replay};
use crate::device::Executable;
use crate::measure::Measured;

/// The ladder of a full calibration.
pub const COUNTS: [u32; 8] = [8, 16, 32, 64, 128, 240, 360, 480];
/// The ladder of a quick one.
pub const QUICK_COUNTS: [u32; 4] = [8, 32, 128, 480];

/// Times both ladders on both sides.
///
/// # Errors
/// Counts that are fewer than two, not rising, or more than a queue holds; or the device fails.
pub fn run(bench: &Bench<'_>, counts: &[u32]) -> Result<Probed<LaunchCosts>, ProbeError> {
    let is_rising = counts.len() >= 2 && counts[0] > 0 && counts.windows(2).all(|pair| pair[0] < pair[1]);
    if !is_rising || counts.iter().any(|&count| count as usize > QUEUED_MOST) {
        let expected = format!("two or more, rising, of 1 to {QUEUED_MOST}");
        return Err(ProbeError::plan("counts of launches", format!("{counts:?}"), expected));
    }
    let null = Null {}.alone()?;
    // A kernel must have run before it is captured.
    bench.on(|session| session.launch(&null).and_then(|()| session.synchronize()))?;
    let graphs: Vec<Executable> =
        counts.iter().map(|&count| bench.on(|session| graph_of(session, &null, count))).collect::<Result<_, _>>()?;
    let points = || {
        let launches = counts.iter().map(|&count| {
            Point::new(format!("{count} launches"), Launches { launch: null.clone(), count: count as usize })
        });
        let replays =
            counts.iter().zip(&graphs).map(|(count, graph)| Point::new(format!("graph of {count}"), Replay(graph)));
        launches.chain(replays).collect::<Vec<_>>()
    };
    let mut campaigns = Campaigns::default();
    let host = bench.host("empty kernels, host", points(), &mut campaigns)?;
    let device = bench.device("empty kernels, device", points(), &mut campaigns)?;
    let [(eager_host, graph_host), (eager_device, graph_device)] = [&host, &device].map(|side| lines(counts, side));
    let (host_us, device_us) = (host.times_us(), device.times_us());
    let ladder = counts.iter().enumerate().map(|(index, &count)| LaunchRung {
        count,
        eager_host_us: host_us[index],
        eager_device_us: device_us[index],
        graph_host_us: host_us[counts.len() + index],
        graph_device_us: device_us[counts.len() + index],
    });
    let ladder = ladder.collect();
    Ok(campaigns.with(LaunchCosts { eager_host, eager_device, graph_host, graph_device, ladder }))
}

/// The lines of both halves of the points.
fn lines(counts: &[u32], measured: &Measured<Point<'_>>) -> (LinearCost, LinearCost) {
    let x: Vec<f64> = counts.iter().copied().map(f64::from).collect();
    let line = |first: usize| {
        let [fixed_us, each_us] =
            measured.derive_all(|medians_us| relative_line(&x, &medians_us[first..first + x.len()]));
        LinearCost { fixed_us, each_us }
    };
    (line(0), line(counts.len()))
}
