//! What requests carry beside their lengths.

use std::fmt::Display;

use toml::Spanned;

use super::super::check::Check;
use super::super::file::{AdaptersFile, PopularityFile, PrefixFile, PriorityFile, Real, TrafficFile};
use super::super::{ScenarioError, Span};
use crate::engine::options::EngineOptions;
use crate::limits::{ADAPTERS_MAX, LABELS_MAX, REQUEST_TOKENS_MAX, ZIPF_MAX};
use crate::traffic::{
    Adapters, Brought, Labels, Lengths, PrefixGroup, PrefixGroups, PrefixLevel, Priorities, SHARES_GRAIN, Shares,
    TraceFormat, TrafficKind,
};

/// Checks `[[traffic.priorities]]`, `[traffic.adapters]` and `[[traffic.prefixes]]`.
pub(super) fn labels(check: &Check<'_>, file: &TrafficFile) -> Result<Labels, ScenarioError> {
    Ok(Labels {
        priorities: given(file.priorities.as_ref()).map(|rows| priorities(check, rows)).transpose()?,
        adapters: file.adapters.as_ref().map(|file| adapters(check, file)).transpose()?,
        prefixes: given(file.prefixes.as_ref()).map(|groups| prefixes(check, groups)).transpose()?,
    })
}

/// The rows of a table that has any.
fn given<T>(rows: Option<&Vec<T>>) -> Option<&[T]> {
    rows.map(Vec::as_slice).filter(|rows| !rows.is_empty())
}

/// Labels have one origin: this table or the rows of the trace.
pub(super) fn refuse_what_the_trace_brings(
    check: &Check<'_>,
    file: &TrafficFile,
    kind: &TrafficKind,
) -> Result<(), ScenarioError> {
    let brought = brought(kind);
    let priorities = given(file.priorities.as_ref()).filter(|_| brought.priorities).map(|rows| rows[0].span());
    let adapters = file.adapters.as_ref().filter(|_| brought.adapters).map(Spanned::span);
    let prefixes = given(file.prefixes.as_ref()).filter(|_| brought.prefixes).map(|groups| groups[0].span());
    let Some(twice) = priorities.or(adapters).or(prefixes) else { return Ok(()) };
    Err(check.reject(&twice, "the rows of the trace say this already", "leave this table out, or that column"))
}

/// What the rows of the trace bring, if there is one.
fn brought(kind: &TrafficKind) -> Brought {
    let source = match kind {
        TrafficKind::Trace(source) | TrafficKind::Synthetic { lengths: Lengths::Trace { source, .. }, .. } => source,
        TrafficKind::Ranks(ranks) => {
            return ranks.iter().map(|rank| brought(&rank.kind)).fold(Brought::default(), Brought::or);
        }
        TrafficKind::Synthetic { .. } | TrafficKind::Steps(_) => return Brought::default(),
    };
    source.format.as_ref().map(TraceFormat::brings).unwrap_or_default()
}

/// Labels that this server refuses or does not look at.
pub(super) fn check_against_server(
    check: &mut Check<'_>,
    file: &TrafficFile,
    kind: &TrafficKind,
    server: &EngineOptions,
    span: &Span,
) -> Result<(), ScenarioError> {
    let brought = brought(kind);
    let place = |table: Option<Span>, is_brought: bool| table.or_else(|| is_brought.then(|| span.clone()));
    let adapters = place(file.adapters.as_ref().map(Spanned::span), brought.adapters);
    let (switch, help) = match server {
        EngineOptions::Vllm(_) => ("max_loras", "set max_loras under [server.vllm], the number of adapter slots"),
        EngineOptions::Sglang(_) => {
            ("enable_lora", "leave [traffic.adapters] out: adapters on an SGLang server are not simulated yet")
        }
    };
    match (adapters, server.max_loras()) {
        (Some(place), None) => {
            return Err(check.reject(&place, "the server runs without LoRA and refuses requests with adapters", help));
        }
        (None, Some(_)) => {
            let problem = format!("{switch} is set, but requests carry no adapters: every step runs without one");
            check.warn(span, problem);
        }
        _ => {}
    }
    let priorities = place(given(file.priorities.as_ref()).map(|rows| rows[0].span()), brought.priorities);
    if let Some(place) = priorities.filter(|_| !server.orders_by_priority()) {
        let order = match server {
            EngineOptions::Vllm(_) => "policy is \"fcfs\"",
            EngineOptions::Sglang(_) => "requests are served in the order of their arrival",
        };
        check.warn(&place, format!("{order}: priorities decide nothing"));
    }
    if server.orders_by_priority() && !has_priorities(file, brought) {
        let problem =
            "policy is \"priority\", but all requests carry the same one: they go in the order of their arrival";
        check.warn(span, problem);
    }
    warn_about_prefixes(check, file, server);
    Ok(())
}

