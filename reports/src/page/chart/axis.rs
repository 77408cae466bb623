//! An axis: where values lie, which are labelled, and what it is called.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

use crate::text::number;

/// How values are spread over an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spread {
    /// Evenly.
    Linear,
    /// As much room for each doubling.
    Doublings,
    /// As much room for each power of ten.
    Decades,
}

/// One axis. Its places are what a drawing is laid out in: the values themselves, or their logarithms.
#[derive(Clone, Debug)]
pub(in crate::page) struct Axis {
    /// What is shown, with its unit.
    pub(super) name: String,
    /// First and last place.
    pub(super) range: [f64; 2],
    /// Places that are labelled.
    pub(super) ticks: Vec<(f64, String)>,
    spread: Spread,
}

impl Axis {
    /// From zero to at least `most`.
    pub(super) fn from_zero(name: &str, most: f64, count: usize) -> Self {
        Self::linear(name, [0.0, most], count)
    }

    /// Round numbers from at most `low` to at least `high`, about `count` of them.
    pub(super) fn linear(name: &str, [low, high]: [f64; 2], count: usize) -> Self {
        let (low, high) = if low.is_finite() && high.is_finite() { (low.min(high), low.max(high)) } else { (0.0, 1.0) };
        let span = if high > low { high - low } else { high.abs().max(1.0) };
        let step = round_step(span / count.max(1) as f64);
        let (first, last) = ((low / step + 1e-9).floor(), (high / step - 1e-9).ceil());
        let last = last.max(first + 1.0);
        let ticks = (0..=(last - first) as usize).map(|place| (first + place as f64) * step);
        let decimals = decimals_of(step);
        Self {
            name: name.to_owned(),
            range: [first * step, last * step],
            ticks: ticks.map(|value| (value, number::fixed(value, decimals))).collect(),
            spread: Spread::Linear,
        }
    }

    /// The same for values that may lie far from zero, and its name says so where the axis does not hold zero.
    pub(super) fn near(name: &str, ends: [f64; 2], count: usize) -> Self {
        let axis = Self::linear(name, ends, count);
        let holds_zero = axis.range[0] <= 0.0 && axis.range[1] >= 0.0;
        if holds_zero { axis } else { Self { name: format!("{name} (not from zero)"), ..axis } }
    }

    /// Whole numbers from `first` to `last` as they are, with round numbers labelled.
    pub(super) fn whole(name: &str, first: f64, last: f64, count: usize) -> Self {
        let step = round_step((last - first).max(1.0) / count.max(1) as f64).max(1.0);
        let from = (first / step).ceil() as i64;
        let ticks = (from..=(last / step).floor() as i64).map(|place| place as f64 * step);
        let mut ticks: Vec<f64> = ticks.filter(|value| *value > 0.0).collect();
        if first <= 1.0 && last >= 1.0 && ticks.first().is_none_or(|value| *value > 1.0) {
            ticks.insert(0, 1.0);
        }
        Self {
            name: name.to_owned(),
            range: [first - 0.5, last + 0.5],
            ticks: ticks.into_iter().map(|value| (value, number::fixed(value, 0))).collect(),
            spread: Spread::Linear,
        }
    }

    /// Powers of two, from one to at least `most`.
    pub(super) fn doublings(name: &str, most: f64) -> Self {
        let last = most.max(2.0).log2();
        let ticks = (0..=last.floor() as i32).map(|power| (f64::from(power), number::fixed(2_f64.powi(power), 0)));
        Self { name: name.to_owned(), range: [-0.6, last + 0.1], ticks: ticks.collect(), spread: Spread::Doublings }
    }

    /// The same with at most `most` labels, every so many left out from the first on.
    pub(super) fn thinned(mut self, most: usize) -> Self {
        let every = self.ticks.len().div_ceil(most.max(1)).max(1);
        self.ticks = self.ticks.into_iter().step_by(every).collect();
        self
    }

    /// Powers of ten and, where they are few, what lies between, from `low` to `high`, both above zero.
    pub(super) fn decades(name: &str, low: f64, high: f64) -> Self {
        let low = low.max(1e-9);
        let high = high.max(low * 1.2);
        let (first, last) = (low.log10(), high.log10());
        let digits: &[f64] = match last - first {
            span if span > 5.0 => &[1.0],
            span if span > 1.5 => &[1.0, 2.0, 5.0],
            span if span > 0.7 => &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0],
            _ => &[],
        };
        let places = |value: f64| (value, label(10_f64.powf(value)));
        let ticks = if digits.is_empty() {
            let even = Self::linear(name, [low, high], 8);
            even.ticks
                .into_iter()
                .filter(|(value, _)| (low..=high).contains(value))
                .map(|(v, l)| (v.log10(), l))
                .collect()
        } else {
            let powers = first.floor() as i32..=last.ceil() as i32;
            let all = powers.flat_map(|power| digits.iter().map(move |digit| digit.log10() + f64::from(power)));
            all.filter(|place| (first - 1e-9..=last + 1e-9).contains(place)).map(places).collect()
        };
        Self { name: name.to_owned(), range: [first, last], ticks, spread: Spread::Decades }
    }

    /// Things side by side, each a unit wide; as many are labelled as have room in `pixels`.
    pub(super) fn categories(name: &str, labels: &[String], pixels: f64) -> Self {
        let widest = labels.iter().map(|label| super::text_width(label, super::LABEL_PX)).fold(0.0, f64::max) + 8.0;
        let every = ((labels.len() as f64 * widest / pixels).ceil() as usize).max(1);
        let ticks = labels.iter().enumerate().filter(|(place, _)| place % every == 0);
        Self {
            name: name.to_owned(),
            range: [0.0, labels.len().max(1) as f64],
            ticks: ticks.map(|(place, label)| (place as f64 + 0.5, label.clone())).collect(),
            spread: Spread::Linear,
        }
    }

    /// The same axis without labels: another one below it has them.
    pub(super) fn bare(&self) -> Self {
        let ticks = self.ticks.iter().map(|(place, _)| (*place, String::new())).collect();
        Self { name: String::new(), ticks, ..self.clone() }
    }

    /// The same axis, ending at a value on it rather than at a round one.
    pub(super) fn cut(mut self, last: f64) -> Self {
        if last > self.range[0] {
            self.range[1] = last;
            self.ticks.retain(|(place, _)| *place <= last);
        }
        self
    }

    /// Where a value lies; one beyond the end lies at the end.
    pub(super) fn place(&self, value: f64) -> f64 {
        let place = match self.spread {
            Spread::Linear => value,
            Spread::Doublings => value.max(f64::MIN_POSITIVE).log2(),
            Spread::Decades => value.max(f64::MIN_POSITIVE).log10(),
        };
        if place.is_nan() { self.range[0] } else { place.clamp(self.range[0], self.range[1]) }
    }

    /// Whether a value lies on the axis.
    pub(super) fn holds(&self, value: f64) -> bool {
        let place = match self.spread {
            Spread::Linear => value,
            Spread::Doublings => value.log2(),
            Spread::Decades => value.log10(),
        };
        (self.range[0]..=self.range[1]).contains(&place)
    }
}

