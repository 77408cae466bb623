//! What captured graphs hold: the pool that their buffers live in, and their executables.
//!
//! A graph needs `base + per_row * tokens` of its pool. In a shared pool a later graph takes what an earlier one has freed,
//! as a caching allocator does: the base, which does not depend on rows, always; the rest only from a graph of at least
//! as many rows, because a block that is too small is no use. So the pool grows once when graphs are captured largest
//! first, and by all the rows of every rung when they are captured ascending. That is an upper bound: small blocks share
//! segments and fit better than this.

use calibrate::profile::{Pool, Profile};
use kernels::units::Bytes;

use crate::engine::shape::{Descriptor, RuntimeMode};
use crate::engine::vllm::options::GraphPool;

/// Device memory of a set of captured graphs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GraphMemory {
    /// The pool, or all pools together: captured largest first into one, it is about what the largest needs.
    pub pool: Bytes,
    /// The executables, one figure per descriptor.
    pub executables: Bytes,
}

/// By how much one capture lowers the free device memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaptureMemory {
    /// Growth of the pool.
    pub pool: Bytes,
    /// The executables of the descriptor.
    pub executables: Bytes,
}

impl GraphMemory {
    /// The memory of `descriptors`, captured largest first into one pool; nothing without descriptors.
    #[must_use]
    pub fn of(profile: &Profile, descriptors: &[Descriptor]) -> Self {
        let mut order = descriptors.to_vec();
        order.sort_by_key(|descriptor| std::cmp::Reverse(descriptor.tokens));
        Self::sum(&captures(profile, &order, GraphPool::Shared))
    }

    /// What all captures take together.
    #[must_use]
    pub fn sum(captures: &[CaptureMemory]) -> Self {
        let sum = |bytes: fn(&CaptureMemory) -> u64| Bytes(captures.iter().map(bytes).fold(0, u64::saturating_add));
        Self { pool: sum(|capture| capture.pool.0), executables: sum(|capture| capture.executables.0) }
    }

    /// Pool and executables together.
    #[must_use]
    pub fn total(&self) -> Bytes {
        Bytes(self.pool.0.saturating_add(self.executables.0))
    }
}

impl CaptureMemory {
    /// Pool and executables together.
    #[must_use]
    pub fn total(&self) -> Bytes {
        Bytes(self.pool.0.saturating_add(self.executables.0))
    }
}

/// What each of `descriptors` takes when they are captured in this order.
#[must_use]
pub fn captures(profile: &Profile, descriptors: &[Descriptor], graph_pool: GraphPool) -> Vec<CaptureMemory> {
    let pool = &profile.machine.pool.figures;
    let mut largest = None;
    let growth = |descriptor: &Descriptor| {
        let (base, rows) = (pool.base.0, pool.per_row.0.saturating_mul(u64::from(descriptor.tokens)));
        let earlier = match graph_pool {
            GraphPool::Shared => largest,
            GraphPool::Private => None,
        };
        largest = largest.max(Some(descriptor.tokens));
        let bytes = match earlier {
            None => base.saturating_add(rows),
            Some(tokens) if tokens < descriptor.tokens => rows,
            Some(_) => 0,
        };
        CaptureMemory { pool: Bytes(bytes), executables: executables(pool, descriptor) }
    };
    descriptors.iter().map(growth).collect()
}

/// Graphs of one structure share their executables: of the PIECEWISE graphs of a phase only the first one captured has
/// executables of its own, later ones update them. Returns the bytes spared.
pub fn share_executables(captures: &mut [CaptureMemory], descriptors: &[Descriptor]) -> Bytes {
    let mut seen = [false; 2];
    let mut spared = 0;
    for (capture, graph) in captures.iter_mut().zip(descriptors) {
        if graph.mode == RuntimeMode::Piecewise
            && std::mem::replace(&mut seen[usize::from(graph.uniform.is_some())], true)
        {
            spared += std::mem::take(&mut capture.executables).0;
        }
    }
    Bytes(spared)
}

