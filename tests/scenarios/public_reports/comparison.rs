//! A report's figure beside ours: what both are, how far apart, and whether that is a miss.

use serde_json::Value;

use super::file::{Figure, How};

/// The largest difference between times, rates and sizes that is no miss, of the report's figure.
const PART: f64 = 0.1;

/// The same between shares, in points.
const SHARE_POINTS: f64 = 1.0;

/// The same between changes in percent, in points.
const CHANGE_POINTS: f64 = 5.0;

/// The outcome.
#[derive(Debug, PartialEq)]
pub(super) struct Comparison {
    pub(super) report: String,
    pub(super) ours: String,
    /// In words, such as `-3.4 %`.
    pub(super) difference: String,
    pub(super) misses: bool,
}

/// Compares.
///
/// # Panics
/// If the two are not of one kind.
pub(super) fn compare(figure: &Figure, ours: &Value) -> Comparison {
    let unit = Unit { name: &figure.unit, points: if figure.against.is_some() { CHANGE_POINTS } else { SHARE_POINTS } };
    match (&figure.report, ours) {
        (toml::Value::String(report), Value::String(ours)) => word(report.clone(), ours.clone()),
        (toml::Value::Array(report), Value::Array(ours)) => {
            let report = report.iter().map(|size| size.as_integer().expect("a size").to_string());
            let ours = ours.iter().map(|size| size.as_u64().expect("a size").to_string());
            word(report.collect::<Vec<_>>().join(" "), ours.collect::<Vec<_>>().join(" "))
        }
        (toml::Value::Table(range), ours) => {
            let (from, to) = (number(&range["from"]), number(&range["to"]));
            within(from, to, ours.as_f64().expect("a number"), unit)
        }
        (report, ours) => {
            let (report, ours) = (number(report), ours.as_f64().expect("a number"));
            if figure.how == How::Rule { rule(report, ours, unit) } else { near(report, ours, unit) }
        }
    }
}

fn number(value: &toml::Value) -> f64 {
    value.as_float().or(value.as_integer().map(|integer| integer as f64)).expect("a number")
}

/// What both are in.
#[derive(Clone, Copy)]
struct Unit<'a> {
    name: &'a str,
    /// The largest difference of percentages that is no miss.
    points: f64,
}

impl Unit<'_> {
    fn of(self, number: &str) -> String {
        if self.name.is_empty() { number.to_owned() } else { format!("{number} {}", self.name) }
    }
}

/// Words, lists: equal or not.
fn word(report: String, ours: String) -> Comparison {
    let misses = report != ours;
    Comparison { report, ours, difference: if misses { "another" } else { "equal" }.to_owned(), misses }
}

fn rule(report: f64, ours: f64, unit: Unit) -> Comparison {
    word(unit.of(&readable(report)), unit.of(&readable(ours)))
}

fn near(report: f64, ours: f64, unit: Unit) -> Comparison {
    let (difference, misses) = if unit.name == "%" {
        let points = ours - report;
        (format!("{points:+.1} points"), points.abs() > unit.points)
    } else {
        let part = ours / report - 1.0;
        (format!("{:+.1} %", 100.0 * part), part.abs() > PART)
    };
    let [report, ours] = [report, ours].map(|number| unit.of(&readable(number)));
    Comparison { report, ours, difference, misses }
}

fn within(from: f64, to: f64, ours: f64, unit: Unit) -> Comparison {
    let report = unit.of(&format!("{} to {}", readable(from), readable(to)));
    let beside = near(ours.clamp(from, to), ours, unit);
    let difference = if (from..=to).contains(&ours) { "inside".to_owned() } else { beside.difference };
    Comparison { report, difference, ..beside }
}

/// Whole numbers as such, others with three figures or so; thousands parted by commas.
fn readable(number: f64) -> String {
    let decimals = match number.abs() {
        _ if number.fract() == 0.0 => 0,
        size if size >= 1000.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{number:.decimals$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let (sign, digits) = whole.split_at(usize::from(whole.starts_with('-')));
    let parted = digits.as_bytes().rchunks(3).rev().map(|digits| std::str::from_utf8(digits).expect("digits"));
    format!("{sign}{}{rest}", parted.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Unit = Unit { name: "ms", points: SHARE_POINTS };
    const PERCENT: Unit = Unit { name: "%", points: CHANGE_POINTS };

    #[test]
    fn more_than_a_tenth_is_a_miss() {
        assert!(!near(100.0, 109.9, MS).misses);
        assert!(near(100.0, 110.1, MS).misses);
        assert!(near(100.0, 89.9, MS).misses);
        assert_eq!(near(2585.0, 2111.99, MS).difference, "-18.3 %");
    }

    #[test]
    fn percentages_differ_in_points() {
        assert!(near(7.3, 5.5, Unit { name: "%", ..MS }).misses, "a share");
        assert!(!near(-7.0, -7.9, PERCENT).misses);
        assert!(near(24.7, 19.6, PERCENT).misses);
        assert_eq!(near(24.7, 21.1, PERCENT).difference, "-3.6 points");
    }

    #[test]
    fn a_range_is_met_inside_and_a_tenth_beyond() {
        assert_eq!(within(3.0, 3.15, 3.1, MS).difference, "inside");
        let above = within(3.0, 3.15, 3.2, MS);
        assert_eq!((above.report.as_str(), above.difference.as_str(), above.misses), ("3 to 3.15 ms", "+1.6 %", false));
        assert!(within(3.0, 3.15, 3.5, MS).misses);
    }

    #[test]
    fn rules_must_be_equal() {
        assert!(!rule(40.0, 40.0, Unit { name: "", ..MS }).misses);
        assert!(rule(40.0, 41.0, Unit { name: "", ..MS }).misses);
        assert!(word("FULL".to_owned(), "NONE".to_owned()).misses);
    }

    #[test]
    fn numbers_are_readable() {
        let numbers = [1039.0, 1761.4, -45.66, 0.5234, 81.0, 2.6334, 1_234_567.0];
        assert_eq!(numbers.map(readable), ["1,039", "1,761", "-45.7", "0.52", "81", "2.63", "1,234,567"]);
    }
}
