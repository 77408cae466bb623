//! How latencies are distributed.

use std::io;

use super::{RunPage, drawn, named, others};
use crate::figures::figure;
use crate::page::chart::{Curve, curves};
use crate::page::document::{Block, Figure, Section, Table};
use crate::page::{CandidateLatencies, LatencyCounts, letter};
use crate::text::number;
use crate::{Figure as Value, RunReport};

const TTFT: [&str; 3] = ["mean_ttft_ms", "median_ttft_ms", "p99_ttft_ms"];
const TPOT: [&str; 3] = ["mean_tpot_ms", "median_tpot_ms", "p99_tpot_ms"];
const ITL: [&str; 3] = ["mean_itl_ms", "median_itl_ms", "p99_itl_ms"];
const E2EL: [&str; 3] = ["mean_e2el_ms", "median_e2el_ms", "p99_e2el_ms"];

/// One latency: its name, the short one, how it was counted, its figures in run.json, and its SLO, ms.
type Kind = (&'static str, &'static str, fn(&CandidateLatencies) -> &LatencyCounts, [&'static str; 3], Option<f64>);

/// The section.
pub(super) fn section(page: &RunPage<'_>) -> io::Result<Section> {
    let slo = page.report.scenario.slo;
    let kinds: [Kind; 3] = [
        ("Time to first token", "TTFT", |counts| &counts.ttft, TTFT, slo.and_then(|slo| slo.ttft_ms)),
        ("Time per output token after the first", "TPOT", |counts| &counts.tpot, TPOT, slo.and_then(|slo| slo.tpot_ms)),
        ("End-to-end latency", "E2EL", |counts| &counts.e2el, E2EL, slo.and_then(|slo| slo.e2el_ms)),
    ];
    let mut blocks = Vec::new();
    match &page.latencies {
        Err(missing) => blocks.push(Block::Missing(format!("latency distributions: {missing}"))),
        Ok(latencies) => {
            for kind in kinds {
                blocks.extend(chart(page.report, latencies, kind)?.map(|figure| Block::Figure(Box::new(figure))));
            }
        }
    }
    blocks.extend(others(page.report));
    // ITL is kept for no single request.
    blocks.push(Block::Table(spread(
        page.report,
        "Inter-token latency (ITL), over all gaps between two deliveries",
        ITL,
    )));
    Ok(Section::new("Latency", blocks))
}

/// The curves of one latency; `None` where no request has it.
fn chart(
    report: &RunReport,
    latencies: &[CandidateLatencies],
    (name, short, of, figures, slo_ms): Kind,
) -> io::Result<Option<Figure>> {
    let counted: Vec<(usize, &str, &LatencyCounts)> = drawn(report)
        .filter_map(|(place, candidate)| {
            let found = latencies.iter().find(|latencies| latencies.candidate == candidate.name)?;
            Some((place, candidate.name.as_str(), of(found))).filter(|(_, _, counts)| counts.total() > 0)
        })
        .collect();
    if counted.is_empty() {
        return Ok(None);
    }
    let lines: Vec<Curve> = counted
        .iter()
        .map(|(place, name, counts)| Curve {
            letter: letter(*place),
            name: (*name).to_owned(),
            place: *place,
            points: counts.shares(),
        })
        .collect();
    let limit = slo_ms.map_or_else(String::new, |ms| format!(" The upright line is the SLO, {ms} ms."));
    Ok(Some(Figure {
        caption: format!("{name} ({short})."),
        description: format!(
            "Share of finished requests{}, by how long they took, in steps about 1 % wide.{limit}",
            if report.seeds.is_some() { ", all seeds together" } else { "" }
        ),
        svg: curves(&format!("{short}, ms"), &lines, slo_ms)?,
        table: spread(report, &format!("{short} of finished requests"), figures),
    }))
}

/// Mean, median and p99 of every candidate as run.json has them: exact where the curve is in steps.
fn spread(report: &RunReport, caption: &str, figures: [&str; 3]) -> Table {
    let over = report.seeds.as_ref().map(|seeds| format!(": means over {} seeds", seeds.len())).unwrap_or_default();
    let mut table = Table::new(format!("{caption}{over}"), &["candidate", "mean, ms", "median, ms", "p99, ms"]);
    let columns = figures.map(figure).map(|spec| {
        let column: Vec<Value> = report.candidates.iter().map(|candidate| *(spec.get)(candidate)).collect();
        number::row(&column, spec.scale)
    });
    for (place, candidate) in report.candidates.iter().enumerate() {
        let cells = columns.iter().map(|column| column[place].clone());
        table.row(std::iter::once(named(place, candidate)).chain(cells));
    }
    table
}
