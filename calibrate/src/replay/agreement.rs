//! How well predictions agree with what was measured.

use serde::Serialize;

/// One predicted and one measured time of so many steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// Steps that it stands for.
    pub steps: f64,
    /// The same for totals, where a sample is scaled to a known total.
    pub total_steps: f64,
    /// Predicted time of one step, in microseconds.
    pub predicted_us: f64,
    /// Measured time of one step, in microseconds.
    pub measured_us: f64,
}

impl Pair {
    /// How much too long the prediction is, as a share of the measured time; negative if it is too short.
    pub fn error(&self) -> f64 {
        self.predicted_us / self.measured_us - 1.0
    }
}

/// Agreement over steps, every step counting as one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Agreement {
    /// Steps compared.
    pub steps: f64,
    /// Mean of the errors' sizes, as a share of the measured time (MAPE); null without steps.
    pub mape: Option<f64>,
    /// Mean of the errors with their signs (bias): positive if predictions are too long.
    pub bias: Option<f64>,
    /// Predicted time of all steps.
    pub predicted_ms: f64,
    /// Measured time of all steps.
    pub measured_ms: f64,
    /// Error of the total, as a share of the measured time.
    pub total_error: Option<f64>,
}

impl Agreement {
    /// Of pairs whose measured times are positive; others are passed over.
    pub fn of(pairs: impl IntoIterator<Item = Pair>) -> Self {
        let (mut steps, mut sizes, mut errors, mut predicted_us, mut measured_us) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for pair in pairs.into_iter().filter(|pair| pair.measured_us > 0.0) {
            steps += pair.steps;
            sizes += pair.steps * pair.error().abs();
            errors += pair.steps * pair.error();
            predicted_us += pair.total_steps * pair.predicted_us;
            measured_us += pair.total_steps * pair.measured_us;
        }
        let share = |sum: f64, of: f64| (of > 0.0).then(|| sum / of);
        Self {
            steps,
            mape: share(sizes, steps),
            bias: share(errors, steps),
            predicted_ms: predicted_us / 1e3,
            measured_ms: measured_us / 1e3,
            total_error: share(predicted_us - measured_us, measured_us),
        }
    }
}

/// How far two rankings agree: Kendall's tau-b, 1 for the same order, -1 for the opposite one (Kendall 1945, "The
/// treatment of ties in ranking problems"). `None` for fewer than two, or where all are equal on one side.
pub fn kendall_tau(predicted: &[f64], measured: &[f64]) -> Option<f64> {
    let (mut score, mut predicted_apart, mut measured_apart) = (0, 0, 0);
    for (number, (one, other)) in predicted.iter().zip(measured).enumerate() {
        for (later_one, later_other) in predicted.iter().zip(measured).skip(number + 1) {
            let (one, other) = (order(*one, *later_one), order(*other, *later_other));
            score += one * other;
            predicted_apart += one.abs();
            measured_apart += other.abs();
        }
    }
    let apart = f64::from(predicted_apart) * f64::from(measured_apart);
    (apart > 0.0).then(|| f64::from(score) / apart.sqrt())
}

/// 1 if `later` is larger, -1 if it is smaller, 0 if they are equal.
fn order(earlier: f64, later: f64) -> i32 {
    i32::from(later > earlier) - i32::from(later < earlier)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(steps: f64, predicted_us: f64, measured_us: f64) -> Pair {
        Pair { steps, total_steps: steps, predicted_us, measured_us }
    }

    fn near(given: Option<f64>, expected: f64) -> bool {
        given.is_some_and(|given| (given - expected).abs() < 1e-12)
    }

    #[test]
    fn errors_by_hand() {
        // Three steps 10 % too long, one 50 % too short.
        let agreement = Agreement::of([pair(3.0, 110.0, 100.0), pair(1.0, 100.0, 200.0), pair(9.0, 1.0, 0.0)]);
        assert!(near(Some(agreement.steps), 4.0));
        assert!(near(agreement.mape, (3.0 * 0.1 + 0.5) / 4.0), "{agreement:?}");
        assert!(near(agreement.bias, (3.0 * 0.1 - 0.5) / 4.0), "{agreement:?}");
        assert!(near(agreement.total_error, (430.0 - 500.0) / 500.0), "{agreement:?}");
        assert!(near(Some(agreement.predicted_ms), 0.43) && near(Some(agreement.measured_ms), 0.5));
        assert_eq!(Agreement::of([]).mape, None);
    }

    #[test]
    fn rankings_by_hand() {
        assert!(near(kendall_tau(&[1.0, 2.0, 3.0], &[10.0, 20.0, 30.0]), 1.0));
        assert!(near(kendall_tau(&[1.0, 2.0, 3.0], &[30.0, 20.0, 10.0]), -1.0));
        // Of six pairs one is the other way round.
        assert!(near(kendall_tau(&[1.0, 2.0, 3.0, 4.0], &[1.0, 2.0, 4.0, 3.0]), 4.0 / 6.0));
        // A tie on one side: (2 - 0) / sqrt(2 * 3).
        assert!(near(kendall_tau(&[1.0, 1.0, 2.0], &[1.0, 2.0, 3.0]), 2.0 / 6.0_f64.sqrt()));
        assert_eq!(kendall_tau(&[1.0], &[1.0]), None);
        assert_eq!(kendall_tau(&[1.0, 1.0], &[1.0, 2.0]), None);
    }
}
