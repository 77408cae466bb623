//! Intervals by resampling: what the medians would have been if other rounds of the same kind had been run.

use kernels::random::Random;

use super::order_statistics::sorted_quantile;

/// About 25 of them lie beyond either end of the interval.
const RESAMPLES: u32 = 1_000;

/// Rounds drawn with replacement, as many as there are, again and again; each resample as how often it holds each round.
pub(super) struct Resamples {
    rounds: u32,
    random: Random,
    count: u32,
}

impl Resamples {
    /// The resamples of this many rounds that a seed decides.
    pub(super) fn new(rounds: u32, seed: u64) -> Self {
        Self { rounds, random: Random::named("bootstrap", seed), count: RESAMPLES }
    }

    /// The medians of every column in every resample of the rows.
    pub(super) fn medians<Row: AsRef<[f64]>>(&mut self, rows: &[Row]) -> Vec<Vec<f64>> {
        let columns = rows.first().map_or(0, |row| row.as_ref().len());
        let columns: Vec<Column> = (0..columns).map(|column| Column::new(rows, column)).collect();
        let mut weights = vec![0; rows.len()];
        let mut resample = || {
            weights.fill(0);
            (0..self.rounds).for_each(|_| weights[self.random.below(self.rounds) as usize] += 1);
            columns.iter().map(|column| column.median(&weights, self.rounds)).collect()
        };
        (0..self.count).map(|_| resample()).collect()
    }
}

/// One column of the rounds in rising order, so that the median of a resample is found by counting.
struct Column(Vec<(f64, usize)>);

impl Column {
    fn new<Row: AsRef<[f64]>>(rows: &[Row], column: usize) -> Self {
        let mut values: Vec<_> = rows.iter().enumerate().map(|(round, row)| (row.as_ref()[column], round)).collect();
        values.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
        Self(values)
    }

    /// The median when round `r` counts `weights[r]` times, `total` in all.
    fn median(&self, weights: &[u32], total: u32) -> f64 {
        // Of an even number the mean of these two, of an odd number they are the same.
        let (lower, upper) = ((total - 1) / 2, total / 2);
        let mut passed = 0;
        let mut low = f64::NAN;
        for &(value, round) in &self.0 {
            passed += weights[round];
            if low.is_nan() && passed > lower {
                low = value;
            }
            if passed > upper {
                return f64::midpoint(low, value);
            }
        }
        low
    }
}

/// The 95 % interval that resampled statistics of so many rounds give, widened where needed to hold `value` itself.
///
/// Percentiles of resamples are too near each other for few rounds; they are taken further out by Student's t and the
/// share n/(n-1) (Hesterberg 2015, "What Teachers Should Know About the Bootstrap", expanded percentile interval).
pub(crate) fn interval(mut drawn: Vec<f64>, rounds: u32, value: f64) -> [f64; 2] {
    drawn.retain(|drawn| drawn.is_finite());
    if drawn.is_empty() {
        return [value, value];
    }
    drawn.sort_unstable_by(f64::total_cmp);
    let tail = tail(rounds);
    [sorted_quantile(&drawn, tail).min(value), sorted_quantile(&drawn, 1.0 - tail).max(value)]
}

/// The share of resamples beyond either end.
fn tail(rounds: u32) -> f64 {
    let rounds = f64::from(rounds.max(2));
    normal_tail((rounds / (rounds - 1.0)).sqrt() * student(rounds - 1.0))
}

/// The value that Student's t passes with probability 2.5 %; to three digits from 5 degrees of freedom on (Abramowitz and
/// Stegun 1964, 26.7.5).
pub(super) fn student(freedom: f64) -> f64 {
    let z: f64 = 1.959_964;
    let term = |power: i32, by: f64| by * z.powi(power);
    z + (term(3, 1.0) + z) / (4.0 * freedom)
        + (term(5, 5.0) + term(3, 16.0) + 3.0 * z) / (96.0 * freedom.powi(2))
        + (term(7, 3.0) + term(5, 19.0) + term(3, 17.0) - 15.0 * z) / (384.0 * freedom.powi(3))
}

/// The probability that a standard normal passes `z`, which is not negative; to seven digits (Abramowitz and Stegun 1964,
/// 26.2.17).
fn normal_tail(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z);
    let polynomial = [1.330_274_429, -1.821_255_978, 1.781_477_937, -0.356_563_782, 0.319_381_530]
        .iter()
        .fold(0.0, |sum, coefficient| (sum + coefficient) * t);
    (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * polynomial
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "medians are values or halves of sums of two, by either way the same")]
mod tests {
    use super::*;

    #[test]
    fn tails_are_those_of_the_tables() {
        for (z, tail) in [(0.0, 0.5), (1.0, 0.158_655), (1.959_964, 0.025), (3.0, 0.001_350)] {
            assert!((normal_tail(z) - tail).abs() < 1e-6, "{z}");
        }
        for (freedom, t) in [(5.0, 2.571), (11.0, 2.201), (29.0, 2.045), (1e6, 1.960)] {
            assert!((student(freedom) - t).abs() < 0.004, "{freedom}");
        }
        assert!((tail(12) - 0.01076).abs() < 1e-5 && (tail(1_000_000) - 0.025).abs() < 1e-5);
    }

    #[test]
    fn medians_by_counting_are_those_of_written_out_resamples() {
        let mut random = Random::named("rows", 3);
        for rounds in [1, 2, 5, 6, 13] {
            let rows: Vec<[f64; 3]> = (0..rounds).map(|_| [0; 3].map(|_| f64::from(random.below(8)))).collect();
            let counted = Resamples::new(rounds, 9).medians(&rows);
            let mut draws = Random::named("bootstrap", 9);
            for medians in counted {
                let drawn: Vec<usize> = (0..rounds).map(|_| draws.below(rounds) as usize).collect();
                for (column, counted) in medians.into_iter().enumerate() {
                    let mut values: Vec<f64> = drawn.iter().map(|&round| rows[round][column]).collect();
                    values.sort_by(f64::total_cmp);
                    let half = values.len() / 2;
                    let plain = if values.len() % 2 == 1 {
                        values[half]
                    } else {
                        f64::midpoint(values[half - 1], values[half])
                    };
                    assert_eq!(counted, plain, "{values:?}");
                }
            }
        }
    }

    #[test]
    fn nothing_to_resample_gives_no_columns() {
        assert!(Resamples::new(0, 1).medians::<[f64; 1]>(&[]).iter().all(Vec::is_empty));
        assert_eq!(interval(vec![f64::NAN], 6, 4.0), [4.0, 4.0]);
    }
}
