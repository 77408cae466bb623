//! When a result is right.

use crate::bf16::{self, Bf16};

/// How far a result may lie from its reference.
///
/// Two limits, because each alone is blind: a norm over everything hides one bad element, and a limit on elements hides a
/// small error in all of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// Of the norm of all differences, relative to the norm of the reference.
    pub relative_norm: f64,
    /// Of one difference, relative to the size of its element plus the root mean square of its row.
    pub element: f64,
}

impl Tolerance {
    /// f32 arithmetic whose result is rounded to bf16 once: off by at most 2^-8 = 3.9e-3 of an element (half a unit in the
    /// last place of 8 significant bits), and on average over elements, relative to their norm, by 0.4 of that, or a little
    /// more where few elements make the norm. The room above is for f32 sums and approximate `exp2` and `rsqrt`.
    pub const ROUNDED_ONCE: Self = Self { relative_norm: 2.8e-3, element: 4.2e-3 };

    /// Probabilities are rounded to bf16 before they weight the values, then the result: 0.4 * 2^-8 of an output's root mean
    /// square twice over. The first error is a sum over the context, so near normal: among a million elements some are five
    /// standard deviations off, 8e-3, and the limit lies at seven.
    pub const ROUNDED_TWICE: Self = Self { relative_norm: 3.5e-3, element: 1.2e-2 };
}

/// How much of a tolerance was used: 1 is the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Margin {
    /// Relative norm of the differences.
    pub relative_norm: f64,
    /// Largest difference of an element, relative to what [`Tolerance::element`] is relative to.
    pub element: f64,
}

impl Margin {
    /// The worse of each.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        Self { relative_norm: self.relative_norm.max(other.relative_norm), element: self.element.max(other.element) }
    }
}

/// A result that is not what it should be.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Difference {
    /// Bytes that no kernel should have written: a guard zone, an input, a row that is not its own.
    #[error("`{operand}` was written {place}: byte {byte} was {before:#04x} and is {after:#04x}")]
    Touched {
        /// The operand.
        operand: &'static str,
        /// Where, as words: `before its start`, `behind its end`, `inside, though it is an input`.
        place: &'static str,
        /// Offset from where the zone begins.
        byte: usize,
        /// What lay there.
        before: u8,
        /// What lies there.
        after: u8,
    },
    /// An element of data that is only moved, or of integers.
    #[error("`{operand}`[{index}] is {got}: expected {want}")]
    Unequal {
        /// The operand.
        operand: &'static str,
        /// Index of the first element that differs.
        index: usize,
        /// The result.
        got: String,
        /// The reference.
        want: String,
    },
    /// One element is too far off.
    #[error("`{operand}`[row {row}, {column}] is {got}: expected {want} within {limit}")]
    Element {
        /// The operand.
        operand: &'static str,
        /// Row of the worst element.
        row: usize,
        /// Its column.
        column: usize,
        /// The result.
        got: f64,
        /// The reference.
        want: f64,
        /// How far it may lie from the reference.
        limit: f64,
    },
    /// Everything together is too far off.
    #[error("`{operand}` differs from its reference by {relative_norm:.2e} of its norm: expected at most {limit:.1e}")]
    Norm {
        /// The operand.
        operand: &'static str,
        /// Norm of the differences, relative.
        relative_norm: f64,
        /// How large it may be.
        limit: f64,
    },
}

/// Compares rows of `width` with their reference.
///
/// # Errors
/// The worst element if it is beyond its limit, else the norm if that is.
pub(super) fn close(
    operand: &'static str,
    got: &[Bf16],
    want: &[f64],
    width: usize,
    tolerance: Tolerance,
) -> Result<Margin, Difference> {
    same_length(operand, got.len(), want.len())?;
    let got = bf16::to_f64s(got);
    let mut margin = Margin::default();
    let (mut squares, mut norm) = (0.0, 0.0);
    for (row, (got, want)) in got.chunks(width).zip(want.chunks(width)).enumerate() {
        let row_squares: f64 = want.iter().map(|want| want * want).sum();
        norm += row_squares;
        let root_mean_square = (row_squares / want.len() as f64).sqrt();
        for (column, (got, want)) in got.iter().zip(want).enumerate() {
            let off_by = (got - want).abs();
            let scale = want.abs() + root_mean_square;
            let limit = tolerance.element * scale;
            // NaN is within no limit. A row of zeros must be zeros.
            let within = off_by <= limit;
            if !within {
                return Err(Difference::Element { operand, row, column, got: *got, want: *want, limit });
            }
            squares += off_by * off_by;
            if scale > 0.0 {
                margin.element = margin.element.max(off_by / scale);
            }
        }
    }
    if norm > 0.0 {
        margin.relative_norm = (squares / norm).sqrt();
    }
    if margin.relative_norm > tolerance.relative_norm {
        let (relative_norm, limit) = (margin.relative_norm, tolerance.relative_norm);
        return Err(Difference::Norm { operand, relative_norm, limit });
    }
    Ok(margin)
}

