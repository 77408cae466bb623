//! Device memory: live ranges, and how much of the card they take.
//!
//! Amounts follow what drivers are known to do: `cuMemAlloc` takes granules of 2 MiB and packs what is smaller than
//! 1 MiB; the default pool grows by 32 MiB; executable graphs share an arena that grows by 2 MiB and never shrinks.
#![expect(unsafe_code, reason = "device memory is this process's own memory, reached by address")]

use std::collections::BTreeMap;
use std::ptr;

use crate::mapping::Mapping;
use crate::status::{Answer, Status};

/// What `cuMemAlloc` takes from the card at a time.
const GRANULE: u64 = 2 << 20;
/// What the default pool takes from the card at a time.
const POOL_STEP: u64 = 32 << 20;
/// Allocations below this share granules.
const SMALL: u64 = 1 << 20;
/// Larger fresh memory is not poisoned: it would take real pages.
const POISONED_MAX: u64 = 256 << 20;
/// bf16 and f32 NaN, and an integer that is an absurd length or index.
const POISON: [u8; 2] = [0xff, 0x7f];

/// Who gave an allocation, and so who takes it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// `cuMemAlloc`.
    Device,
    /// `cuMemAllocAsync`.
    Pool,
    /// An allocation node of a graph; whether a launch has made it.
    Graph { is_made: bool },
    /// `cuMemHostAlloc`: pinned, and mapped into the device.
    Host,
}

#[derive(Debug)]
pub(crate) struct Allocation {
    pub(crate) bytes: u64,
    pub(crate) owner: Owner,
    card: usize,
    /// The granule of a small allocation.
    granule: Option<u64>,
    mapping: Mapping,
}

/// What one device has given away.
#[derive(Clone, Debug, Default)]
struct Card {
    fixed_bytes: u64,
    granule_bytes: u64,
    pool_used: u64,
    pool_reserved: u64,
    graph_used: u64,
    graph_reserved: u64,
    exec_used: u64,
    exec_reserved: u64,
    /// The granule that small allocations go into now, and how much of it is taken.
    open: Option<(u64, u64)>,
}

/// All memory of all devices.
#[derive(Debug)]
pub(crate) struct Memory {
    total_bytes: u64,
    is_poisoned: bool,
    cards: Vec<Card>,
    live: BTreeMap<u64, Allocation>,
    /// What was freed, by its start: for messages.
    freed: BTreeMap<u64, u64>,
    /// Small allocations that live in each granule.
    granules: BTreeMap<u64, u32>,
    granules_ever: u64,
    /// Grows with every change of [`Memory::live`].
    pub(crate) generation: u64,
}

impl Memory {
    pub(crate) fn new(cards: usize, total_bytes: u64, is_poisoned: bool) -> Self {
        Self {
            total_bytes,
            is_poisoned,
            cards: vec![Card::default(); cards],
            live: BTreeMap::new(),
            freed: BTreeMap::new(),
            granules: BTreeMap::new(),
            granules_ever: 0,
            generation: 0,
        }
    }

    /// Memory of a card that nothing gives back: other processes, a context.
    pub(crate) fn take_fixed(&mut self, card: usize, bytes: u64) -> Answer {
        self.fits(card, bytes)?;
        self.cards[card].fixed_bytes += bytes;
        Ok(())
    }

    pub(crate) fn give_fixed(&mut self, card: usize, bytes: u64) {
        self.cards[card].fixed_bytes -= bytes;
    }

    pub(crate) fn free_bytes(&self, card: usize) -> u64 {
        let card = &self.cards[card];
        let used =
            card.fixed_bytes + card.granule_bytes + card.pool_reserved + card.graph_reserved + card.exec_reserved;
        self.total_bytes.saturating_sub(used)
    }

    /// Used and reserved bytes of the default pool.
    pub(crate) fn pool(&self, card: usize) -> (u64, u64) {
        (self.cards[card].pool_used, self.cards[card].pool_reserved)
    }

    /// Used and reserved bytes of graph memory nodes.
    pub(crate) fn graph(&self, card: usize) -> (u64, u64) {
        (self.cards[card].graph_used, self.cards[card].graph_reserved)
    }

