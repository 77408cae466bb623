//! Reports as text: tables without colours, at most [`WIDTH`] columns wide where the names allow it, the same bytes
//! for the same record.
//!
//! Warnings are no part of a report's text: [`warnings`] writes them, and a command sends them to stderr.

mod change;
pub(crate) mod comparison;
mod explain;
mod fit;
mod grid;
mod ladder;
pub(crate) mod number;
mod price;
mod propose;
mod prose;
mod provenance;
pub(crate) mod run;
pub(crate) mod rungs;
mod startup;
mod sweep;
mod validate;

use std::io::{self, Write};

pub(crate) use change::change;
pub use change::factor;
pub use comparison::comparison;
pub use explain::explain;
pub use fit::fit;
pub use ladder::ladder;
pub use price::price;
pub use propose::propose;
pub use run::run;
pub use startup::startup;
pub use sweep::sweep;
pub use validate::validate;

use crate::{EngineReport, ScenarioReport, Warning};

/// Columns that tables and prose are laid out for.
pub const WIDTH: usize = 110;

/// Writes each warning as a line of its own, wrapped.
///
/// # Errors
/// The I/O error of the sink, unchanged.
pub fn warnings(warnings: &[Warning], sink: &mut impl Write) -> io::Result<()> {
    for Warning { code, message, candidate } in warnings {
        let line = match candidate {
            Some(candidate) => format!("warning[{code}]: {candidate}: {message}"),
            None => format!("warning[{code}]: {message}"),
        };
        prose::paragraph(sink, &line, "", "  ")?;
    }
    Ok(())
}

/// The engine in one line, its options under their own names.
pub(crate) fn engine_line(engine: &EngineReport) -> String {
    let sglang = engine.name == "sglang";
    let [requests, tokens, length, ahead, in_turn] = if sglang {
        ["max_running_requests", "tokens a step up to", "context_length", "overlap scheduling", "no overlap scheduling"]
    } else {
        ["max_num_seqs", "max_num_batched_tokens", "max_model_len", "async scheduling", "synchronous scheduling"]
    };
    let mut parts = vec![format!("{} {}", engine.name, engine.version)];
    parts.extend(engine.runner.as_ref().map(|runner| format!("runner {runner}")));
    parts.push(format!("{requests} {}", engine.max_num_seqs));
    parts.push(format!("{tokens} {}", engine.max_num_batched_tokens));
    parts.extend(engine.max_model_len.map(|tokens| format!("{length} {tokens}")));
    parts.extend(engine.attention_support.as_ref().map(|support| format!("attention {support}")));
    parts.extend(engine.async_scheduling.map(|on| if on { ahead } else { in_turn }.into()));
    parts.join(", ")
}

/// The service levels in one line.
pub(crate) fn slo_line(scenario: &ScenarioReport) -> String {
    let Some(slo) = scenario.slo else { return "no SLO: goodput is not defined".to_owned() };
    let parts: Vec<String> = [("TTFT", slo.ttft_ms), ("TPOT", slo.tpot_ms), ("E2EL", slo.e2el_ms)]
        .iter()
        .filter_map(|(name, limit)| limit.map(|limit| format!("{name} <= {limit} ms")))
        .collect();
    format!("SLO: {}", parts.join(", "))
}
