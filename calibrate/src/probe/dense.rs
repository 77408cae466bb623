//! The padding staircase: what a graph costs by its rows, whoever needs them.
//!
//! `dense(m)` is a graph of everything of a step but what reads contexts (cache write and attention) and the head. None of
//! its kernels looks at whether a row is real, so the real rows are held fixed, at one, while the captured size varies, and
//! what is left is the price of padding. A FULL step on the device is `dense + attention + head`, the fixed cost of a graph
//! in `dense` only; tests hold that sum against whole steps.

use kernels::launch::Tile;
use kernels::units::{Requests, Rows};

use super::bench::{Bench, Campaigns, Point, Probed};
use super::error::ProbeError;
use super::inputs::Inputs;
use super::parts::{NODE_BYTES_MOST, PartGraph, StepPart};
use super::result::{DensePoint, DenseTable, Padding};
use super::work::Replay;
use crate::counted::counted;
use crate::fit::Staircase;
use crate::gemm_backend::GemmBackend;
use crate::measure::{Estimate, Measured};
use crate::model::Model;

/// Rows that are real at every point.
const REAL_ROWS: u32 = 1;
/// Sizes up to which steps are fine, and middling; beyond, tiles are so large a part that their edges are enough.
const FINE_ROWS: u32 = 256;
const MIDDLING_ROWS: u32 = 1_024;
/// Where the tiles of cuBLASLt may end: its kernels' tiles are multiples of this.
const LIBRARY_TILE_ROWS: u32 = 64;

/// Sizes to measure: every rung, a grid of steps between them (8 up to 256 rows, 16 up to 1,024, 128 beyond; four times
/// these if it must go quickly), and each edge of a tile with the row behind it and one in its middle, up to the largest
/// rung.
///
/// The own GEMM takes the smallest tile that holds the rows and then multiples of the largest; cuBLASLt's tiles are not
/// known and taken to end at multiples of 64.
pub fn grid(ladder: &[Rows], backend: &GemmBackend, is_quick: bool) -> Vec<Rows> {
    let most = ladder.iter().map(|rows| rows.0).max().unwrap_or(0);
    let coarser = if is_quick { 4 } else { 1 };
    let mut sizes: Vec<u32> = ladder.iter().map(|rows| rows.0).collect();
    let mut at = 0;
    while at < most {
        at += coarser
            * match at {
                ..FINE_ROWS => 8,
                FINE_ROWS..MIDDLING_ROWS => 16,
                _ => 128,
            };
        sizes.push(at);
    }
    let edge_rows = match backend {
        GemmBackend::Own => Tile::Rows128.rows(),
        GemmBackend::CublasLt { .. } => LIBRARY_TILE_ROWS,
    };
    let within_largest = (1..=MIDDLING_ROWS.min(most) / edge_rows).map(|count| count * edge_rows);
    // A tread shows itself by three sizes: both its ends and one between them.
    let between = within_largest.clone().map(|edge| edge - edge_rows / 2);
    let small = Tile::ALL.into_iter().map(Tile::rows);
    sizes.extend(small.chain(within_largest).flat_map(|edge| [edge, edge + 1]));
    sizes.extend(between);
    sizes.retain(|size| (1..=most).contains(size));
    sizes.sort_unstable();
    sizes.dedup();
    sizes.into_iter().map(Rows).collect()
}

/// Times the dense part at every size; `padded_most` rows are what a graph is padded to at most.
///
/// # Errors
/// No size, or one beyond the model's limits; not enough memory; or the device fails.
pub fn run(
    bench: &Bench<'_>,
    model: &mut Model,
    sizes: &[Rows],
    padded_most: Rows,
) -> Result<Probed<DenseTable>, ProbeError> {
    let Some(&largest) = sizes.iter().max() else { return Err(ProbeError::plan("sizes", 0, "at least one")) };
    let shape = model.decode_shape(largest);
    let nodes = sizes.len() as u64 * u64::from(model.step_launches(&shape)?);
    bench.require("capturing every size", model.pool_bytes(&shape)? + nodes * NODE_BYTES_MOST)?;
    let mut graphs = Vec::new();
    // The largest first: the others lie over its activations.
    let mut falling = sizes.to_vec();
    falling.sort_unstable_by(|one, other| other.cmp(one));
    falling.dedup();
    for &rows in &falling {
        let shape = model.decode_shape(rows);
        graphs.push((rows, PartGraph::of(bench, model, &shape, StepPart::Dense)?));
    }
    graphs.reverse();
    let inputs = Inputs::decodes(model, Requests(REAL_ROWS), 1)?;
    bench.on(|session| model.set_inputs(session, &inputs.batch, &shape))?;
    let points = graphs.iter().map(|(rows, graph)| Point::new(counted(rows, "row"), Replay(&graph.executable)));
    let mut campaigns = Campaigns::default();
    let measured = bench.device("dense part, device", points.collect(), &mut campaigns)?;
    let points = graphs.iter().zip(measured.times_us());
    let points = points.map(|((rows, graph), device_us)| DensePoint { rows: *rows, nodes: graph.nodes, device_us });
    let points: Vec<DensePoint> = points.collect();
    let padding = padding(&points, padded_most, &measured);
    Ok(campaigns.with(DenseTable { real_rows: Rows(REAL_ROWS), points, padding }))
}

