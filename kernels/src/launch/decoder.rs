//! Geometry of the kernels that work row by row: embedding, norms, rotary embedding, cache writes, activation, argmax.
//!
//! Every `over` gives a complete launch, or the [`ShapeError`] that names what the kernel would have taken.

use super::Launch;
use super::kernel::{Argmax, Embed, HeadNorm, Kernel, KvWrite, RmsNorm, Rotary, SiluMul};
use super::shape::{ShapeError, launch};
use crate::units::Rows;

/// Threads of a block that works on a whole row of the residual stream, or of logits.
const ROW_THREADS: u32 = 256;
/// Threads of a block that works on the heads of a row.
const HEAD_THREADS: u32 = 128;
/// Heads that a block of [`HeadNorm`] norms, one a warp.
const HEADS_PER_BLOCK: u64 = HEAD_THREADS as u64 / 32;
/// Elements that a thread of [`SiluMul`] takes at a time: 16 bytes.
const ELEMENTS_PER_THREAD: u64 = 8;
/// Blocks beyond which [`SiluMul`] strides: several times what any device runs at once.
const MOST_STRIDING_BLOCKS: u64 = 4_096;

impl Embed {
    /// Copies one row of the table for each of `rows` ids.
    ///
    /// # Errors
    /// No rows, a width that is no multiple of 8, or a missing operand.
    pub fn over(self, rows: Rows) -> Result<Launch, ShapeError> {
        let kernel = Kernel::Embed;
        kernel.vectors([("out", self.out), ("table", self.table)])?;
        kernel.words([("ids", self.ids)])?;
        kernel.vector_width("hidden", self.hidden)?;
        kernel.positive("table_rows", self.table_rows)?;
        launch(self, [kernel.positive("rows", rows.0)?, 1, 1], ROW_THREADS, 0)
    }
}

impl RmsNorm {
    /// Norms `rows` rows.
    ///
    /// # Errors
    /// No rows, a width that is no multiple of 8, an `add` other than 0 and 1, a bad epsilon, or a missing operand.
    pub fn over(self, rows: Rows) -> Result<Launch, ShapeError> {
        let kernel = Kernel::RmsNorm;
        kernel.vectors([
            ("out", self.out),
            ("residual", self.residual),
            ("input", self.input),
            ("weight", self.weight),
        ])?;
        kernel.vector_width("hidden", self.hidden)?;
        kernel.within("add", self.add, 0..=1)?;
        kernel.finite("epsilon", self.epsilon)?;
        launch(self, [kernel.positive("rows", rows.0)?, 1, 1], ROW_THREADS, 0)
    }
}

impl HeadNorm {
    /// Norms the query and key heads of `rows` rows.
    ///
    /// # Errors
    /// No rows, heads that do not group, a head size other than 64 and 128, a bad epsilon, or a missing operand.
    pub fn over(self, rows: Rows) -> Result<Launch, ShapeError> {
        let kernel = Kernel::HeadNorm;
        kernel.vectors([("qkv", self.qkv), ("query_weight", self.query_weight), ("key_weight", self.key_weight)])?;
        let (query, kv) = kernel.heads(self.query_heads, self.kv_heads, self.head_size)?;
        kernel.finite("epsilon", self.epsilon)?;
        let blocks = (query + kv).div_ceil(HEADS_PER_BLOCK);
        launch(self, [kernel.positive("rows", rows.0)?, blocks, 1], HEAD_THREADS, 0)
    }
}

impl Rotary {
    /// Rotates the query and key heads of `rows` rows.
    ///
    /// # Errors
    /// No rows, heads that do not group, a head size other than 64 and 128, a bad base, or a missing operand.
    pub fn over(self, rows: Rows) -> Result<Launch, ShapeError> {
        let kernel = Kernel::Rotary;
        kernel.vectors([("qkv", self.qkv)])?;
        kernel.words([("positions", self.positions)])?;
        kernel.heads(self.query_heads, self.kv_heads, self.head_size)?;
        kernel.finite("log2_theta", self.log2_theta)?;
        launch(self, [kernel.positive("rows", rows.0)?, 1, 1], HEAD_THREADS, 0)
    }
}

impl KvWrite {
    /// Writes the keys and values of `rows` rows.
    ///
    /// # Errors
    /// No rows, heads that do not group, a head size other than 64 and 128, an empty block, or a missing operand.
    pub fn over(self, rows: Rows) -> Result<Launch, ShapeError> {
        let kernel = Kernel::KvWrite;
        kernel.vectors([("cache", self.cache), ("qkv", self.qkv)])?;
        kernel.words([("slots", self.slots)])?;
        kernel.heads(self.query_heads, self.kv_heads, self.head_size)?;
        kernel.positive("block_size", self.block_size)?;
        launch(self, [kernel.positive("rows", rows.0)?, 1, 1], HEAD_THREADS, 0)
    }
}

impl SiluMul {
    /// The whole of `rows x intermediate`.
    ///
    /// # Errors
    /// No rows, a width that is no multiple of 8, or a missing operand.
    pub fn whole(self) -> Result<Launch, ShapeError> {
        let kernel = Kernel::SiluMul;
        kernel.vectors([("out", self.out), ("gate_up", self.gate_up)])?;
        let (rows, width) =
            (kernel.positive("rows", self.rows)?, kernel.vector_width("intermediate", self.intermediate)?);
        let blocks = (rows * width).div_ceil(ELEMENTS_PER_THREAD * u64::from(ROW_THREADS));
        launch(self, [blocks.min(MOST_STRIDING_BLOCKS), 1, 1], ROW_THREADS, 0)
    }
}

