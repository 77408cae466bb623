//! Rounds of readings, and what they have in common taken out.

use super::order_statistics::{MEDIAN, mad, median};

/// With fewer points a round's own noise cannot be told from what slowed it as a whole.
const POINTS_LEAST: usize = 4;
/// Readings further from their median than this many deviations are flagged.
const OUTLIER_DEVIATIONS: f64 = 5.0;
/// A deviation is taken to be no less than this share of the median: what a clock cannot resolve is no outlier.
const DEVIATION_LEAST: f64 = 1e-3;

/// Times in microseconds by round and point.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rounds(pub(super) Vec<Vec<f64>>);

impl Rounds {
    pub(super) fn count(&self) -> u32 {
        self.0.len() as u32
    }

    /// The readings of one point.
    pub(super) fn column(&self, point: usize) -> Vec<f64> {
        self.0.iter().filter_map(|round| round.get(point).copied()).collect()
    }

    fn points(&self) -> usize {
        self.0.first().map_or(0, Vec::len)
    }

    /// The median of every point.
    pub(super) fn medians(&self) -> Vec<f64> {
        (0..self.points()).map(|point| median(&self.column(point))).collect()
    }

    /// How slow each round was as a whole: the median over the points of reading by the point's median.
    pub(super) fn levels(&self) -> Vec<f64> {
        self.ratios().iter().map(|ratios| median(ratios)).collect()
    }

    /// Each reading divided by how slow the other points were in its round.
    ///
    /// The other points only: a reading that is part of its own measure loses part of its noise, and the interval would be
    /// too narrow.
    pub(super) fn steadied(&self) -> Self {
        let ratios = self.ratios();
        let shared = self.shared(&ratios);
        if shared == 0.0 {
            return self.clone();
        }
        let steady = |(round, ratios): (&Vec<f64>, &Vec<f64>)| {
            let without = Without::new(ratios);
            let divided = |(point, &reading): (usize, &f64)| reading / level(without.median(point), shared);
            round.iter().enumerate().map(divided).collect()
        };
        Self(self.0.iter().zip(&ratios).map(steady).collect())
    }

    /// By what [`steadied`](Self::steadied) divided each round as a whole.
    pub(super) fn taken_out(&self) -> Vec<f64> {
        let ratios = self.ratios();
        let shared = self.shared(&ratios);
        ratios.iter().map(|ratios| if shared == 0.0 { 1.0 } else { level(median(ratios), shared) }).collect()
    }

    /// How much of the levels' variance is the rounds' own and not the noise of their points: the share of its deviation
    /// from 1 by which a level is believed (James and Stein 1961). Dividing steady rounds by what is only noise would make
    /// intervals too wide.
    fn shared(&self, ratios: &[Vec<f64>]) -> f64 {
        let points = self.points() as f64;
        if self.points() < POINTS_LEAST {
            return 0.0;
        }
        let levels: Vec<f64> = ratios.iter().map(|ratios| median(ratios)).collect();
        let residuals: Vec<f64> = ratios
            .iter()
            .zip(&levels)
            .flat_map(|(ratios, level)| ratios.iter().map(move |ratio| ratio - level))
            .collect();
        // Of the median of the points; the residuals are from a middle that the points themselves decide.
        let noise = (MEDIAN * mad(&residuals)).powi(2) / (points - 1.0);
        let mean = levels.iter().sum::<f64>() / levels.len() as f64;
        // Not robust on purpose: a few slow rounds are what is to be taken out.
        let variance = levels.iter().map(|level| (level - mean).powi(2)).sum::<f64>() / (levels.len() as f64 - 1.0);
        if variance > noise { 1.0 - noise / variance } else { 0.0 }
    }

    /// Readings that stand apart from those of their point, by point; of steadied rounds, so that drift makes none. They are
    /// counted and not left out: medians need no help.
    pub(super) fn outliers(&self) -> Vec<u32> {
        let steadied = self.steadied();
        let flagged = |point| {
            let column = steadied.column(point);
            let middle = median(&column);
            let far = OUTLIER_DEVIATIONS * mad(&column).max(DEVIATION_LEAST * middle.abs());
            column.iter().filter(|reading| (**reading - middle).abs() > far).count() as u32
        };
        (0..self.points()).map(flagged).collect()
    }

