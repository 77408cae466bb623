//! Attention costs of the whole model: decode, prefill and steps that mix them.

use super::curve::{Axis, Outside, Place, Reading};

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

    /// The surface at `x`; `None` outside it.
    pub fn row(&self, x: f64) -> Option<SurfaceRow<'_>> {
        match self {
            Self::Constant(value) => Some(SurfaceRow::constant(*value)),
            Self::Grid(grid) => {
                let place = grid.x.locate(x);
                let width = grid.y.knots().len();
                let line = |row: usize| &grid.values[row * width..(row + 1) * width];
                let lines = RowLines { y: grid.y.knots(), x: place, low: line(place.low), high: line(place.high) };
                let cell = lines.cell(1);
                place.outside.is_none().then_some(SurfaceRow { lines: Some(lines), cell })
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
    y: &'a [f64],
    x: Place,
    low: &'a [f64],
    high: &'a [f64],
}

/// What lies between two neighbouring `y` at one `x`.
#[derive(Clone, Copy, Debug)]
struct Cell {
    /// The two `y`.
    from: f64,
    to: f64,
    /// Where the cell begins, itself not in it: at `from`, which belongs to the cell before; just below it where there is
    /// none.
    above_y: f64,
    /// The costs at `from` beside `x`, and by how much they rise up to `to`.
    below: Segment,
    above: Segment,
    /// How far `x` lies from the first towards the second.
    share: f64,
}

/// A straight line over a cell.
#[derive(Clone, Copy, Debug)]
struct Segment {
    start: f64,
    rise: f64,
}

impl SurfaceRow<'_> {
    /// The same cost everywhere.
    fn constant(cost: f64) -> Self {
        let flat = Segment { start: cost, rise: 0.0 };
        let cell = Cell { from: 0.0, to: 0.0, above_y: 0.0, below: flat, above: flat, share: 0.0 };
        Self { lines: None, cell }
    }

    /// The cost at `y`; `None` outside the surface.
    #[inline]
    pub fn at(&mut self, y: f64) -> Option<f64> {
        let Some(lines) = &self.lines else { return Some(self.cell.below.start) };
        if !self.cell.holds(y) {
            self.cell = lines.find(y)?;
        }
        Some(self.cell.at(y))
    }
}

impl RowLines<'_> {
    /// The cell that holds `y`; `None` outside the surface.
    #[cold]
    fn find(&self, y: f64) -> Option<Cell> {
        let place = self.y.partition_point(|&knot| knot < y).max(1);
        (place < self.y.len()).then(|| self.cell(place)).filter(|cell| cell.holds(y))
    }

    /// The cell that ends with a knot, not the first.
    fn cell(&self, high: usize) -> Cell {
        let low = high - 1;
        let segment = |line: &[f64]| Segment { start: line[low], rise: line[high] - line[low] };
        let below = segment(self.low);
        // At its first knot the second line does not count, even where the costs are huge.
        let (above, share) = if self.x.share <= 0.0 { (below, 0.0) } else { (segment(self.high), self.x.share) };
        let (from, to) = (self.y[low], self.y[high]);
        Cell { from, to, above_y: if low == 0 { from.next_down() } else { from }, below, above, share }
    }
}

impl Cell {
    #[inline]
    fn holds(&self, y: f64) -> bool {
        y > self.above_y && y <= self.to
    }

    #[inline]
    fn at(&self, y: f64) -> f64 {
        let share = (y - self.from) / (self.to - self.from);
        let (below, above) = (self.below.at(share), self.above.at(share));
        below + self.share * (above - below)
    }
}

impl Segment {
    #[inline]
    fn at(self, share: f64) -> f64 {
        self.start + share * self.rise
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
        for x in steps(first) {
            let mut row = surface.row(x).expect("inside");
            for y in steps(last).chain(steps([last[1], last[0]])) {
                assert_eq!(row.at(y), Some(surface.at(x, y).value), "{x} {y}");
            }
            assert_eq!((row.at(last[0] - 1.0), row.at(last[1] + 1.0)), (None, None));
        }
        assert!(surface.row(first[1] + 1.0).is_none());
        assert_eq!(Surface::Constant(2.0).row(1e9).and_then(|mut row| row.at(1e9)), Some(2.0));
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
