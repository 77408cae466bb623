//! What requests carry beside their lengths: a priority, an adapter, a prefix that others share.
//!
//! Each kind of label draws from a stream of its own, so that describing one leaves arrivals, lengths and the other labels
//! as they are.

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

use super::prefixes::{PrefixGroups, PrefixSampler};
use super::random::Streams;
use super::shares::Shares;
use super::{Request, SharedPrefix};
use crate::engine::request::Adapter;

/// The labels that a scenario describes. What is not described is left as the requests have it: plain, or as a trace says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Labels {
    /// How urgent requests are.
    pub priorities: Option<Priorities>,
    /// Which adapters they run with.
    pub adapters: Option<Adapters>,
    /// Which prompts begin alike.
    pub prefixes: Option<PrefixGroups>,
}

/// Priorities and the share of requests that has each; together they are the whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Priorities {
    /// The priorities, each once; smaller goes first.
    pub values: Vec<i32>,
    /// The share of each.
    pub shares: Shares,
}

/// The LoRA adapters that requests ask for.
#[derive(Clone, Debug, PartialEq)]
pub struct Adapters {
    /// Share of requests that run without one.
    pub without: f64,
    /// Share of each adapter among the requests with one; together they are the whole.
    pub popularity: Shares,
}

impl Labels {
    /// Whether another seed gives other labels.
    pub(super) fn draws(&self) -> bool {
        self.priorities.as_ref().is_some_and(|priorities| priorities.shares.draws())
            || self.adapters.as_ref().is_some_and(Adapters::draws)
            || self.prefixes.as_ref().is_some_and(PrefixGroups::draws)
    }
}

impl Adapters {
    fn draws(&self) -> bool {
        let both = self.without > 0.0 && self.without < 1.0;
        both || (self.without < 1.0 && self.popularity.draws())
    }
}

/// Puts labels on requests, one after the other.
pub(super) struct Labeller {
    priorities: Option<(Priorities, Xoshiro256PlusPlus)>,
    adapters: Option<(Adapters, Xoshiro256PlusPlus)>,
    prefixes: Option<PrefixSampler>,
}

impl Labeller {
    pub(super) fn start(labels: &Labels, streams: Streams) -> Self {
        Self {
            priorities: labels.priorities.clone().map(|priorities| (priorities, streams.stream("priorities"))),
            adapters: labels.adapters.clone().map(|adapters| (adapters, streams.stream("adapters"))),
            prefixes: labels.prefixes.clone().map(|groups| PrefixSampler::start(groups, streams)),
        }
    }

    /// Labels the next request.
    pub(super) fn label(&mut self, request: &mut Request) {
        if let Some((priorities, random)) = &mut self.priorities {
            let choice = priorities.shares.pick(random.random()).expect("priorities are the whole");
            request.priority = priorities.values[choice];
        }
        if let Some((adapters, random)) = &mut self.adapters {
            // Both tickets are always drawn: another share without adapters leaves the adapters of the others alone.
            let (with, which): (f64, f64) = (random.random(), random.random());
            let choice = adapters.popularity.pick(which).expect("the adapters are the whole");
            request.adapter = (with >= adapters.without).then_some(Adapter(choice as u32));
        }
        if let Some(prefixes) = &mut self.prefixes {
            request.shared = SharedPrefix::new(&prefixes.next(request.prompt_tokens));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{PrefixGroup, PrefixLevel};
    use super::*;
    use crate::time::SimTime;

    fn label(labels: &Labels, count: usize, seed: u64) -> Vec<Request> {
        let mut labeller = Labeller::start(labels, Streams::new(seed));
        let mut next = || {
            let mut request = Request::plain(SimTime::ZERO, 100, 10);
            labeller.label(&mut request);
            request
        };
        (0..count).map(|_| next()).collect()
    }

    fn share(requests: &[Request], is: impl Fn(&Request) -> bool) -> f64 {
        requests.iter().filter(|request| is(request)).count() as f64 / requests.len() as f64
    }

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 0.01, "{found} is not {expected}");
    }

    fn adapters(without: f64) -> Labels {
        let adapters = Adapters { without, popularity: Shares::zipf(3, 1.0) };
        Labels { adapters: Some(adapters), ..Labels::default() }
    }

    #[test]
    fn labels_have_their_shares() {
        let labels = Labels {
            priorities: Some(Priorities { values: vec![5, -1], shares: Shares::new(&[0.8, 0.2]) }),
            ..adapters(0.25)
        };
        let requests = label(&labels, 50_000, 7);
        close(share(&requests, |request| request.priority == -1), 0.2);
        close(share(&requests, |request| request.priority == 5), 0.8);
        close(share(&requests, |request| request.adapter.is_none()), 0.25);
        close(share(&requests, |request| request.adapter == Some(Adapter(0))), 0.75 * 6.0 / 11.0);
        close(share(&requests, |request| request.adapter == Some(Adapter(2))), 0.75 * 2.0 / 11.0);
        assert!(requests.iter().all(|request| request.shared.segments().is_empty()));
    }

    #[test]
    fn one_kind_of_label_does_not_move_another() {
        let alone = label(&adapters(0.25), 500, 7);
        let level = PrefixLevel { tokens: 10, count: 4 };
        let both = Labels {
            priorities: Some(Priorities { values: vec![0, 1], shares: Shares::even(2) }),
            prefixes: Some(PrefixGroups {
                groups: vec![PrefixGroup { levels: vec![level] }],
                shares: Shares::new(&[0.5]),
            }),
            ..adapters(0.25)
        };
        let together = label(&both, 500, 7);
        let of = |requests: &[Request]| requests.iter().map(|request| request.adapter).collect::<Vec<_>>();
        assert_eq!(of(&alone), of(&together));
        for (more, fewer) in alone.iter().zip(label(&adapters(0.5), 500, 7)) {
            assert!(fewer.adapter.is_none() || fewer.adapter == more.adapter);
        }
    }

    #[test]
    fn labels_draw_where_another_seed_gives_others() {
        let priorities = |values: &[i32], shares: &[f64]| Labels {
            priorities: Some(Priorities { values: values.to_vec(), shares: Shares::new(shares) }),
            ..Labels::default()
        };
        let one = Adapters { without: 0.0, popularity: Shares::even(1) };
        for (labels, draws) in [
            (Labels::default(), false),
            (priorities(&[3], &[1.0]), false),
            (priorities(&[3, 4], &[0.5, 0.5]), true),
            (adapters(0.5), true),
            (adapters(1.0), false),
            (Labels { adapters: Some(one.clone()), ..Labels::default() }, false),
            (Labels { adapters: Some(Adapters { without: 0.5, ..one }), ..Labels::default() }, true),
        ] {
            assert_eq!(labels.draws(), draws, "{labels:?}");
            assert_eq!(label(&labels, 100, 7) != label(&labels, 100, 8), draws, "{labels:?}");
        }
    }
}