    /// Gives unused reserved memory of the pools back.
    pub(crate) fn trim(&mut self, card: usize, keep_bytes: u64) {
        let card = &mut self.cards[card];
        card.pool_reserved = card.pool_used.max(keep_bytes.min(card.pool_reserved)).next_multiple_of(POOL_STEP);
    }

    pub(crate) fn trim_graph(&mut self, card: usize) {
        self.cards[card].graph_reserved = self.cards[card].graph_used.next_multiple_of(POOL_STEP);
    }

    pub(crate) fn allocate(&mut self, card: usize, bytes: u64, owner: Owner) -> Answer<u64> {
        let mut granule = None;
        match owner {
            Owner::Device if bytes < SMALL => granule = Some(self.pack(card, bytes)?),
            Owner::Device => {
                let taken = bytes.checked_next_multiple_of(GRANULE).ok_or(Status::OUT_OF_MEMORY)?;
                self.fits(card, taken)?;
                self.cards[card].granule_bytes += taken;
            }
            Owner::Pool => {
                let used = self.cards[card].pool_used + bytes.next_multiple_of(512);
                let reserved = used.next_multiple_of(POOL_STEP).max(self.cards[card].pool_reserved);
                self.fits(card, reserved - self.cards[card].pool_reserved)?;
                (self.cards[card].pool_used, self.cards[card].pool_reserved) = (used, reserved);
            }
            // A graph's memory is taken when the graph is launched.
            Owner::Graph { .. } | Owner::Host => {}
        }
        let mapping = Mapping::of(bytes).ok_or(Status::OUT_OF_MEMORY)?;
        let address = mapping.address;
        self.live.insert(address, Allocation { bytes, owner, card, granule, mapping });
        self.generation += 1;
        if self.is_poisoned && bytes <= POISONED_MAX {
            Self::repeat(address, &POISON, bytes);
        }
        Ok(address)
    }

    /// Frees an allocation by its first address.
    pub(crate) fn free(&mut self, address: u64) -> Option<Allocation> {
        let allocation = self.live.remove(&address)?;
        self.generation += 1;
        self.freed.insert(address, allocation.bytes);
        allocation.mapping.retire();
        let card = &mut self.cards[allocation.card];
        match (allocation.owner, allocation.granule) {
            (Owner::Device, Some(granule)) => {
                if let Some(residents) = self.granules.get_mut(&granule) {
                    *residents -= 1;
                    if *residents == 0 {
                        self.granules.remove(&granule);
                        card.granule_bytes -= GRANULE;
                        card.open = card.open.filter(|(open, _)| *open != granule);
                    }
                }
            }
            (Owner::Device, None) => card.granule_bytes -= allocation.bytes.next_multiple_of(GRANULE),
            (Owner::Pool, _) => card.pool_used -= allocation.bytes.next_multiple_of(512),
            (Owner::Graph { is_made: true }, _) => card.graph_used -= allocation.bytes,
            (Owner::Graph { is_made: false } | Owner::Host, _) => {}
        }
        Some(allocation)
    }

    /// A launch makes an allocation of its graph, or frees it.
    pub(crate) fn make_graph_allocation(&mut self, address: u64, is_made: bool) -> Answer {
        let Some(allocation) = self.live.get_mut(&address) else { return Ok(()) };
        let (card, bytes) = (allocation.card, allocation.bytes);
        let before = std::mem::replace(&mut allocation.owner, Owner::Graph { is_made });
        if before == (Owner::Graph { is_made }) {
            return Ok(());
        }
        let used = if is_made { self.cards[card].graph_used + bytes } else { self.cards[card].graph_used - bytes };
        let reserved = used.next_multiple_of(POOL_STEP).max(self.cards[card].graph_reserved);
        self.fits(card, reserved - self.cards[card].graph_reserved)?;
        (self.cards[card].graph_used, self.cards[card].graph_reserved) = (used, reserved);
        Ok(())
    }

    /// Device memory of an executable graph.
    pub(crate) fn take_exec(&mut self, card: usize, bytes: u64) -> Answer {
        let used = self.cards[card].exec_used + bytes;
        let reserved = used.next_multiple_of(GRANULE).max(self.cards[card].exec_reserved);
        self.fits(card, reserved - self.cards[card].exec_reserved)?;
        (self.cards[card].exec_used, self.cards[card].exec_reserved) = (used, reserved);
        Ok(())
    }

