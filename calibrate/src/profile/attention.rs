//! Attention costs of the whole model: decode, prefill and steps that mix them.

use super::curve::{Axis, Outside, Reading};

/// Attention costs of the whole model, in microseconds.
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
    /// Microseconds of one padded request under FULL, which carries no KV.
    pub padded_request_us: f64,
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
