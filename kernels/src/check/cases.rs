//! The list of cases.

use super::attention::{DecodeAttentionCase, PrefillAttentionCase};
use super::decoder::{
    ArgmaxCase, EmbedCase, HeadNormCase, KvWriteCase, Residual, RmsNormCase, RotaryCase, SiluMulCase,
};
use super::measure::{self, CopyCase};
use super::product::ProductCase;
use super::{Bench, CheckError, Margin, Tolerance};
use crate::launch::{Kernel, Tile};
use crate::machine::Machine;
use crate::random::Random;
use crate::reference::Heads;

/// Seed of all random operands.
const SEED: u64 = 0x5eed;

/// How much work a case is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Size {
    /// Small enough for the CPU executor, in a debug build too.
    Quick,
    /// The widths of real models; for a GPU.
    Full,
}

/// One case: a kernel, or two that belong together, on operands of one shape.
#[derive(Clone, Debug)]
pub struct Case {
    /// Kernel and shape, in words; unique.
    pub name: String,
    /// What it launches.
    pub kernels: &'static [Kernel],
    /// How much work it is.
    pub size: Size,
    subject: Subject,
}

#[derive(Clone, Debug)]
enum Subject {
    Embed(EmbedCase),
    RmsNorm(RmsNormCase),
    HeadNorm(HeadNormCase),
    Rotary(RotaryCase),
    KvWrite(KvWriteCase),
    SiluMul(SiluMulCase),
    Argmax(ArgmaxCase),
    DecodeAttention(DecodeAttentionCase),
    PrefillAttention(PrefillAttentionCase),
    Product(ProductCase),
    Null,
    Gate,
    Clocks,
    Copy(CopyCase),
}

impl Case {
    /// What its results are held to; `None`: they must be equal, or keep to rules of their own.
    pub fn tolerance(&self) -> Option<Tolerance> {
        match self.subject {
            Subject::DecodeAttention(_) | Subject::PrefillAttention(_) => Some(Tolerance::ROUNDED_TWICE),
            Subject::RmsNorm(_)
            | Subject::HeadNorm(_)
            | Subject::Rotary(_)
            | Subject::SiluMul(_)
            | Subject::Product(_) => Some(Tolerance::ROUNDED_ONCE),
            Subject::Embed(_)
            | Subject::KvWrite(_)
            | Subject::Argmax(_)
            | Subject::Null
            | Subject::Gate
            | Subject::Clocks
            | Subject::Copy(_) => None,
        }
    }

    /// Runs the case.
    ///
    /// # Errors
    /// A failure of the machine, a result that differs from the reference, or memory that was written though it should
    /// not have been.
    pub fn run<M: Machine>(&self, machine: &mut M) -> Result<Margin, CheckError<M::Error>> {
        let mut bench = Bench::new(machine);
        // A case's operands depend on its name alone, not on the cases before it.
        let mut random = Random::named(&self.name, SEED);
        match &self.subject {
            Subject::Embed(case) => case.run(&mut bench, &mut random)?,
            Subject::RmsNorm(case) => case.run(&mut bench, &mut random)?,
            Subject::HeadNorm(case) => case.run(&mut bench, &mut random)?,
            Subject::Rotary(case) => case.run(&mut bench, &mut random)?,
            Subject::KvWrite(case) => case.run(&mut bench, &mut random)?,
            Subject::SiluMul(case) => case.run(&mut bench, &mut random)?,
            Subject::Argmax(case) => case.run(&mut bench, &mut random)?,
            Subject::DecodeAttention(case) => case.run(&mut bench, &mut random)?,
            Subject::PrefillAttention(case) => case.run(&mut bench, &mut random)?,
            Subject::Product(case) => case.run(&mut bench, &mut random)?,
            Subject::Null => measure::null(&mut bench)?,
            Subject::Gate => measure::gate(&mut bench)?,
            Subject::Clocks => measure::clocks(&mut bench)?,
            Subject::Copy(case) => case.run(&mut bench, &mut random)?,
        }
        bench.finish()
    }
}

/// Every case, quick ones and full ones.
pub fn cases() -> Vec<Case> {
    [rows_of_the_stream(), heads_of_rows(), logits(), decode_attention(), prefill_attention(), products(), measuring()]
        .concat()
}

fn case(kernels: &'static [Kernel], size: Size, shape: &str, subject: Subject) -> Case {
    Case { name: format!("{} {shape}", kernels[0].symbol()), kernels, size, subject }
}

/// Head shapes: groups of 1, 4 and 8 query heads, heads of 64 and 128.
const HEADS: [Heads; 4] = [
    Heads { query: 2, kv: 2, size: 64 },
    Heads { query: 4, kv: 1, size: 128 },
    Heads { query: 8, kv: 1, size: 64 },
    Heads { query: 9, kv: 3, size: 128 },
];
/// Llama-3-8B's.
const REAL_HEADS: Heads = Heads { query: 32, kv: 8, size: 128 };

