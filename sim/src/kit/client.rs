//! What the engines' benchmark clients share: objectives, and what they cannot do.

use super::requests::Requests;
use crate::scenario::{Scenario, Slo, WarmUp};
use crate::traffic::TrafficKind;

/// `--goodput` with every objective in milliseconds; empty without objectives. Both clients take a request for good that
/// meets all of them, limits included, as the simulation does.
pub(super) fn goodput(slo: &Slo) -> Vec<String> {
    let objectives = [("ttft", slo.ttft), ("tpot", slo.tpot), ("e2el", slo.e2el)];
    let pairs: Vec<String> = objectives
        .into_iter()
        .filter_map(|(name, limit)| limit.map(|limit| format!("{name}:{}", limit.as_ms())))
        .collect();
    if pairs.is_empty() { Vec::new() } else { [vec!["--goodput".to_owned()], pairs].concat() }
}

/// Requests per second on average: as the scenario says, else as drawn; `None` where requests follow answers.
pub(super) fn mean_rate(scenario: &Scenario, requests: &Requests) -> Option<f64> {
    let stated = match &scenario.traffic.kind {
        TrafficKind::Synthetic { arrivals, .. } => arrivals.mean_rate(),
        TrafficKind::Trace(_) | TrafficKind::Ranks(_) | TrafficKind::Steps(_) => None,
    };
    stated.or_else(|| requests.rate())
}

/// A rate with four digits.
pub(super) fn significant(rate: f64) -> String {
    let digits = (3.0 - rate.abs().log10().floor()).clamp(0.0, 9.0) as usize;
    let text = format!("{rate:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// What no client reproduces of the scenario.
pub(super) fn not_reproduced(scenario: &Scenario, requests: &Requests) -> Vec<String> {
    let traffic = &scenario.traffic;
    let mut sentences = vec![
        "The client measures from outside: HTTP, tokenization and its own delays are in its times and not in the predicted \
         ones."
            .to_owned(),
        "Prompts are random tokens, and end-of-sequence tokens are ignored: every output has the length that is asked for."
            .to_owned(),
    ];
    if requests.cut {
        sentences.push(format!("Only the first {} requests are sent.", requests.count()));
    }
    if traffic.acceptance.is_some() {
        sentences.push(
            "Drafts are accepted as the real model finds them, on random tokens mostly less often than the scenario says: \
             compare the accepted lengths before anything else, or use prompts of your own."
                .to_owned(),
        );
    }
    if requests.any(|request| request.priority != 0) {
        sentences.push("The client sends no priorities: all requests are equal.".to_owned());
    }
    if requests.any(|request| request.adapter.is_some()) {
        sentences.push(
            "Adapters are not chosen per request as in the scenario: start the server with yours, name them to the client, \
             and it draws among them evenly."
                .to_owned(),
        );
    }
    if matches!(traffic.kind, TrafficKind::Ranks(_)) {
        sentences.push(
            "The server spreads requests over data-parallel ranks itself, whatever rank they were for.".to_owned(),
        );
    }
    match scenario.warm_up {
        WarmUp::None => {}
        WarmUp::Time(_) | WarmUp::Requests(_) => sentences.push(
            "The client counts every request; the predicted figures leave out the warm-up of the scenario.".to_owned(),
        ),
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_keep_four_digits() {
        assert_eq!([5.530_123, 60.0, 1234.56, 0.012_345_6].map(significant), ["5.53", "60", "1235", "0.01235"]);
    }
}
