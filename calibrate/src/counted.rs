//! Counts in words: `1 row`, `8 rows`.

use std::fmt::Display;

/// So many of something that takes an `s` where there is not one of it.
pub(crate) fn counted(count: impl Display, one: &str) -> String {
    let count = count.to_string();
    let plural = if count == "1" { "" } else { "s" };
    format!("{count} {one}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_no_s() {
        assert_eq!([counted(0, "row"), counted(1, "row"), counted(2, "row")], ["0 rows", "1 row", "2 rows"]);
        assert_eq!(counted(format_args!("{:.0}", 1.2_f64), "edge of tiles"), "1 edge of tiles");
    }
}