/// Whether requests carry different priorities, as far as that can be known before a trace is read.
fn has_priorities(file: &TrafficFile, brought: Brought) -> bool {
    let rows = given(file.priorities.as_ref()).unwrap_or_default();
    brought.priorities || rows.iter().filter(|row| *row.get_ref().share.get_ref() > 0.0).count() > 1
}

/// Prefixes that no request can reuse.
fn warn_about_prefixes(check: &mut Check<'_>, file: &TrafficFile, server: &EngineOptions) {
    let Some(groups) = given(file.prefixes.as_ref()) else { return };
    if !server.caches_prefixes() {
        let switch = match server {
            EngineOptions::Vllm(_) => "enable_prefix_caching is false",
            EngineOptions::Sglang(_) => "disable_radix_cache is true",
        };
        check.warn(&groups[0].span(), format!("{switch}: no request reuses a prefix"));
        return;
    }
    let Some(vllm) = server.vllm() else { return };
    let block_size = vllm.scheduler.block_size;
    for group in groups {
        let PrefixFile { tokens, within, .. } = group.get_ref();
        let inner = within.iter().flatten().map(|level| *level.get_ref().tokens.get_ref());
        let in_all = inner.fold(*tokens.get_ref(), i64::saturating_add);
        if in_all < i64::from(block_size) {
            let problem =
                format!("{in_all} tokens are less than a block (block_size = {block_size}): none is ever reused");
            check.warn(&group.span(), problem);
        }
    }
}

fn priorities(check: &Check<'_>, rows: &[Spanned<PriorityFile>]) -> Result<Priorities, ScenarioError> {
    let (mut values, mut shares) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
    for row in rows {
        let PriorityFile { priority, share } = row.get_ref();
        let value = i32::try_from(*priority.get_ref()).map_err(|_| {
            let problem =
                format!("expected a whole number from {} to {}, found {}", i32::MIN, i32::MAX, priority.get_ref());
            check.reject(&priority.span(), problem, "smaller goes first, and 0 is the engine's default")
        })?;
        if values.contains(&value) {
            return Err(check.reject(&priority.span(), format!("{value} has a row already"), "add the shares up"));
        }
        values.push(value);
        shares.push(check.real(share, 0.0, 1.0)?);
        refuse_count(check, values.len(), "priorities", &row.span())?;
    }
    let span = rows[0].span();
    refuse_part_of_the_whole(check, &shares, &span)?;
    Ok(Priorities { values, shares: Shares::new(&shares) })
}

fn adapters(check: &Check<'_>, file: &Spanned<AdaptersFile>) -> Result<Adapters, ScenarioError> {
    let AdaptersFile { count, without, popularity } = file.get_ref();
    let without = without.as_ref().map(|share| check.real(share, 0.0, 1.0)).transpose()?.unwrap_or(0.0);
    let given = check.optional32(count.as_ref(), 1, ADAPTERS_MAX)?;
    let needed = || {
        let help = "add count, or popularity = { shares = [0.5, 0.3, 0.2] } with a share for each adapter";
        given.ok_or_else(|| check.reject(&file.span(), "how many adapters there are is not given", help))
    };
    let popularity = match popularity.as_ref().map(Spanned::get_ref) {
        None | Some(PopularityFile::Uniform) => Shares::even(needed()?),
        Some(PopularityFile::Zipf(exponent)) => Shares::zipf(needed()?, check.real(exponent, 0.0, ZIPF_MAX)?),
        Some(PopularityFile::Shares(list)) => adapter_shares(check, list, count.as_ref().zip(given))?,
    };
    Ok(Adapters { without, popularity })
}

