//! Where a kernel is tried: its operands between guard zones.

use super::compare::Difference;
use super::{CheckError, Margin};
use crate::bf16::{self, Bf16};
use crate::launch::{Address, Launch, ShapeError};
use crate::machine::Machine;

/// Bytes of a guard zone: a multiple of every alignment, and more than a tile's row.
const GUARD_BYTES: usize = 4_096;

/// An operand in device memory, between two guard zones.
#[derive(Clone, Debug)]
struct Operand {
    name: &'static str,
    /// Where its first guard zone begins.
    start: Address,
    /// What was written: guard, content, guard.
    content: Vec<u8>,
    /// Nothing may write it.
    input: bool,
}

/// A machine with the operands of one case.
pub struct Bench<'m, M: Machine> {
    machine: &'m mut M,
    operands: Vec<Operand>,
    margin: Margin,
}

/// What guards hold: NaN as bf16 and as f32, another one at every place, so that a vector copied from one guard to another
/// is seen. Indices (i32) read it as numbers that no table has: they get zeros.
fn guard(sign: u16) -> impl Iterator<Item = u8> {
    (0..GUARD_BYTES / 2).flat_map(move |place| (sign | 0x7f80 | (1 + place % 127) as u16).to_le_bytes())
}

impl<'m, M: Machine> Bench<'m, M> {
    /// A bench without operands.
    pub fn new(machine: &'m mut M) -> Self {
        Self { machine, operands: Vec::new(), margin: Margin::default() }
    }

    fn place(
        &mut self,
        name: &'static str,
        bytes: &[u8],
        input: bool,
        guards: impl Fn() -> Vec<u8>,
    ) -> Result<Address, CheckError<M::Error>> {
        let content = [&guards(), bytes, &guards()].concat();
        let start = self.machine.allocate(content.len() as u64).map_err(CheckError::Machine)?;
        self.machine.write(start, &content).map_err(CheckError::Machine)?;
        self.operands.push(Operand { name, start, content, input });
        Ok(start.offset(GUARD_BYTES as u64))
    }

    /// Numbers that a kernel reads.
    ///
    /// # Errors
    /// The machine's.
    pub fn input(&mut self, name: &'static str, values: &[Bf16]) -> Result<Address, CheckError<M::Error>> {
        self.place(name, &bf16::to_bytes(values), true, || guard(0).collect())
    }

    /// Indices or lengths that a kernel reads.
    ///
    /// # Errors
    /// The machine's.
    pub fn indices(&mut self, name: &'static str, values: &[i32]) -> Result<Address, CheckError<M::Error>> {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.place(name, &bytes, true, || vec![0; GUARD_BYTES])
    }

    /// Numbers that a kernel reads and writes.
    ///
    /// # Errors
    /// The machine's.
    pub fn in_place(&mut self, name: &'static str, values: &[Bf16]) -> Result<Address, CheckError<M::Error>> {
        self.words(name, &bf16::to_bytes(values))
    }

    /// Bytes that a kernel reads and writes.
    ///
    /// # Errors
    /// The machine's.
    pub fn words(&mut self, name: &'static str, bytes: &[u8]) -> Result<Address, CheckError<M::Error>> {
        self.place(name, bytes, false, || guard(0x8000).collect())
    }

    /// Room for `bytes` bytes that a kernel writes, NaN until then.
    ///
    /// # Errors
    /// The machine's.
    pub fn output(&mut self, name: &'static str, bytes: usize) -> Result<Address, CheckError<M::Error>> {
        self.words(name, &vec![0xff; bytes])
    }

    /// Writes an operand anew, from its start.
    ///
    /// # Errors
    /// The machine's.
    ///
    /// # Panics
    /// The address is not an operand's, or it has less room: a mistake in the case.
    pub fn rewrite(&mut self, at: Address, bytes: &[u8]) -> Result<(), CheckError<M::Error>> {
        let operand = self.operand(at);
        self.operands[operand].content[GUARD_BYTES..][..bytes.len()].copy_from_slice(bytes);
        self.machine.write(at, bytes).map_err(CheckError::Machine)
    }

    fn operand(&self, at: Address) -> usize {
        let starts_there = |operand: &Operand| operand.start.offset(GUARD_BYTES as u64) == at;
        self.operands.iter().position(starts_there).expect("the address is that of an operand of this case")
    }

    /// Launches.
    ///
    /// # Errors
    /// A shape that the kernel does not take, or the machine's error.
    pub fn launch(&mut self, launch: Result<Launch, ShapeError>) -> Result<(), CheckError<M::Error>> {
        self.machine.launch(&launch?).map_err(CheckError::Machine)
    }

    /// What an operand holds now.
    ///
    /// # Errors
    /// The machine's.
    pub fn read(&mut self, at: Address) -> Result<Vec<u8>, CheckError<M::Error>> {
        let mut bytes = vec![0; self.operands[self.operand(at)].content.len() - 2 * GUARD_BYTES];
        self.machine.read(at, &mut bytes).map_err(CheckError::Machine)?;
        Ok(bytes)
    }

    /// What an operand of numbers holds now.
    ///
    /// # Errors
    /// The machine's.
    pub fn numbers(&mut self, at: Address) -> Result<Vec<Bf16>, CheckError<M::Error>> {
        Ok(bf16::from_bytes(&self.read(at)?))
    }

