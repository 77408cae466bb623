//! The state that an event loop keeps to count updates, without the graphs themselves.

/// Which segments of a forward share executables. What the real segments have in common follows from kernels that no
/// profile lists, so this is a choice of the model; [`Registry`](super::Registry) answers for graphs that are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SegmentLikeness {
    /// The segments at one place of the forward are alike in all sizes, those at different places are not.
    #[default]
    SamePlace,
    /// All segments between two breaks are alike too, as the layers of a model are; the first and the last differ.
    /// Every one of them then switches the executable that they share, even when the size stays.
    SameLayers,
}

/// The executables of one phase whose graphs are segments between breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedExecutables {
    sizes: u32,
    segments: u32,
    likeness: SegmentLikeness,
    /// The size that the executables stand for.
    current: Option<u32>,
}

impl SharedExecutables {
    /// The executables of `captured` sizes of `segments` segments each, in capture order: afterwards they stand for the
    /// last one.
    #[must_use]
    pub fn new(captured: &[u32], segments: u32, likeness: SegmentLikeness) -> Self {
        Self { sizes: captured.len() as u32, segments, likeness, current: captured.last().copied() }
    }

    /// Replays one size and returns the executables updated on the way.
    pub fn replay(&mut self, size: u32) -> u32 {
        let switched = self.current.replace(size) != Some(size);
        let layers = self.layers();
        match self.likeness {
            SegmentLikeness::SameLayers if layers > 1 => layers + if switched { self.segments - layers } else { 0 },
            _ if switched => self.segments,
            _ => 0,
        }
    }

    /// Segments that are neither the first nor the last.
    fn layers(&self) -> u32 {
        self.segments.saturating_sub(2)
    }

    /// Graphs captured.
    #[must_use]
    pub fn captured(&self) -> u64 {
        u64::from(self.sizes) * u64::from(self.segments)
    }

    /// Executables made.
    #[must_use]
    pub fn executables(&self) -> u64 {
        match self.likeness {
            _ if self.sizes == 0 => 0,
            SegmentLikeness::SamePlace => u64::from(self.segments),
            SegmentLikeness::SameLayers => u64::from(self.segments.min(3)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Graph, Node, Registry};
    use super::*;

    /// The same server with real graphs: one node per segment, alike where the model says so.
    fn registry(sizes: &[u32], segments: u32, likeness: SegmentLikeness) -> Registry {
        let mut registry = Registry::default();
        for _ in sizes {
            for place in 0..segments {
                let kind = match likeness {
                    SegmentLikeness::SamePlace => place,
                    SegmentLikeness::SameLayers if place == 0 => 0,
                    SegmentLikeness::SameLayers if place + 1 == segments => 1,
                    SegmentLikeness::SameLayers => 2,
                };
                let graph = Graph::new(vec![Node::Memset { element_bytes: kind }], Vec::new()).expect("acyclic");
                registry.register(&graph).expect("open");
            }
        }
        registry.seal();
        registry
    }

    proptest! {
        #[test]
        fn counting_agrees_with_the_registry(
            sizes in 1_u32..6,
            segments in 1_u32..7,
            same_layers: bool,
            replays in prop::collection::vec(0_u32..6, 0..20),
        ) {
            let likeness = if same_layers { SegmentLikeness::SameLayers } else { SegmentLikeness::SamePlace };
            let captured: Vec<u32> = (0..sizes).rev().collect();
            let mut registry = registry(&captured, segments, likeness);
            let mut shared = SharedExecutables::new(&captured, segments, likeness);
            prop_assert_eq!(shared.captured(), registry.captured() as u64);
            prop_assert_eq!(shared.executables(), registry.executables() as u64);
            for size in replays.into_iter().filter(|&size| size < sizes) {
                let first = (sizes - 1 - size) * segments;
                let updates = (first..first + segments).filter(|&graph| registry.replay(graph as usize)).count();
                prop_assert_eq!(shared.replay(size), updates as u32);
            }
        }
    }
}
