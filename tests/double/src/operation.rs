//! One piece of work for the device, as a stream or a graph node holds it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::modules::Function;

/// What the device does.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Kernel(Arc<KernelLaunch>),
    /// Between device ranges, or to or from pinned host memory.
    Copy {
        to: u64,
        from: u64,
        bytes: u64,
    },
    /// To the device, from bytes that were read when the copy was called for.
    Write {
        to: u64,
        bytes: Arc<[u8]>,
    },
    /// `count` elements of 1, 2 or 4 bytes.
    Set {
        at: u64,
        element: [u8; 4],
        width: u8,
        count: u64,
    },
    /// A memory node of a graph.
    Allocate {
        address: u64,
    },
    /// A memory node of a graph.
    Free {
        address: u64,
    },
}

/// One launch of a kernel.
#[derive(Debug)]
pub(crate) struct KernelLaunch {
    pub(crate) handle: u64,
    pub(crate) function: Arc<Function>,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
    /// The parameter buffer.
    pub(crate) arguments: Vec<u8>,
}

impl KernelLaunch {
    /// Index and value of each argument that is an address and not null: null stands for an operand that is not there.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = (usize, u64)> {
        let pointers = self.function.entry.parameters.iter().enumerate().filter(|(_, parameter)| {
            // A pointer that a kernel never reads through has no live range to check.
            parameter.is_pointer && parameter.bytes == 8
        });
        let value = |offset: usize| {
            let bytes = self.arguments.get(offset..offset + 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        let addresses = pointers.filter_map(move |(index, parameter)| Some((index, value(parameter.offset)?)));
        addresses.filter(|(_, address)| *address != 0)
    }
}

impl Operation {
    /// `CUgraphNodeType`.
    pub(crate) fn node_type(&self) -> u32 {
        match self {
            Self::Kernel(_) => 0,
            Self::Copy { .. } | Self::Write { .. } => 1,
            Self::Set { .. } => 2,
            Self::Allocate { .. } => 10,
            Self::Free { .. } => 11,
        }
    }
}

/// Operations that run one after another: one launch, or a whole graph.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) operations: Box<[Operation]>,
    /// Whether a graph was launched.
    pub(crate) is_replay: bool,
    /// The memory generation at which every address was last found live; what has not changed is not searched again.
    checked_at: AtomicU64,
}

impl Batch {
    pub(crate) fn of_call(operation: Operation) -> Arc<Self> {
        Arc::new(Self { operations: [operation].into(), is_replay: false, checked_at: AtomicU64::new(u64::MAX) })
    }

    pub(crate) fn of_graph(operations: Vec<Operation>) -> Arc<Self> {
        Arc::new(Self { operations: operations.into(), is_replay: true, checked_at: AtomicU64::new(u64::MAX) })
    }

    pub(crate) fn is_checked_at(&self, generation: u64) -> bool {
        self.checked_at.load(Ordering::Relaxed) == generation
    }

    pub(crate) fn set_checked_at(&self, generation: u64) {
        self.checked_at.store(generation, Ordering::Relaxed);
    }
}
