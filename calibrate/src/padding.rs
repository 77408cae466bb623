//! The padding staircase of a profile: over which rows a step costs nearly the same, and where one row more costs a jump.

use crate::fit::{Edge, POINTS_LEAST, Staircase, scatter};
use crate::measure::Estimate;
use crate::profile::{Curve, Group, Interval, Profile};

/// Padding is looked at up to here at least. Beyond this and the largest rung nothing is padded: there lie prefills, whose
/// sizes are measured too far apart to show treads.
const ROWS_LEAST: u32 = 512;

/// More knots are no measurement of a ladder, and the fit takes their square in time and memory.
const KNOTS_MOST: usize = 1_024;

/// The largest size that steps are padded to, by the largest rung.
pub fn rows_most(largest_rung: u32) -> u32 {
    largest_rung.max(ROWS_LEAST)
}

/// The same of a profile, which may know of no rung.
pub fn rows_most_of(profile: &Profile) -> f64 {
    rows_most(profile.captured_rows().last().map_or(0, |rows| *rows as u32)).into()
}

/// A table as stairs.
#[derive(Clone, Debug)]
pub struct TableStairs {
    /// Treads and edges, microseconds over rows.
    pub stairs: Staircase,
    /// What one row more costs between edges, microseconds; `None` where no two knots lie on one tread.
    pub row_us: Option<f64>,
    /// The interval of that, of a profile that states one.
    pub row_interval: Option<Interval>,
    /// The share by which knots are taken to be off, where the profile states no intervals.
    pub scatter: Option<f64>,
}

impl TableStairs {
    /// The stairs of a table's knots up to `most` rows; `None` of a curve that is no table, and of knots too few for two
    /// treads or too many to fit.
    ///
    /// A knot is as uncertain as its interval says. Published tables state none: the scatter of neighbouring knots is all
    /// that is known of their errors, and a jump must stand out of that.
    pub fn of(group: &Group<Curve>, most: f64) -> Option<Self> {
        let Curve::Table(table) = &group.figures else { return None };
        let count = table.x().partition_point(|x| *x <= most);
        let (x, y) = (&table.x()[..count], &table.y()[..count]);
        if !(2 * POINTS_LEAST..=KNOTS_MOST).contains(&count) {
            return None;
        }
        let measured = group.measured.as_ref();
        let intervals = measured.map_or(&[][..], |measured| measured.of("us"));
        let (stairs, scatter) = if intervals.len() < count {
            let knots: Vec<(f64, f64)> = x.iter().copied().zip(y.iter().copied()).collect();
            let stray = scatter(&knots)?;
            (Staircase::of_values(&knots, stray), Some(stray))
        } else {
            let knot = |((&x, &value), interval): ((&f64, &f64), &Interval)| {
                (x, Estimate { value, low: interval.low, high: interval.high, samples: interval.samples })
            };
            (Staircase::of_estimates(&x.iter().zip(y).zip(intervals).map(knot).collect::<Vec<_>>()), None)
        };
        let stated = measured.and_then(|measured| measured.padding);
        let row_us = stated.map(|cost| cost.us_per_row).or_else(|| stairs.slope(x, y));
        let row_interval = stated.map(|cost| Interval { low: cost.low, high: cost.high, samples: cost.samples });
        Some(Self { stairs, row_us, row_interval, scatter })
    }

    /// The padding staircase of a profile.
    pub fn of_profile(profile: &Profile) -> Option<Self> {
        Self::of(&profile.machine.dense, rows_most_of(profile))
    }

    /// What an edge costs in percent of the time before it.
    pub fn percent(&self, edge: &Edge) -> f64 {
        let before = self.stairs.treads.iter().find(|tread| (tread.range[1] - edge.below).abs() < 0.5);
        before.map_or(0.0, |tread| 100.0 * edge.jump / tread.line.at(edge.below))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Table;

    fn profile() -> Profile {
        Profile::from_toml(include_str!("../../tests/calibrate/double.toml"), "double.toml").unwrap()
    }

    #[test]
    fn stairs_end_where_nothing_is_padded() {
        let mut profile = profile();
        let last = |profile: &Profile| TableStairs::of_profile(profile).unwrap().stairs.treads.last().unwrap().range[1];
        assert!((last(&profile) - 512.0).abs() < 0.5, "the table goes on to 2048 rows");
        profile.measurement.as_mut().unwrap().full.as_mut().unwrap().rows[8] = 1_024.0;
        assert!((last(&profile) - 1_024.0).abs() < 0.5, "the largest rung");
    }

    #[test]
    fn the_cost_of_a_row_is_the_stated_one_or_that_of_the_knots() {
        let mut profile = profile();
        profile.machine.dense.measured.as_mut().unwrap().padding.as_mut().unwrap().us_per_row = 1.55;
        let stated = TableStairs::of_profile(&profile).unwrap();
        assert!((stated.row_us.unwrap() - 1.55).abs() < 1e-9 && stated.row_interval.is_some());
        assert_eq!(stated.scatter, None);
        profile.machine.dense.measured = None;
        let found = TableStairs::of_profile(&profile).unwrap();
        assert!((found.row_us.unwrap() - 1.6).abs() < 1e-2 && found.row_interval.is_none(), "{:?}", found.row_us);
        assert!(found.scatter.is_some_and(|share| share < 0.01));
    }

    #[test]
    fn an_edge_is_a_share_of_the_time_before_it() {
        let of_steps = TableStairs::of_profile(&profile()).unwrap();
        let shares: Vec<f64> = of_steps.stairs.edges.iter().map(|edge| of_steps.percent(edge)).collect();
        for (share, (jump, before)) in shares.iter().zip([(420.0, 4402.4), (600.0, 4924.8), (900.1, 5731.2)]) {
            assert!((share - 100.0 * jump / before).abs() < 0.1, "{shares:?}");
        }
    }

    #[test]
    fn too_few_and_too_many_knots_have_no_stairs() {
        let mut dense = profile().machine.dense;
        assert!(TableStairs::of(&dense, 16.0).is_none(), "five knots");
        assert!(TableStairs::of(&dense, 24.0).is_some(), "six");
        let many = (1..=2_000).map(|at| f64::from(at) / 4.0).collect::<Vec<_>>();
        let y = vec![1.0; many.len()];
        let axis = crate::profile::Axis::new(many).unwrap();
        dense.figures = Curve::Table(Table { axis, y, measured_to: None });
        assert!(TableStairs::of(&dense, 512.0).is_none());
        assert!(TableStairs::of(&dense, 100.0).is_some());
    }
}
