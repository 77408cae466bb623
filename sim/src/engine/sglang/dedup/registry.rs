//! The executables of a server: registered at capture, switched at replay.

use std::collections::HashMap;

use thiserror::Error;

use super::signature::{Graph, Signature};

/// All registered graphs and the executables that stand for them.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    by_signature: HashMap<Signature, usize>,
    /// Per executable, the graph it stands for now.
    current: Vec<usize>,
    /// Per graph, its executable.
    group_of: Vec<usize>,
    sealed: bool,
    next_number: u64,
}

/// What registering a graph did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registered {
    /// A new executable was made.
    Instantiated,
    /// The live executable of its group was updated to stand for it.
    Updated,
}

/// Registration after the end of capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the graphs are captured: no other can be registered")]
pub struct Sealed;

impl Registry {
    /// Adds the next graph; it is numbered in order of registration.
    ///
    /// # Errors
    /// After [`seal`](Self::seal).
    pub fn register(&mut self, graph: &Graph) -> Result<Registered, Sealed> {
        if self.sealed {
            return Err(Sealed);
        }
        let number = self.group_of.len();
        let signature = Signature::of(graph, &mut self.next_number);
        let fresh = self.current.len();
        let group = *self.by_signature.entry(signature).or_insert(fresh);
        self.group_of.push(group);
        if group == fresh {
            self.current.push(number);
            return Ok(Registered::Instantiated);
        }
        self.current[group] = number;
        Ok(Registered::Updated)
    }

    /// Ends registration.
    pub fn seal(&mut self) {
        self.sealed = true;
    }

    /// Replays a graph and says whether its executable had to be updated first.
    ///
    /// # Panics
    /// If no graph of this number is registered.
    pub fn replay(&mut self, graph: usize) -> bool {
        let current = &mut self.current[self.group_of[graph]];
        std::mem::replace(current, graph) != graph
    }

    /// The executable of each graph, in order of registration.
    #[must_use]
    pub fn groups(&self) -> &[usize] {
        &self.group_of
    }

    /// Graphs registered.
    #[must_use]
    pub fn captured(&self) -> usize {
        self.group_of.len()
    }

    /// Executables made. The graphs beyond them save one executable's memory each.
    #[must_use]
    pub fn executables(&self) -> usize {
        self.current.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::signature::Node;
    use super::*;

    #[test]
    fn an_executable_stands_for_the_last_graph_registered_or_replayed() {
        let graph = |element_bytes| Graph::new(vec![Node::Memset { element_bytes }], Vec::new()).expect("acyclic");
        let mut registry = Registry::default();
        let made = [4, 8, 4].map(|bytes| registry.register(&graph(bytes)).expect("open"));
        assert_eq!(made, [Registered::Instantiated, Registered::Instantiated, Registered::Updated]);
        assert_eq!((registry.captured(), registry.executables(), registry.groups()), (3, 2, &[0, 1, 0][..]));
        registry.seal();
        assert_eq!(registry.register(&graph(2)), Err(Sealed));
        assert_eq!([2, 0, 0, 1, 2].map(|number| registry.replay(number)), [false, true, false, false, true]);
    }
}
