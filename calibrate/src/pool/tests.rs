use std::convert::Infallible;

use proptest::prelude::*;

use super::*;

const MIB: u64 = 1 << 20;

/// Segments one after the other, with a gap: nothing of two segments is adjacent.
#[derive(Debug)]
struct Line {
    next: u64,
}

impl Default for Line {
    fn default() -> Self {
        Self { next: 0x7000_0000 }
    }
}

impl SegmentSource for Line {
    type Error = Infallible;

    fn segment(&mut self, bytes: u64) -> Result<Address, Infallible> {
        let address = Address(self.next);
        self.next += bytes + 2 * MIB;
        Ok(address)
    }
}

fn pool() -> Pool<Line> {
    Pool::new(Line::default())
}

/// The same rules, walked: a list of segments, each a list of pieces from its beginning to its end.
#[derive(Debug, Default)]
struct Walked {
    line: Line,
    segments: Vec<WalkedSegment>,
}

#[derive(Debug)]
struct WalkedSegment {
    is_small: bool,
    start: u64,
    /// Bytes, and whether they are free.
    pieces: Vec<(u64, bool)>,
}

impl Walked {
    fn allocate(&mut self, bytes: u64) -> u64 {
        let bytes = bytes.div_ceil(512).max(1) * 512;
        let is_small = bytes <= MIB;
        let mut best: Option<(u64, u64, usize, usize)> = None;
        for (number, segment) in self.segments.iter().enumerate() {
            let mut at = segment.start;
            for (place, &(size, is_free)) in segment.pieces.iter().enumerate() {
                if segment.is_small == is_small && is_free && size >= bytes {
                    let candidate = (size, at, number, place);
                    best = Some(best.map_or(candidate, |best| best.min(candidate)));
                }
                at += size;
            }
        }
        let (size, at, number, place) = best.unwrap_or_else(|| {
            let size = match bytes {
                _ if is_small => 2 * MIB,
                _ if bytes < 10 * MIB => 20 * MIB,
                _ => bytes.div_ceil(2 * MIB) * 2 * MIB,
            };
            let Ok(Address(start)) = self.line.segment(size);
            self.segments.push(WalkedSegment { is_small, start, pieces: vec![(size, true)] });
            (size, start, self.segments.len() - 1, 0)
        });
        let rest = size - bytes;
        let pieces = &mut self.segments[number].pieces;
        if (is_small && rest >= 512) || (!is_small && rest > MIB) {
            pieces[place] = (bytes, false);
            pieces.insert(place + 1, (rest, true));
        } else {
            pieces[place].1 = false;
        }
        at
    }

    fn free(&mut self, address: u64) {
        for WalkedSegment { start, pieces, .. } in &mut self.segments {
            let mut at = *start;
            for piece in pieces.iter_mut() {
                if at == address {
                    piece.1 = true;
                }
                at += piece.0;
            }
            let mut joined: Vec<(u64, bool)> = Vec::new();
            for &(size, is_free) in pieces.iter() {
                match joined.last_mut() {
                    Some(last) if last.1 && is_free => last.0 += size,
                    _ => joined.push((size, is_free)),
                }
            }
            *pieces = joined;
        }
    }
}

/// What is done to a pool: allocate so many bytes, or free the n-th of what is live.
#[derive(Clone, Copy, Debug)]
enum Act {
    Allocate(u64),
    Free(usize),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let size = prop_oneof![
        0..4096_u64,
        Just(MIB),
        Just(MIB + 1),
        MIB - 1024..3 * MIB,
        3 * MIB..25 * MIB,
        Just(10 * MIB),
        Just(10 * MIB - 512),
    ];
    let act = prop_oneof![3 => size.prop_map(Act::Allocate), 2 => (0..64_usize).prop_map(Act::Free)];
    proptest::collection::vec(act, 0..120)
}

