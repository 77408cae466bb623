//! Texts in a number of columns. What does not fit is left out or ends with `…`: a number that lacks digits would be a lie.

use ratatui::text::Span;

const ELLIPSIS: &str = "…";

/// Columns that a text takes.
pub(super) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// The text if it fits, or its beginning and `…`.
pub(super) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    if columns == 0 {
        return String::new();
    }
    let mut kept = String::new();
    for character in text.chars() {
        kept.push(character);
        if width(&kept) >= columns {
            kept.pop();
            break;
        }
    }
    kept + ELLIPSIS
}

/// As [`cut`], but with nothing instead of a part: for numbers in tables.
pub(super) fn whole(text: &str, columns: usize) -> String {
    let fits = width(text) <= columns;
    if fits { text.to_owned() } else { cut(ELLIPSIS, columns) }
}

/// Those of the fields, from the first on, that fit with two blanks between them; `…` if some do not. The first is cut if
/// it alone does not fit.
pub(super) fn fields<'a>(fields: impl IntoIterator<Item = &'a str>, columns: usize) -> String {
    let fields: Vec<&str> = fields.into_iter().filter(|field| !field.is_empty()).collect();
    let all = fields.join("  ");
    if width(&all) <= columns {
        return all;
    }
    let some = |kept: usize| format!("{} {ELLIPSIS}", fields[..kept].join("  "));
    (1..fields.len()).rev().map(some).find(|line| width(line) <= columns).unwrap_or_else(|| cut(fields[0], columns))
}

/// A whole number with its thousands apart.
pub(super) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with its noun.
pub(super) fn counted(value: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(value), if value == 1 { "" } else { "s" })
}

/// A share as percent. Only what is all of it is 100 %, and only nothing is 0 %.
pub(super) fn percent(share: f64) -> String {
    match share {
        share if share > 0.0 && share < 0.0005 => "<0.1 %".to_owned(),
        share if share < 1.0 && share > 0.9995 => ">99.9 %".to_owned(),
        share => format!("{:.1} %", share * 100.0),
    }
}

/// Milliseconds with a sign, thousands apart, one decimal.
pub(super) fn signed_ms(ms: f64) -> String {
    let tenths = (ms.abs() * 10.0).round() as u64;
    let sign = match (tenths, ms < 0.0) {
        (0, _) => "",
        (_, true) => "-",
        (_, false) => "+",
    };
    format!("{sign}{}.{}", count(tenths / 10), tenths % 10)
}

/// The clock in seconds, to the millisecond.
pub(super) fn clock(ns: u64) -> String {
    let ms = ns / 1_000_000;
    format!("{}.{:03} s", count(ms / 1000), ms % 1000)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_whole_or_not_there() {
        assert_eq!(whole("1,234", 5), "1,234");
        assert_eq!(whole("1,234", 4), "…");
        assert_eq!(whole("1,234", 0), "");
        assert_eq!(cut("Chunked prefill", 8), "Chunked…");
        assert_eq!(cut("分块预填充", 5), "分块…");
        assert_eq!(fields(["42 rows", "6 padded", "17.3 ms"], 40), "42 rows  6 padded  17.3 ms");
        assert_eq!(fields(["42 rows", "6 padded", "17.3 ms"], 26), "42 rows  6 padded  17.3 ms");
        assert_eq!(fields(["42 rows", "6 padded", "17.3 ms"], 25), "42 rows  6 padded …");
        assert_eq!(fields(["42 rows", "6 padded", "17.3 ms"], 17), "42 rows …");
        assert_eq!(fields(["42 rows", "6 padded"], 4), "42 …");
        assert_eq!(fields([""], 4), "");
        assert_eq!(
            [0.0, 0.0001, 0.091, 0.999_99, 1.0].map(percent),
            ["0.0 %", "<0.1 %", "9.1 %", ">99.9 %", "100.0 %"]
        );
        assert_eq!([0.0, -0.04, -3_815.6, 12.25].map(signed_ms), ["0.0", "0.0", "-3,815.6", "+12.3"]);
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(clock(1_234_567_890_123), "1,234.567 s");
    }

    proptest! {
        #[test]
        fn nothing_is_wider_than_its_room(words in prop::collection::vec("[a-z0-9ä分 ]{0,9}", 0..6), columns in 0usize..40) {
            let line = fields(words.iter().map(String::as_str), columns);
            prop_assert!(width(&line) <= columns, "{line:?} in {columns}");
            for word in &words {
                prop_assert!(width(&cut(word, columns)) <= columns);
                prop_assert!(width(&whole(word, columns)) <= columns);
            }
        }
    }
}
