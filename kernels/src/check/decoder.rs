//! Cases of the kernels that work row by row.

use super::compare::{close, equal};
use super::{Bench, CheckError, Tolerance, int};
use crate::bf16::{self, Bf16};
use crate::launch::{Argmax, Embed, HeadNorm, KvWrite, Launch, RmsNorm, Rotary, SiluMul};
use crate::machine::Machine;
use crate::random::Random;
use crate::reference::{self, Heads, PagedCache};
use crate::units::Rows;

/// The epsilon of every norm here.
const EPSILON: f32 = 1e-5;

/// Every third row becomes so small that epsilon decides its norm, and every fifth zero.
fn make_small(values: &mut [Bf16], width: usize) {
    for (row, values) in values.chunks_exact_mut(width).enumerate() {
        let factor = match row {
            _ if row % 5 == 4 => 0.0,
            _ if row % 3 == 1 => 1.0 / 1024.0,
            _ => continue,
        };
        for value in values {
            *value = Bf16::from_f32(value.to_f32() * factor);
        }
    }
}

/// A row count of a case.
fn over(count: usize) -> Rows {
    Rows(count as u32)
}

#[derive(Clone, Debug)]
pub(super) struct EmbedCase {
    pub(super) rows: usize,
    pub(super) hidden: usize,
    pub(super) table_rows: usize,
}

impl EmbedCase {
    pub(super) fn run<M: Machine>(
        &self,
        bench: &mut Bench<M>,
        random: &mut Random,
    ) -> Result<(), CheckError<M::Error>> {
        let &Self { rows, hidden, table_rows } = self;
        let table = random.bf16s(table_rows * hidden, 1.0);
        // Every third row asks for one that the table does not have.
        let id = |row: usize| match row % 6 {
            2 => -1,
            5 => int(table_rows),
            _ => int(random.below(table_rows as u32) as usize),
        };
        let ids: Vec<i32> = (0..rows).map(id).collect();
        let out = bench.output("out", rows * hidden * 2)?;
        let embed = Embed {
            out,
            table: bench.input("table", &table)?,
            ids: bench.indices("ids", &ids)?,
            hidden: int(hidden),
            table_rows: int(table_rows),
        };
        bench.launch(embed.over(over(rows)))?;
        equal("out", &bench.numbers(out)?, &reference::embed(&table, &ids, hidden))?;
        Ok(())
    }
}

/// How the residual stream enters a norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Residual {
    /// It begins with the input.
    Begun,
    /// It begins with the input and is the input's own memory.
    BegunInPlace,
    /// The input is added to it.
    Added,
}

#[derive(Clone, Debug)]
pub(super) struct RmsNormCase {
    pub(super) rows: usize,
    pub(super) hidden: usize,
    pub(super) residual: Residual,
}

impl RmsNormCase {
    pub(super) fn run<M: Machine>(
        &self,
        bench: &mut Bench<M>,
        random: &mut Random,
    ) -> Result<(), CheckError<M::Error>> {
        let &Self { rows, hidden, residual: how } = self;
        let (mut input, mut before, weight) =
            (random.bf16s(rows * hidden, 2.0), random.bf16s(rows * hidden, 1.0), random.bf16s(hidden, 1.0));
        make_small(&mut input, hidden);
        make_small(&mut before, hidden);
        let out = bench.output("out", rows * hidden * 2)?;
        let (input_at, residual) = match how {
            Residual::Begun => (bench.input("input", &input)?, bench.output("residual", rows * hidden * 2)?),
            Residual::Added => (bench.input("input", &input)?, bench.in_place("residual", &before)?),
            Residual::BegunInPlace => {
                let both = bench.in_place("input", &input)?;
                (both, both)
            }
        };
        let norm = RmsNorm {
            out,
            residual,
            input: input_at,
            weight: bench.input("weight", &weight)?,
            hidden: int(hidden),
            epsilon: EPSILON,
            add: i32::from(how == Residual::Added),
        };
        bench.launch(norm.over(over(rows)))?;
        let after = bench.numbers(residual)?;
        if how == Residual::Added {
            let sum = reference::add(&bf16::to_f64s(&input), &bf16::to_f64s(&before));
            let margin = close("residual", &after, &sum, hidden, Tolerance::ROUNDED_ONCE)?;
            bench.passed(margin);
        } else {
            equal("residual", &after, &input)?;
        }
        // What is normed is what was stored.
        let want = reference::rms_norm(&bf16::to_f64s(&after), &bf16::to_f64s(&weight), EPSILON.into());
        let margin = close("out", &bench.numbers(out)?, &want, hidden, Tolerance::ROUNDED_ONCE)?;
        bench.passed(margin);
        Ok(())
    }
}