proptest! {
    #[test]
    fn blocks_lie_where_walking_the_rules_puts_them(acts in acts()) {
        let (mut pool, mut walked) = (pool(), Walked::default());
        let mut live: Vec<(u64, u64)> = Vec::new();
        let mut reserved = 0;
        for act in acts {
            match act {
                Act::Allocate(bytes) => {
                    let Ok(Address(address)) = pool.allocate(bytes);
                    prop_assert_eq!(address, walked.allocate(bytes));
                    live.push((address, bytes.max(1)));
                }
                Act::Free(which) if !live.is_empty() => {
                    let (address, _) = live.swap_remove(which % live.len());
                    prop_assert_eq!(pool.free(Address(address)), Ok(()));
                    walked.free(address);
                }
                Act::Free(_) => {}
            }
            let mut sorted = live.clone();
            sorted.sort_unstable();
            prop_assert!(sorted.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{:?}", sorted);
            for &(address, bytes) in &live {
                let inside = |segment: &Segment| {
                    segment.address.0 <= address && address + bytes <= segment.address.0 + segment.bytes
                };
                prop_assert!(pool.segments().iter().any(inside), "{address:#x} is in no segment");
                prop_assert_eq!(address % 512, 0);
            }
            prop_assert!(pool.reserved_bytes() >= reserved, "reserved fell");
            reserved = pool.reserved_bytes();
            prop_assert!(pool.live_bytes() <= pool.peak_bytes() && pool.peak_bytes() <= reserved);
        }
        for (address, _) in live {
            prop_assert_eq!(pool.free(Address(address)), Ok(()));
        }
        prop_assert_eq!(pool.live_bytes(), 0);
        let whole: Vec<_> = pool.blocks.iter().map(|(&at, block)| (at, block.bytes, block.is_free)).collect();
        let mut segments: Vec<_> =
            pool.segments().iter().map(|segment| (segment.address.0, segment.bytes, true)).collect();
        segments.sort_unstable();
        prop_assert_eq!(whole, segments, "free blocks are whole segments again");
    }
}

#[test]
fn segments_have_the_sizes_of_pytorch() {
    let reserved = |bytes| {
        let mut pool = pool();
        let Ok(_) = pool.allocate(bytes);
        pool.reserved_bytes()
    };
    assert_eq!([0, 1, 512, MIB].map(reserved), [2 * MIB; 4]);
    assert_eq!([MIB + 1, 10 * MIB - 512].map(reserved), [20 * MIB; 2]);
    assert_eq!([10 * MIB - 511, 10 * MIB, 11 * MIB, 28 * MIB].map(reserved), [10, 10, 12, 28].map(|it| it * MIB));
}

#[test]
fn the_smallest_block_that_fits_is_taken_and_the_lowest_of_equals() {
    let mut pool = pool();
    let Ok(a) = pool.allocate(3 * MIB);
    let Ok(b) = pool.allocate(5 * MIB);
    let Ok(c) = pool.allocate(3 * MIB);
    let Ok(_rest) = pool.allocate(9 * MIB);
    for address in [a, b, c] {
        assert_eq!(pool.free(address), Ok(()));
    }
    // The three are one block of 11 MiB again, and it is taken from its beginning.
    assert_eq!(pool.allocate(4 * MIB), Ok(a));
    assert_eq!(pool.allocate(2 * MIB), Ok(Address(a.0 + 4 * MIB)));
    assert_eq!(pool.reserved_bytes(), 20 * MIB);
}

#[test]
fn a_large_rest_of_one_mebibyte_is_not_split_off() {
    let mut pool = pool();
    let Ok(a) = pool.allocate(19 * MIB);
    assert_eq!((pool.reserved_bytes(), pool.live_bytes()), (20 * MIB, 20 * MIB));
    assert_eq!(pool.free(a), Ok(()));
    let Ok(_) = pool.allocate(19 * MIB - 512);
    assert_eq!(pool.live_bytes(), 19 * MIB - 512);
}

#[test]
fn what_is_not_allocated_cannot_be_freed() {
    let mut pool = pool();
    let Ok(a) = pool.allocate(100);
    assert_eq!(pool.free(Address(a.0 + 512)), Err(NotAllocated(Address(a.0 + 512))));
    assert_eq!(pool.free(a), Ok(()));
    assert_eq!(pool.free(a).unwrap_err().to_string(), format!("the pool has no allocation at {:#x}", a.0));
    assert_eq!(pool.free(Address(7)), Err(NotAllocated(Address(7))));
}

#[test]
fn a_source_without_memory_leaves_the_pool_as_it_was() {
    struct Empty;
    impl SegmentSource for Empty {
        type Error = &'static str;
        fn segment(&mut self, _: u64) -> Result<Address, &'static str> {
            Err("nothing left")
        }
    }
    let mut pool = Pool::new(Empty);
    assert_eq!(pool.allocate(1), Err("nothing left"));
    assert_eq!((pool.reserved_bytes(), pool.live_bytes(), pool.segments().len()), (0, 0, 0));
}

/// Allocations of one step of the GPU specification's example (section 4): four layers of Llama 3 8B's shape, each product
/// with an output of its own, freed after its last use.
fn step(pool: &mut Pool<Line>, rows: u64) {
    let (hidden, qkv, attention, intermediate) = (4096, 6144, 4096, 14_336);
    let mut last = None;
    for _ in 0..4 {
        let bf16 = |pool: &mut Pool<Line>, width: u64| {
            let Ok(address) = pool.allocate(rows * width * 2);
            address
        };
        let norm = bf16(pool, hidden);
        if let Some(last) = last {
            pool.free(last).unwrap();
        }
        let mut output = norm;
        for width in [qkv, attention, hidden, hidden, 2 * intermediate, intermediate, hidden] {
            let next = bf16(pool, width);
            pool.free(output).unwrap();
            output = next;
        }
        last = Some(output);
    }
    pool.free(last.unwrap()).unwrap();
}

/// GPU specification section 4: "descending: pool 50 MiB in 3 segments (48 for the first rung, +2 once, else 0); ascending:
/// 70 MiB in 4".
#[test]
fn largest_first_takes_less_as_in_the_specifications_example() {
    let ladder = [512, 256, 128, 64, 32, 16, 8, 4, 2, 1];
    let mut descending = pool();
    let growth: Vec<u64> = ladder
        .iter()
        .map(|&rows| {
            let before = descending.reserved_bytes();
            step(&mut descending, rows);
            (descending.reserved_bytes() - before) / MIB
        })
        .collect();
    assert_eq!(growth[0], 48);
    assert_eq!(growth.iter().filter(|&&growth| growth == 2).count(), 1, "{growth:?}");
    assert_eq!((descending.reserved_bytes() / MIB, descending.segments().len()), (50, 3));
    let mut ascending = pool();
    for rows in ladder.into_iter().rev() {
        step(&mut ascending, rows);
    }
    assert_eq!((ascending.reserved_bytes() / MIB, ascending.segments().len()), (70, 4));
}
