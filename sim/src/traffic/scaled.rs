//! The same traffic with more or fewer requests a second, or with longer or shorter ones.

use super::{Arrivals, Clip, LengthPair, Lengths, LogNormalLength, Traffic, TrafficKind};
use crate::limits::REQUEST_TOKENS_MAX;

impl Traffic {
    /// The traffic at `factor` times the rate; a closed loop has so many times the clients. `None` for a histogram of steps.
    #[must_use]
    pub fn at_rate(&self, factor: f64) -> Option<Self> {
        let kind = match &self.kind {
            TrafficKind::Synthetic { arrivals, lengths } => {
                TrafficKind::Synthetic { arrivals: faster(arrivals, factor), lengths: lengths.clone() }
            }
            TrafficKind::Trace(source) => {
                let mut source = source.clone();
                source.rate_multiplier *= factor;
                TrafficKind::Trace(source)
            }
            TrafficKind::Ranks(ranks) => {
                TrafficKind::Ranks(ranks.iter().map(|rank| rank.at_rate(factor)).collect::<Option<_>>()?)
            }
            TrafficKind::Steps(_) => return None,
        };
        Some(Self { kind, ..self.clone() })
    }

    /// The traffic with prompts and outputs `factor` times as long, clips included. `None` where lengths are a trace's own,
    /// and for a histogram of steps.
    #[must_use]
    pub fn at_lengths(&self, factor: f64) -> Option<Self> {
        let kind = match &self.kind {
            TrafficKind::Synthetic { arrivals, lengths } => {
                TrafficKind::Synthetic { arrivals: arrivals.clone(), lengths: longer(lengths, factor)? }
            }
            TrafficKind::Ranks(ranks) => {
                TrafficKind::Ranks(ranks.iter().map(|rank| rank.at_lengths(factor)).collect::<Option<_>>()?)
            }
            TrafficKind::Trace(_) | TrafficKind::Steps(_) => return None,
        };
        Some(Self { kind, ..self.clone() })
    }
}

fn faster(arrivals: &Arrivals, factor: f64) -> Arrivals {
    match arrivals.clone() {
        Arrivals::Poisson { rate } => Arrivals::Poisson { rate: rate * factor },
        Arrivals::Gamma { rate, burstiness, spread } => Arrivals::Gamma { rate: rate * factor, burstiness, spread },
        Arrivals::Constant { rate } => Arrivals::Constant { rate: rate * factor },
        Arrivals::OnOff { on, off, rate_on, rate_off } => {
            Arrivals::OnOff { on, off, rate_on: rate_on * factor, rate_off: rate_off * factor }
        }
        Arrivals::ClosedLoop { concurrency } => {
            Arrivals::ClosedLoop { concurrency: ((f64::from(concurrency) * factor).round() as u32).max(1) }
        }
        Arrivals::Trace(mut source) => {
            source.rate_multiplier *= factor;
            Arrivals::Trace(source)
        }
    }
}

fn longer(lengths: &Lengths, factor: f64) -> Option<Lengths> {
    let tokens = |tokens: u32| ((f64::from(tokens) * factor).round() as u32).clamp(1, REQUEST_TOKENS_MAX);
    let pair = |pair: &LengthPair| LengthPair {
        prompt_tokens: tokens(pair.prompt_tokens),
        output_tokens: tokens(pair.output_tokens),
    };
    let clip = |clip: &Clip| Clip { min: tokens(clip.min), max: tokens(clip.max) };
    let lognormal = |length: &LogNormalLength| LogNormalLength {
        mu: length.mu + factor.ln(),
        sigma: length.sigma,
        clip: clip(&length.clip),
    };
    Some(match lengths {
        Lengths::Fixed(lengths) => Lengths::Fixed(pair(lengths)),
        Lengths::Uniform { prompt, output } => Lengths::Uniform { prompt: clip(prompt), output: clip(output) },
        Lengths::LogNormal { prompt, output } => {
            Lengths::LogNormal { prompt: lognormal(prompt), output: lognormal(output) }
        }
        Lengths::Histogram(rows) => Lengths::Histogram(rows.iter().map(|(row, count)| (pair(row), *count)).collect()),
        Lengths::Trace { .. } => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::Spread;

    fn traffic() -> Traffic {
        let length = |mean: f64| LogNormalLength { mu: mean.ln(), sigma: 0.5, clip: Clip { min: 2, max: 4000 } };
        let arrivals = Arrivals::Gamma { rate: 5.0, burstiness: 0.8, spread: Spread::Rescaled };
        let lengths = Lengths::LogNormal { prompt: length(400.0), output: length(100.0) };
        Traffic::plain(3, Some(4000), TrafficKind::Synthetic { arrivals, lengths })
    }

    fn requests(traffic: &Traffic) -> Vec<crate::traffic::Request> {
        traffic.open(3).expect("opens").map(|request| request.expect("a request")).collect()
    }

    #[test]
    fn a_rate_moves_arrivals_and_nothing_else() {
        let (one, two) = (requests(&traffic()), requests(&traffic().at_rate(2.0).expect("has a rate")));
        let ratio = one.last().expect("some").arrival.0 as f64 / two.last().expect("some").arrival.0 as f64;
        assert!((ratio - 2.0).abs() < 1e-6, "{ratio}");
        let lengths = |all: &[crate::traffic::Request]| -> Vec<(u32, u32)> {
            all.iter().map(|request| (request.prompt_tokens, request.output_tokens)).collect()
        };
        assert_eq!(lengths(&one), lengths(&two));
    }

    #[test]
    fn lengths_grow_by_the_factor() {
        let mean = |all: &[crate::traffic::Request]| {
            all.iter().map(|request| f64::from(request.prompt_tokens)).sum::<f64>() / all.len() as f64
        };
        let (one, three) = (requests(&traffic()), requests(&traffic().at_lengths(3.0).expect("drawn")));
        let ratio = mean(&three) / mean(&one);
        assert!((ratio - 3.0).abs() < 0.01, "{ratio}");
        assert_eq!(one.last().expect("some").arrival, three.last().expect("some").arrival);
    }
}
