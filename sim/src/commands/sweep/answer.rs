//! The answer of a sweep on standard output, and what there is to warn of.

use std::io::Write;

use reports::rows::SweepRows;
use reports::{SweepCollector, SweepManifest, SweepPoint, Warning};

use super::super::failure::Failure;
use super::super::format::Format;
use crate::sweep::FolderError;

/// Writes what all points, in their order, come to.
///
/// # Errors
/// A point that cannot be had, or a sink that cannot be written.
pub(in crate::commands) fn write(
    manifest: &SweepManifest,
    points: impl Iterator<Item = Result<SweepPoint, FolderError>>,
    format: Format,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let mut warnings = Warnings::default();
    if format == Format::Csv {
        let mut rows = SweepRows::new(manifest, out).map_err(Failure::Stdout)?;
        for point in points {
            let point = point?;
            warnings.add(&point);
            rows.point(&point).map_err(Failure::Stdout)?;
        }
        warnings.say();
        return rows.finish().map_err(Failure::Stdout);
    }
    let mut collector = SweepCollector::new(manifest.clone());
    for point in points {
        let point = point?;
        warnings.add(&point);
        collector.add(&point);
    }
    warnings.say();
    let report = collector.finish();
    match format {
        Format::Json => reports::json::write(&report, out),
        Format::Text | Format::Csv => reports::text::sweep(&report, out),
    }
    .map_err(Failure::Stdout)
}

/// The warnings of all points, each kind once for a candidate.
#[derive(Debug, Default)]
struct Warnings(Vec<(Warning, u64, u64)>);

impl Warnings {
    fn add(&mut self, point: &SweepPoint) {
        for warning in &point.report.warnings {
            let same = |(known, ..): &&mut (Warning, u64, u64)| {
                known.code == warning.code && known.candidate == warning.candidate
            };
            match self.0.iter_mut().find(same) {
                Some((_, first, points)) => *points += u64::from(point.point != *first),
                None => self.0.push((warning.clone(), point.point, 1)),
            }
        }
    }

    /// Says on standard error what each warning is at the first point that has it, and how many have it.
    fn say(self) {
        let said = self.0.into_iter().map(|(warning, first, points)| {
            let place = match points {
                1 => format!("(point {first})"),
                2 => format!("(point {first}; 1 more has this warning)"),
                points => format!("(point {first}; {} more have this warning)", points - 1),
            };
            Warning { message: format!("{} {place}", warning.message), ..warning }
        });
        super::super::warn(&said.collect::<Vec<_>>());
    }
}