/// The slope of the treads of points up to `most` rows. Only here the rounds are known that its interval comes from.
fn padding<P>(points: &[DensePoint], most: Rows, measured: &Measured<P>) -> Option<Padding> {
    let padded: Vec<(f64, Estimate)> = points
        .iter()
        .take_while(|point| point.rows <= most)
        .map(|point| (f64::from(point.rows.0), point.device_us))
        .collect();
    let stairs = Staircase::of_estimates(&padded);
    let rows: Vec<f64> = padded.iter().map(|(rows, _)| *rows).collect();
    let slope = |medians_us: &[f64]| stairs.slope(&rows, medians_us);
    slope(measured.medians_us())?;
    let row_us = measured.derive(|medians_us| slope(medians_us).unwrap_or(f64::NAN));
    Some(Padding { row_us, to_rows: points[padded.len().checked_sub(1)?].rows })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::POINTS_LEAST;

    fn sizes(ladder: &[u32], backend: &GemmBackend, is_quick: bool) -> Vec<u32> {
        let ladder: Vec<Rows> = ladder.iter().copied().map(Rows).collect();
        grid(&ladder, backend, is_quick).into_iter().map(|rows| rows.0).collect()
    }

    #[test]
    fn the_grid_has_rungs_steps_and_both_sides_of_every_edge() {
        let fine = sizes(&[1, 2, 4, 300], &GemmBackend::Own, false);
        assert_eq!(fine[..9], [1, 2, 4, 8, 16, 17, 24, 32, 40]);
        for edge in [16, 64, 128, 256] {
            assert!(fine.contains(&edge) && fine.contains(&(edge + 1)), "{edge}");
        }
        assert_eq!(fine.iter().rev().take(4).copied().collect::<Vec<_>>(), [300, 288, 272, 257]);
        assert!(fine.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(fine.windows(2).all(|pair| pair[1] - pair[0] <= 16));
    }

    #[test]
    fn quick_grids_are_coarser_and_keep_the_edges() {
        let quick = sizes(&[8, 256], &GemmBackend::Own, true);
        assert_eq!(quick, [8, 16, 17, 32, 64, 65, 96, 128, 129, 160, 192, 224, 256]);
        let library = GemmBackend::CublasLt { file: "lib".into(), version: "13".into() };
        assert!([64, 65, 128, 129, 192, 193].iter().all(|edge| sizes(&[8, 256], &library, true).contains(edge)));
        assert_eq!(sizes(&[], &GemmBackend::Own, false), [0; 0]);
    }

    /// What the segments of a fit need.
    #[test]
    fn every_tread_has_three_sizes() {
        let library = GemmBackend::CublasLt { file: "lib".into(), version: "13".into() };
        for (backend, edges) in [(&GemmBackend::Own, [128, 256, 384, 512, 1_024]), (&library, [64, 128, 320, 512, 960])]
        {
            for is_quick in [false, true] {
                let sizes = sizes(&[1_024], backend, is_quick);
                let tile = edges[0];
                for edge in edges {
                    let on_tread = sizes.iter().filter(|size| (edge - tile + 1..=edge).contains(*size)).count();
                    assert!(on_tread >= POINTS_LEAST, "{on_tread} up to {edge} rows of {sizes:?}");
                }
            }
        }
    }

    #[test]
    fn large_ladders_do_not_explode() {
        assert!(sizes(&[8_192], &GemmBackend::Own, false).len() < 180);
    }
}
