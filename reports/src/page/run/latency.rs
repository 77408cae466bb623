//! How latencies are distributed.

use std::io;

use super::{RunPage, drawn, named};
use crate::RunReport;
use crate::figures::figure;
use crate::page::chart::{Curve, curves};
use crate::page::document::{Block, Figure, Section, Table};
use crate::page::{CandidateLatencies, LatencyCounts, letter};
use crate::text::number;

/// Shares of requests in the table.
const SHARES: [f64; 8] = [0.10, 0.25, 0.50, 0.75, 0.90, 0.95, 0.99, 0.999];

type Kind = (&'static str, &'static str, fn(&CandidateLatencies) -> &LatencyCounts, Option<f64>);

/// The section.
pub(super) fn section(page: &RunPage<'_>) -> io::Result<Section> {
    let slo = page.report.scenario.slo;
    let kinds: [Kind; 3] = [
        ("Time to first token", "TTFT", |counts| &counts.ttft, slo.and_then(|slo| slo.ttft_ms)),
        ("Time per output token after the first", "TPOT", |counts| &counts.tpot, slo.and_then(|slo| slo.tpot_ms)),
        ("End-to-end latency", "E2EL", |counts| &counts.e2el, slo.and_then(|slo| slo.e2el_ms)),
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
    blocks.push(Block::Table(inter_token(page.report)));
    Ok(Section::new("Latency", blocks))
}

/// The curves of one latency; `None` where no request has it.
fn chart(
    report: &RunReport,
    latencies: &[CandidateLatencies],
    (name, short, of, slo_ms): Kind,
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
    let mut table =
        Table::new(format!("{short} that a share of requests does not exceed, ms, to about 1 %"), &["candidate"]);
    table.columns.extend(SHARES.iter().map(|share| format!("p{}", (share * 1000.0).round() / 10.0)));
    for (place, name, counts) in &counted {
        let cells = SHARES.iter().map(|share| number::option(counts.percentile(*share), 1));
        table.row(std::iter::once(format!("{} {name}", letter(*place))).chain(cells));
    }
    Ok(Some(Figure {
        caption: format!("{name} ({short})."),
        description: format!("Share of finished requests, all seeds together, by how long they took.{limit}"),
        svg: curves(&format!("{short}, ms"), &lines, slo_ms)?,
        table,
    }))
}

/// ITL is kept for no single request.
fn inter_token(report: &RunReport) -> Table {
    let columns = ["candidate", "mean, ms", "median, ms", "p99, ms"];
    let mut table = Table::new("Inter-token latency (ITL), over all gaps between two deliveries", &columns);
    let specs = ["mean_itl_ms", "median_itl_ms", "p99_itl_ms"].map(figure);
    for (place, candidate) in report.candidates.iter().enumerate() {
        let cells = specs.iter().map(|spec| number::row(&[*(spec.get)(candidate)], spec.scale).concat());
        table.row(std::iter::once(named(place, candidate)).chain(cells));
    }
    table
}
