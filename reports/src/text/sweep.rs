//! `sim sweep` as text: what was varied, the best points, every point or the best of many.

use std::io::{self, Write};

use serde_json::Value;

use super::grid::{Align, Grid};
use super::number;
use super::prose::paragraph;
use super::run::interval_and_verdict;
use crate::figures::figure;
use crate::rows::value_cell;
use crate::sweep::{OBJECTIVES, Objective};
use crate::{Better, Figure, Objectives, PointReport, SweepManifest, SweepReport, SweepSetting};

/// Up to this many points each has a row.
const ROWS_MAX: usize = 40;

/// Rows of the best points, where there are more.
const BEST_ROWS: usize = 20;

/// Longest value or name on one line of a cell.
const CELL_WIDTH: usize = 24;

/// Longest word of a figure's heading; numbers are shorter.
const FIGURE_WIDTH: usize = 12;

/// A difference with its interval, and its verdict below.
const DIFFERENCE_WIDTH: usize = 19;

/// Writes the answer of a sweep.
///
/// # Errors
/// The I/O error of the sink, unchanged.
pub fn sweep(report: &SweepReport, sink: &mut impl Write) -> io::Result<()> {
    let manifest = &report.manifest;
    head(report, sink)?;
    writeln!(sink)?;
    axes(manifest, sink)?;
    writeln!(sink)?;
    best(report, sink)?;
    writeln!(sink)?;
    points(report, sink)?;
    writeln!(sink)?;
    notes(manifest, sink)
}

fn head(report: &SweepReport, sink: &mut impl Write) -> io::Result<()> {
    let manifest = &report.manifest;
    paragraph(sink, &manifest.scenario.name, "", "  ")?;
    let count = |count: usize, what: &str| {
        format!("{} {what}{}", number::count(count as u64), if count == 1 { "" } else { "s" })
    };
    let shard = manifest
        .shard
        .map(|shard| format!(" of {} (shard {}/{})", number::count(manifest.points), shard.index, shard.of));
    let sample = manifest.sample.map(|sample| format!(", drawn from the grid with seed {}", sample.seed));
    let points = [Some(count(report.points.len(), "point")), shard, sample];
    let mut parts = vec![points.into_iter().flatten().collect(), count(manifest.candidates.len(), "candidate")];
    let seeds: Vec<String> = manifest.seeds.iter().map(ToString::to_string).collect();
    parts.push(format!("seed{} {} at every point", if seeds.len() > 1 { "s" } else { "" }, seeds.join(", ")));
    let profiles: Vec<&str> = manifest.profiles.iter().map(|profile| profile.name.as_str()).collect();
    parts.push(format!("costs: {}", profiles.join(", ")));
    paragraph(sink, &parts.join("; "), "", "  ")
}

fn axes(manifest: &SweepManifest, sink: &mut impl Write) -> io::Result<()> {
    let columns = [("varied", Align::Left), ("values", Align::Left)];
    let mut grid = Grid::new(&columns).wrap(1, 60);
    for axis in &manifest.axes {
        let values: Vec<String> = axis.values.iter().map(value_cell).collect();
        grid.row([axis.key.clone(), values.join(", ")]);
    }
    grid.write(sink)
}

/// The best point for each objective.
fn best(report: &SweepReport, sink: &mut impl Write) -> io::Result<()> {
    let several = report.manifest.seeds.len() > 1;
    let keys = headings(&report.manifest);
    let mut columns = vec![("best", Align::Left), ("value", Align::Right), ("point", Align::Right)];
    columns.extend(keys.iter().map(|key| (key.as_str(), Align::Left)));
    columns.push(("candidate", Align::Left));
    if several {
        columns.push(("not distinguishable", Align::Right));
    }
    let mut grid = wrapped(Grid::new(&columns), 3, keys.len() + 1);
    for best in &report.best {
        let spec = figure(&best.objective);
        let point = report.points.iter().find(|point| point.point == best.point);
        let mut row =
            vec![spec.label.to_owned(), number::row(&[best.value], spec.scale).concat(), best.point.to_string()];
        row.extend(point.into_iter().flat_map(|point| cells(&point.settings)));
        row.push(best.candidate.clone());
        row.extend(best.not_distinguishable.map(|ties| match ties {
            1 => "1 other".to_owned(),
            ties => format!("{} others", number::count(ties)),
        }));
        grid.row(row);
    }
    grid.write(sink)
}

/// Every point with its best candidate; of many points the best.
fn points(report: &SweepReport, sink: &mut impl Write) -> io::Result<()> {
    let manifest = &report.manifest;
    let several = manifest.seeds.len() > 1 && manifest.candidates.len() > 1;
    let keys = headings(manifest);
    let shown = shown(report);
    let figures = figures(&shown);
    let mut columns = vec![("point", Align::Right)];
    columns.extend(keys.iter().map(|key| (key.as_str(), Align::Left)));
    columns.push(("best candidate", Align::Left));
    columns.extend(figures.iter().map(|(name, _)| (short(name), Align::Right)));
    if several {
        columns.push(("minus the next", Align::Right));
    }
    let mut grid = wrapped(Grid::new(&columns), 1, keys.len() + 1);
    for column in keys.len() + 2..columns.len() {
        grid = grid.wrap(column, if column < keys.len() + 2 + figures.len() { FIGURE_WIDTH } else { DIFFERENCE_WIDTH });
    }
    let leads: Vec<Option<usize>> = shown.iter().map(|point| leader(manifest, point)).collect();
    let mut rows: Vec<Vec<String>> = shown.iter().map(|point| vec![point.point.to_string()]).collect();
    for ((row, point), lead) in rows.iter_mut().zip(&shown).zip(&leads) {
        row.extend(cells(&point.settings));
        row.push(lead.map_or_else(|| number::UNDEFINED.to_owned(), |lead| manifest.candidates[lead].clone()));
    }
    for (name, get) in &figures {
        let column: Vec<Figure> = shown
            .iter()
            .zip(&leads)
            .map(|(point, lead)| {
                lead.map_or(Figure::Undefined, |lead| number::without_interval(get(&point.candidates[lead])))
            })
            .collect();
        for (row, cell) in rows.iter_mut().zip(number::row(&column, figure(name).scale)) {
            row.push(cell);
        }
    }
    for (mut row, point) in rows.into_iter().zip(&shown) {
        if several {
            row.push(verdict(point));
        }
        grid.row(row);
    }
    grid.write(sink)
}

