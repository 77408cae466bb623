use super::*;

#[test]
fn the_null_block_is_never_usable() {
    assert_eq!(BlockPool::new(10, 16, false).usable(), 9);
    assert_eq!(BlockPool::new(0, 16, true).usable(), 0);
}

#[test]
fn a_request_takes_a_block_only_when_it_crosses_its_end() {
    let mut pool = BlockPool::new(4, 16, false);
    let mut held = Held::default();
    for (tokens, free) in [(1, 2), (16, 2), (17, 1), (32, 1), (33, 0), (48, 0)] {
        assert!(pool.grow(&mut held, tokens));
        assert_eq!((pool.free(), held.blocks() + pool.free()), (free, 3), "at {tokens} tokens");
    }
    assert!(!pool.grow(&mut held, 49));
    assert_eq!(held.blocks(), 3, "a refused growth changes nothing");
    pool.release(&mut held);
    assert_eq!((pool.free(), held.blocks()), (3, 0));
}

#[test]
fn blocks_kept_free_are_not_taken() {
    let mut pool = BlockPool::new(6, 16, false);
    let mut held = Held::default();
    let none = Hit::default();
    assert!(!pool.admit(&mut held, none, 64, 0, 2));
    assert!(!pool.admit(&mut held, none, 1, 64, 2), "the room is asked for, not taken");
    assert!(!pool.admit(&mut held, none, 1, 0, u32::MAX));
    assert_eq!(held.blocks(), 0);
    assert!(pool.admit(&mut held, none, 1, 48, 2));
    assert_eq!((held.blocks(), pool.free()), (1, 4));
}