impl Argmax {
    /// The largest logit of each of `rows` rows.
    ///
    /// # Errors
    /// No rows, no vocabulary, or a missing operand.
    pub fn over(self, rows: Rows) -> Result<Launch, ShapeError> {
        let kernel = Kernel::Argmax;
        kernel.vectors([("logits", self.logits)])?;
        kernel.words([("out", self.out)])?;
        kernel.positive("vocabulary", self.vocabulary)?;
        launch(self, [kernel.positive("rows", rows.0)?, 1, 1], ROW_THREADS, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::Address;

    const AT: Address = Address(0x1000);

    fn norm() -> RmsNorm {
        RmsNorm { out: AT, residual: AT, input: AT, weight: AT, hidden: 4096, epsilon: 1e-5, add: 1 }
    }

    #[test]
    fn rows_are_blocks() {
        let launch = norm().over(Rows(33)).unwrap();
        assert_eq!((launch.grid, launch.block, launch.shared_bytes), ([33, 1, 1], [256, 1, 1], 0));
        assert_eq!(launch.kernel, Kernel::RmsNorm);
        assert_eq!(launch.arguments.bytes().len(), 4 * 8 + 3 * 4);
    }

    #[test]
    fn head_norm_takes_four_heads_a_block() {
        let norm = |query_heads, kv_heads| {
            HeadNorm { qkv: AT, query_weight: AT, key_weight: AT, query_heads, kv_heads, head_size: 128, epsilon: 1e-6 }
                .over(Rows(7))
        };
        // 32 + 8 heads are 10 blocks of 4; 4 + 1 heads need a second block for the fifth.
        assert_eq!(norm(32, 8).unwrap().grid, [7, 10, 1]);
        assert_eq!(norm(4, 1).unwrap().grid, [7, 2, 1]);
        assert_eq!(
            norm(32, 5).unwrap_err().to_string(),
            "head_norm_bf16: query_heads = 32: expected a multiple of kv_heads = 5"
        );
    }

    #[test]
    fn activation_covers_every_element_or_strides() {
        let grid = |rows, intermediate| {
            SiluMul { out: AT, gate_up: AT, rows, intermediate }.whole().map(|launch| launch.grid[0])
        };
        // 14,336 elements are 7 blocks of 256 threads with 8 elements each; one element more needs another block.
        assert_eq!(grid(1, 14_336).unwrap(), 7);
        assert_eq!(grid(1, 14_344).unwrap(), 8);
        assert_eq!(grid(1, 8).unwrap(), 1);
        // 512 rows would be 3,584 blocks, 8,192 rows 57,344: those stride.
        assert_eq!(grid(512, 14_336).unwrap(), 3_584);
        assert_eq!(grid(8_192, 14_336).unwrap(), 4_096);
        assert_eq!(grid(1, 12).unwrap_err().to_string(), "silu_mul_bf16: intermediate = 12: expected a multiple of 8");
    }

    #[test]
    fn what_no_kernel_takes_is_refused_by_name() {
        let refused = |error: Result<Launch, ShapeError>| error.unwrap_err().to_string();
        assert_eq!(refused(norm().over(Rows(0))), "rms_norm_bf16: rows = 0: expected 1 to 2147483647");
        assert_eq!(refused(norm().over(Rows(u32::MAX))), "rms_norm_bf16: rows = 4294967295: expected 1 to 2147483647");
        assert_eq!(
            refused(RmsNorm { hidden: -8, ..norm() }.over(Rows(1))),
            "rms_norm_bf16: hidden = -8: expected 1 to 2147483647"
        );
        assert_eq!(
            refused(RmsNorm { weight: Address::NONE, ..norm() }.over(Rows(1))),
            "rms_norm_bf16: weight = 0x0: expected an address, a multiple of 16"
        );
        assert_eq!(
            refused(RmsNorm { input: Address(0x1008), ..norm() }.over(Rows(1))),
            "rms_norm_bf16: input = 0x1008: expected an address, a multiple of 16"
        );
        assert_eq!(
            refused(RmsNorm { epsilon: f32::NAN, ..norm() }.over(Rows(1))),
            "rms_norm_bf16: epsilon = NaN: expected a finite number, at least 0"
        );
        let rotary = Rotary { qkv: AT, positions: AT, query_heads: 4, kv_heads: 4, head_size: 96, log2_theta: 13.0 };
        assert_eq!(refused(rotary.over(Rows(1))), "rotary_bf16: head_size = 96: expected 64 or 128");
        let write =
            KvWrite { cache: AT, qkv: AT, slots: AT, query_heads: 4, kv_heads: 4, head_size: 64, block_size: 0 };
        assert_eq!(refused(write.over(Rows(1))), "kv_write_bf16: block_size = 0: expected 1 to 2147483647");
        let argmax = Argmax { out: AT, logits: AT, vocabulary: 0 };
        assert_eq!(refused(argmax.over(Rows(1))), "argmax_bf16: vocabulary = 0: expected 1 to 2147483647");
        let embed = Embed { out: AT, table: AT, ids: Address(0x1002), hidden: 64, table_rows: 1 };
        assert_eq!(refused(embed.over(Rows(1))), "embed_bf16: ids = 0x1002: expected an address, a multiple of 4");
    }
}