    pub(crate) fn give_exec(&mut self, card: usize, bytes: u64) {
        self.cards[card].exec_used -= bytes;
    }

    /// The live allocation that holds an address, with its start.
    pub(crate) fn at(&self, address: u64) -> Option<(u64, &Allocation)> {
        let (start, allocation) = self.live.range(..=address).next_back()?;
        (address < start + allocation.bytes).then_some((*start, allocation))
    }

    /// Why `bytes` from `address` are not inside one live allocation, if they are not.
    pub(crate) fn outside(&self, address: u64, bytes: u64) -> Option<String> {
        if let Some((start, allocation)) = self.at(address) {
            let beyond = address.checked_add(bytes).is_none_or(|end| end > start + allocation.bytes);
            return beyond.then(|| {
                format!("{bytes} bytes at {address:#x} end beyond the {} bytes at {start:#x}", allocation.bytes)
            });
        }
        Some(match self.freed_at(address) {
            Some((start, freed)) => format!("{address:#x} lies in the {freed} bytes at {start:#x}, which were freed"),
            None => format!("{address:#x} is in no allocation"),
        })
    }

    /// The allocation that held an address and was freed: its start and its bytes.
    pub(crate) fn freed_at(&self, address: u64) -> Option<(u64, u64)> {
        let (start, bytes) = self.freed.range(..=address).next_back()?;
        (address < start + bytes).then_some((*start, *bytes))
    }

    /// Something else that launches depend on has changed: what was checked must be checked again.
    pub(crate) fn forget_checks(&mut self) {
        self.generation += 1;
    }

    /// Everything that lives, by address.
    pub(crate) fn live(&self) -> impl Iterator<Item = (u64, &Allocation)> {
        self.live.iter().map(|(address, allocation)| (*address, allocation))
    }

    /// Copies between ranges that were found to be live.
    pub(crate) fn copy(to: u64, from: u64, bytes: u64) {
        // SAFETY: the callers have checked both ranges, or they are the host pointers of a copy, for which the caller of
        // the driver vouches.
        unsafe { ptr::copy(from as *const u8, to as *mut u8, bytes as usize) };
    }

    /// Writes bytes to a range that was found to be live.
    pub(crate) fn write(to: u64, bytes: &[u8]) {
        // SAFETY: the callers have checked the range.
        unsafe { ptr::copy(bytes.as_ptr(), to as *mut u8, bytes.len()) };
    }

    /// Fills `count` elements of `element`'s width. Zeros cost no memory.
    pub(crate) fn set(&self, at: u64, element: &[u8], count: u64) {
        let bytes = element.len() as u64 * count;
        let is_zero = element.iter().all(|byte| *byte == 0);
        let zeroed = match self.at(at) {
            Some((_, allocation)) if is_zero => allocation.mapping.zero_pages(at, bytes),
            _ => (at, at),
        };
        Self::repeat(at, element, zeroed.0 - at);
        Self::repeat(zeroed.1, element, at + bytes - zeroed.1);
    }

    /// Writes a pattern over and over, a chunk at a time.
    fn repeat(at: u64, pattern: &[u8], bytes: u64) {
        const CHUNK_BYTES: usize = 1 << 20;
        let chunk: Vec<u8> = pattern.repeat(CHUNK_BYTES.min(bytes as usize).div_ceil(pattern.len()));
        let mut done = 0;
        while done < bytes {
            let part = chunk.len().min((bytes - done) as usize);
            Self::write(at + done, &chunk[..part]);
            done += part as u64;
        }
    }

    /// A flag that the host and the device share; 1 if it is not in memory that lives.
    pub(crate) fn flag(&self, address: u64) -> u32 {
        if !address.is_multiple_of(4) || self.outside(address, 4).is_some() {
            return 1;
        }
        // SAFETY: the range lives; the host may write it meanwhile, hence the volatile read.
        unsafe { ptr::read_volatile(address as *const u32) }
    }

    /// Bytes of memory that was found to be live, or of the host's side of a copy.
    pub(crate) fn read(from: u64, bytes: u64) -> Vec<u8> {
        let mut copy = vec![0; bytes as usize];
        // SAFETY: as for `copy`.
        unsafe { ptr::copy(from as *const u8, copy.as_mut_ptr(), copy.len()) };
        copy
    }

