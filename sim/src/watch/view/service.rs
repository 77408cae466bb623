//! Queue, KV cache and how requests fare, in two lines.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::text::{count, fields, percent};
use super::{Column, put, rows_of};
use crate::watch::state::Lane;

/// Draws them, or the first.
pub(super) fn render(frame: &mut Frame<'_>, column: &Column<'_>, area: Rect) {
    let width = usize::from(area.width);
    let lines = [occupancy(column.lane, column.until_ns, width), requests(column.lane, width)];
    for (line, row) in lines.into_iter().zip(rows_of(area)) {
        put(frame, Line::raw(line), row);
    }
}

fn occupancy(lane: &Lane, clock_ns: u64, width: usize) -> String {
    let (used, total) = lane.kv_blocks(clock_ns);
    let share = lane.kv_share(clock_ns).map_or_else(|| "-".to_owned(), percent);
    let idle = match (lane.idle_ranks(clock_ns), lane.ranks.len()) {
        (0, _) => String::new(),
        (_, 1) => "idle".to_owned(),
        (idle, ranks) => format!("{idle} of {ranks} ranks idle"),
    };
    fields(
        [
            &*format!("running {}", count(lane.running(clock_ns))),
            &*format!("queue {}", count(lane.waiting(clock_ns))),
            &*format!("KV {share}"),
            &*idle,
            &*format!("preempted {}", count(lane.preemptions)),
            &*format!("{} of {} blocks", count(used), count(total)),
        ],
        width,
    )
}

fn requests(lane: &Lane, width: usize) -> String {
    let service = &lane.service;
    if !lane.knows_requests {
        return fields(["requests: not in the log"], width);
    }
    let has_slo = lane.slo.is_some() || service.judged > 0;
    let goodput = match service.goodput(lane.clock_ns) {
        Some(rate) => format!("goodput {rate:.3}/s"),
        None if has_slo => "goodput -".to_owned(),
        None => "no SLO".to_owned(),
    };
    let of = |name: &str, limit: Option<f64>, met: u64| match (limit, service.share(met)) {
        (Some(_), Some(share)) => format!("{name} {}", percent(share)),
        _ => String::new(),
    };
    let (ttft, tpot, e2el) = lane.slo.map_or((None, None, None), |slo| (slo.ttft_ms, slo.tpot_ms, slo.e2el_ms));
    let good = match service.judged {
        0 => String::new(),
        judged => format!("SLO {}", percent(service.good as f64 / judged as f64)),
    };
    let refused = if service.refused > 0 { format!("{} refused", count(service.refused)) } else { String::new() };
    fields(
        [
            &*goodput,
            &*refused,
            &*good,
            &*of("TTFT", ttft, service.ttft_met),
            &*of("TPOT", tpot, service.tpot_met),
            &*of("E2EL", e2el, service.e2el_met),
            &*format!("{} done", count(service.finished)),
        ],
        width,
    )
}
