//! Cases of the measuring kernels.

use super::compare::{Difference, equal};
use super::{Bench, CheckError};
use crate::launch::{Clocks, Copy, Gate, Null};
use crate::machine::Machine;
use crate::random::Random;

pub(super) fn null<M: Machine>(bench: &mut Bench<M>) -> Result<(), CheckError<M::Error>> {
    bench.launch(Null {}.alone())
}

/// An open gate releases at once; a closed one gives up after its time.
pub(super) fn gate<M: Machine>(bench: &mut Bench<M>) -> Result<(), CheckError<M::Error>> {
    for (flag, outcome) in [(1, 1), (0, 2)] {
        let out = bench.output("outcome", 4)?;
        let flag = bench.indices("flag", &[flag])?;
        bench.launch(Gate { flag, outcome: out, timeout_ns: 20_000 }.alone())?;
        equal("outcome", &bench.integers(out)?, &[outcome])?;
    }
    Ok(())
}

/// Both clocks go forward, and the SM's by at least what was asked.
pub(super) fn clocks<M: Machine>(bench: &mut Bench<M>) -> Result<(), CheckError<M::Error>> {
    const CYCLES: u64 = 10_000;
    let out = bench.output("out", 32)?;
    bench.launch(Clocks { out, cycles: CYCLES }.alone())?;
    let bytes = bench.read(out)?;
    let clock = |index: usize| u64::from_le_bytes(bytes[index * 8..][..8].try_into().expect("8 bytes are a u64"));
    let (cycles, ns) = (clock(2).wrapping_sub(clock(0)), clock(3).wrapping_sub(clock(1)));
    // A second is far longer than the spin: beyond it the words are not clocks.
    if cycles < CYCLES || ns > 1_000_000_000 {
        let got = format!("{cycles} cycles in {ns} ns");
        let want = format!("at least {CYCLES} cycles in less than a second");
        return Err(Difference::Unequal { operand: "out", index: 0, got, want }.into());
    }
    Ok(())
}

#[derive(Clone, Debug)]
pub(super) struct CopyCase {
    pub(super) vectors: usize,
    pub(super) blocks: u32,
}

impl CopyCase {
    pub(super) fn run<M: Machine>(
        &self,
        bench: &mut Bench<M>,
        random: &mut Random,
    ) -> Result<(), CheckError<M::Error>> {
        let from = random.bf16s(self.vectors * 8, 1.0);
        let to = bench.output("to", self.vectors * 16)?;
        let copy = Copy { to, from: bench.input("from", &from)?, vectors: self.vectors as u64 };
        bench.launch(copy.by(self.blocks))?;
        equal("to", &bench.numbers(to)?, &from)?;
        Ok(())
    }
}
