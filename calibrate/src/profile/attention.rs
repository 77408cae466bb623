//! Attention costs of the whole model: decode, prefill and steps that mix them.

use super::curve::{Axis, Outside, Place, Reading, blend};

/// Attention costs of the whole model, in microseconds: up to 100 s a step where measured, and no step takes less than a quarter
/// of what one of fewer requests or tokens does, intervals and 20 us apart. Requests and tokens of a chunk are whole; tokens of
/// context, a mean, need not be.
#[derive(Clone, Debug, PartialEq)]
pub struct Attention {
    /// (decoding requests, mean KV tokens per request) -> microseconds.
    pub decode: Surface,
    /// (chunk tokens, KV tokens in the cache before the chunk) -> microseconds. Several chunks of a step enter as
    /// `sqrt(sum c^2)` and `sum(c*k) / sum(c)`.
    pub prefill: Surface,
    /// Steps in which one kernel serves prefills and decodes together, where such a kernel was measured.
    pub mixed: Option<Mixed>,
    /// The backend runs prefills and decodes in separate kernels, so a mixed step is their sum. Otherwise, and without
    /// a mixed table, the sum is only a stand-in and must be flagged.
    pub separate_kernels: bool,
    /// Microseconds of one padded request under FULL, which carries no KV. Up to 10^6 where measured.
    pub padded_request_us: f64,
    /// Microseconds that decode and prefill both hold and a step that mixes them pays once, where it costs their sum: the cache
    /// writes of calibrate's own kernels. 0 where nothing is known to be shared. Up to 10^6 where measured.
    pub shared_us: f64,
}

impl Attention {
    /// Whether attention costs nothing in any step, as in a profile that counts it into the dense work.
    pub fn is_free(&self) -> bool {
        let nothing = Surface::Constant(0.0);
        self.decode == nothing && self.prefill == nothing && self.mixed.is_none() && self.padded_request_us == 0.0
    }
}

/// A cost over two quantities.
#[derive(Clone, Debug, PartialEq)]
pub enum Surface {
    /// The same everywhere; never outside.
    Constant(f64),
    /// Bilinear on a rectilinear grid.
    Grid(Grid),
}

impl Surface {
    /// The cost at `(x, y)`.
    pub fn at(&self, x: f64, y: f64) -> Reading {
        match self {
            Self::Constant(value) => Reading::inside(*value),
            Self::Grid(grid) => grid.at(x, y),
        }
    }

    /// The surface at `x`.
    pub fn row(&self, x: f64) -> SurfaceRow<'_> {
        match self {
            Self::Constant(value) => SurfaceRow { lines: None, cell: Cell::constant(*value) },
            Self::Grid(grid) => {
                let width = grid.y.knots().len();
                let line = |row: usize| &grid.values[row * width..(row + 1) * width];
                let x = grid.x.locate(x);
                let lines = RowLines { y: &grid.y, x, low: line(x.low), high: line(x.high) };
                let cell = lines.cell_of(grid.y.knots()[0]);
                SurfaceRow { lines: Some(lines), cell }
            }
        }
    }
}

/// A surface at one `x`, for readings at many `y` that lie near each other. The same readings as [`Surface::at`], to the
/// last bit.
#[derive(Clone, Debug)]
pub struct SurfaceRow<'a> {
    /// `None` for a constant.
    lines: Option<RowLines<'a>>,
    /// Where the last reading was.
    cell: Cell,
}

/// The two lines of knots beside one `x`.
#[derive(Clone, Debug)]
struct RowLines<'a> {
    y: &'a Axis,
    x: Place,
    low: &'a [f64],
    high: &'a [f64],
}

/// What lies between two neighbouring `y`, or beyond the first or the last one, at one `x`.
#[derive(Clone, Copy, Debug)]
struct Cell {
    /// The first `y` that is beyond the cell on its lower side, and the last one that is in it.
    after: f64,
    up_to: f64,
    /// The first of the two knots that price it, and how far away the second is.
    from: f64,
    width: f64,
    /// The costs at those knots, on the two lines.
    low: [f64; 2],
    high: [f64; 2],
    outside: Option<Outside>,
}

impl SurfaceRow<'_> {
    /// The cost at `y`.
    #[inline]
    pub fn at(&mut self, y: f64) -> Reading {
        let Some(lines) = &self.lines else { return Reading::inside(self.cell.low[0]) };
        if !(y > self.cell.after && y <= self.cell.up_to) {
            self.cell = lines.cell_of(y);
        }
        let cell = &self.cell;
        let share = (y - cell.from) / cell.width;
        let value = lines.x.blend(blend(share, cell.low), blend(share, cell.high));
        Reading { value, outside: cell.outside, extended: false }
    }
}

