//! The figures of one group: their magnitudes, their intervals, and their course.

use std::ops::Range;

use super::super::super::{AnyGroup, Figure, Kind, Measured, Profile};
use super::super::{Origin, Parsed, ranges};
use crate::graph_mode::Mode;

/// What was read from the driver or counted by calibrate's own pool is exact, and what happens once a start-up is measured
/// once: none of it states an interval.
const WITHOUT_INTERVAL: [(&str, &str); 4] = [
    ("machine.memory", "total_bytes"),
    ("machine.pool", "base_bytes"),
    ("machine.pool", "bytes_per_row"),
    ("machine.capture", "first_extra_s"),
];
/// Groups whose tables never fall by much: a step of more work may hit better tiles or a warmer cache, and no more.
const RISING: [&str; 4] = ["machine.dense", "machine.head", "machine.attention", "engine.attention"];
/// By which factor a table may fall, intervals apart, and by how many microseconds besides, for the smallest costs are
/// differences.
const FALL: f64 = 4.0;
const FALL_US: f64 = 20.0;

impl Origin<'_> {
    pub(super) fn plausible_figures(self, group: AnyGroup<'_>) -> Parsed<()> {
        let kind = group.provenance.kind;
        if kind == Kind::Declared {
            return Ok(());
        }
        for figure in group.figures.figures() {
            let Some([least, most]) = ranges::of(group.name, figure.name) else { continue };
            let least = if kind.is_measured() { least } else { 0.0 };
            let odd = figure.values.iter().position(|value| !(least..=most).contains(value));
            if let Some(index) = odd {
                let (key, span) = self.figure_place(group.name, &figure, index);
                let problem = format!("{}: expected {least} to {most} of {kind} figures", figure.values[index]);
                let help =
                    "correct the number, check its unit, which the key names; figures of an exercise are `declared`";
                return Err(self.fault(key, span, problem, help));
            }
        }
        Ok(())
    }

    /// Where a figure, or the knot of one, stands in the file.
    fn figure_place(self, group: &str, figure: &Figure, index: usize) -> (String, Range<usize>) {
        let name = figure.name;
        let table = name.strip_suffix("_us").filter(|_| group.ends_with(".attention")).unwrap_or_default();
        self.first_of(&[
            format!("{group}.table.{name}[{index}]"),
            format!("{group}.constant.{name}"),
            format!("{group}.line.{name}"),
            format!("{group}.{table}.table.us[{index}]"),
            format!("{group}.{table}.constant.us"),
            format!("{group}.{table}.us[{index}]"),
            format!("{group}.{name}"),
        ])
    }

    /// That a group which counts as measured states when it was measured, an interval for each figure that was timed, and what
    /// can be true of its tables.
    pub(super) fn measured_group(self, profile: &Profile, group: AnyGroup<'_>) -> Parsed<()> {
        let kind = group.provenance.kind;
        if !kind.is_measured() {
            return Ok(());
        }
        let table = format!("{}.provenance", group.name);
        let help = "write `declared` with its range where nothing was measured; calibrate writes what it measures";
        if profile.measurement.is_none() {
            let problem = format!("{kind} figures without [measurement]: expected when and how they were measured");
            return Err(self.missing(&table, &problem, help));
        }
        let figures = group.figures.figures();
        let timed: Vec<&Figure> = figures.iter().filter(|figure| is_timed(profile, group.name, figure.name)).collect();
        let none = Measured::default();
        let measured = group.measured.unwrap_or(&none);
        let bare = timed.iter().filter(|figure| measured.of(figure.name).is_empty()).collect::<Vec<_>>();
        if let Some(figure) = bare.first() {
            let (key, span) = self.figure_place(group.name, figure, 0);
            let (part, name) = (if figure.knots.is_empty() { "intervals" } else { "knots" }, figure.name);
            if bare.len() == timed.len() {
                let problem =
                    format!("{kind} figures without [{}.measured]: expected intervals with their samples", group.name);
                return Err(self.missing(&table, &problem, help));
            }
            let problem =
                format!("no interval: expected [{}.measured.{part}] with {name}, a {kind} figure", group.name);
            return Err(self.fault(key, span, problem, help));
        }
        for figure in &figures {
            self.ends_of_intervals(group.name, figure, measured)?;
        }
        if let [figure] = &figures[..] {
            self.held_out_sizes(group.name, figure, measured)?;
            self.padding_cost(group.name, figure, measured)?;
        }
        let mut tables = figures.iter().filter(|figure| RISING.contains(&group.name) && !figure.knots.is_empty());
        tables.try_for_each(|figure| self.rises(group.name, figure, measured))
    }

    fn ends_of_intervals(self, group: &str, figure: &Figure, measured: &Measured) -> Parsed<()> {
        let Some([_, most]) = ranges::of(group, figure.name) else { return Ok(()) };
        let Some(index) = measured.of(figure.name).iter().position(|interval| interval.high > most) else {
            return Ok(());
        };
        let (high, name) = (measured.of(figure.name)[index].high, figure.name);
        let stated = format!("{group}.measured");
        let (key, span) =
            self.first_of(&[format!("{stated}.knots.{name}.high[{index}]"), format!("{stated}.intervals.{name}.high")]);
        let problem = format!("{high}: expected at most {most}, as of the figure");
        Err(self.fault(key, span, problem, "correct the number; an interval that holds everything says nothing"))
    }

    /// Errors at sizes of the table, each between others.
    fn held_out_sizes(self, group: &str, figure: &Figure, measured: &Measured) -> Parsed<()> {
        let Some(held_out) = measured.held_out else { return Ok(()) };
        let key = |name: &str| format!("{group}.measured.held_out.{name}");
        let help = "correct the numbers; they are made of the table beside them";
        let inner = figure.knots.len().saturating_sub(2);
        if held_out.sizes as usize > inner {
            let problem = format!("{}: expected at most {inner}, the sizes with others to both sides", held_out.sizes);
            return self.wrong(&key("sizes"), problem, help);
        }
        if held_out.worst_percent < held_out.median_percent {
            let (worst, median) = (held_out.worst_percent, held_out.median_percent);
            let problem = format!("{worst}: expected no less than median_percent = {median}");
            return self.wrong(&key("worst_percent"), problem, help);
        }
        if !figure.knots.iter().any(|knot| knot.as_slice() == [held_out.worst_at]) {
            let problem = format!("{}: expected a size of the table", held_out.worst_at);
            return self.wrong(&key("worst_at"), problem, help);
        }
        Ok(())
    }

    /// A row of padding costs no more than all rows together.
    fn padding_cost(self, group: &str, figure: &Figure, measured: &Measured) -> Parsed<()> {
        let Some(padding) = measured.padding else { return Ok(()) };
        let key = |name: &str| format!("{group}.measured.padding.{name}");
        let help = "correct the numbers; they are made of the table beside them";
        let most = figure.values.iter().copied().fold(0.0, f64::max);
        for (name, slope) in [("us_per_row", padding.us_per_row), ("low", padding.low), ("high", padding.high)] {
            if slope.abs() > most {
                let problem = format!("{slope}: expected at most {most} a row, what the largest step takes");
                return self.wrong(&key(name), problem, help);
            }
        }
        let ends = [figure.knots.first(), figure.knots.last()].map(|knot| knot.and_then(|knot| knot.first()).copied());
        if let [Some(first), Some(last)] = ends
            && !(first..=last).contains(&padding.to_rows)
        {
            let problem = format!("{}: expected {first} to {last}, the rows of the table", padding.to_rows);
            return self.wrong(&key("to_rows"), problem, help);
        }
        Ok(())
    }

    /// That no knot costs far less than one of less work in every respect.
    fn rises(self, group: &str, figure: &Figure, measured: &Measured) -> Parsed<()> {
        let intervals = measured.of(figure.name);
        let strides = strides(&figure.knots);
        // The dearest knot so far of no more work, by the low end of its interval.
        let mut dearest: Vec<usize> = Vec::with_capacity(intervals.len());
        for (index, interval) in intervals.iter().enumerate() {
            let before = strides.iter().filter(|&&(stride, length)| index / stride % length > 0);
            let before = before.map(|&(stride, _)| dearest[index - stride]);
            let most = before.max_by(|&one, &other| intervals[one].low.total_cmp(&intervals[other].low));
            if let Some(most) = most
                && intervals[most].low > FALL * interval.high + FALL_US
            {
                let (key, span) = self.figure_place(group, figure, index);
                let at = |index: usize| figure.knots[index].iter().map(f64::to_string).collect::<Vec<_>>().join(", ");
                let problem = format!(
                    "{} at [{}]: expected no less than a quarter of the {} at [{}]: no more work there",
                    figure.values[index],
                    at(index),
                    figure.values[most],
                    at(most)
                );
                return Err(self.fault(key, span, problem, "correct the costs; more work takes no less time"));
            }
            let is_dearer = most.is_none_or(|most| interval.low >= intervals[most].low);
            dearest.push(most.filter(|_| !is_dearer).unwrap_or(index));
        }
        Ok(())
    }
}

/// Whether a measured figure states an interval: it was timed, and not made of another mode's where its own was not captured.
fn is_timed(profile: &Profile, group: &str, figure: &str) -> bool {
    let is_of_mode = matches!(group, "machine.pool" | "machine.capture");
    let captured = |of: fn(&Profile) -> bool| !is_of_mode || of(profile);
    !WITHOUT_INTERVAL.contains(&(group, figure))
        && (!figure.starts_with("full_") || captured(|profile| profile.is_captured(Mode::Full)))
        && (!figure.starts_with("piecewise_") || captured(|profile| profile.is_captured(Mode::Piecewise)))
}

/// For each quantity of a grid whose last quantity runs fastest: how far apart neighbours lie, and how many knots it has.
fn strides(knots: &[Vec<f64>]) -> Vec<(usize, usize)> {
    let quantities = knots.first().map_or(0, Vec::len);
    let mut stride = 1;
    let mut strides = Vec::with_capacity(quantities);
    for quantity in (0..quantities).rev() {
        let mut values: Vec<f64> = knots.iter().map(|knot| knot[quantity]).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        strides.push((stride, values.len()));
        stride *= values.len();
    }
    strides
}
