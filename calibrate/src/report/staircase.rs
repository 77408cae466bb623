//! The padding staircase: treads, the edges between them, and what a padded row costs.

use std::io::{self, Write};

use crate::counted::counted;
use crate::fit::{Doubt, Edge, Tread};
use crate::layout::{heading, number, sentence, signed};
use crate::padding::{TableStairs, rows_most_of};
use crate::profile::Profile;

/// As many treads are listed, from the first on.
const LISTED: usize = 24;
/// Standard errors to either side of a 95 % interval.
const NORMAL_95: f64 = 1.96;

/// The treads of the step time, and the edges of the LM head.
pub(super) fn treads(profile: &Profile, out: &mut impl Write) -> io::Result<()> {
    if let Some(of_steps) = TableStairs::of_profile(profile) {
        heading("Padding staircase: treads of the step time, and what the edge after each costs", out)?;
        table(&of_steps, out)?;
        padding(&of_steps, out)?;
    }
    let of_head = TableStairs::of(&profile.machine.head, rows_most_of(profile));
    of_head.iter().filter(|of_head| !of_head.stairs.edges.is_empty()).try_for_each(|of_head| head(of_head, out))
}

fn table(of_steps: &TableStairs, out: &mut impl Write) -> io::Result<()> {
    let treads = &of_steps.stairs.treads;
    writeln!(out, "  {:>13} {:>8} {:>9}  edge after it (95 %)", "rows", "ms", "us a row")?;
    for (place, tread) in treads.iter().take(LISTED).enumerate() {
        let Tread { range: [first, last], line, .. } = tread;
        let rows = if first < last { format!("{first:.0} to {last:.0}") } else { format!("{first:.0}") };
        let ms = number(line.at(*first) / 1e3);
        let slope_us = if first < last { number(line.slope) } else { "-".to_owned() };
        let end = treads.get(place + 1).map_or_else(String::new, |_| end(of_steps, *last));
        writeln!(out, "{}", format!("  {rows:>13} {ms:>8} {slope_us:>9}  {end}").trim_end())?;
    }
    match treads.len().saturating_sub(LISTED) {
        0 => Ok(()),
        more => sentence(&format!("and {more} treads beyond"), out),
    }?;
    let falls = |edge: &Edge| edge.jump < 0.0;
    let (edges, doubtful) = (&of_steps.stairs.edges, &of_steps.stairs.doubtful);
    if edges.iter().any(falls) || doubtful.iter().any(|(edge, _)| falls(edge)) {
        sentence(
            "an edge below zero: more rows take less time, for the library has a faster kernel there, or the table scatters",
            out,
        )?;
    }
    Ok(())
}

/// What lies between the tread that ends here and the next.
fn end(of_steps: &TableStairs, last: f64) -> String {
    let is_here = |edge: &&Edge| (edge.below - last).abs() < 0.5;
    if let Some(edge) = of_steps.stairs.edges.iter().find(is_here) {
        let place = if edge.is_exact() {
            "exactly here".to_owned()
        } else {
            format!("by {}", counted(format_args!("{:.0}", edge.above), "row"))
        };
        return format!("{}, {place}", jump(of_steps, edge));
    }
    let doubtful = of_steps.stairs.doubtful.iter().find(|(edge, _)| is_here(&edge));
    doubtful.map_or_else(String::new, |(edge, doubt)| {
        let reason = match doubt {
            Doubt::Border => "too few sizes",
            Doubt::Small => "a bend, or chance",
        };
        format!("{}? {reason}", jump(of_steps, edge))
    })
}

/// The jump of an edge, its 95 % interval, and its share of the time before it.
fn jump(of_table: &TableStairs, edge: &Edge) -> String {
    let half_width = number(NORMAL_95 * edge.jump_error);
    format!("{} us +-{half_width} ({:+.1} %)", signed(edge.jump), of_table.percent(edge))
}

fn padding(of_steps: &TableStairs, out: &mut impl Write) -> io::Result<()> {
    let count = of_steps.stairs.edges.len();
    let edges = match count {
        0 => "no edge is proven".to_owned(),
        1 => "an edge that it crosses costs its jump on top".to_owned(),
        _ => "each edge that it crosses costs its jump on top".to_owned(),
    };
    if let Some(row_us) = of_steps.row_us {
        let interval = of_steps.row_interval.map_or_else(String::new, |interval| {
            format!(" ({} to {}, {} rounds)", number(interval.low), number(interval.high), interval.samples)
        });
        sentence(&format!("one row of padding: {} us between edges{interval}; {edges}", number(row_us)), out)?;
    }
    if let Some(scatter) = of_steps.scatter {
        let percent = number(100.0 * scatter);
        let text = format!(
            "the profile states no errors of these times: they are taken to be {percent} %, the scatter of neighbouring sizes"
        );
        sentence(&text, out)?;
    }
    Ok(())
}

fn head(of_head: &TableStairs, out: &mut impl Write) -> io::Result<()> {
    let edge = |edge: &Edge| {
        let place = if edge.is_exact() {
            format!("after {:.0}", edge.below)
        } else {
            format!("between {:.0} and {:.0}", edge.below, edge.above)
        };
        format!("{place} {}", jump(of_head, edge))
    };
    let edges: Vec<String> = of_head.stairs.edges.iter().map(edge).collect();
    sentence(&format!("LM head, edges over sequences: {}", edges.join(", ")), out)
}
