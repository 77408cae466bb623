//! One profile as a report for a terminal: what a step costs over its rows, what launches and replays cost, what rungs take,
//! and how far all of it can be believed.
//!
//! Plain text of 80 columns, and nothing in it needs colour.

mod attention;
mod chart;
mod costs;
mod rungs;
mod staircase;
mod standing;

use std::io::{self, Write};

use crate::profile::Profile;

/// Writes the report of one profile, which the user named so.
pub(crate) fn write(profile: &Profile, name: &str, out: &mut impl Write) -> io::Result<()> {
    standing::title(profile, out)?;
    chart::steps(profile, out)?;
    staircase::treads(profile, out)?;
    costs::launches(profile, out)?;
    costs::memory(profile, out)?;
    rungs::table(profile, out)?;
    attention::grids(profile, out)?;
    standing::precision(profile, out)?;
    standing::warnings(profile, out)?;
    standing::origins(profile, name, out)
}

#[cfg(test)]
mod tests;
