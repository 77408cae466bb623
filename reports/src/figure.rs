//! One figure of a result: a number for one seed, an interval for several, nothing where undefined.

use std::fmt;

use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// A figure that serializes as what it is: a whole number, a number, `{mean, low, high}`, or null.
///
/// A number that is not finite has no place in a result: converting one gives [`Figure::Undefined`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Figure {
    /// No such figure: a rate over no steps, goodput without an SLO. Null in JSON, an empty cell in CSV.
    #[default]
    Undefined,
    /// A count, exact.
    Count(u64),
    /// A finite number.
    Value(f64),
    /// Mean over several seeds with its confidence interval.
    Interval(Interval),
}

/// The mean of a figure over seeds and the two-sided 95 % confidence interval of that mean.
///
/// The interval is Student's, `mean ± t(0.975, n−1) · s / √n`; it speaks about the seeds, not about the model's error.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Mean over the seeds, in the figure's unit.
    pub mean: f64,
    /// Lower end of the interval, in the figure's unit.
    pub low: f64,
    /// Upper end of the interval, in the figure's unit.
    pub high: f64,
}

impl Figure {
    /// The number itself, or the mean of an interval.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        match self {
            Self::Undefined => None,
            Self::Count(count) => Some(*count as f64),
            Self::Value(value) => Some(*value),
            Self::Interval(interval) => Some(interval.mean),
        }
    }

    /// The figure over several seeds. Undefined if any seed leaves it undefined: a mean over the seeds that happen to
    /// define it would be biased towards them. At least two figures are needed for an interval; one is returned as is.
    #[must_use]
    pub fn over_seeds(figures: &[Self]) -> Self {
        if let [single] = figures {
            return *single;
        }
        let samples: Option<Vec<f64>> = figures.iter().map(Self::mean).collect();
        samples.and_then(|samples| Interval::of(&samples)).map_or(Self::Undefined, Self::Interval)
    }
}

impl Interval {
    /// The interval of the mean of `samples`; `None` for fewer than two samples or if one is not finite.
    #[must_use]
    pub fn of(samples: &[f64]) -> Option<Self> {
        if samples.len() < 2 || samples.iter().any(|sample| !sample.is_finite()) {
            return None;
        }
        let n = samples.len() as f64;
        let first = samples[0];
        // Shifted by the first sample, so that equal samples give exactly that sample and a width of zero.
        let shift = samples.iter().map(|sample| sample - first).sum::<f64>() / n;
        let mean = positive_zero(first + shift);
        let square_sum = samples.iter().map(|sample| (sample - first - shift).powi(2)).sum::<f64>();
        let half = t_975(samples.len() - 1) * (square_sum / (n - 1.0) / n).sqrt();
        let interval = Self { mean, low: positive_zero(mean - half), high: positive_zero(mean + half) };
        (interval.low.is_finite() && interval.high.is_finite()).then_some(interval)
    }
}

/// Student's t for a two-sided 95 % interval.
fn t_975(degrees: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706_205, 4.302_653, 3.182_446, 2.776_445, 2.570_582, 2.446_912, 2.364_624, 2.306_004, 2.262_157, 2.228_139,
        2.200_985, 2.178_813, 2.160_369, 2.144_787, 2.131_450, 2.119_905, 2.109_816, 2.100_922, 2.093_024, 2.085_963,
        2.079_614, 2.073_873, 2.068_658, 2.063_899, 2.059_539, 2.055_529, 2.051_831, 2.048_407, 2.045_230, 2.042_272,
    ];
    if let Some(t) = degrees.checked_sub(1).and_then(|index| TABLE.get(index)) {
        return *t;
    }
    // Above the table: the expansion in 1/degrees (Abramowitz and Stegun 26.7.5), good to 1e-6 from 30 on.
    let (z, n) = (1.959_963_984_540_054_f64, degrees as f64);
    let g1 = (z.powi(3) + z) / 4.0;
    let g2 = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let g3 = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + g1 / n + g2 / n.powi(2) + g3 / n.powi(3)
}

/// Minus zero reads as a loss that is not there.
fn positive_zero(value: f64) -> f64 {
    value + 0.0
}

impl From<f64> for Figure {
    fn from(value: f64) -> Self {
        if value.is_finite() { Self::Value(positive_zero(value)) } else { Self::Undefined }
    }
}

