//! The medians of rounds, and how they would differ if the rounds were run again.

use std::cell::OnceCell;

use super::bootstrap::{self, Resamples};
use super::estimate::Estimate;
use super::order_statistics::median;
use super::rounds::Rounds;

/// Medians of the points, as measured and in every resample of the rounds.
#[derive(Clone, Debug)]
pub(super) struct Resampled {
    rounds: u32,
    medians_us: Vec<f64>,
    /// Steadied rounds, each with what was taken out of it behind its points.
    rows: Vec<Vec<f64>>,
    seed: u64,
    /// By resample, then by point; drawn when first asked for.
    drawn_us: OnceCell<Vec<Vec<f64>>>,
}

impl Resampled {
    pub(super) fn of(rounds: &Rounds, seed: u64) -> Self {
        let mut rows = rounds.steadied().0;
        let levels = rounds.taken_out();
        for (row, &level) in rows.iter_mut().zip(&levels) {
            row.push(level);
        }
        let columns = rows.first().map_or(0, Vec::len);
        let medians =
            (0..columns).map(|column| median(&rows.iter().map(|row| row[column]).collect::<Vec<_>>())).collect();
        Self { rounds: rounds.count(), medians_us: leveled(medians), rows, seed, drawn_us: OnceCell::new() }
    }

    fn drawn_us(&self) -> &[Vec<f64>] {
        self.drawn_us.get_or_init(|| {
            Resamples::new(self.rounds, self.seed).medians(&self.rows).into_iter().map(leveled).collect()
        })
    }

    pub(super) fn medians_us(&self) -> &[f64] {
        &self.medians_us
    }

    /// Whatever follows from the medians of the points, each with its interval.
    pub(super) fn estimates<const N: usize>(&self, statistics: impl Fn(&[f64]) -> [f64; N]) -> [Estimate; N] {
        let values = statistics(&self.medians_us);
        let drawn: Vec<[f64; N]> = self.drawn_us().iter().map(|medians| statistics(medians)).collect();
        std::array::from_fn(|which| {
            let value = values[which];
            let [low, high] = bootstrap::interval(drawn.iter().map(|drawn| drawn[which]).collect(), self.rounds, value);
            Estimate { value, low, high, samples: self.rounds }
        })
    }

    /// The widest interval of any point, to one side, as a share of its value.
    pub(super) fn widest_half_width(&self) -> f64 {
        let width = |point| self.estimates(|medians| [medians[point]])[0].relative_half_width();
        (0..self.medians_us.len()).map(width).fold(0.0, f64::max)
    }
}

/// The medians times what was taken out of the rounds, which is the last of them. So differences between points are rid of
/// what rounds share, and the points' own intervals still know of it.
fn leveled(mut medians: Vec<f64>) -> Vec<f64> {
    let level = medians.pop().unwrap_or(1.0);
    for median in &mut medians {
        *median *= level;
    }
    medians
}
