//! Who waits, and in which order.

use std::collections::{BTreeSet, VecDeque};

use super::request::Request;
use crate::engine::request::{RequestId, Slot};
use crate::engine::vllm::options::SchedulingPolicy;

/// A request's place under the priority policy: by priority, then by arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    priority: i32,
    id: RequestId,
    slot: Slot,
}

impl Rank {
    pub(super) fn of(slot: Slot, request: &Request) -> Self {
        Self { priority: request.priority, id: request.id, slot }
    }
}

/// The waiting requests.
///
/// A step may pass over requests that cannot be admitted yet. From the next step on they are looked at before all
/// others under `fcfs`, also before those preempted in the meantime (read in vLLM's scheduler, which keeps them in a
/// queue of their own; the specification says "in front").
#[derive(Clone, Debug)]
pub(super) struct WaitingQueue {
    fresh: Line,
    passed_over: Line,
    /// Passed over by the current step, in order; empty between steps.
    aside: Vec<Rank>,
}

/// Requests in the order of one policy.
#[derive(Clone, Debug)]
enum Line {
    Fcfs(VecDeque<Rank>),
    Priority(BTreeSet<Rank>),
}

impl WaitingQueue {
    pub(super) fn new(policy: SchedulingPolicy) -> Self {
        Self { fresh: Line::new(policy), passed_over: Line::new(policy), aside: Vec::new() }
    }

    /// Queues a request that has just arrived.
    pub(super) fn add(&mut self, rank: Rank) {
        match &mut self.fresh {
            Line::Fcfs(line) => line.push_back(rank),
            Line::Priority(line) => _ = line.insert(rank),
        }
    }

    /// Queues a preempted request: in front, or where its priority puts it.
    pub(super) fn put_back(&mut self, rank: Rank) {
        self.fresh.put_in_front(rank);
    }

    /// The request that is to be admitted next.
    #[inline]
    pub(super) fn head(&self) -> Option<Slot> {
        let line = if self.head_is_fresh() { &self.fresh } else { &self.passed_over };
        line.head().map(|rank| rank.slot)
    }

    /// Takes the head out of the queue.
    pub(super) fn pop(&mut self) {
        self.take_head();
    }

    /// Passes over the head in the current step.
    pub(super) fn pass_over(&mut self) {
        let head = self.take_head();
        self.aside.extend(head);
    }

    /// Lets those passed over by the current step wait for the next one.
    pub(super) fn end_step(&mut self) {
        while let Some(rank) = self.aside.pop() {
            self.passed_over.put_in_front(rank);
        }
    }

    /// Takes out a request that finished while it waited.
    pub(super) fn remove(&mut self, rank: Rank) {
        if !self.passed_over.remove(rank) {
            self.fresh.remove(rank);
        }
    }

    /// Requests in the queue, between steps.
    pub(super) fn len(&self) -> usize {
        self.fresh.len() + self.passed_over.len()
    }

    /// Some request waits that has never been passed over since it came.
    pub(super) fn has_fresh(&self) -> bool {
        self.fresh.len() > 0
    }

    #[cfg(test)]
    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> {
        let of = |line: &Line| match line {
            Line::Fcfs(line) => line.iter().copied().collect::<Vec<_>>(),
            Line::Priority(line) => line.iter().copied().collect(),
        };
        of(&self.passed_over).into_iter().chain(of(&self.fresh)).map(|rank| rank.slot)
    }

    #[inline]
    fn head_is_fresh(&self) -> bool {
        if self.passed_over.len() == 0 {
            return true;
        }
        match (self.passed_over.head(), self.fresh.head()) {
            (Some(passed_over), Some(fresh)) => matches!(self.fresh, Line::Priority(_)) && fresh < passed_over,
            (passed_over, _) => passed_over.is_none(),
        }
    }

    fn take_head(&mut self) -> Option<Rank> {
        let line = if self.head_is_fresh() { &mut self.fresh } else { &mut self.passed_over };
        match line {
            Line::Fcfs(line) => line.pop_front(),
            Line::Priority(line) => line.pop_first(),
        }
    }
}

impl Line {
    fn new(policy: SchedulingPolicy) -> Self {
        match policy {
            SchedulingPolicy::Fcfs => Self::Fcfs(VecDeque::new()),
            SchedulingPolicy::Priority => Self::Priority(BTreeSet::new()),
        }
    }

    fn put_in_front(&mut self, rank: Rank) {
        match self {
            Self::Fcfs(line) => line.push_front(rank),
            Self::Priority(line) => _ = line.insert(rank),
        }
    }

    #[inline]
    fn head(&self) -> Option<&Rank> {
        match self {
            Self::Fcfs(line) => line.front(),
            Self::Priority(line) => line.first(),
        }
    }

    /// `false` if it was not there.
    fn remove(&mut self, rank: Rank) -> bool {
        match self {
            Self::Fcfs(line) => {
                let place = line.iter().position(|&waiting| waiting == rank);
                place.and_then(|place| line.remove(place)).is_some()
            }
            Self::Priority(line) => line.remove(&rank),
        }
    }

    #[inline]
    fn len(&self) -> usize {
        match self {
            Self::Fcfs(line) => line.len(),
            Self::Priority(line) => line.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(priority: i32, number: u32) -> Rank {
        Rank { priority, id: RequestId(number), slot: Slot(number) }
    }

    fn drained(mut queue: WaitingQueue) -> Vec<u32> {
        std::iter::from_fn(|| queue.take_head()).map(|rank| rank.slot.0).collect()
    }

    #[test]
    fn first_come_first_served_with_those_passed_over_in_front() {
        let mut queue = WaitingQueue::new(SchedulingPolicy::Fcfs);
        for (priority, number) in [(9, 1), (8, 2), (7, 3), (6, 4)] {
            queue.add(rank(priority, number));
        }
        queue.pass_over();
        queue.pass_over();
        assert_eq!((queue.head(), queue.len(), queue.has_fresh()), (Some(Slot(3)), 2, true));
        queue.end_step();
        queue.put_back(rank(0, 0));
        assert_eq!(drained(queue), [1, 2, 0, 3, 4]);
    }

    #[test]
    fn priority_then_arrival_whether_passed_over_or_not() {
        let mut queue = WaitingQueue::new(SchedulingPolicy::Priority);
        for (priority, number) in [(1, 1), (0, 2), (2, 3), (0, 4)] {
            queue.add(rank(priority, number));
        }
        queue.pass_over();
        queue.end_step();
        queue.put_back(rank(0, 0));
        queue.add(rank(1, 5));
        assert_eq!(drained(queue), [0, 2, 4, 1, 5, 3]);
    }

    #[test]
    fn a_request_is_taken_out_wherever_it_waits() {
        for policy in [SchedulingPolicy::Fcfs, SchedulingPolicy::Priority] {
            let mut queue = WaitingQueue::new(policy);
            (1..=3).for_each(|number| queue.add(rank(0, number)));
            queue.pass_over();
            queue.end_step();
            queue.remove(rank(0, 1));
            queue.remove(rank(0, 3));
            assert_eq!(drained(queue), [2]);
        }
    }
}