/// Compares rows of queries, keys and values: queries and keys closely, values exactly.
fn compare_qkv<M: Machine>(
    bench: &mut Bench<M>,
    got: &[Bf16],
    want: &[f64],
    heads: Heads,
) -> Result<(), CheckError<M::Error>> {
    let turned = (heads.query + heads.kv) * heads.size;
    for (got, want) in got.chunks_exact(heads.qkv_width()).zip(want.chunks_exact(heads.qkv_width())) {
        let margin = close("queries and keys", &got[..turned], &want[..turned], heads.size, Tolerance::ROUNDED_ONCE)?;
        bench.passed(margin);
        equal("values", &bf16::to_f64s(&got[turned..]), &want[turned..])?;
    }
    Ok(())
}

#[derive(Clone, Debug)]
pub(super) struct HeadNormCase {
    pub(super) rows: usize,
    pub(super) heads: Heads,
}

impl HeadNormCase {
    pub(super) fn run<M: Machine>(
        &self,
        bench: &mut Bench<M>,
        random: &mut Random,
    ) -> Result<(), CheckError<M::Error>> {
        let &Self { rows, heads } = self;
        let mut qkv = random.bf16s(rows * heads.qkv_width(), 3.0);
        make_small(&mut qkv, heads.qkv_width());
        let (query_weight, key_weight) = (random.bf16s(heads.size, 1.0), random.bf16s(heads.size, 1.0));
        let at = bench.in_place("qkv", &qkv)?;
        let norm = HeadNorm {
            qkv: at,
            query_weight: bench.input("query_weight", &query_weight)?,
            key_weight: bench.input("key_weight", &key_weight)?,
            query_heads: int(heads.query),
            kv_heads: int(heads.kv),
            head_size: int(heads.size),
            epsilon: EPSILON,
        };
        bench.launch(norm.over(over(rows)))?;
        let [query_weight, key_weight] = [query_weight, key_weight].map(|weight| bf16::to_f64s(&weight));
        let want = reference::head_norm(&bf16::to_f64s(&qkv), heads, &query_weight, &key_weight, EPSILON.into());
        let got = bench.numbers(at)?;
        compare_qkv(bench, &got, &want, heads)
    }
}

#[derive(Clone, Debug)]
pub(super) struct RotaryCase {
    pub(super) rows: usize,
    pub(super) heads: Heads,
    pub(super) theta: f64,
}

impl RotaryCase {
    pub(super) fn run<M: Machine>(
        &self,
        bench: &mut Bench<M>,
        random: &mut Random,
    ) -> Result<(), CheckError<M::Error>> {
        let &Self { rows, heads, theta } = self;
        let qkv = random.bf16s(rows * heads.qkv_width(), 1.0);
        let positions: Vec<i32> = (0..rows).map(|row| [0, 1, 31, 4_095, 131_071][row % 5]).collect();
        let at = bench.in_place("qkv", &qkv)?;
        let log2_theta = theta.log2() as f32;
        let rotary = Rotary {
            qkv: at,
            positions: bench.indices("positions", &positions)?,
            query_heads: int(heads.query),
            kv_heads: int(heads.kv),
            head_size: int(heads.size),
            log2_theta,
        };
        bench.launch(rotary.over(over(rows)))?;
        // The base as the kernel was told it.
        let want = reference::rotary(&bf16::to_f64s(&qkv), heads, &positions, f64::from(log2_theta).exp2());
        let got = bench.numbers(at)?;
        compare_qkv(bench, &got, &want, heads)
    }
}

#[derive(Clone, Debug)]
pub(super) struct KvWriteCase {
    pub(super) rows: usize,
    pub(super) heads: Heads,
    pub(super) block_size: usize,
}

