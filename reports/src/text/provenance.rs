//! Where the costs came from, one line a group; the whole of it is in the JSON.

use std::io::{self, Write};

use super::grid::{Align, Grid};
use super::prose::{paragraph, plain};
use crate::ProfileReport;

/// Columns for the source of a group and its licence.
const FROM_WIDTH: usize = 78;

/// Writes the profile's name and the provenance of each group used.
pub(super) fn provenance(profile: &ProfileReport, sink: &mut impl Write) -> io::Result<()> {
    let subject: Vec<&str> = [Some(&profile.name), profile.device.as_ref(), profile.model.as_ref()]
        .into_iter()
        .flatten()
        .map(String::as_str)
        .collect();
    let line = format!("Costs: profile {}; host and device {}", subject.join(", "), profile.overlap);
    paragraph(sink, &line, "", "  ")?;
    if profile.groups.is_empty() {
        return Ok(());
    }
    let columns = [("group", Align::Left), ("kind", Align::Left), ("from", Align::Left)];
    let mut grid = Grid::new(&columns);
    for group in &profile.groups {
        let licence = group.licence.as_ref().map(|licence| format!(" ({licence})")).unwrap_or_default();
        let from = cut(&group.source, FROM_WIDTH.saturating_sub(licence.chars().count()));
        grid.row([group.group.clone(), group.kind.to_string(), from + &licence]);
    }
    grid.write(sink)?;
    let stated =
        profile.groups.iter().filter_map(|group| Some(format!("{} {}", group.group, group.stated_error.as_ref()?)));
    let stated: Vec<String> = stated.collect();
    if !stated.is_empty() {
        paragraph(sink, &format!("Stated errors: {}.", stated.join("; ")), "", "  ")?;
    }
    let line = format!("Valid ranges, methods and whole sources: `calibrate show {}`, or --format json.", profile.name);
    paragraph(sink, &line, "", "  ")
}

/// The text in one line of at most `width` characters.
fn cut(text: &str, width: usize) -> String {
    let line = plain(text).split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= width {
        return line;
    }
    let head: String = line.chars().take(width.saturating_sub(1)).collect();
    head.trim_end().to_owned() + "\u{2026}"
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn a_long_source_is_cut_to_one_line() {
        assert_eq!(cut("one two three", 13), "one two three");
        assert_eq!(cut("one two three", 9), "one two\u{2026}");
        assert_eq!(cut("one   two", 30), "one two");
    }
}
