//! Costs over one quantity, and readings that say when they leave the measured range.

/// One cost read from a curve, surface or mixed table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// The cost, in the unit of the table (microseconds everywhere in a profile).
    pub value: f64,
    /// Set when some coordinate lies outside the table: the value is then a guess and must be flagged.
    pub outside: Option<Outside>,
    /// The value rests on the table's derived extension (inside its stated valid range), not on measured knots only.
    pub extended: bool,
}

/// The side on which a coordinate leaves its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outside {
    /// Below the first knot: the first knot's value stands in.
    Below,
    /// Above the last knot: extrapolated, never below the last knot's value.
    Above,
}

impl Reading {
    /// A reading inside its range.
    pub fn inside(value: f64) -> Self {
        Self { value, outside: None, extended: false }
    }
}

/// One cost over one quantity (rows, sequences).
#[derive(Clone, Debug, PartialEq)]
pub enum Curve {
    /// Linear between neighbouring knots: the shape of every measured staircase.
    Table(Table),
    /// A declared straight line, as in textbook exercises.
    Line(Line),
    /// The same everywhere; never outside.
    Constant(f64),
}

impl Curve {
    /// The cost at `x` if the curve were stairs: between two knots of a table, that of the upper one. A tile edge may lie
    /// anywhere between them, so the true cost lies between this and the lower knot's more often than on the line.
    pub fn on_stairs(&self, x: f64) -> f64 {
        match self {
            Self::Table(table) => table.on_stairs(x),
            Self::Line(_) | Self::Constant(_) => self.at(x).value,
        }
    }

    /// The same curve with everything above its value at the first knot `factor` times as much: what a row more costs.
    #[must_use]
    pub fn with_slope(&self, factor: f64) -> Self {
        let scaled = |first: f64, value: f64| first + factor * (value - first);
        match self {
            Self::Table(table) => {
                let first = table.y[0];
                let y = table.y.iter().map(|&value| scaled(first, value)).collect();
                Self::Table(Table { y, ..table.clone() })
            }
            Self::Line(line) => Self::Line(Line {
                x0: line.valid[0],
                y0: line.y0 + line.slope * (line.valid[0] - line.x0),
                slope: line.slope * factor,
                ..*line
            }),
            Self::Constant(value) => Self::Constant(*value),
        }
    }

    /// The cost at `x`, or at the end of the range that lies nearest to it.
    pub fn within(&self, x: f64) -> f64 {
        let [first, last] = match self {
            Self::Table(table) => [table.x()[0], table.axis.last()],
            Self::Line(line) => line.valid,
            Self::Constant(value) => return *value,
        };
        self.at(x.clamp(first, last)).value
    }

    /// The cost at `x`.
    pub fn at(&self, x: f64) -> Reading {
        match self {
            Self::Table(table) => table.at(x),
            Self::Line(line) => line.at(x),
            Self::Constant(value) => Reading::inside(*value),
        }
    }
}

/// Knots of a curve: `x` strictly rising, `y` of the same length, at least two.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    pub(crate) axis: Axis,
    pub(crate) y: Vec<f64>,
    pub(crate) measured_to: Option<f64>,
}

impl Table {
    /// A table of measured knots; `y` has a value for each.
    pub fn new(axis: Axis, y: Vec<f64>) -> Option<Self> {
        (axis.knots().len() == y.len()).then_some(Self { axis, y, measured_to: None })
    }

    /// The same table, its knots beyond `last` derived and no longer measured; `None` if that is no knot.
    pub fn measured_up_to(self, last: f64) -> Option<Self> {
        self.axis.knots().contains(&last).then_some(Self { measured_to: Some(last), ..self })
    }

    /// The quantity's knots.
    pub fn x(&self) -> &[f64] {
        self.axis.knots()
    }

    /// The cost at each knot.
    pub fn y(&self) -> &[f64] {
        &self.y
    }

