//! Where the costs came from, one line a group.

use std::io::{self, Write};

use super::grid::{Align, Grid};
use super::number::UNDEFINED;
use super::prose::paragraph;
use crate::ProfileReport;

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
    let columns = [("group", Align::Left), ("kind", Align::Left), ("valid", Align::Left), ("from", Align::Left)];
    let mut grid = Grid::new(&columns).wrap(2, 26).wrap(3, 52);
    for group in &profile.groups {
        let licence = group.licence.iter().map(|licence| format!(" ({licence})"));
        let method = group.method.iter().map(|method| format!(": {method}"));
        let from: String = std::iter::once(group.source.clone()).chain(licence).chain(method).collect();
        let valid = group.valid_range.clone().unwrap_or_else(|| UNDEFINED.to_owned());
        grid.row([group.group.clone(), group.kind.to_string(), valid, from]);
    }
    grid.write(sink)
}
