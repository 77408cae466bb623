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
