//! Numbers for people: thousands apart, one precision a row.

use crate::{Figure, Scale};

/// What stands where a figure is not defined.
pub(crate) const UNDEFINED: &str = "-";

const BYTES_PER_GIB: f64 = (1_u64 << 30) as f64;

/// The figures of one table row, all with the same decimals so that right-aligned they can be compared at a glance.
pub(crate) fn row(figures: &[Figure], scale: Scale) -> Vec<String> {
    if figures.iter().any(has_width) {
        precise(figures, scale)
    } else {
        precise(&figures.iter().map(settled).collect::<Vec<_>>(), scale)
    }
}

fn precise(figures: &[Figure], scale: Scale) -> Vec<String> {
    let largest = figures.iter().filter_map(Figure::mean).map(|mean| scaled(mean, scale).abs()).fold(0.0, f64::max);
    let decimals = match scale {
        Scale::Percent | Scale::Gib => 2,
        Scale::Plain => decimals_for(largest),
    };
    figures.iter().map(|figure| show(figure, scale, decimals)).collect()
}

fn has_width(figure: &Figure) -> bool {
    matches!(figure, Figure::Interval(interval) if interval.low < interval.high)
}

/// A number of requests, in words.
pub(crate) fn requests(requests: u64) -> String {
    format!("{} request{}", count(requests), if requests == 1 { "" } else { "s" })
}

/// An interval without width is one figure, and a whole one is a count: what a ladder costs does not depend on the seed.
fn settled(figure: &Figure) -> Figure {
    match figure {
        Figure::Interval(interval) if interval.mean >= 0.0 && interval.mean.fract() == 0.0 => {
            Figure::from(interval.mean as u64)
        }
        other => without_interval(other),
    }
}

/// The figure without its interval, where an interval has no room.
pub(crate) fn without_interval(figure: &Figure) -> Figure {
    match figure {
        Figure::Interval(interval) => Figure::from(interval.mean),
        other => *other,
    }
}

fn show(figure: &Figure, scale: Scale, decimals: usize) -> String {
    match (figure, scale) {
        (Figure::Undefined, _) => UNDEFINED.to_owned(),
        (Figure::Count(value), Scale::Plain) => count(*value),
        (Figure::Interval(interval), _) => {
            let half = scaled(interval.high - interval.mean, scale);
            format!("{} ±{}", fixed(scaled(interval.mean, scale), decimals), fixed(half, decimals))
        }
        _ => figure.mean().map_or_else(|| UNDEFINED.to_owned(), |mean| fixed(scaled(mean, scale), decimals)),
    }
}

fn scaled(value: f64, scale: Scale) -> f64 {
    match scale {
        Scale::Plain => value,
        Scale::Percent => value * 100.0,
        Scale::Gib => value / BYTES_PER_GIB,
    }
}

/// Four to five significant digits for the largest number of a row.
fn decimals_for(largest: f64) -> usize {
    match largest {
        x if x >= 10_000.0 => 0,
        x if x >= 1_000.0 => 1,
        x if x >= 10.0 => 2,
        x if x >= 0.1 || x == 0.0 => 3,
        _ => 6,
    }
}

/// A whole number with its thousands apart.
pub(crate) fn count(value: u64) -> String {
    grouped(&value.to_string())
}

/// A number with fixed decimals and its thousands apart; a rounded zero carries no minus sign.
pub(crate) fn fixed(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return UNDEFINED.to_owned();
    }
    let text = format!("{:.decimals$}", value.abs());
    let (whole, fraction) = text.split_once('.').map_or((text.as_str(), None), |(w, f)| (w, Some(f)));
    let negative = value < 0.0 && text.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
    let sign = if negative { "-" } else { "" };
    match fraction {
        Some(fraction) => format!("{sign}{}.{fraction}", grouped(whole)),
        None => format!("{sign}{}", grouped(whole)),
    }
}

/// Fixed decimals, or a dash.
pub(crate) fn option(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| UNDEFINED.to_owned(), |value| fixed(value, decimals))
}

fn grouped(digits: &str) -> String {
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Ascending sizes in at most about `room` characters: all of them, or the ends with an ellipsis between.
pub(crate) fn sizes(sizes: &[u32], room: usize) -> String {
    let words: Vec<String> = sizes.iter().map(ToString::to_string).collect();
    let all = words.join(" ");
    if all.len() <= room {
        return if all.is_empty() { "none".to_owned() } else { all };
    }
    let tail = words[words.len().saturating_sub(2)..].join(" ");
    let mut head = String::new();
    for word in &words {
        if head.len() + word.len() + tail.len() + 6 > room {
            break;
        }
        head.push_str(word);
        head.push(' ');
    }
    format!("{head}... {tail}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Interval;

    #[test]
    fn thousands_stand_apart_and_zero_has_no_sign() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(fixed(-1_234.567, 1), "-1,234.6");
        assert_eq!(fixed(-0.000_4, 3), "0.000");
        assert_eq!(fixed(999.96, 1), "1,000.0");
        assert_eq!(fixed(12.0, 0), "12");
        assert_eq!(fixed(f64::NAN, 2), "-");
    }

    #[test]
    fn a_row_shares_its_precision() {
        let figures = [Figure::from(12_345.678), Figure::from(1.5), Figure::Undefined];
        assert_eq!(row(&figures, Scale::Plain), ["12,346", "2", "-"]);
        assert_eq!(row(&[Figure::from(18.061), Figure::from(7_u64)], Scale::Plain), ["18.06", "7"]);
        assert_eq!(row(&[Figure::from(0.280_162)], Scale::Percent), ["28.02"]);
        assert_eq!(row(&[Figure::from(3_u64 << 29)], Scale::Gib), ["1.50"]);
        let interval = Figure::Interval(Interval { mean: 10.0, low: 9.0, high: 11.0 });
        assert_eq!(row(&[interval], Scale::Plain), ["10.00 ±1.00"]);
        let settled = Figure::Interval(Interval { mean: 2_106.0, low: 2_106.0, high: 2_106.0 });
        assert_eq!(row(&[settled, Figure::Undefined], Scale::Plain), ["2,106", "-"]);
        assert_eq!(row(&[settled, interval], Scale::Plain), ["2,106.0 ±0.0", "10.0 ±1.0"]);
    }

    #[test]
    fn long_ladders_show_their_ends() {
        assert_eq!(sizes(&[], 20), "none");
        assert_eq!(sizes(&[1, 2, 4], 20), "1 2 4");
        let ladder: Vec<u32> = (1..=51).collect();
        assert_eq!(sizes(&ladder, 24), "1 2 3 4 5 6 7 ... 50 51");
        assert_eq!(sizes(&ladder, 3), "... 50 51", "the ceiling is always shown");
    }
}
