//! The page of a comparison.

use super::document::{Block, Part, Section, Table};
use crate::figures::figure;
use crate::text::comparison::{cells, heading, outcome, seeds, shown, worse_by};
use crate::{ComparedFigure, ComparedPair, ComparisonReport};

/// The comparison as a part of a page.
#[must_use]
pub fn comparison(report: &ComparisonReport) -> Part {
    let mut sections = Vec::new();
    if !report.thresholds.is_empty() {
        sections.push(Section::brief("Thresholds", vec![Block::Table(thresholds(report))]));
    }
    for pair in &report.pairs {
        let all = Block::Folded(
            "All figures".to_owned(),
            vec![Block::Table(table(pair, "All figures", pair.figures.iter()))],
        );
        let key = Block::Table(table(pair, "Key figures", shown(pair)));
        sections.push(Section::brief(&heading(pair), vec![key, all]));
    }
    let left_out = [(&report.only_in_baseline, &report.baseline), (&report.only_in_candidate, &report.candidate)];
    let left_out: Vec<Block> = left_out
        .iter()
        .filter(|(names, _)| !names.is_empty())
        .map(|(names, run)| Block::Text(format!("Only in {}: {}.", run.folder, names.join(", "))))
        .collect();
    if !left_out.is_empty() {
        sections.push(Section::brief("Not compared", left_out));
    }
    sections.push(Section::brief("Warnings", vec![Block::Warnings(report.warnings.clone())]));
    sections.push(Section::brief("What was compared", vec![Block::Table(runs(report))]));
    let facts = [
        ("Baseline", report.baseline.folder.clone()),
        ("Candidate", report.candidate.folder.clone()),
        ("Traffic", seeds(report)),
    ];
    Part {
        title: format!("{} against {}", report.candidate.folder, report.baseline.folder),
        verdict: report.verdict(),
        facts: facts.map(|(name, text)| (name.to_owned(), text)).into(),
        sections,
    }
}

fn table<'a>(pair: &ComparedPair, caption: &str, figures: impl Iterator<Item = &'a ComparedFigure>) -> Table {
    let columns = ["figure", "baseline", "candidate", "candidate minus baseline", "verdict"];
    let mut table = Table::new(format!("{caption}: {}", heading(pair)), &columns);
    for found in figures {
        table.row(std::iter::once(figure(&found.figure).label.trim().to_owned()).chain(cells(found)));
    }
    table
}

fn thresholds(report: &ComparisonReport) -> Table {
    let columns = ["threshold", "candidate", "worse by", "outcome"];
    let mut table = Table::of_words("Thresholds asked for", &columns);
    for threshold in &report.thresholds {
        let cells = [threshold.threshold.clone(), threshold.candidate.clone(), worse_by(threshold), outcome(threshold)];
        table.row(cells);
    }
    table
}

fn runs(report: &ComparisonReport) -> Table {
    let mut table = Table::of_words("The two runs", &["", "baseline", "candidate"]);
    let (one, other) = (&report.baseline, &report.candidate);
    let list = |seeds: &[u64]| seeds.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    for (name, one, other) in [
        ("folder", one.folder.clone(), other.folder.clone()),
        ("scenario", one.scenario.name.clone(), other.scenario.name.clone()),
        ("scenario, SHA-256", one.scenario.sha256.clone(), other.scenario.sha256.clone()),
        ("engine", one.engine.clone(), other.engine.clone()),
        ("profile", one.profile.clone(), other.profile.clone()),
        ("profile, SHA-256", one.profile_sha256.clone(), other.profile_sha256.clone()),
        ("seeds", list(&one.seeds), list(&other.seeds)),
        ("Rungwise", one.version.clone(), other.version.clone()),
    ] {
        table.row([name.to_owned(), one, other]);
    }
    table
}
