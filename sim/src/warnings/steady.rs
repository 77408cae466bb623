//! The warning about a second steady state without graphs.

use super::percent;
use crate::metrics::{SteadyStates, Summary};
use crate::scenario::Scenario;
use crate::server::Setup;
use crate::traffic::{Arrivals, TrafficKind};

/// Where open traffic could be served in two steady states, one with graphs and one above the largest captured batch:
/// that a burst can push the server from the one into the other, and where this run ended.
///
/// Report R05 (sglang issue 33483): the default ceiling of 32 on an L40 let batches settle at about 20 or at about 80,
/// and no run came back.
pub(super) fn second_steady_state(scenario: &Scenario, setup: &Setup, summary: &Summary) -> Option<String> {
    if matches!(scenario.traffic.kind, TrafficKind::Synthetic { arrivals: Arrivals::ClosedLoop { .. }, .. }) {
        return None;
    }
    let limits = setup.options.limits();
    let load = Load {
        tokens_per_s: summary.latency.output_throughput()?,
        ceiling: setup.options.widest_decode_batch(setup.graphs.decode_ceiling()),
        requests_max: limits.requests.value,
    };
    let states = load.two_states(&summary.rungs.steady)?;
    Some(states.sentence(&load, limits.requests.flag, &summary.rungs.steady))
}

/// What open traffic asks of the server, and what its graphs hold.
struct Load {
    /// Output tokens per second.
    tokens_per_s: f64,
    /// Requests of the largest captured decode batch.
    ceiling: u32,
    /// Most requests of a step.
    requests_max: u32,
}

/// Requests that decode at once, in both states.
#[derive(Clone, Copy, Debug, PartialEq)]
struct TwoStates {
    with_graphs: f64,
    above_ceiling: f64,
}

impl Load {
    /// Little's law in both regimes, where each regime supports the batch that it needs.
    fn two_states(&self, steady: &SteadyStates) -> Option<TwoStates> {
        let requests = |interval_s: f64| self.tokens_per_s * interval_s;
        let with_graphs = requests(steady.with_graphs.interval_s()?);
        let above_ceiling = requests(steady.eager_interval_s()?);
        let ceiling = f64::from(self.ceiling);
        (self.ceiling > 0 && self.requests_max > self.ceiling && with_graphs <= ceiling && above_ceiling > ceiling)
            .then_some(TwoStates { with_graphs, above_ceiling })
    }
}

impl TwoStates {
    fn sentence(self, load: &Load, requests_flag: &str, steady: &SteadyStates) -> String {
        let Load { ceiling, requests_max, .. } = *load;
        let above = steady.above_ceiling.decode_steps;
        let spent = percent(above, above + steady.with_graphs.decode_steps);
        let settles = if self.above_ceiling > f64::from(requests_max) {
            format!("above it the batch grows to {requests_flag} = {requests_max} and the queue behind it without end")
        } else {
            format!("above it the batch settles at about {:.0} and stays there", self.above_ceiling)
        };
        let ended = if above == 0 {
            "this run never went there".to_owned()
        } else if steady.above_ceiling_at_last_sent {
            format!("when the last request was sent this run was above it, as in {spent} of its decode steps")
        } else {
            format!("this run spent {spent} of its decode steps above it")
        };
        format!(
            "two steady states: with graphs about {:.0} requests decode at once; one burst beyond the largest captured \
             batch, {ceiling} requests, and steps without a graph are so much longer that {settles}; {ended}; \
             capture sizes well above the batches that bursts reach, or lower {requests_flag} to {ceiling}",
            self.with_graphs
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::steady::Regime;
    use crate::time::SimDuration;

    fn regime(decode_steps: u64, step_us: f64) -> Regime {
        Regime { decode_steps, duration: SimDuration::from_us(step_us * decode_steps as f64) }
    }

    /// The load of R05: 31 requests a second, 211 tokens each; 3.05 ms with graphs, 12.6 ms without.
    const LOAD: Load = Load { tokens_per_s: 31.0 * 211.0, ceiling: 32, requests_max: 4096 };

    #[test]
    fn both_fixed_points_of_a_published_report() {
        let steady = SteadyStates {
            with_graphs: regime(1000, 3050.0),
            above_ceiling: regime(4000, 12_600.0),
            as_if_eager: regime(1000, 12_000.0),
            is_above_ceiling: true,
            above_ceiling_at_last_sent: true,
        };
        let states = LOAD.two_states(&steady).expect("two states");
        assert!((states.with_graphs - 19.95).abs() < 0.01 && (states.above_ceiling - 82.42).abs() < 0.01, "{states:?}");
        let sentence = states.sentence(&LOAD, "max_running_requests", &steady);
        assert!(sentence.contains("about 20 requests") && sentence.contains("settles at about 82"), "{sentence}");
        assert!(sentence.contains("this run was above it, as in 80.0 % of its decode steps"), "{sentence}");
    }

    #[test]
    fn a_run_that_never_jumped_is_judged_by_what_its_steps_would_have_taken() {
        let steady = SteadyStates {
            with_graphs: regime(1000, 3050.0),
            as_if_eager: regime(1000, 12_000.0),
            ..SteadyStates::default()
        };
        let states = LOAD.two_states(&steady).expect("two states");
        assert!(states.sentence(&LOAD, "max_running_requests", &steady).contains("never went there"));
        assert_eq!(Load { ceiling: 128, ..LOAD }.two_states(&steady), None, "128 holds both states");
        assert_eq!(Load { requests_max: 32, ..LOAD }.two_states(&steady), None, "no batch is larger");
        assert_eq!(Load { tokens_per_s: 20.0 * 211.0 / 2.0, ..LOAD }.two_states(&steady), None, "25 without graphs");
        assert_eq!(LOAD.two_states(&SteadyStates::default()), None, "too few steps");
    }

    #[test]
    fn a_state_that_no_batch_supports_grows_without_end() {
        let steady = SteadyStates {
            with_graphs: regime(1000, 3050.0),
            above_ceiling: regime(100, 12_600.0),
            ..SteadyStates::default()
        };
        let load = Load { requests_max: 64, ..LOAD };
        let sentence = load.two_states(&steady).expect("two states").sentence(&load, "max_num_seqs", &steady);
        assert!(sentence.contains("grows to max_num_seqs = 64"), "{sentence}");
        assert!(sentence.contains("spent 9.1 % of its decode steps"), "{sentence}");
    }
}
