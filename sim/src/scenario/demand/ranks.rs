//! `[[traffic.rank]]`: traffic of its own for each data-parallel rank.

use std::path::Path;

use toml::Spanned;

use super::super::ScenarioError;
use super::super::check::Check;
use super::super::file::{ArrivalsFile, RankTrafficFile, TrafficFile};
use super::{Sources, requests_from};
use crate::engine::options::EngineOptions;
use crate::limits::REQUESTS_MAX;
use crate::traffic::{Labels, Traffic, TrafficKind};

/// Checks one table for each rank; the labels of the whole traffic are those of every rank.
pub(super) fn ranks(
    check: &mut Check<'_>,
    file: &TrafficFile,
    tables: &[Spanned<RankTrafficFile>],
    labels: &Labels,
    server: &EngineOptions,
    base_dir: &Path,
) -> Result<TrafficKind, ScenarioError> {
    refuse_shared_tables(check, file)?;
    let (_, expected) = server.ranks();
    if tables.len() as u64 != u64::from(expected) {
        let place = tables.last().map_or(0..0, Spanned::span);
        let problem = format!("{} tables of ranks, but the server has {expected}", tables.len());
        return Err(check.reject(&place, problem, "give one [[traffic.rank]] for each rank of data_parallel_size"));
    }
    let limits = server.limits();
    let mut ranks = Vec::with_capacity(tables.len());
    for table in tables {
        let rank = table.get_ref();
        if let Some(arrivals) =
            rank.arrivals.as_ref().filter(|kind| matches!(kind.get_ref(), ArrivalsFile::ClosedLoop(_)))
        {
            let problem = "the clients of a closed loop do not belong to one rank";
            return Err(check.reject(
                &arrivals.span(),
                problem,
                "use [traffic.arrivals.closed_loop] for all ranks together",
            ));
        }
        let requests = rank.requests.as_ref().map(|count| check.whole(count, 1, REQUESTS_MAX)).transpose()?;
        let own = Sources { arrivals: rank.arrivals.as_ref(), lengths: rank.lengths.as_ref(), requests };
        let kind = requests_from(check, &own, &table.span(), &limits, base_dir)?;
        ranks.push(Traffic { labels: labels.clone(), ..Traffic::plain(0, requests, kind) });
    }
    Ok(TrafficKind::Ranks(ranks))
}

fn refuse_shared_tables(check: &Check<'_>, file: &TrafficFile) -> Result<(), ScenarioError> {
    let shared = [
        file.requests.as_ref().map(Spanned::span),
        file.arrivals.as_ref().map(Spanned::span),
        file.lengths.as_ref().map(Spanned::span),
    ];
    match shared.into_iter().flatten().next() {
        Some(place) => {
            let problem = "each rank has traffic of its own already";
            Err(check.reject(&place, problem, "move it into every [[traffic.rank]], or leave those out"))
        }
        None => Ok(()),
    }
}
