//! What a log says of one figure: a value, a bound, or nothing.

/// What a log says of one figure.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// It is this, within an interval.
    Fitted {
        /// The figure.
        value: f64,
        /// Its 95 % interval; wider where another figure that is only bounded takes part.
        interval: [f64; 2],
        /// Steps that it rests on.
        samples: u64,
        /// In words.
        why: String,
    },
    /// It is this, read off a table whose sizes range so.
    Read {
        /// The figure.
        value: f64,
        /// Least and most over the sizes of the table.
        range: [f64; 2],
        /// Steps that it rests on.
        samples: u64,
        /// In words.
        why: String,
    },
    /// It is hidden, and no more than this.
    Bounded {
        /// The most that it can be.
        most: f64,
        /// Steps that bound it.
        samples: u64,
        /// In words.
        why: String,
    },
    /// It says nothing of it.
    Silent {
        /// In words.
        why: String,
    },
}

impl Finding {
    /// A figure with its interval; where the median leaves nothing for it, the most that it can be, and where even that is
    /// nothing, no word about it: a figure of zero would be made up.
    pub(super) fn of(value: f64, [low, high]: [f64; 2], samples: u64, why: String) -> Self {
        if value > 0.0 {
            Self::Fitted { value, interval: [low.max(0.0), high.max(value)], samples, why }
        } else if high > 0.0 {
            Self::Bounded { most: high, samples, why: format!("{why}, but in the median nothing is left for it") }
        } else {
            Self::Silent { why: format!("not identifiable: {why}, but nothing is left for it") }
        }
    }

    /// A figure of a table with its range over sizes; where nothing is left for it, no word about it.
    pub(in crate::fit) fn read(value: f64, [least, most]: [f64; 2], samples: u64, why: String) -> Self {
        if value > 0.0 {
            Self::Read { value, range: [least.max(0.0), most.max(value)], samples, why }
        } else {
            Self::Silent { why: format!("not identifiable: {why}, but nothing is left for it") }
        }
    }

    /// Whether it is a figure, not a bound.
    #[must_use]
    pub fn is_figure(&self) -> bool {
        matches!(self, Self::Fitted { .. } | Self::Read { .. })
    }

    /// The most that a figure can be, unless that is nothing.
    pub(in crate::fit) fn bound(most: f64, samples: u64, why: String) -> Self {
        if most > 0.0 {
            Self::Bounded { most, samples, why }
        } else {
            Self::Silent { why: format!("not identifiable: {why}, but nothing is left for it") }
        }
    }

    /// The figure that it makes of a planned one.
    #[must_use]
    pub fn decided(&self, planned: f64) -> f64 {
        match self {
            Self::Fitted { value, .. } | Self::Read { value, .. } => rounded(*value),
            Self::Bounded { most, .. } if *most < planned => rounded(*most),
            Self::Bounded { .. } | Self::Silent { .. } => planned,
        }
    }
}

/// To a thousandth, for more digits would say more than a log does; what is less than one keeps its first digits, for a figure
/// that is small is not nothing.
#[must_use]
pub(super) fn rounded(value: f64) -> f64 {
    const LEAST: f64 = 1e-3;
    if value.abs() >= LEAST || value == 0.0 {
        return (value * 1e3).round() / 1e3;
    }
    let scale = 10_f64.powf(2.0 - value.abs().log10().floor());
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: f64, interval: [f64; 2]) -> Finding {
        Finding::of(value, interval, 30, "steps".to_owned())
    }

    #[test]
    fn what_leaves_nothing_is_no_figure_of_zero() {
        assert!(matches!(of(3.0, [-1.0, 5.0]), Finding::Fitted { interval: [0.0, 5.0], .. }));
        assert!(matches!(of(-2.0, [-5.0, 1.5]), Finding::Bounded { most: 1.5, .. }));
        let silent = of(-2.0, [-5.0, -1.0]);
        assert!(matches!(&silent, Finding::Silent { why } if why.starts_with("not identifiable")), "{silent:?}");
        assert!(matches!(of(0.0, [0.0, 0.0]), Finding::Silent { .. }), "clipped, with an interval of no width");
        assert!(matches!(Finding::bound(-1.0, 3, String::new()), Finding::Silent { .. }));
        let decided = [of(-2.0, [-5.0, 1.5]).decided(4.0), of(-2.0, [-5.0, 1.5]).decided(1.0), silent.decided(4.0)];
        assert_eq!(decided.map(|figure| figure.to_string()), ["1.5", "1", "4"]);
    }

    #[test]
    fn small_figures_stay_figures() {
        let rounded = [0.0, 0.0004, 0.000_123_46, 12.345_67].map(|figure| rounded(figure).to_string());
        assert_eq!(rounded, ["0", "0.0004", "0.000123", "12.346"]);
    }
}