    /// The last measured knot, where the table goes on with derived knots; `None` when all knots have one origin.
    pub fn measured_to(&self) -> Option<f64> {
        self.measured_to
    }

    fn on_stairs(&self, x: f64) -> f64 {
        let place = self.axis.locate(x);
        match place.outside {
            None if x > self.axis.knots()[place.low] => self.y[place.high],
            _ => self.at(x).value,
        }
    }

    /// The cost at `x`.
    pub fn at(&self, x: f64) -> Reading {
        let place = self.axis.locate(x);
        let value = place.blend(self.y[place.low], self.y[place.high]);
        Reading { value, outside: place.outside, extended: self.measured_to.is_some_and(|last| x > last) }
    }
}

/// A straight line with the range where it is meant to hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Where the line takes the value `y0`.
    pub x0: f64,
    /// The cost at `x0`.
    pub y0: f64,
    /// Cost per unit of the quantity.
    pub slope: f64,
    /// First and last value of the quantity for which the line is meant.
    pub valid: [f64; 2],
}

impl Line {
    /// The cost at `x`: on the line inside its range, as for tables outside.
    pub fn at(&self, x: f64) -> Reading {
        let outside = outside(x, self.valid[0], self.valid[1]);
        let x = if outside == Some(Outside::Below) { self.valid[0] } else { x };
        Reading { value: self.y0 + self.slope * (x - self.x0), outside, extended: false }
    }
}

fn outside(x: f64, first: f64, last: f64) -> Option<Outside> {
    if x < first {
        Some(Outside::Below)
    } else if x > last {
        Some(Outside::Above)
    } else {
        None
    }
}

/// Strictly rising knots of one quantity, at least two.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    knots: Vec<f64>,
    /// By power of two, from that of the first knot on: the first knot that is no smaller. The knots of measured tables
    /// spread over many, so a search begins near its end.
    by_power: Vec<u32>,
}

/// Two knots and the share of the second: where a coordinate falls on an [`Axis`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Place {
    pub(crate) low: usize,
    pub(crate) high: usize,
    share: f64,
    pub(crate) outside: Option<Outside>,
}

impl Place {
    /// See [`blend`].
    #[inline]
    pub(crate) fn blend(&self, low: f64, high: f64) -> f64 {
        blend(self.share, [low, high])
    }
}

/// The value between (or beyond) two knots' values, at a share of the way from the first to the second. Beyond, never below
/// the last knot's value: a longer step must not read as a cheaper one because the table ends on a falling stretch.
#[inline]
pub(crate) fn blend(share: f64, [low, high]: [f64; 2]) -> f64 {
    if share <= 0.0 {
        low
    } else if share > 1.0 {
        high + (share - 1.0) * (high - low).max(0.0)
    } else {
        low + share * (high - low)
    }
}

impl Axis {
    /// An axis over at least two strictly rising, finite knots; `None` otherwise.
    pub fn new(knots: Vec<f64>) -> Option<Self> {
        let rising = knots.windows(2).all(|pair| pair[0] < pair[1]);
        if knots.len() < 2 || !rising || !knots.iter().all(|knot| knot.is_finite()) {
            return None;
        }
        let first = power(knots[0]);
        let place = |at: u32| knots.partition_point(|&knot| power(knot) < at) as u32;
        let by_power = (first..=power(knots[knots.len() - 1])).map(place).collect();
        Some(Self { knots, by_power })
    }

    /// The knots.
    pub fn knots(&self) -> &[f64] {
        &self.knots
    }

    /// The last knot.
    pub fn last(&self) -> f64 {
        self.knots[self.knots.len() - 1]
    }

    /// The first knot that is not below `x`, which lies between the first and the last.
    #[inline]
    fn first_from(&self, x: f64) -> usize {
        let mut place = self.by_power[(power(x) - power(self.knots[0])) as usize] as usize;
        while self.knots[place] < x {
            place += 1;
        }
        place
    }