impl RowLines<'_> {
    /// The cell that holds `y`.
    #[cold]
    fn cell_of(&self, y: f64) -> Cell {
        let Place { low, high, outside, .. } = self.y.locate(y);
        let knots = self.y.knots();
        let (after, up_to) = match outside {
            Some(Outside::Below) => (f64::NEG_INFINITY, knots[0].next_down()),
            Some(Outside::Above) => (knots[high], f64::INFINITY),
            None if low == 0 => (knots[0].next_down(), knots[high]),
            None => (knots[low], knots[high]),
        };
        Cell {
            after,
            up_to,
            from: knots[low],
            // Below the first knot there is one alone; what lies before it costs the same.
            width: if low == high { 1.0 } else { knots[high] - knots[low] },
            low: [self.low[low], self.low[high]],
            high: [self.high[low], self.high[high]],
            outside: either(self.x.outside, outside),
        }
    }
}

impl Cell {
    fn constant(cost: f64) -> Self {
        let (costs, everywhere) = ([cost; 2], f64::INFINITY);
        Self { after: -everywhere, up_to: everywhere, from: 0.0, width: 1.0, low: costs, high: costs, outside: None }
    }
}

/// Knots of a surface on a rectilinear grid, `y` running fastest.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) values: Vec<f64>,
}

impl Grid {
    /// A grid of knots with a cost for each pair, `y` running fastest; `None` of another number of costs.
    pub fn new(x: Axis, y: Axis, values: Vec<f64>) -> Option<Self> {
        (x.knots().len() * y.knots().len() == values.len()).then_some(Self { x, y, values })
    }

    /// How many costs it holds.
    pub fn knots(&self) -> usize {
        self.values.len()
    }

    /// The two quantities' knots, in the order of [`Grid::at`].
    pub fn axes(&self) -> [&Axis; 2] {
        [&self.x, &self.y]
    }

    /// The cost at `(x, y)`.
    pub fn at(&self, x: f64, y: f64) -> Reading {
        let (px, py) = (self.x.locate(x), self.y.locate(y));
        let width = self.y.knots().len();
        let along = |row: usize| py.blend(self.values[row * width + py.low], self.values[row * width + py.high]);
        let value = px.blend(along(px.low), along(px.high));
        Reading { value, outside: either(px.outside, py.outside), extended: false }
    }
}

/// A cost over a prefill and the decodes beside it, multilinear on a rectilinear grid, the last quantity fastest.
#[derive(Clone, Debug, PartialEq)]
pub struct Mixed {
    pub(crate) axes: [Axis; 4],
    pub(crate) values: Vec<f64>,
}

impl Mixed {
    /// Knots of chunk, prefill context, decoding requests and decode context, with a cost for each combination, the last
    /// quantity fastest; `None` of another number of costs.
    pub fn new(axes: [Axis; 4], values: Vec<f64>) -> Option<Self> {
        let knots: usize = axes.iter().map(|axis| axis.knots().len()).product();
        (knots == values.len()).then_some(Self { axes, values })
    }

    /// The cost of a step with a prefill of `chunk` tokens after `prefill_context` cached ones, beside
    /// `decode_requests` with `decode_context` KV tokens each on average.
    pub fn at(&self, chunk: f64, prefill_context: f64, decode_requests: f64, decode_context: f64) -> Reading {
        let at = [chunk, prefill_context, decode_requests, decode_context];
        let places = [0, 1, 2, 3].map(|i| self.axes[i].locate(at[i]));
        let mut corners = [0.0; 16];
        for (corner, value) in corners.iter_mut().enumerate() {
            let index = (0..4).fold(0, |index, i| {
                let knot = if corner >> (3 - i) & 1 == 0 { places[i].low } else { places[i].high };
                index * self.axes[i].knots().len() + knot
            });
            *value = self.values[index];
        }
        let mut width = 8;
        for place in &places {
            for corner in 0..width {
                corners[corner] = place.blend(corners[corner], corners[corner + width]);
            }
            width /= 2;
        }
        let outside = places.iter().fold(None, |found, place| either(found, place.outside));
        Reading { value: corners[0], outside, extended: false }
    }
}

