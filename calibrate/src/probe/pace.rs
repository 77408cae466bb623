//! How fast the machine is at a moment: the device time of one short graph, and the clock beside it.

use kernels::launch::Null;

use super::bench::{Bench, Campaigns, Point};
use super::error::ProbeError;
use super::launch::graph_of;
use super::result::Pace;
use super::work::Replay;

/// Empty kernels of the graph: with so many, what a pair of events cannot resolve is no hundredth of its time.
const NODES: u32 = 32;

/// Times the graph.
///
/// # Errors
/// The device fails.
pub(crate) fn run(bench: &Bench<'_>) -> Result<Pace, ProbeError> {
    let graph = graph_of(bench, &Null {}.alone()?, NODES)?;
    let points = vec![Point::new(format!("graph of {NODES}"), Replay(&graph))];
    let measured = bench.device("pace", points, &mut Campaigns::default())?;
    let sm_clock_mhz = measured.campaign.sm_clock_mhz.map(|clock| clock.median);
    Ok(Pace { us: measured.medians_us()[0], sm_clock_mhz })
}
