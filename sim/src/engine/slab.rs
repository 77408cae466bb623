//! What a scheduler keeps of live requests, by slot.

use std::ops::{Index, IndexMut};

use super::request::Slot;

/// Live requests by slot. Vacated slots are reused, so that memory follows the most requests ever live at once.
#[derive(Clone, Debug)]
pub(super) struct Slab<T> {
    requests: Vec<T>,
    vacant: Vec<Slot>,
}

impl<T> Slab<T> {
    pub(super) fn insert(&mut self, request: T) -> Slot {
        if let Some(slot) = self.vacant.pop() {
            self[slot] = request;
            return slot;
        }
        let slot = Slot(u32::try_from(self.requests.len()).expect("request numbers are 32 bits wide, so slots are"));
        self.requests.push(request);
        slot
    }

    /// Leaves the finished request readable until its slot is taken again.
    pub(super) fn vacate(&mut self, slot: Slot) {
        self.vacant.push(slot);
    }
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { requests: Vec::new(), vacant: Vec::new() }
    }
}

impl<T> Index<Slot> for Slab<T> {
    type Output = T;
    #[inline]
    fn index(&self, slot: Slot) -> &T {
        &self.requests[slot.0 as usize]
    }
}

impl<T> IndexMut<Slot> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, slot: Slot) -> &mut T {
        &mut self.requests[slot.0 as usize]
    }
}