/// What plotters asks an axis: where places lie in pixels, which have a label, and what it says.
impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, limit: (i32, i32)) -> i32 {
        let share = (place - self.range[0]) / (self.range[1] - self.range[0]);
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        let points = self.ticks.iter().map(|(place, _)| *place);
        if hint.weight().allow_light_points() { Vec::new() } else { points.collect() }
    }

    fn range(&self) -> Range<f64> {
        self.range[0]..self.range[1]
    }
}

impl ValueFormatter<f64> for Axis {
    fn format(place: &f64) -> String {
        place.to_string()
    }

    fn format_ext(&self, place: &f64) -> String {
        let label = self.ticks.iter().find(|(at, _)| (at - place).abs() < f64::EPSILON * at.abs().max(1.0));
        label.map_or_else(String::new, |(_, label)| label.clone())
    }
}

/// The next of 1, 2 and 5 times a power of ten.
fn round_step(least: f64) -> f64 {
    let least = if least.is_finite() && least > 0.0 { least } else { 1.0 };
    let power = 10_f64.powf(least.log10().floor());
    let digit = [1.0, 2.0, 5.0, 10.0].into_iter().find(|digit| digit * power >= least * (1.0 - 1e-9)).unwrap_or(10.0);
    digit * power
}

fn decimals_of(step: f64) -> usize {
    (-step.log10().floor()).clamp(0.0, 9.0) as usize
}

fn label(value: f64) -> String {
    number::fixed(value, if value < 0.95 { decimals_of(value) } else { usize::from(value < 1.9 && value > 1.1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_and_hold_the_data() {
        assert_eq!(labels(&Axis::from_zero("", 7.3, 4)), ["0", "2", "4", "6", "8"]);
        assert_eq!(labels(&Axis::linear("", [4.84, 4.853], 4)), ["4.840", "4.845", "4.850", "4.855"]);
        assert_eq!(labels(&Axis::linear("", [-340.0, 109.0], 4)), ["-400", "-200", "0", "200"]);
        assert_eq!(
            labels(&Axis::decades("", 0.7, 20_000.0)),
            ["1", "2", "5", "10", "20", "50", "100", "200", "500", "1,000", "2,000", "5,000", "10,000", "20,000"]
        );
        assert_eq!(labels(&Axis::doublings("", 100.0)), ["1", "2", "4", "8", "16", "32", "64"]);
        assert_eq!(labels(&Axis::whole("", 1.0, 64.0, 6)), ["1", "20", "40", "60"]);
    }

    #[test]
    fn an_axis_without_zero_says_so() {
        assert_eq!(Axis::near("ms", [4.84, 4.853], 4).name, "ms (not from zero)");
        assert_eq!(Axis::near("ms", [-2.0, -1.0], 4).name, "ms (not from zero)");
        for ends in [[0.0, 4.0], [-1.0, 4.0], [0.1, 4.0]] {
            assert_eq!(Axis::near("ms", ends, 4).name, "ms", "{ends:?}");
        }
    }

    #[test]
    fn no_range_is_empty_and_no_value_is_lost() {
        for axis in [
            Axis::from_zero("", 0.0, 4),
            Axis::linear("", [f64::NAN, 1.0], 4),
            Axis::linear("", [3.0, 3.0], 4),
            Axis::decades("", 0.0, 0.0),
            Axis::doublings("", 0.0),
            Axis::categories("", &[], 100.0),
        ] {
            assert!(axis.range[1] > axis.range[0], "{axis:?}");
            for value in [f64::NAN, f64::NEG_INFINITY, 0.0, f64::INFINITY] {
                assert!((axis.range[0]..=axis.range[1]).contains(&axis.place(value)), "{axis:?}");
            }
        }
    }

    #[test]
    fn crowded_categories_are_thinned() {
        let names: Vec<String> = (0..500).map(|name| name.to_string()).collect();
        let axis = Axis::categories("", &names, 800.0);
        assert!(axis.ticks.len() < 30, "{}", axis.ticks.len());
        assert_eq!(axis.ticks[0], (0.5, "0".to_owned()));
    }
}