fn of(heads: Heads) -> String {
    format!("heads {}/{} of {}", heads.query, heads.kv, heads.size)
}

fn rows_of_the_stream() -> Vec<Case> {
    let mut cases = Vec::new();
    for (size, rows, width) in [
        (Size::Quick, 1, 8),
        (Size::Quick, 7, 2_056),
        (Size::Quick, 33, 264),
        (Size::Quick, 2, 8_456),
        (Size::Full, 512, 4_096),
        (Size::Full, 3, 16_384),
    ] {
        let shape = format!("{rows} x {width}");
        let embed = EmbedCase { rows, hidden: width, table_rows: 19 };
        cases.push(case(&[Kernel::Embed], size, &shape, Subject::Embed(embed)));
        for (residual, how) in
            [(Residual::Begun, "begins"), (Residual::BegunInPlace, "begins in place"), (Residual::Added, "is added to")]
        {
            let norm = RmsNormCase { rows, hidden: width, residual };
            let shape = format!("{shape}, residual {how}");
            cases.push(case(&[Kernel::RmsNorm], size, &shape, Subject::RmsNorm(norm)));
        }
        for one_block in [false, true] {
            let silu_mul = SiluMulCase { rows, intermediate: width, one_block };
            let shape = format!("{shape}{}", if one_block { ", one block" } else { "" });
            cases.push(case(&[Kernel::SiluMul], size, &shape, Subject::SiluMul(silu_mul)));
        }
    }
    cases
}

fn heads_of_rows() -> Vec<Case> {
    let mut cases = Vec::new();
    let quick = HEADS.into_iter().zip([1, 7, 33, 5]).map(|(heads, rows)| (Size::Quick, heads, rows));
    for (size, heads, rows) in quick.chain([(Size::Full, REAL_HEADS, 256)]) {
        let shape = format!("{rows} rows, {}", of(heads));
        cases.push(case(&[Kernel::HeadNorm], size, &shape, Subject::HeadNorm(HeadNormCase { rows, heads })));
        for theta in [10_000.0, 500_000.0] {
            let rotary = RotaryCase { rows, heads, theta };
            cases.push(case(&[Kernel::Rotary], size, &format!("{shape}, base {theta}"), Subject::Rotary(rotary)));
        }
        for block_size in [16, 7] {
            let write = KvWriteCase { rows, heads, block_size };
            let shape = format!("{shape}, blocks of {block_size}");
            cases.push(case(&[Kernel::KvWrite], size, &shape, Subject::KvWrite(write)));
        }
    }
    cases
}

fn logits() -> Vec<Case> {
    let shapes = [
        (Size::Quick, 7, 1),
        (Size::Quick, 7, 5),
        (Size::Quick, 33, 257),
        (Size::Quick, 14, 2_048),
        (Size::Quick, 14, 4_104),
        (Size::Full, 64, 128_256),
    ];
    let logits = |(size, rows, vocabulary)| {
        let shape = format!("{rows} x {vocabulary}");
        case(&[Kernel::Argmax], size, &shape, Subject::Argmax(ArgmaxCase { rows, vocabulary }))
    };
    shapes.into_iter().map(logits).collect()
}

fn decode_attention() -> Vec<Case> {
    const WHOLE: &[Kernel] = &[Kernel::DecodeAttention];
    const SPLIT: &[Kernel] = &[Kernel::DecodeAttention, Kernel::DecodeAttentionMerge];
    let mut cases = Vec::new();
    let mut add = |size, contexts: &[usize], heads, block_size, blocks_per_request, splits| {
        let shape = format!(
            "contexts {contexts:?}, {}, blocks of {block_size}, {splits} of {blocks_per_request} ranges",
            of(heads)
        );
        let contexts = contexts.to_vec();
        let decode = DecodeAttentionCase { contexts, heads, block_size, blocks_per_request, splits };
        cases.push(case(if splits > 1 { SPLIT } else { WHOLE }, size, &shape, Subject::DecodeAttention(decode)));
    };
    // Nothing, one token, and either side of a block's edge; a padded request between real ones.
    let edges = [1, 0, 15, 16, 17, 33];
    for heads in HEADS {
        for splits in [1, 2, 3] {
            add(Size::Quick, &edges, heads, 16, 3, splits);
        }
        // More ranges than most contexts have blocks, and a table wider than any context.
        add(Size::Quick, &[100, 3, 0, 64], heads, 16, 11, 8);
    }
    add(Size::Quick, &[1], HEADS[0], 16, 1, 1);
    add(Size::Quick, &[0], HEADS[0], 16, 4, 1);
    add(Size::Quick, &[0, 0], HEADS[1], 16, 4, 4);
    add(Size::Quick, &[129, 128, 127, 31], HEADS[2], 32, 5, 2);
    add(Size::Quick, &[29, 14, 13], Heads { query: 16, kv: 1, size: 128 }, 8, 4, 2);
    add(Size::Quick, &[200, 1], Heads { query: 3, kv: 1, size: 64 }, 16, 16, 1);
    for splits in [1, 5, 32] {
        add(Size::Full, &[1, 0, 500, 2_047, 2_048, 1_111, 0, 77], REAL_HEADS, 16, 128, splits);
    }
    cases
}