fn executables(pool: &Pool, descriptor: &Descriptor) -> Bytes {
    match descriptor.mode {
        RuntimeMode::Full => pool.full_executable,
        RuntimeMode::Piecewise => pool.piecewise_executable,
        RuntimeMode::None => Bytes(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(mode: RuntimeMode, tokens: u32) -> Descriptor {
        Descriptor {
            mode,
            tokens,
            requests: None,
            uniform: None,
            max_query: None,
            loras: 0,
            ubatches: 1,
            prefix_chunks: None,
        }
    }

    /// 10 bytes whatever the rung, 2 a row; executables of 5 and 7 bytes.
    fn profile() -> Profile {
        let mut profile = Profile::builtin("textbook").expect("built in");
        profile.machine.pool.figures =
            Pool { base: Bytes(10), per_row: Bytes(2), full_executable: Bytes(5), piecewise_executable: Bytes(7) };
        profile
    }

    fn grown(descriptors: &[Descriptor], pool: GraphPool) -> Vec<u64> {
        captures(&profile(), descriptors, pool).iter().map(|capture| capture.pool.0).collect()
    }

    #[test]
    fn the_pool_is_the_largest_rungs_and_executables_add_up() {
        let few = [descriptor(RuntimeMode::Piecewise, 512), descriptor(RuntimeMode::Full, 256)];
        let more = [&few[..], &[descriptor(RuntimeMode::Full, 8)]].concat();
        let memory = |graphs: &[Descriptor]| GraphMemory::of(&profile(), graphs);
        assert_eq!(memory(&few), GraphMemory { pool: Bytes(10 + 2 * 512), executables: Bytes(7 + 5) });
        assert_eq!(memory(&more), GraphMemory { pool: Bytes(10 + 2 * 512), executables: Bytes(7 + 2 * 5) });
        assert_eq!(memory(&more).total(), Bytes(1051));
        assert_eq!(memory(&[]), GraphMemory::default());
    }

    #[test]
    fn order_and_pools_decide_what_each_capture_takes() {
        let largest_first = [32, 16, 8].map(|tokens| descriptor(RuntimeMode::Piecewise, tokens));
        let mut ascending = largest_first;
        ascending.reverse();
        assert_eq!(grown(&largest_first, GraphPool::Shared), [74, 0, 0]);
        assert_eq!(grown(&ascending, GraphPool::Shared), [26, 32, 64], "base once, then all rows of each rung");
        assert_eq!(grown(&largest_first, GraphPool::Private), [74, 42, 26]);
        assert_eq!(grown(&ascending, GraphPool::Private), [26, 42, 74]);
    }

    #[test]
    fn full_graphs_and_adapters_find_their_blocks_in_the_shared_pool() {
        let mut with_adapter = descriptor(RuntimeMode::Piecewise, 16);
        with_adapter.loras = 1;
        let order = [
            descriptor(RuntimeMode::Piecewise, 8),
            descriptor(RuntimeMode::Piecewise, 16),
            with_adapter,
            descriptor(RuntimeMode::Full, 4),
            descriptor(RuntimeMode::Full, 16),
        ];
        assert_eq!(grown(&order, GraphPool::Shared), [26, 32, 0, 0, 0]);
        assert_eq!(grown(&order, GraphPool::Private), [26, 42, 42, 18, 42]);
    }

    #[test]
    fn shared_executables_are_the_first_graphs_of_each_phase() {
        let decode = |tokens| Descriptor { uniform: Some(1), ..descriptor(RuntimeMode::Piecewise, tokens) };
        let graphs = [
            descriptor(RuntimeMode::Piecewise, 64),
            descriptor(RuntimeMode::Piecewise, 32),
            decode(8),
            decode(4),
            decode(2),
            descriptor(RuntimeMode::Full, 1),
        ];
        let mut taken = captures(&profile(), &graphs, GraphPool::Shared);
        let before = GraphMemory::sum(&taken);
        assert_eq!(share_executables(&mut taken, &graphs), Bytes(3 * 7));
        let after = GraphMemory::sum(&taken);
        assert_eq!((after.pool, after.executables), (before.pool, Bytes(before.executables.0 - 3 * 7)));
    }

    /// The textbook's exercise: 2 GiB for the largest of five buckets, 10 GiB if each had a pool of its own.
    #[test]
    fn five_private_pools_of_the_textbook_hold_ten_gib() {
        let profile = Profile::builtin("textbook").expect("built in");
        let buckets = [32, 16, 8, 4, 1].map(|tokens| descriptor(RuntimeMode::Full, tokens));
        let pool = |pool| GraphMemory::sum(&captures(&profile, &buckets, pool)).total();
        assert_eq!(pool(GraphPool::Shared), Bytes(2 << 30));
        assert_eq!(pool(GraphPool::Private), Bytes(10 << 30));
    }
}