impl KvWriteCase {
    pub(super) fn run<M: Machine>(
        &self,
        bench: &mut Bench<M>,
        random: &mut Random,
    ) -> Result<(), CheckError<M::Error>> {
        let &Self { rows, heads, block_size } = self;
        let blocks = rows.div_ceil(block_size) + 2;
        let qkv = random.bf16s(rows * heads.qkv_width(), 1.0);
        let mut cache = PagedCache::filled(Bf16::default(), blocks, heads, block_size);
        cache.elements = random.bf16s(cache.elements.len(), 1.0);
        let slots = random.order((blocks * block_size) as u32);
        // Every fourth row is a padded one.
        let slot = |(row, slot): (usize, &u32)| if row % 4 == 3 { -1 } else { int(*slot as usize) };
        let slots: Vec<i32> = slots.iter().take(rows).enumerate().map(slot).collect();
        let at = bench.in_place("cache", &cache.elements)?;
        let write = KvWrite {
            cache: at,
            qkv: bench.input("qkv", &qkv)?,
            slots: bench.indices("slots", &slots)?,
            query_heads: int(heads.query),
            kv_heads: int(heads.kv),
            head_size: int(heads.size),
            block_size: int(block_size),
        };
        bench.launch(write.over(over(rows)))?;
        cache.write(&qkv, &slots);
        equal("cache", &bench.numbers(at)?, &cache.elements)?;
        Ok(())
    }
}

#[derive(Clone, Debug)]
pub(super) struct SiluMulCase {
    pub(super) rows: usize,
    pub(super) intermediate: usize,
    /// One block that strides over everything, instead of one visit per element.
    pub(super) one_block: bool,
}

impl SiluMulCase {
    pub(super) fn run<M: Machine>(
        &self,
        bench: &mut Bench<M>,
        random: &mut Random,
    ) -> Result<(), CheckError<M::Error>> {
        let &Self { rows, intermediate, one_block } = self;
        let mut gate_up = random.bf16s(rows * 2 * intermediate, 8.0);
        // Gates so large that exp overflows, either way.
        (gate_up[0], gate_up[1]) = (Bf16::from_f32(200.0), Bf16::from_f32(-200.0));
        let out = bench.output("out", rows * intermediate * 2)?;
        let silu_mul = SiluMul {
            out,
            gate_up: bench.input("gate_up", &gate_up)?,
            rows: int(rows),
            intermediate: int(intermediate),
        };
        let launch = silu_mul.whole()?;
        bench.launch(Ok(if one_block { Launch { grid: [1, 1, 1], ..launch } } else { launch }))?;
        let want = reference::silu_mul(&bf16::to_f64s(&gate_up), intermediate);
        let margin = close("out", &bench.numbers(out)?, &want, intermediate, Tolerance::ROUNDED_ONCE)?;
        bench.passed(margin);
        Ok(())
    }
}

#[derive(Clone, Debug)]
pub(super) struct ArgmaxCase {
    pub(super) rows: usize,
    pub(super) vocabulary: usize,
}

impl ArgmaxCase {
    pub(super) fn run<M: Machine>(
        &self,
        bench: &mut Bench<M>,
        random: &mut Random,
    ) -> Result<(), CheckError<M::Error>> {
        let &Self { rows, vocabulary } = self;
        let mut logits = random.bf16s(rows * vocabulary, 4.0);
        for (row, logits) in logits.chunks_exact_mut(vocabulary).enumerate() {
            let somewhere = random.below(vocabulary as u32) as usize;
            match row % 7 {
                // Few values, so that many are equal.
                1 => logits.iter_mut().enumerate().for_each(|(i, logit)| *logit = Bf16(0x4000 + (i % 3) as u16)),
                // The first and the last place.
                2 => logits[0] = Bf16::from_f32(9.0),
                3 => logits[vocabulary - 1] = Bf16::from_f32(9.0),
                // NaN everywhere but in one place, which holds the smallest number there is.
                4 => {
                    logits.fill(Bf16::NAN);
                    logits[somewhere] = Bf16::from_f32(f32::NEG_INFINITY);
                }
                5 => logits.fill(Bf16::NAN),
                6 => logits[somewhere] = Bf16::NAN,
                _ => {}
            }
        }
        let out = bench.output("out", rows * 4)?;
        let argmax = Argmax { out, logits: bench.input("logits", &logits)?, vocabulary: int(vocabulary) };
        bench.launch(argmax.over(over(rows)))?;
        equal("out", &bench.integers(out)?, &reference::argmax(&bf16::to_f64s(&logits), vocabulary))?;
        Ok(())
    }
}