    /// Each reading by the median of its point; 1 where that is 0.
    fn ratios(&self) -> Vec<Vec<f64>> {
        let medians = self.medians();
        let ratio = |(reading, median): (&f64, &f64)| if *median > 0.0 { reading / median } else { 1.0 };
        self.0.iter().map(|round| round.iter().zip(&medians).map(ratio).collect()).collect()
    }
}

/// A median ratio by as much as it is believed; 1 where there is none.
fn level(ratio: f64, shared: f64) -> f64 {
    if ratio > 0.0 { 1.0 + shared * (ratio - 1.0) } else { 1.0 }
}

/// Medians of all values but one.
struct Without {
    sorted: Vec<f64>,
    /// Where in `sorted` each value is.
    place: Vec<usize>,
}

impl Without {
    fn new(values: &[f64]) -> Self {
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by(|&one, &other| values[one].total_cmp(&values[other]));
        let mut place = vec![0; values.len()];
        order.iter().enumerate().for_each(|(rank, &value)| place[value] = rank);
        Self { sorted: order.iter().map(|&value| values[value]).collect(), place }
    }

    /// The median without value `left_out`; there are two values at least.
    fn median(&self, left_out: usize) -> f64 {
        let rest = self.sorted.len() - 1;
        let nth = |rank: usize| self.sorted[if rank < self.place[left_out] { rank } else { rank + 1 }];
        f64::midpoint(nth((rest - 1) / 2), nth(rest / 2))
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "medians of small whole numbers, computed exactly")]
mod tests {
    use kernels::random::Random;

    use super::*;

    #[test]
    fn the_median_without_one_is_that_of_the_rest() {
        let mut random = Random::named("without", 0);
        for count in 2..9 {
            let values: Vec<f64> = (0..count).map(|_| f64::from(random.below(6))).collect();
            let without = Without::new(&values);
            for left_out in 0..values.len() {
                let mut rest = values.clone();
                rest.remove(left_out);
                assert_eq!(without.median(left_out), median(&rest), "{values:?} without {left_out}");
            }
        }
    }

    #[test]
    fn what_slows_a_whole_round_is_taken_out() {
        let calm = [10.0, 20.0, 30.0, 40.0, 50.0];
        let slowed = [1.0, 1.0, 1.07, 1.0, 0.98];
        let rounds = Rounds(slowed.map(|by| calm.map(|us| us * by).to_vec()).to_vec());
        for round in rounds.steadied().0 {
            assert!(round.iter().zip(calm).all(|(one, other)| (one - other).abs() < 1e-9), "{round:?}");
        }
        assert!(rounds.taken_out().iter().zip(slowed).all(|(one, other)| (one - other).abs() < 1e-9));
    }

    #[test]
    fn few_points_are_left_as_they_are() {
        let rounds = Rounds(vec![vec![1.0, 2.0, 3.0], vec![2.0, 4.0, 6.0]]);
        assert_eq!((rounds.steadied(), rounds.taken_out()), (rounds.clone(), vec![1.0, 1.0]));
    }

    #[test]
    fn a_reading_far_from_its_like_is_flagged_and_one_that_the_clock_cannot_tell_is_not() {
        let column = |values: [f64; 6]| Rounds(values.map(|value| vec![value]).to_vec()).outliers();
        assert_eq!(column([10.0, 10.1, 9.9, 10.0, 10.05, 14.0]), [1]);
        assert_eq!(column([10.0, 10.0, 10.0, 10.0, 10.0, 10.001]), [0]);
        assert_eq!(column([0.0; 6]), [0]);
    }

    #[test]
    fn no_rounds_and_no_points_are_no_trouble() {
        assert_eq!(Rounds::default().steadied(), Rounds::default());
        assert_eq!(Rounds(vec![vec![]; 3]).steadied(), Rounds(vec![vec![]; 3]));
        assert!(Rounds(vec![vec![]; 3]).outliers().is_empty());
    }
}
