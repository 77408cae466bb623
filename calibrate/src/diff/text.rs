//! A difference as text for people.

use std::io::{self, Write};

use super::{Compared, Difference, FigureDifference, Judgement, KnotDifference, percent, summary};
use crate::layout::row;

/// What differs between the profiles of these names, and at the end what does not.
pub(crate) fn write(difference: &Difference, names: [&str; 2], out: &mut impl Write) -> io::Result<()> {
    for (profile, name) in ["A  ", "B  "].into_iter().zip(names) {
        row(profile, name, out)?;
    }
    if !difference.identity.is_empty() {
        writeln!(out, "\n{:<24} A -> B", "about")?;
    }
    for (name, [a, b]) in &difference.identity {
        row(&format!("  {name:<22} "), &format!("{a} -> {b}"), out)?;
    }
    let (same, differing): (Vec<_>, Vec<_>) = difference.groups.iter().partition(|group| group.is_none());
    if !differing.is_empty() {
        let (figure, a, b) = ("figure", "A", "B");
        writeln!(out, "\n{figure:<44} {a:>12} {b:>12} {:>9}  95 % intervals", "B to A")?;
    }
    for group in &differing {
        if group.kinds[0] != group.kinds[1] {
            let [a, b] = group.kinds.map(|kind| kind.unwrap_or("not there"));
            writeln!(out, "{:<44} {a:>12} {b:>12}", group.name)?;
        }
        if group.kinds.contains(&None) {
            continue;
        }
        for figure in group.figures.iter().filter(|figure| !figure.is_none()) {
            self::figure(group.name, figure, out)?;
        }
    }
    if !same.is_empty() {
        let names: Vec<_> = same.iter().map(|group| group.name).collect();
        writeln!(out)?;
        row("the same in both: ", &names.join(", "), out)?;
    }
    let Judgement { apart, judged, left_out } = difference.judgement();
    if judged == 0 {
        return writeln!(out, "\nno figure has a 95 % interval in both: whether they differ by more is not known");
    }
    let left_out = match left_out {
        0 => String::new(),
        1 => "; 1 more has no interval in both".to_owned(),
        many => format!("; {many} more have no interval in both"),
    };
    writeln!(out, "\n{apart} of {judged} figures differ by more than their intervals{left_out}")
}

fn figure(group: &str, FigureDifference { name, compared }: &FigureDifference, out: &mut impl Write) -> io::Result<()> {
    let name = format!("{group}.{name}");
    match compared {
        Compared::Single { values: [a, b], overlap } => {
            let overlap = match overlap {
                None => "-",
                Some(true) => "overlap",
                Some(false) => "apart",
            };
            let change = change(percent(*a, *b));
            writeln!(out, "{name:<44} {:>12} {:>12} {change:>9}  {overlap}", number(*a), number(*b))
        }
        Compared::Apart { shapes: [a, b] } => writeln!(out, "{name:<44} {a} in A, {b} in B: not compared"),
        Compared::Tables { knots: [a, b], common } => {
            writeln!(out, "{name:<44} {:>12} {:>12}", format!("{a} knots"), format!("{b} knots"))?;
            match summary(common) {
                None => writeln!(out, "  no common knots: not compared"),
                Some((median, largest)) => {
                    let largest = format!("{} at {}", change(largest.percent), place(&largest.at));
                    let count = common.len();
                    let of_intervals = overlaps(common);
                    writeln!(out, "  at {count} common knots: median {median:.1} % apart, most {largest}{of_intervals}")
                }
            }
        }
    }
}

/// How many intervals overlap, of those that both have.
fn overlaps(common: &[KnotDifference]) -> String {
    let known: Vec<bool> = common.iter().filter_map(|knot| knot.overlap).collect();
    if known.is_empty() {
        return String::new();
    }
    let overlapping = known.iter().filter(|&&overlap| overlap).count();
    format!("; {overlapping} of {} intervals overlap", known.len())
}

fn place(at: &[f64]) -> String {
    let coordinates: Vec<_> = at.iter().map(f64::to_string).collect();
    if let [one] = &coordinates[..] { one.clone() } else { format!("({})", coordinates.join(", ")) }
}

fn change(percent: f64) -> String {
    if percent.is_finite() { format!("{percent:+.1} %") } else { "from 0".to_owned() }
}

/// At most five digits of a figure that is not whole.
fn number(value: f64) -> String {
    if value.fract() == 0.0 || value.abs() >= 1e5 {
        return format!("{value:.0}");
    }
    let digits = 4 - value.abs().log10().floor().clamp(-9.0, 4.0) as i32;
    let text = format!("{value:.*}", digits.unsigned_abs() as usize);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