    /// Finds the two knots that price `x`. Above the last knot they are the last one and the one nearest half of it:
    /// the mean slope of the upper half of the table, not that of its last, possibly flat or falling, segment.
    pub(crate) fn locate(&self, x: f64) -> Place {
        let last = self.knots.len() - 1;
        let outside = outside(x, self.knots[0], self.knots[last]);
        let (low, high) = match outside {
            Some(Outside::Below) => return Place { low: 0, high: 0, share: 0.0, outside },
            Some(Outside::Above) => {
                let half = self.knots.partition_point(|&knot| knot <= self.knots[last] / 2.0);
                (half.saturating_sub(1).min(last - 1), last)
            }
            None => {
                let high = self.first_from(x).max(1);
                (high - 1, high)
            }
        };
        let share = (x - self.knots[low]) / (self.knots[high] - self.knots[low]);
        Place { low, high, share, outside }
    }
}

/// The power of two of a number, counted from the smallest; 0 for what is not above zero.
#[inline]
fn power(x: f64) -> u32 {
    if x > 0.0 { (x.to_bits() >> (f64::MANTISSA_DIGITS - 1)) as u32 } else { 0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn table(points: &[(f64, f64)]) -> Table {
        let (x, y): (Vec<_>, Vec<_>) = points.iter().copied().unzip();
        Table { axis: Axis::new(x).unwrap(), y, measured_to: None }
    }

    #[test]
    fn stairs_take_the_upper_knot() {
        let axis = Axis::new(vec![8.0, 16.0, 24.0]).expect("rising");
        let curve = Curve::Table(Table { axis, y: vec![10.0, 12.0, 11.0], measured_to: None });
        for (x, y) in [(4.0, 10.0), (8.0, 10.0), (8.5, 12.0), (16.0, 12.0), (17.0, 11.0), (24.0, 11.0)] {
            assert!((curve.on_stairs(x) - y).abs() < 1e-12, "at {x}");
        }
        assert!((curve.on_stairs(40.0) - curve.at(40.0).value).abs() < 1e-12, "outside as ever");
    }

    #[test]
    fn a_staircase_is_linear_between_its_knots() {
        let stairs = table(&[(64.0, 9696.0), (72.0, 11360.0), (128.0, 12240.0), (136.0, 17584.0)]);
        assert_eq!(stairs.at(64.0), Reading::inside(9696.0));
        assert_eq!(stairs.at(136.0), Reading::inside(17584.0));
        assert_eq!(stairs.at(68.0), Reading::inside(10528.0));
        assert_eq!(stairs.at(132.0), Reading::inside(14912.0));
    }

    #[test]
    fn below_the_table_its_first_cost_stands_in_flagged() {
        let reading = table(&[(8.0, 40.0), (16.0, 80.0)]).at(1.0);
        assert_eq!(reading, Reading { value: 40.0, outside: Some(Outside::Below), extended: false });
    }

    #[test]
    fn above_the_table_the_slope_of_its_upper_half_goes_on_flagged() {
        // The last segment is flat; from 50 to 100 the cost rises by 50.
        let rising = table(&[(1.0, 10.0), (50.0, 50.0), (90.0, 100.0), (100.0, 100.0)]);
        let reading = rising.at(150.0);
        assert_eq!(reading, Reading { value: 150.0, outside: Some(Outside::Above), extended: false });
    }

    #[test]
    fn above_a_falling_table_the_last_cost_stays() {
        let falling = table(&[(136.0, 18.0), (192.0, 16.0)]);
        assert_eq!(falling.at(1e6), Reading { value: 16.0, outside: Some(Outside::Above), extended: false });
    }

    #[test]
    fn derived_knots_behind_measured_ones_are_told_apart() {
        let table = Table { measured_to: Some(2.0), ..table(&[(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)]) };
        assert_eq!([1.0, 2.0, 2.5, 3.0, 9.0].map(|x| table.at(x).extended), [false, false, true, true, true]);
    }

    #[test]
    fn lines_are_flagged_outside_their_range() {
        let line = Curve::Line(Line { x0: 8.0, y0: 4000.0, slope: 240.0, valid: [1.0, 512.0] });
        assert_eq!(line.at(1.0), Reading::inside(2320.0));
        assert_eq!(line.at(8.0), Reading::inside(4000.0));
        assert_eq!(line.at(0.0), Reading { value: 2320.0, outside: Some(Outside::Below), extended: false });
        assert_eq!(line.at(513.0), Reading { value: 125_200.0, outside: Some(Outside::Above), extended: false });
    }

    #[test]
    fn axes_need_two_rising_finite_knots() {
        assert_eq!(Axis::new(vec![1.0]), None);
        assert_eq!(Axis::new(vec![1.0, 1.0]), None);
        assert_eq!(Axis::new(vec![2.0, 1.0]), None);
        assert_eq!(Axis::new(vec![1.0, f64::NAN]), None);
        assert_eq!(Axis::new(vec![1.0, f64::INFINITY]), None);
    }

    /// Two to thirty knots with gaps of 1 to 100 and costs of 1 to 10,000.
    fn tables() -> impl Strategy<Value = Table> {
        prop::collection::vec((1_u32..100, 1_u32..10_000), 2..30).prop_map(|steps| {
            let mut x = 0.0;
            let points = steps.into_iter().map(|(gap, cost)| {
                x += f64::from(gap);
                (x, f64::from(cost))
            });
            table(&points.collect::<Vec<_>>())
        })
    }

    proptest! {
        #[test]
        fn a_search_finds_what_a_scan_finds(
            bits in prop::collection::vec(prop_oneof![0.0..1e4_f64, -1e3..1e3_f64, Just(0.0), Just(1e-310)], 2..40),
            shares in prop::collection::vec((0.0..=1.0_f64, 0_usize..40), 20),
        ) {
            let mut knots = bits;
            knots.sort_unstable_by(f64::total_cmp);
            knots.dedup();
            let Some(axis) = Axis::new(knots.clone()) else { return Ok(()) };
            for (share, at) in shares {
                let at = at % (knots.len() - 1);
                let x = (knots[at] + share * (knots[at + 1] - knots[at])).clamp(knots[at], knots[at + 1]);
                prop_assert_eq!(axis.first_from(x), knots.iter().position(|&knot| knot >= x).unwrap(), "{}", x);
            }
        }

        #[test]
        fn knots_are_exact(table in tables()) {
            for (x, y) in table.x().iter().zip(table.y()) {
                prop_assert_eq!(table.at(*x), Reading::inside(*y));
            }
        }

        #[test]
        fn between_neighbours_costs_are_monotone_and_within(table in tables(), shares in (0.0..1.0, 0.0..1.0)) {
            let (a, b) = if shares.0 <= shares.1 { shares } else { (shares.1, shares.0) };
            for (x, y) in table.x().windows(2).zip(table.y().windows(2)) {
                let at = |share: f64| table.at(x[0] + share * (x[1] - x[0]));
                let (first, second) = (at(a), at(b));
                prop_assert_eq!((first.outside, second.outside), (None, None));
                let (low, high) = (y[0].min(y[1]) - 1e-9, y[0].max(y[1]) + 1e-9);
                prop_assert!((low..=high).contains(&first.value) && (low..=high).contains(&second.value));
                let rises = (second.value - first.value) * (y[1] - y[0]);
                prop_assert!(rises >= -1e-6, "{} then {} towards {:?}", first.value, second.value, y);
            }
        }

        #[test]
        fn outside_is_always_flagged_and_never_cheaper(table in tables(), distance in 0.001..1e6) {
            let (x, y) = (table.x(), table.y());
            let below = table.at(x[0] - distance);
            prop_assert_eq!((below.value, below.outside), (y[0], Some(Outside::Below)));
            let above = table.at(x[x.len() - 1] + distance);
            prop_assert_eq!(above.outside, Some(Outside::Above));
            prop_assert!(above.value >= y[y.len() - 1]);
        }
    }
}
