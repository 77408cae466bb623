//! Address space for device and pinned host memory: real pages, taken only when touched.
#![expect(unsafe_code, reason = "mmap and mprotect")]

use std::ptr;

/// Alignment of every allocation, as `cuMemAlloc` gives at least.
const ALIGNMENT: u64 = 512;

const PAGE: u64 = 4096;

/// A range of this process's addresses that no other allocation ever gets, so that a stale pointer is always known as one.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: u64,
    length: u64,
    /// Where the allocation begins: its end lies at the guard page, as far as its alignment allows.
    pub(crate) address: u64,
}

impl Mapping {
    /// Room for `bytes`, or none if the system refuses.
    pub(crate) fn of(bytes: u64) -> Option<Self> {
        let room = bytes.checked_next_multiple_of(ALIGNMENT)?;
        let length = room.checked_next_multiple_of(PAGE)?.checked_add(PAGE)?;
        // SAFETY: a new private mapping without a wished address replaces nothing.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return None;
        }
        let start = start as u64;
        let mapping = Self { start, length, address: start + length - PAGE - room };
        mapping.forbid(start + length - PAGE, PAGE);
        Some(mapping)
    }

    /// Takes the pages away and keeps the addresses: whoever still uses them faults.
    pub(crate) fn retire(&self) {
        // SAFETY: the range is this mapping's own, and nothing holds references into it.
        unsafe { libc::madvise(self.start as *mut _, self.length as usize, libc::MADV_DONTNEED) };
        self.forbid(self.start, self.length);
    }

    /// Gives pages back to the system, which are zero when they are touched again. Returns the range that this covers.
    pub(crate) fn zero_pages(&self, from: u64, bytes: u64) -> (u64, u64) {
        let first = from.next_multiple_of(PAGE);
        let end = ((from + bytes) / PAGE * PAGE).min(self.start + self.length - PAGE);
        if first >= end || first < self.start {
            return (from, from);
        }
        // SAFETY: the pages are this mapping's own, private and anonymous: afterwards they read as zero.
        unsafe { libc::madvise(first as *mut _, (end - first) as usize, libc::MADV_DONTNEED) };
        (first, end)
    }

    fn forbid(&self, from: u64, bytes: u64) {
        debug_assert!(from >= self.start && from + bytes <= self.start + self.length);
        // SAFETY: the range is inside this mapping.
        unsafe { libc::mprotect(from as *mut _, bytes as usize, libc::PROT_NONE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guard_page_begins_where_the_allocation_ends() {
        for bytes in [1, 512, 4_096, 10_000] {
            let mapping = Mapping::of(bytes).unwrap();
            let guard = mapping.start + mapping.length - PAGE;
            assert_eq!(mapping.address % ALIGNMENT, 0);
            assert!((mapping.address + bytes..mapping.address + bytes + ALIGNMENT).contains(&guard), "{bytes}");
        }
        assert!(Mapping::of(u64::MAX).is_none());
    }
}
