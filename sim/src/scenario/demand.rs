//! The traffic of a scenario: arrivals, lengths, traces, labels, accepted drafts, and step histograms.

mod acceptance;
mod arrivals;
pub(super) mod ends;
mod labels;
mod lengths;
mod ranks;
mod steps;
mod trace;

use std::path::Path;

use toml::Spanned;

use super::check::Check;
use super::file::{ArrivalsFile, LengthsFile, TrafficFile};
use super::{ScenarioError, Span};
use crate::engine::options::{EngineOptions, Limits};
use crate::limits::{HISTOGRAM_ROWS_MAX, REQUESTS_MAX, SPAN_S_MAX};
use crate::traffic::{Arrivals, Lengths, Spread, Traffic, TrafficKind, Wanted};

/// Checks `[traffic]` against what the server can take.
pub(super) fn traffic(
    check: &mut Check<'_>,
    file: &TrafficFile,
    span: &Span,
    server: &EngineOptions,
    base_dir: &Path,
) -> Result<Traffic, ScenarioError> {
    let limits = &server.limits();
    let seed = file.seed.as_ref().map(|seed| check.whole(seed, 0, i64::MAX as u64)).transpose()?.unwrap_or(0);
    let requests = file.requests.as_ref().map(|count| check.whole(count, 1, REQUESTS_MAX)).transpose()?;
    let caution = file.caution.as_ref().map(|caution| check.sentences(caution)).transpose()?;
    if let Some(histogram) = steps::steps(check, file, base_dir)? {
        steps::warn_about_impossible_steps(check, &histogram, limits, span);
        return Ok(Traffic { caution, ..Traffic::plain(seed, None, TrafficKind::Steps(histogram)) });
    }
    let labels = labels::labels(check, file)?;
    let acceptance = file.acceptance.as_ref().map(|file| acceptance::acceptance(check, file.get_ref())).transpose()?;
    let kind = if let Some(ranks) = &file.rank {
        ranks::ranks(check, file, ranks, &labels, server, base_dir)?
    } else {
        let own = Sources { arrivals: file.arrivals.as_ref(), lengths: file.lengths.as_ref(), requests };
        requests_from(check, &own, span, limits, base_dir)?
    };
    labels::refuse_what_the_trace_brings(check, file, &kind)?;
    labels::check_against_server(check, file, &kind, server, span)?;
    if let Some(unused) = file.acceptance.as_ref().filter(|_| server.decode_tokens() == 1) {
        let problem = match server {
            EngineOptions::Vllm(_) => "num_speculative_tokens is 0: there are no drafts to accept",
            EngineOptions::Sglang(_) => "speculative_num_draft_tokens is not above 1: there are no drafts to accept",
        };
        check.warn(&unused.span(), problem);
    }
    Ok(Traffic { seed, requests, kind, labels, acceptance, caution })
}

/// The tables that requests come from, and how many are asked for.
struct Sources<'a> {
    arrivals: Option<&'a Spanned<ArrivalsFile>>,
    lengths: Option<&'a Spanned<LengthsFile>>,
    requests: Option<u64>,
}

/// Where requests come from: arrivals with lengths, or a trace that gives both.
fn requests_from(
    check: &mut Check<'_>,
    own: &Sources<'_>,
    span: &Span,
    limits: &Limits,
    base_dir: &Path,
) -> Result<TrafficKind, ScenarioError> {
    let Some(arrivals_file) = own.arrivals else {
        let help = "add [traffic.arrivals.…] (poisson, gamma, constant, on_off, closed_loop or trace), or \
                    [[traffic.steps]] for `sim price`";
        return Err(check.reject(span, "arrivals are missing", help));
    };
    let Some(lengths_file) = own.lengths else {
        let ArrivalsFile::Trace(trace_file) = arrivals_file.get_ref() else {
            let help = "add [traffic.lengths.…] (fixed, uniform, lognormal, histogram or trace)";
            return Err(check.reject(span, "lengths are missing", help));
        };
        return trace::trace(check, trace_file, Wanted::ALL, base_dir).map(TrafficKind::Trace);
    };
    let arrivals = arrivals::arrivals(check, arrivals_file.get_ref(), base_dir)?;
    let lengths = lengths::lengths(check, lengths_file, limits.request_tokens, base_dir)?;
    refuse_trace_played_twice(check, &arrivals, &lengths, &lengths_file.span())?;
    check_end(check, &arrivals, &lengths, own.requests, &arrivals_file.span(), span)?;
    Ok(TrafficKind::Synthetic { arrivals, lengths })
}

fn refuse_trace_played_twice(
    check: &Check<'_>,
    arrivals: &Arrivals,
    lengths: &Lengths,
    span: &Span,
) -> Result<(), ScenarioError> {
    match (arrivals, lengths) {
        (Arrivals::Trace(times), Lengths::Trace { source, .. }) if times.path == source.path => Err(check.reject(
            span,
            "arrivals and lengths name the same trace",
            "leave [traffic.lengths] out: the rows of [traffic.arrivals.trace] then give both",
        )),
        _ => Ok(()),
    }
}

/// Whether the traffic ends, and before the clock does.
fn check_end(
    check: &Check<'_>,
    arrivals: &Arrivals,
    lengths: &Lengths,
    requests: Option<u64>,
    arrivals_span: &Span,
    span: &Span,
) -> Result<(), ScenarioError> {
    let ends_itself = matches!(arrivals, Arrivals::Trace(_)) || matches!(lengths, Lengths::Trace { repeat: false, .. });
    let rescaled = matches!(arrivals, Arrivals::Gamma { spread: Spread::Rescaled, .. });
    let Some(requests) = requests else {
        let problem = match (ends_itself, rescaled) {
            (true, false) => return Ok(()),
            (true, true) => "requests is missing: arrivals are rescaled over a known number of them",
            (false, _) => "requests is missing: nothing else ends this traffic",
        };
        return Err(check.reject(span, problem, "add requests = 10000, or as many as you need"));
    };
    let Some(rate) = arrivals.mean_rate() else { return Ok(()) };
    if requests as f64 / rate > SPAN_S_MAX as f64 {
        let problem = format!("{requests} requests at {rate} a second take more than {SPAN_S_MAX} seconds");
        return Err(check.reject(arrivals_span, problem, "raise the rate or lower requests"));
    }
    Ok(())
}

/// Refuses a list of rows that is empty or absurdly long; `help` says what a good one holds.
fn refuse_row_count(check: &Check<'_>, rows: usize, span: &Span, help: &str) -> Result<(), ScenarioError> {
    if (1..=HISTOGRAM_ROWS_MAX).contains(&rows) {
        return Ok(());
    }
    let problem = format!("expected 1 to {HISTOGRAM_ROWS_MAX} rows, found {rows}");
    Err(check.reject(span, problem, help))
}
