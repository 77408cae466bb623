//! Handles: pointers that lead nowhere, never given out twice.

/// What a handle stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Context,
    Module,
    Function,
    Stream,
    Event,
    Graph,
    Node,
    Exec,
}

/// Gives handles out. The kind stands in the high bits, so that one passed for another is recognised in a debugger.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    given: u64,
}

impl Handles {
    /// Not an address of user space on any 64-bit system: to follow one is a fault at once.
    const BASE: u64 = 0xD0 << 56;

    pub(crate) fn next(&mut self, kind: Kind) -> u64 {
        self.given += 1;
        Self::BASE | ((kind as u64) << 48) | (self.given << 4)
    }
}