/// The lead over the next candidate, and whether it is one.
fn verdict(point: &PointReport) -> String {
    let Some(lead) = &point.lead else { return number::UNDEFINED.to_owned() };
    lead.difference.map_or_else(
        || number::UNDEFINED.to_owned(),
        |difference| interval_and_verdict(&difference, figure(&lead.objective).scale, None),
    )
}

/// All points, or the best of many by the first objective that is defined at each, best first.
fn shown(report: &SweepReport) -> Vec<&PointReport> {
    let mut shown: Vec<&PointReport> = report.points.iter().collect();
    if shown.len() <= ROWS_MAX {
        return shown;
    }
    let rank = |point: &PointReport| {
        let lead = leader(&report.manifest, point)?;
        let objective = &point.lead.as_ref()?.objective;
        let (place, (name, get)) = OBJECTIVES.iter().enumerate().find(|(_, (name, _))| name == objective)?;
        let value = get(&point.candidates[lead]).mean()?;
        Some((place, if figure(name).better == Better::Higher { -value } else { value }))
    };
    let key = |point: &PointReport| rank(point).unwrap_or((OBJECTIVES.len(), 0.0));
    // Stable: of equals the first points are shown.
    shown.sort_by(|one, other| {
        let ((place, value), (other_place, other_value)) = (key(one), key(other));
        place.cmp(&other_place).then(value.total_cmp(&other_value))
    });
    shown.truncate(BEST_ROWS);
    shown
}

fn leader(manifest: &SweepManifest, point: &PointReport) -> Option<usize> {
    let lead = point.lead.as_ref()?;
    manifest.candidates.iter().position(|name| *name == lead.candidate)
}

fn cells(settings: &[SweepSetting]) -> impl Iterator<Item = String> {
    settings.iter().map(|setting| shortened(&setting.value))
}

/// A value that leaves room for others: a long list shows its ends.
fn shortened(value: &Value) -> String {
    let sizes: Option<Vec<u32>> =
        value.as_array().and_then(|items| items.iter().map(|item| item.as_u64()?.try_into().ok()).collect());
    sizes.map_or_else(|| value_cell(value), |sizes| number::sizes(&sizes, CELL_WIDTH))
}

fn wrapped(grid: Grid, first: usize, count: usize) -> Grid {
    (first..first + count).fold(grid, |grid, column| grid.wrap(column, CELL_WIDTH))
}

/// The last part of each key; of keys that share it, the whole.
fn headings(manifest: &SweepManifest) -> Vec<String> {
    let last = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
    let lasts: Vec<String> = manifest.axes.iter().map(|axis| last(&axis.key)).collect();
    let alone = |name: &String| lasts.iter().filter(|other| *other == name).count() == 1;
    manifest.axes.iter().zip(&lasts).map(|(axis, name)| if alone(name) { name } else { &axis.key }.clone()).collect()
}

/// The figures of the points' table: what decides where it is defined anywhere, and the latencies that a user feels.
fn figures(shown: &[&PointReport]) -> Vec<Objective> {
    let is_defined = |get: fn(&Objectives) -> &Figure| {
        shown.iter().any(|point| point.candidates.iter().any(|figures| get(figures).mean().is_some()))
    };
    let decides = OBJECTIVES.iter().find(|(_, get)| is_defined(*get)).map_or("", |(name, _)| name);
    let is_shown = |name: &str| [decides, "p99_ttft_ms", "p99_tpot_ms"].contains(&name);
    OBJECTIVES.into_iter().filter(|(name, get)| is_shown(name) && is_defined(*get)).collect()
}

/// A heading that leaves room for others.
fn short(name: &str) -> &'static str {
    match name {
        "request_goodput" => "goodput, req/s",
        "output_throughput" => "output, tok/s",
        _ => figure(name).label,
    }
}

fn notes(manifest: &SweepManifest, sink: &mut impl Write) -> io::Result<()> {
    let mut notes = vec![
        "Every point and every candidate is offered traffic of the same seeds. The best candidate of a point is that of \
         the first figure beside it."
            .to_owned(),
    ];
    if manifest.points > ROWS_MAX as u64 {
        notes.push(format!(
            "Of more than {ROWS_MAX} points the {BEST_ROWS} best are shown; figures.csv (--out DIR, or --format csv) has all."
        ));
    }
    if manifest.seeds.len() > 1 {
        notes.push(format!(
            "Differences are paired over {} seeds with their 95 % interval (Student); not distinguishable means that it \
             holds zero; beside a best point stands how many other points and candidates these seeds do not tell from it. Of \
             many comparisons between equals one in twenty looks like a difference.",
            manifest.seeds.len()
        ));
    }
    notes.iter().try_for_each(|note| paragraph(sink, note, "- ", "  "))
}