impl From<u64> for Figure {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<u32> for Figure {
    fn from(count: u32) -> Self {
        Self::Count(u64::from(count))
    }
}

impl From<usize> for Figure {
    fn from(count: usize) -> Self {
        Self::Count(count as u64)
    }
}

impl<T: Into<Self>> From<Option<T>> for Figure {
    fn from(figure: Option<T>) -> Self {
        figure.map_or(Self::Undefined, Into::into)
    }
}

impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Undefined => serializer.serialize_none(),
            Self::Count(count) => serializer.serialize_u64(*count),
            // The variants are public, so the promise of finite numbers is kept once more here.
            Self::Value(value) if !value.is_finite() => serializer.serialize_none(),
            Self::Value(value) => serializer.serialize_f64(*value),
            Self::Interval(interval) => interval.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Figure {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FigureVisitor)
    }
}

struct FigureVisitor;

impl<'de> Visitor<'de> for FigureVisitor {
    type Value = Figure;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, an object with mean, low and high, or null")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Figure, E> {
        Ok(Figure::Undefined)
    }

    fn visit_u64<E: de::Error>(self, count: u64) -> Result<Figure, E> {
        Ok(Figure::Count(count))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Figure, E> {
        Ok(Figure::Value(value as f64))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Figure, E> {
        Ok(Figure::from(value))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Figure, A::Error> {
        Interval::deserialize(de::value::MapAccessDeserializer::new(map)).map(Figure::Interval)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(figure: Figure) -> String {
        serde_json::to_string(&figure).expect("a figure is plain data")
    }

    #[test]
    fn a_figure_serializes_as_what_it_is_and_reads_back() {
        let interval = Figure::Interval(Interval { mean: 1.5, low: -0.5, high: 3.5 });
        for (figure, text) in [
            (Figure::Undefined, "null"),
            (Figure::from(u64::MAX), "18446744073709551615"),
            (Figure::from(0.1 + 0.2), "0.30000000000000004"),
            (Figure::from(12.0), "12.0"),
            (interval, r#"{"mean":1.5,"low":-0.5,"high":3.5}"#),
        ] {
            assert_eq!(json(figure), text);
            assert_eq!(serde_json::from_str::<Figure>(text).expect("reads back"), figure);
        }
        assert!(serde_json::from_str::<Figure>(r#"{"mean":1}"#).is_err(), "half an interval is refused");
        assert!(serde_json::from_str::<Figure>(r#""fast""#).is_err());
    }

    #[test]
    fn what_is_not_finite_is_undefined_and_zero_has_no_sign() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(Figure::from(value), Figure::Undefined);
            assert_eq!(json(Figure::Value(value)), "null");
        }
        assert_eq!(json(Figure::from(-0.0)), "0.0");
        assert_eq!(Figure::from(None::<f64>), Figure::Undefined);
    }

    #[test]
    fn the_interval_is_students() {
        // Textbook sample 1..=5: mean 3, s = sqrt(2.5), t(4) = 2.776445: 3 ± 1.963243.
        let interval = Interval::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).expect("five samples");
        assert!((interval.mean - 3.0).abs() < 1e-12);
        assert!((interval.low - 1.036_757).abs() < 1e-6, "{interval:?}");
        assert!((interval.high - 4.963_243).abs() < 1e-6, "{interval:?}");
        assert_eq!(Interval::of(&[0.1; 7]), Some(Interval { mean: 0.1, low: 0.1, high: 0.1 }));
        assert_eq!(Interval::of(&[1.0]), None);
        assert_eq!(Interval::of(&[1.0, f64::NAN]), None);
        assert_eq!(Interval::of(&[-f64::MAX, f64::MAX]), None, "an interval that overflows is none");
    }

    #[test]
    fn t_joins_smoothly_at_the_end_of_its_table() {
        for (degrees, expected) in
            [(1, 12.706_205), (30, 2.042_272), (31, 2.039_513), (60, 2.000_298), (120, 1.979_930)]
        {
            assert!((t_975(degrees) - expected).abs() < 2e-6, "t({degrees}) = {}", t_975(degrees));
        }
    }

    #[test]
    fn one_undefined_seed_leaves_the_figure_undefined() {
        assert_eq!(Figure::over_seeds(&[Figure::Count(3), Figure::Undefined]), Figure::Undefined);
        assert_eq!(Figure::over_seeds(&[Figure::Count(3)]), Figure::Count(3));
        assert_eq!(Figure::over_seeds(&[]), Figure::Undefined);
        let Figure::Interval(interval) = Figure::over_seeds(&[Figure::Count(3), Figure::Count(5)]) else {
            panic!("two defined seeds give an interval")
        };
        assert!((interval.mean - 4.0).abs() < 1e-12);
    }
}