    fn fits(&self, card: usize, bytes: u64) -> Answer {
        if bytes > self.free_bytes(card) { Err(Status::OUT_OF_MEMORY) } else { Ok(()) }
    }

    /// Puts a small allocation into the open granule, or opens another.
    fn pack(&mut self, card: usize, bytes: u64) -> Answer<u64> {
        let room = bytes.next_multiple_of(512);
        let (granule, taken) = match self.cards[card].open {
            Some((granule, taken)) if taken + room <= GRANULE => (granule, taken),
            _ => {
                self.fits(card, GRANULE)?;
                self.cards[card].granule_bytes += GRANULE;
                self.granules_ever += 1;
                (self.granules_ever, 0)
            }
        };
        self.cards[card].open = Some((granule, taken + room));
        *self.granules.entry(granule).or_insert(0) += 1;
        Ok(granule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn granules_are_taken_and_given_back() {
        let mut memory = Memory::new(1, 100 * MIB, false);
        let small = memory.allocate(0, 1000, Owner::Device).unwrap();
        assert_eq!(memory.free_bytes(0), 98 * MIB);
        let beside = memory.allocate(0, 1000, Owner::Device).unwrap();
        assert_eq!(memory.free_bytes(0), 98 * MIB, "the second shares the granule");
        let large = memory.allocate(0, 3 * MIB, Owner::Device).unwrap();
        assert_eq!(memory.free_bytes(0), 94 * MIB);
        for address in [small, beside, large] {
            assert!(memory.free(address).is_some() && memory.free(address).is_none());
        }
        assert_eq!(memory.free_bytes(0), 100 * MIB);
        assert_eq!(memory.allocate(0, 101 * MIB, Owner::Device), Err(Status::OUT_OF_MEMORY));
        assert_eq!(memory.allocate(0, u64::MAX, Owner::Device), Err(Status::OUT_OF_MEMORY));
    }

    #[test]
    fn a_card_costs_no_memory_until_it_is_touched() {
        let mut memory = Memory::new(1, 140 << 30, false);
        let all = memory.allocate(0, 139 << 30, Owner::Device).unwrap();
        Memory::write(all + (100 << 30), b"far out");
        assert_eq!(Memory::read(all + (100 << 30), 7), b"far out");
    }

    #[test]
    fn ranges_are_judged_by_both_ends() {
        let mut memory = Memory::new(1, 1 << 30, true);
        let at = memory.allocate(0, 1000, Owner::Device).unwrap();
        assert_eq!(at % 256, 0);
        assert_eq!(Memory::read(at, 4), [0xff, 0x7f, 0xff, 0x7f], "fresh memory is poisoned");
        assert_eq!(memory.outside(at + 1, 999), None);
        assert!(memory.outside(at + 1, 1000).unwrap().contains("beyond"));
        assert!(memory.outside(at - 1, 1).unwrap().contains("no allocation"));
        assert!(memory.outside(at, u64::MAX).unwrap().contains("beyond"));
        memory.free(at);
        assert!(memory.outside(at, 1).unwrap().contains("freed"));
    }

    #[test]
    fn fills_reach_exactly_their_range() {
        let mut memory = Memory::new(1, 140 << 30, true);
        for (skipped, element, count) in
            [(0, &[0][..], 100_000), (3, &[0], 99_990), (8, &[1, 2, 3, 4], 20_000), (2, &[0, 0], 5_000), (1, &[7], 0)]
        {
            let at = memory.allocate(0, 100_000, Owner::Device).unwrap();
            let mut expected = Memory::read(at, 100_000);
            for (place, byte) in expected[skipped..].iter_mut().zip(element.repeat(count)) {
                *place = byte;
            }
            memory.set(at + skipped as u64, element, count as u64);
            assert!(Memory::read(at, 100_000) == expected, "{skipped} {element:?} {count}");
        }
        let huge = memory.allocate(0, 100 << 30, Owner::Device).unwrap();
        memory.set(huge, &[0], 100 << 30);
        assert_eq!(Memory::read(huge + (50 << 30), 4), [0; 4], "zeros take no pages");
    }
}