fn adapter_shares(
    check: &Check<'_>,
    list: &Spanned<Vec<Real>>,
    count: Option<(&Spanned<i64>, u32)>,
) -> Result<Shares, ScenarioError> {
    let found = list.get_ref().len();
    if found == 0 || found > ADAPTERS_MAX as usize {
        let problem = format!("expected 1 to {ADAPTERS_MAX} shares, found {found}");
        return Err(check.reject(&list.span(), problem, "give one share for each adapter"));
    }
    if let Some((written, count)) = count.filter(|&(_, count)| count as usize != found) {
        let problem = format!("{count} adapters, but {found} shares");
        return Err(check.reject(&written.span(), problem, "leave count out: there are as many adapters as shares"));
    }
    let shares = list.get_ref().iter().map(|share| check.real(share, 0.0, 1.0)).collect::<Result<Vec<_>, _>>()?;
    refuse_part_of_the_whole(check, &shares, &list.span())?;
    Ok(Shares::new(&shares))
}

fn prefixes(check: &Check<'_>, groups: &[Spanned<PrefixFile>]) -> Result<PrefixGroups, ScenarioError> {
    let (mut checked, mut shares) = (Vec::with_capacity(groups.len()), Vec::with_capacity(groups.len()));
    for group in groups {
        let PrefixFile { share, tokens, count, within } = group.get_ref();
        let mut levels = vec![prefix_level(check, tokens, count.as_ref())?];
        for level in within.iter().flatten() {
            let level = level.get_ref();
            levels.push(prefix_level(check, &level.tokens, level.count.as_ref())?);
        }
        refuse_count(check, levels.len(), "levels", &group.span())?;
        checked.push(PrefixGroup { levels });
        let part = share.as_ref().map(|share| check.real(share, 0.0, 1.0)).transpose()?;
        shares.push(part.unwrap_or(1.0));
        refuse_count(check, checked.len(), "groups", &group.span())?;
    }
    let total: f64 = shares.iter().sum();
    let span = groups[0].span();
    if total > 1.0 + SHARES_GRAIN {
        let problem = format!("the shares of the groups add up to {}, more than all requests", shown(total));
        return Err(check.reject(&span, problem, "lower them: what is left of 1 shares nothing"));
    }
    if total <= 0.0 {
        let help = "give some group a share, or leave [[traffic.prefixes]] out";
        return Err(check.reject(&span, "no request has any of these prefixes", help));
    }
    Ok(PrefixGroups { groups: checked, shares: Shares::new(&shares) })
}

fn prefix_level(
    check: &Check<'_>,
    tokens: &Spanned<i64>,
    count: Option<&Spanned<i64>>,
) -> Result<PrefixLevel, ScenarioError> {
    let count = check.optional32(count, 1, u32::MAX)?.unwrap_or(1);
    Ok(PrefixLevel { tokens: check.whole32(tokens, 1, REQUEST_TOKENS_MAX)?, count })
}

fn refuse_part_of_the_whole(check: &Check<'_>, shares: &[f64], span: &Span) -> Result<(), ScenarioError> {
    let total: f64 = shares.iter().sum();
    if (total - 1.0).abs() <= SHARES_GRAIN {
        return Ok(());
    }
    Err(check.reject(span, format!("the shares add up to {}", shown(total)), "make them add up to 1"))
}

/// A sum as it would be written by hand.
fn shown(total: f64) -> f64 {
    (total * 1e6).round() / 1e6
}

fn refuse_count(check: &Check<'_>, count: usize, what: impl Display, span: &Span) -> Result<(), ScenarioError> {
    if count <= LABELS_MAX {
        return Ok(());
    }
    Err(check.reject(span, format!("expected at most {LABELS_MAX} {what}"), "group them"))
}