/// Outside on either quantity is outside; above wins, because there the value is the wilder guess.
fn either(a: Option<Outside>, b: Option<Outside>) -> Option<Outside> {
    match (a, b) {
        (Some(Outside::Above), _) | (_, Some(Outside::Above)) => Some(Outside::Above),
        (found, None) | (None, found) => found,
        (Some(Outside::Below), Some(Outside::Below)) => Some(Outside::Below),
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "knots and edge values are returned as they are")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn axis(knots: &[f64]) -> Axis {
        Axis::new(knots.to_vec()).unwrap()
    }

    fn grid() -> Grid {
        Grid { x: axis(&[1.0, 4.0]), y: axis(&[0.0, 10.0, 30.0]), values: vec![1.0, 2.0, 4.0, 7.0, 9.0, 14.0] }
    }

    #[test]
    fn grids_are_exact_at_knots_and_bilinear_between() {
        let grid = grid();
        assert_eq!(grid.at(1.0, 30.0), Reading::inside(4.0));
        assert_eq!(grid.at(4.0, 0.0), Reading::inside(7.0));
        // Half way along both sides of the first cell: the mean of 1, 2, 7 and 9.
        assert_eq!(grid.at(2.5, 5.0), Reading::inside(4.75));
    }

    #[test]
    fn grids_flag_either_side_and_above_wins() {
        let grid = grid();
        let outside = |x, y| grid.at(x, y).outside;
        assert_eq!(outside(0.5, 10.0), Some(Outside::Below));
        assert_eq!(outside(2.0, 31.0), Some(Outside::Above));
        assert_eq!(outside(0.5, 31.0), Some(Outside::Above));
        assert_eq!(outside(5.0, -1.0), Some(Outside::Above));
        assert_eq!(outside(4.0, 30.0), None);
        // Beyond 30 at x = 1: 4 + (40 - 30) * (4 - 2) / (30 - 10).
        assert_eq!(grid.at(1.0, 40.0).value, 5.0);
    }

    #[test]
    fn attention_is_free_only_without_any_cost() {
        let free = Attention {
            decode: Surface::Constant(0.0),
            prefill: Surface::Constant(0.0),
            mixed: None,
            separate_kernels: true,
            padded_request_us: 0.0,
            shared_us: 0.0,
        };
        assert!(free.is_free());
        assert!(!Attention { padded_request_us: 0.1, ..free.clone() }.is_free());
        assert!(!Attention { prefill: Surface::Constant(1.0), ..free.clone() }.is_free());
        assert!(!Attention { decode: Surface::Grid(grid()), ..free }.is_free());
    }

    #[test]
    fn rows_read_what_surfaces_read() {
        let surface = Surface::Grid(grid());
        let Surface::Grid(grid) = &surface else { unreachable!() };
        let [first, last] = grid.axes().map(|axis| (axis.knots()[0], axis.last())).map(|ends| [ends.0, ends.1]);
        let steps = |ends: [f64; 2]| (0..=40).map(move |step| ends[0] + (ends[1] - ends[0]) * f64::from(step) / 40.0);
        let beyond = |ends: [f64; 2]| [ends[0] - 1.0, ends[0].next_down(), ends[1].next_up(), ends[1] + 1.0, 1e9];
        for x in steps(first).chain(beyond(first)) {
            let mut row = surface.row(x);
            for y in steps(last).chain(steps([last[1], last[0]])).chain(beyond(last)).chain(last) {
                assert_eq!(row.at(y), surface.at(x, y), "{x} {y}");
            }
        }
        assert_eq!(Surface::Constant(2.0).row(1e9).at(1e9), Reading::inside(2.0));
    }

    #[test]
    fn constants_are_never_outside() {
        assert_eq!(Surface::Constant(0.0).at(1e9, 1e9), Reading::inside(0.0));
    }

    /// A cost that is linear in each quantity: multilinear interpolation gives it back everywhere.
    fn product(at: [f64; 4]) -> f64 {
        (1.0 + at[0]) * (2.0 + at[1]) * (3.0 + at[2]) * (4.0 + at[3])
    }

    fn mixed() -> Mixed {
        let axes = [axis(&[1.0, 16.0, 64.0]), axis(&[0.0, 8.0]), axis(&[1.0, 2.0, 4.0, 8.0]), axis(&[0.0, 5.0, 50.0])];
        let mut values = Vec::new();
        for &a in axes[0].knots() {
            for &b in axes[1].knots() {
                for &c in axes[2].knots() {
                    values.extend(axes[3].knots().iter().map(|&d| product([a, b, c, d])));
                }
            }
        }
        Mixed { axes, values }
    }

    #[test]
    fn mixed_tables_are_exact_at_knots() {
        assert_eq!(mixed().at(16.0, 8.0, 4.0, 50.0), Reading::inside(product([16.0, 8.0, 4.0, 50.0])));
        assert_eq!(mixed().at(1.0, 0.0, 1.0, 0.0), Reading::inside(product([1.0, 0.0, 1.0, 0.0])));
    }

    #[test]
    fn mixed_tables_flag_every_quantity() {
        assert_eq!(mixed().at(65.0, 8.0, 4.0, 50.0).outside, Some(Outside::Above));
        assert_eq!(mixed().at(16.0, 9.0, 4.0, 50.0).outside, Some(Outside::Above));
        assert_eq!(mixed().at(16.0, 8.0, 0.5, 50.0).outside, Some(Outside::Below));
        assert_eq!(mixed().at(16.0, 8.0, 4.0, 51.0).outside, Some(Outside::Above));
    }

    proptest! {
        #[test]
        fn mixed_tables_give_a_multilinear_cost_back(
            a in 1.0..64.0, b in 0.0..8.0, c in 1.0..8.0, d in 0.0..50.0,
        ) {
            let reading = mixed().at(a, b, c, d);
            let expected = product([a, b, c, d]);
            prop_assert_eq!(reading.outside, None);
            prop_assert!((reading.value / expected - 1.0).abs() < 1e-12, "{} for {expected}", reading.value);
        }
    }
}
