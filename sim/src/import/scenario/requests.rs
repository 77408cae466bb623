//! `[traffic]` of requests.

use super::text::Text;
use super::{Assumed, Wish};
use crate::import::found::{ACCEPTED, Engine, Found};
use crate::import::requests::{Arriving, Long, Requests};

/// Requests per second where nothing says so.
const RATE: f64 = 1.0;

pub(super) fn traffic(text: &mut Text, found: &Found, requests: &Requests, wish: &Wish, assumed: &mut Assumed) {
    text.line("");
    text.line("[traffic]");
    text.key("seed", wish.seed, "");
    let all_of_trace = requests.arrivals == Arriving::Trace;
    if !all_of_trace {
        text.key("requests", requests.count, "");
    }
    drafts(text, found, wish, assumed);
    match requests.arrivals {
        Arriving::Trace => trace(text, "arrivals", requests, wish),
        Arriving::Rate { rate, burstiness } => {
            text.line("[traffic.arrivals.gamma]");
            text.key("rate", toml::Value::Float(rate), "");
            text.key("burstiness", toml::Value::Float(burstiness), "");
        }
        Arriving::Closed { concurrency } => {
            text.line("[traffic.arrivals.closed_loop]");
            text.key("concurrency", concurrency, "");
        }
        Arriving::Unknown => {
            let from =
                assumed.note(format!("when requests arrive is not told: {RATE} a second. Set the rate of yours"));
            text.line("[traffic.arrivals.poisson]");
            text.key("rate", toml::Value::Float(RATE), from);
        }
    }
    match requests.lengths {
        Long::Trace if all_of_trace => {}
        Long::Trace => trace(text, "lengths", requests, wish),
        Long::Fixed { prompt, output } => {
            text.line("[traffic.lengths.fixed]");
            text.key("prompt", prompt, "the mean");
            text.key("output", output, "the mean");
        }
    }
    text.line("");
    text.comment(0, "What a good request meets; without it goodput is not defined. For instance:");
    text.line("# [slo]");
    text.line("# ttft = \"500ms\"");
    text.line("# tpot = \"40ms\"");
}

fn trace(text: &mut Text, what: &str, requests: &Requests, wish: &Wish) {
    let Some(file) = &requests.trace else { return };
    text.line(format_args!("[traffic.{what}.trace]"));
    text.key("file", Text::string(&wish.trace_file), "");
    for (key, value) in &file.keys {
        // Only arrivals are in order of time.
        if what == "arrivals" || !matches!(*key, "unsorted" | "time_unit") {
            text.key(key, value, "");
        }
    }
}

/// How many drafts are accepted, where the server drafts.
fn drafts(text: &mut Text, found: &Found, wish: &Wish, assumed: &mut Assumed) {
    let drafts = found.decode_tokens(wish.engine) - 1;
    let is_drafting = match wish.engine {
        Engine::Vllm => drafts > 0,
        Engine::Sglang => drafts > 0 && found.log.sglang.settings.word("speculative_algorithm").is_some(),
    };
    if !is_drafting {
        return;
    }
    let rates = |rates: &[String]| format!("[{}]", rates.join(", "));
    if let Some((accepted, from)) = found.accepted(wish.engine) {
        let accepted: Vec<String> =
            accepted.iter().map(|rate| toml::Value::Float(rounded(*rate)).to_string()).collect();
        text.key("acceptance.rates", rates(&accepted), from);
    } else {
        let from = assumed.note(format!("how many drafts are accepted is not told: each with a share of {ACCEPTED}"));
        let accepted: Vec<String> = (0..drafts).map(|_| ACCEPTED.to_string()).collect();
        text.key("acceptance.rates", rates(&accepted), from);
    }
}

/// A share in thousandths, as logs print it.
fn rounded(share: f64) -> f64 {
    (share * 1000.0).round() / 1000.0
}
