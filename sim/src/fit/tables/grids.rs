//! Scattered attention times as the grids that a profile holds.
//!
//! Decode: every batch is read along its own contexts, straight between neighbours. Prefill: tables end where chunk and
//! context together reach the model's length; beyond it the arithmetic goes on at the rate of the chunk's own upper half.

use std::collections::{BTreeMap, BTreeSet};

use calibrate::profile::{Axis, Curve, Grid, Table};
use kernels::geometry::ModelGeometry;
use kernels::work::attention_work;

/// A grid, and what of it was not measured at its place.
#[derive(Clone, Debug)]
pub struct Filled {
    /// The grid.
    pub grid: Grid,
    /// Knots that were measured.
    pub measured: usize,
    /// Knots read between measured contexts of the same batch or chunk.
    pub between: usize,
    /// Knots beyond the last measured context of their batch or chunk.
    pub beyond: usize,
}

impl Filled {
    /// In words.
    #[must_use]
    pub fn words(&self) -> String {
        let others = [(self.between, "read between contexts"), (self.beyond, "beyond the last context")];
        let others = others.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
        let measured = format!("{} of {} knots as measured", self.measured, self.grid.knots());
        [measured].into_iter().chain(others).collect::<Vec<_>>().join(", ")
    }
}

/// Contexts of one batch or chunk, rising, with microseconds.
type Line = Vec<(f64, f64)>;

fn lines(points: &BTreeMap<(u32, u32), f64>) -> BTreeMap<u32, Line> {
    let mut lines: BTreeMap<u32, Line> = BTreeMap::new();
    for (&(x, y), &us) in points {
        lines.entry(x).or_default().push((f64::from(y), us));
    }
    lines
}

fn curve(line: &Line) -> Option<Curve> {
    let (x, y) = line.iter().copied().unzip();
    Some(Curve::Table(Table::new(Axis::new(x)?, y)?))
}

/// Where a context lies on a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Measured,
    Between,
    Beyond,
}

fn place(line: &Line, context: f64) -> Place {
    let last = line.last().map_or(0.0, |point| point.0);
    if line.iter().any(|(measured, _)| (measured - context).abs() < 0.5) {
        Place::Measured
    } else if context < last {
        Place::Between
    } else {
        Place::Beyond
    }
}

struct Counts {
    measured: usize,
    between: usize,
    beyond: usize,
}

impl Counts {
    fn note(&mut self, place: Place) {
        match place {
            Place::Measured => self.measured += 1,
            Place::Between => self.between += 1,
            Place::Beyond => self.beyond += 1,
        }
    }
}

fn filled(x: Vec<f64>, y: Vec<f64>, values: Vec<f64>, counts: &Counts) -> Option<Filled> {
    let grid = Grid::new(Axis::new(x)?, Axis::new(y)?, values)?;
    Some(Filled { grid, measured: counts.measured, between: counts.between, beyond: counts.beyond })
}

/// Decode attention over requests and context, from microseconds of all layers. No context costs what the shortest does.
/// `None` with fewer than two batches that have two contexts.
#[must_use]
pub fn decode(points: &BTreeMap<(u32, u32), f64>) -> Option<Filled> {
    let lines: Vec<(u32, Line, Curve)> =
        lines(points).into_iter().filter_map(|(batch, line)| curve(&line).map(|curve| (batch, line, curve))).collect();
    let contexts: BTreeSet<u32> = points.keys().map(|&(_, context)| context).collect();
    let mut y: Vec<f64> = contexts.into_iter().map(f64::from).collect();
    if y.first().is_some_and(|&first| first > 0.0) {
        y.insert(0, 0.0);
    }
    let mut counts = Counts { measured: 0, between: 0, beyond: 0 };
    let mut values = Vec::with_capacity(lines.len() * y.len());
    for (_, line, curve) in &lines {
        for &context in &y {
            values.push(rounded(curve.at(context).value));
            counts.note(place(line, context));
        }
    }
    filled(lines.iter().map(|(batch, ..)| f64::from(*batch)).collect(), y, values, &counts)
}

/// Arithmetic of one chunk in all layers.
fn flops(model: &ModelGeometry, chunk: u32, context: f64) -> f64 {
    attention_work(model, chunk, context as u32).flops
}

/// Flops a microsecond that a chunk's upper half of contexts sustains.
fn rate(model: &ModelGeometry, chunk: u32, line: &Line) -> Option<f64> {
    let &[.., high] = &line[..] else { return None };
    let low = line[(line.len() / 2).checked_sub(1)?];
    let rate = (flops(model, chunk, high.0) - flops(model, chunk, low.0)) / (high.1 - low.1);
    Some(rate).filter(|rate| rate.is_finite() && *rate > 0.0)
}