/// Compares data that is only moved, element by element.
///
/// # Errors
/// The first element that differs.
pub(super) fn equal<T: PartialEq + std::fmt::Debug>(
    operand: &'static str,
    got: &[T],
    want: &[T],
) -> Result<(), Difference> {
    same_length(operand, got.len(), want.len())?;
    match got.iter().zip(want).position(|(got, want)| got != want) {
        None => Ok(()),
        Some(index) => Err(Difference::Unequal {
            operand,
            index,
            got: format!("{:?}", got[index]),
            want: format!("{:?}", want[index]),
        }),
    }
}

fn same_length(operand: &'static str, got: usize, want: usize) -> Result<(), Difference> {
    if got == want {
        return Ok(());
    }
    let [got, want] = [got, want].map(|elements| format!("{elements} elements"));
    Err(Difference::Unequal { operand, index: 0, got, want })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounded(values: &[f64]) -> Vec<Bf16> {
        values.iter().map(|value| Bf16::from_f64(*value)).collect()
    }

    #[test]
    fn rounding_alone_is_close() {
        let want: Vec<f64> = (1..1_000).map(|i| (f64::from(i) * 0.7).sin()).collect();
        let margin = close("out", &rounded(&want), &want, 37, Tolerance::ROUNDED_ONCE).unwrap();
        // About 0.4 * 2^-8 by theory.
        assert!((1.2e-3..2.0e-3).contains(&margin.relative_norm), "{margin:?}");
        assert!(margin.element <= 1.0 / 256.0, "{margin:?}");
    }

    #[test]
    fn one_wrong_element_and_a_small_error_everywhere_are_seen() {
        let want: Vec<f64> = (0..10_000).map(|i| f64::from(i % 100 + 1)).collect();
        let mut got = rounded(&want);
        got[5_050] = Bf16::from_f64(53.0);
        let error = close("out", &got, &want, 100, Tolerance::ROUNDED_ONCE).unwrap_err();
        assert!(matches!(error, Difference::Element { row: 50, column: 50, .. }), "{error}");
        let scaled = rounded(&want.iter().map(|value| value * 1.005).collect::<Vec<_>>());
        let error =
            close("out", &scaled, &want, 100, Tolerance { element: 1.0, ..Tolerance::ROUNDED_ONCE }).unwrap_err();
        assert!(matches!(error, Difference::Norm { .. }), "{error}");
    }

    #[test]
    fn nan_and_what_is_not_zero_are_never_close() {
        let tolerance = Tolerance { relative_norm: 1e9, element: 1e9 };
        assert!(close("out", &[Bf16::NAN], &[1.0], 1, tolerance).is_err());
        assert!(close("out", &rounded(&[1e-30]), &[0.0], 1, tolerance).is_err());
        assert!(close("out", &rounded(&[0.0]), &[0.0], 1, tolerance).is_ok());
        assert!(close("out", &rounded(&[0.0]), &[0.0, 1.0], 1, tolerance).is_err());
    }

    #[test]
    fn differences_say_where() {
        let error = equal("out", &[1, 2, 4], &[1, 2, 3]).unwrap_err();
        assert_eq!(error.to_string(), "`out`[2] is 4: expected 3");
        assert_eq!(equal("out", &[1], &[1, 2]).unwrap_err().to_string(), "`out`[0] is 1 elements: expected 2 elements");
    }
}
