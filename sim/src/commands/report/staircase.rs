//! The padding staircase of a profile, as calibrate sees it.

use calibrate::padding::TableStairs;
use calibrate::profile::{Curve, Profile};
use reports::page::{StairEdge, Staircase};

/// Knots and proven edges of the dense table; `None` of a profile whose dense work is a line.
pub(super) fn of(profile: &Profile) -> Option<Staircase> {
    let Curve::Table(table) = &profile.machine.dense.figures else { return None };
    let knots = table.x().iter().zip(table.y()).map(|(rows, us)| [*rows, *us]).collect();
    let stairs = TableStairs::of_profile(profile);
    let edges = stairs.iter().flat_map(|stairs| {
        stairs.stairs.edges.iter().map(|edge| StairEdge {
            below: edge.below,
            above: edge.above,
            jump_us: edge.jump,
            percent: stairs.percent(edge),
        })
    });
    Some(Staircase { knots, edges: edges.collect() })
}