    /// What an operand of i32 holds now.
    ///
    /// # Errors
    /// The machine's.
    pub fn integers(&mut self, at: Address) -> Result<Vec<i32>, CheckError<M::Error>> {
        let bytes = self.read(at)?;
        Ok(bytes.chunks_exact(4).map(|word| i32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect())
    }

    /// Notes how close a result was.
    pub fn passed(&mut self, margin: Margin) {
        self.margin = self.margin.worse(margin);
    }

    /// Looks at all guards and inputs, and says how close the results were.
    ///
    /// # Errors
    /// The first byte that was written though it should not have been.
    pub fn finish(self) -> Result<Margin, CheckError<M::Error>> {
        for operand in &self.operands {
            let mut now = vec![0; operand.content.len()];
            self.machine.read(operand.start, &mut now).map_err(CheckError::Machine)?;
            let end = now.len() - GUARD_BYTES;
            let mut zones = vec![("before its start", 0..GUARD_BYTES), ("behind its end", end..now.len())];
            if operand.input {
                zones.push(("inside, though it is an input", GUARD_BYTES..end));
            }
            for (place, zone) in zones {
                let (before, after) = (&operand.content[zone.clone()], &now[zone]);
                if let Some(byte) = before.iter().zip(after).position(|(before, after)| before != after) {
                    let (operand, before, after) = (operand.name, before[byte], after[byte]);
                    return Err(Difference::Touched { operand, place, byte, before, after }.into());
                }
            }
        }
        Ok(self.margin)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::convert::Infallible;

    use super::*;
    use crate::launch::{Null, ShapeError};

    /// A machine whose only kernel writes one byte somewhere.
    #[derive(Default)]
    struct Stray {
        memory: BTreeMap<u64, u8>,
        next: u64,
        hits: Option<Address>,
    }

    impl Machine for Stray {
        type Error = Infallible;
        fn allocate(&mut self, bytes: u64) -> Result<Address, Infallible> {
            self.next += bytes.next_multiple_of(256);
            Ok(Address(self.next - bytes.next_multiple_of(256)))
        }
        fn write(&mut self, to: Address, bytes: &[u8]) -> Result<(), Infallible> {
            self.memory.extend((to.0..).zip(bytes.iter().copied()));
            Ok(())
        }
        fn read(&mut self, from: Address, bytes: &mut [u8]) -> Result<(), Infallible> {
            for (address, byte) in (from.0..).zip(bytes) {
                *byte = self.memory.get(&address).copied().unwrap_or(0);
            }
            Ok(())
        }
        fn launch(&mut self, _: &Launch) -> Result<(), Infallible> {
            if let Some(address) = self.hits {
                *self.memory.entry(address.0).or_default() ^= 1;
            }
            Ok(())
        }
    }

    /// What a bench with an input and an output of 6 bytes says when a byte at `offset` from one of them is hit.
    fn hit(output: bool, offset: i64) -> Result<Margin, String> {
        let mut machine = Stray::default();
        let mut bench = Bench::new(&mut machine);
        let input = bench.input("input", &[Bf16(1), Bf16(2), Bf16(3)]).unwrap();
        let out = bench.output("out", 6).unwrap();
        let at = if output { out } else { input };
        bench.machine.hits = Some(Address(at.0.wrapping_add_signed(offset)));
        bench.launch(Null {}.alone()).unwrap();
        bench.finish().map_err(|error| error.to_string())
    }

    #[test]
    fn whatever_is_written_beside_an_output_is_seen() {
        assert!((0..6).all(|offset| hit(true, offset).is_ok()));
        assert_eq!(hit(true, 6).unwrap_err(), "`out` was written behind its end: byte 0 was 0x81 and is 0x80");
        assert!(hit(true, -1).unwrap_err().starts_with("`out` was written before its start: byte 4095 was"));
        assert!(hit(true, 4_096 + 5).is_err() && hit(true, -4_096).is_err());
        assert_eq!(
            hit(false, 2).unwrap_err(),
            "`input` was written inside, though it is an input: byte 2 was 0x02 and is 0x03"
        );
        assert!(hit(false, -1).is_err() && hit(false, 6).is_err());
    }

    #[test]
    fn guards_are_nan_and_differ_from_place_to_place() {
        let zones: Vec<Vec<Bf16>> = [0, 0x8000].map(|sign| bf16::from_bytes(&guard(sign).collect::<Vec<_>>())).into();
        assert!(zones.iter().flatten().all(|value| value.to_f32().is_nan()));
        assert!(zones[0].iter().zip(&zones[1]).all(|(input, output)| input != output));
        assert!(zones[0].windows(9).all(|values| values[0] != values[8]));
    }

    #[test]
    fn a_shape_that_no_kernel_takes_is_told_apart_from_a_failure() {
        let mut machine = Stray::default();
        let refused = ShapeError { kernel: "null_kernel", key: "rows", value: "0".into(), expected: "1".into() };
        let error = Bench::new(&mut machine).launch(Err(refused)).unwrap_err();
        assert!(matches!(error, CheckError::Shape(_)));
    }
}