fn prefill_attention() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |size, chunks: &[(usize, usize)], padded_rows, heads, block_size| {
        let shape = format!("chunks {chunks:?} and {padded_rows} padded rows, {}, blocks of {block_size}", of(heads));
        let prefill = PrefillAttentionCase { chunks: chunks.to_vec(), padded_rows, heads, block_size };
        cases.push(case(&[Kernel::PrefillAttention], size, &shape, Subject::PrefillAttention(prefill)));
    };
    for heads in HEADS {
        // A whole prompt, a decode, nobody, a chunk in the middle of a context.
        add(Size::Quick, &[(7, 7), (1, 40), (0, 0), (17, 50)], 3, heads, 16);
    }
    // Either side of a tile's edge, over contexts that end at, before and after a block's.
    add(Size::Quick, &[(63, 63), (65, 80)], 0, HEADS[0], 16);
    add(Size::Quick, &[(64, 129), (1, 1)], 5, HEADS[1], 16);
    add(Size::Quick, &[(33, 161)], 31, HEADS[2], 8);
    add(Size::Quick, &[(1, 1)], 0, HEADS[0], 16);
    add(Size::Full, &[(512, 512), (1, 900), (130, 1_000), (0, 0)], 13, REAL_HEADS, 16);
    cases
}

fn products() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |size, tile: Tile, rows, outputs, inputs, splits, bias| {
        let shape = format!("{rows} x {inputs} to {outputs}, {splits} splits{}", if bias { ", bias" } else { "" });
        let kernels: &'static [Kernel] = match tile {
            Tile::Rows16 => &[Kernel::GemmTile16],
            Tile::Rows64 => &[Kernel::GemmTile64],
            Tile::Rows128 => &[Kernel::GemmTile128],
        };
        let product = ProductCase { tile, rows, outputs, inputs, splits, bias };
        cases.push(case(kernels, size, &shape, Subject::Product(product)));
    };
    for tile in Tile::ALL {
        // One step of the inner dimension and less, outputs of one tile and less.
        add(Size::Quick, tile, 1, 64, 64, 1, false);
        add(Size::Quick, tile, 7, 24, 8, 1, true);
        // Several steps with a ragged last one, ragged tiles, an odd number of outputs.
        add(Size::Quick, tile, 33, 200, 328, 1, true);
        add(Size::Quick, tile, 33, 77, 72, 1, false);
        // As many steps as the pipeline has stages, one fewer, one more, and twice.
        for inputs in [192, 256, 320, 512] {
            add(Size::Quick, tile, 5, 72, inputs, 1, false);
        }
        // Split, evenly and not.
        add(Size::Quick, tile, 33, 200, 328, 2, true);
        add(Size::Quick, tile, 7, 72, 328, 6, true);
        add(Size::Quick, tile, 1, 65, 1_032, 3, false);
        // Full tiles.
        add(Size::Quick, tile, tile.rows() as usize, 128, 136, 1, false);
        add(Size::Quick, tile, tile.rows() as usize + 1, 128, 136, 2, false);
        // Widths of real models, two tiles of rows and some, split and whole; the reference takes seconds.
        add(Size::Full, tile, 2 * tile.rows() as usize + 5, 1_024, 4_096, 5, true);
        add(Size::Full, tile, 33, 512, 14_336, 1, false);
    }
    add(Size::Full, Tile::Rows16, 1, 32_064, 2_048, 1, false);
    cases
}

fn measuring() -> Vec<Case> {
    let mut cases = vec![
        case(&[Kernel::Null], Size::Quick, "alone", Subject::Null),
        case(&[Kernel::Gate], Size::Quick, "open and closed", Subject::Gate),
        case(&[Kernel::Clocks], Size::Quick, "alone", Subject::Clocks),
    ];
    for (size, vectors, blocks) in [
        (Size::Quick, 1, 1),
        (Size::Quick, 256, 1),
        (Size::Quick, 5_000, 3),
        (Size::Quick, 77, 2),
        (Size::Full, 1 << 22, 264),
    ] {
        let shape = format!("{vectors} vectors by {blocks} blocks");
        cases.push(case(&[Kernel::Copy], size, &shape, Subject::Copy(CopyCase { vectors, blocks })));
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_has_a_quick_case_and_every_case_its_own_name() {
        let cases = cases();
        for kernel in Kernel::ALL {
            let quick = cases.iter().filter(|case| case.size == Size::Quick && case.kernels.contains(kernel));
            assert!(quick.count() > 0, "{kernel:?} has no quick case");
        }
        let mut names: Vec<_> = cases.iter().map(|case| &case.name).collect();
        names.sort_unstable();
        let before = names.len();
        names.dedup();
        assert_eq!(names.len(), before);
    }
}