/// Prefill attention over chunk and context, from microseconds of all layers. A chunk of one token, where no table has it,
/// is a decode of one request. `None` with fewer than two chunks.
#[must_use]
pub fn prefill(points: &BTreeMap<(u32, u32), f64>, model: &ModelGeometry, decode: Option<&Grid>) -> Option<Filled> {
    let lines = lines(points);
    let y = contexts(points)?;
    let rates: BTreeMap<u32, f64> =
        lines.iter().filter_map(|(&chunk, line)| Some((chunk, rate(model, chunk, line)?))).collect();
    let mut counts = Counts { measured: 0, between: 0, beyond: 0 };
    let (mut x, mut values) = (Vec::new(), Vec::new());
    if let Some(decode) = decode.filter(|_| !lines.contains_key(&1)) {
        x.push(1.0);
        for &context in &y {
            values.push(decode.at(1.0, context).value);
            counts.note(Place::Between);
        }
    }
    for (&chunk, line) in &lines {
        let own = curve(line);
        let &(last, last_us) = line.last()?;
        let near = rates.range(..=chunk).next_back().or(rates.iter().next()).map(|(_, rate)| *rate);
        for &context in &y {
            let place = place(line, context);
            counts.note(place);
            let more = flops(model, chunk, context) - flops(model, chunk, last);
            values.push(rounded(match (place, &own, near) {
                (Place::Measured | Place::Between, Some(own), _) => own.at(context).value,
                (_, _, Some(near)) if context >= last => last_us + more / near,
                _ => last_us * flops(model, chunk, context) / flops(model, chunk, last),
            }));
        }
        x.push(f64::from(chunk));
    }
    filled(x, y, values, &counts)
}

/// Nothing, powers of two and the largest of the measured contexts.
fn contexts(points: &BTreeMap<(u32, u32), f64>) -> Option<Vec<f64>> {
    let measured: BTreeSet<u32> = points.keys().map(|&(_, context)| context).filter(|&context| context > 0).collect();
    let (first, last) = (*measured.first()?, *measured.last()?);
    let powers = (0..u32::BITS).map(|power| 1_u32 << power).filter(|power| (first..last).contains(power));
    Some([0].into_iter().chain(powers).chain([last]).map(f64::from).collect())
}

/// To a nanosecond: more digits would say more than a table does.
pub(in crate::fit) fn rounded(us: f64) -> f64 {
    (us * 1e3).round() / 1e3
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "values that are given back as they are")]
mod tests {
    use super::*;

    fn model() -> ModelGeometry {
        ModelGeometry::preset("llama-2-7b").unwrap()
    }

    #[test]
    fn measured_decodes_stay_as_they_are() {
        let points: BTreeMap<_, _> =
            [((1, 32), 300.0), ((1, 64), 310.0), ((4, 32), 450.0), ((4, 128), 640.0)].into_iter().collect();
        let filled = decode(&points).expect("a grid");
        for (&(requests, context), &us) in &points {
            assert_eq!(filled.grid.at(requests.into(), context.into()).value, us);
        }
        assert_eq!((filled.grid.at(1.0, 0.0).value, filled.grid.at(1.0, 0.0).outside), (300.0, None));
        assert!((filled.grid.at(4.0, 64.0).value - (450.0 + 190.0 / 3.0)).abs() < 1e-3, "between its own contexts");
        assert_eq!((filled.measured, filled.between, filled.beyond), (4, 3, 1));
        assert_eq!(filled.words(), "4 of 8 knots as measured, 3 read between contexts, 1 beyond the last context");
        assert!(decode(&[((1, 32), 1.0), ((2, 32), 1.0)].into_iter().collect()).is_none());
    }

    #[test]
    fn prefills_go_on_by_their_arithmetic() {
        let model = model();
        // Exactly 1e8 flops a microsecond, above 20 us.
        let us = |chunk: u32, context: f64| 20.0 + flops(&model, chunk, context) / 1e8;
        let mut points = BTreeMap::new();
        for (chunk, contexts) in [(64, &[0, 64, 128, 1024, 2048, 4032][..]), (2048, &[0, 2048]), (4096, &[0])] {
            points.extend(contexts.iter().map(|&context| ((chunk, context), us(chunk, context.into()))));
        }
        let filled = prefill(&points, &model, None).expect("a grid");
        for (chunk, context) in [(64, 4032), (2048, 2048), (2048, 4032), (4096, 0), (4096, 2048), (4096, 4032)] {
            let (found, expected) = (filled.grid.at(chunk.into(), context.into()), us(chunk, context.into()));
            assert_eq!(found.outside, None);
            assert!((found.value / expected - 1.0).abs() < 1e-3, "{chunk} {context}: {} for {expected}", found.value);
        }
    }

    #[test]
    fn a_chunk_of_one_token_is_a_decode() {
        let decodes = decode(&[((1, 32), 3.0), ((1, 64), 5.0), ((2, 32), 4.0), ((2, 64), 6.0)].into_iter().collect());
        let points = [((64, 0), 30.0), ((64, 64), 40.0), ((128, 0), 50.0), ((128, 64), 70.0)].into_iter().collect();
        let filled = prefill(&points, &model(), decodes.as_ref().map(|filled| &filled.grid)).expect("a grid");
        assert_eq!((filled.grid.at(1.0, 0.0).value, filled.grid.at(1.0, 64.0).value), (3.0, 5.0));
        assert_eq!(filled.grid.at(128.0, 64.0).value, 70.0);
    }
}
