//! Every kernel by name: its symbol, its module and its parameters, in one table.

use super::argument::{Address, Arguments, Parameter, Value};

/// One translation unit of `kernels/cuda`, one PTX text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Module {
    /// Embedding, norms, rotary embedding, cache writes, activation, argmax: `decoder.cu`.
    Decoder,
    /// Decode and prefill attention over the paged cache: `attention.cu`.
    Attention,
    /// Matrix products: `gemm.cu`.
    Gemm,
    /// What measuring needs: null, gate, clocks, copy: `measure.cu`.
    Measure,
}

impl Module {
    /// Every module.
    pub const ALL: [Self; 4] = [Self::Decoder, Self::Attention, Self::Gemm, Self::Measure];

    /// File name without its ending, of source and PTX.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Decoder => "decoder",
            Self::Attention => "attention",
            Self::Gemm => "gemm",
            Self::Measure => "measure",
        }
    }

    /// The embedded PTX: version 8.0 for sm_80, which every driver of CUDA 12 or later compiles for its device.
    /// `kernels/cuda/compile.py` makes it of [`Module::source`].
    pub const fn ptx(self) -> &'static str {
        match self {
            Self::Decoder => include_str!("../../ptx/decoder.ptx"),
            Self::Attention => include_str!("../../ptx/attention.ptx"),
            Self::Gemm => include_str!("../../ptx/gemm.ptx"),
            Self::Measure => include_str!("../../ptx/measure.ptx"),
        }
    }

    /// The CUDA C++ source (C++17) as one text without an include, for a compiler at run time.
    pub const fn source(self) -> &'static str {
        match self {
            Self::Decoder => concat!(include_str!("../../cuda/portable.cuh"), include_str!("../../cuda/decoder.cu")),
            Self::Attention => {
                concat!(include_str!("../../cuda/portable.cuh"), include_str!("../../cuda/attention.cu"))
            }
            Self::Gemm => concat!(include_str!("../../cuda/portable.cuh"), include_str!("../../cuda/gemm.cu")),
            Self::Measure => concat!(include_str!("../../cuda/portable.cuh"), include_str!("../../cuda/measure.cu")),
        }
    }
}

/// The kernel table: for each kernel its enum variant, its module, its symbol, and a struct of its arguments, so that no
/// argument can be left out or given in the wrong order.
macro_rules! kernels {
    ($($(#[$doc:meta])* $kernel:ident, $module:ident, $symbol:literal { $($(#[$field_doc:meta])* $field:ident: $value:ty,)* })*) => {
        /// A kernel of this crate.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Kernel {
            $($(#[$doc])* $kernel,)*
        }

        impl Kernel {
            /// Every kernel.
            pub const ALL: &[Self] = &[$(Self::$kernel,)*];

            /// The symbol in the module.
            pub const fn symbol(self) -> &'static str {
                match self {
                    $(Self::$kernel => $symbol,)*
                }
            }

            /// The module that holds it.
            pub const fn module(self) -> Module {
                match self {
                    $(Self::$kernel => Module::$module,)*
                }
            }

            /// Its parameters, in order.
            pub const fn parameters(self) -> &'static [Parameter] {
                match self {
                    $(Self::$kernel => &[$(
                        Parameter { name: stringify!($field), parameter_type: <$value as Value>::PARAMETER_TYPE },
                    )*],)*
                }
            }
        }

        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq)]
            pub struct $kernel {
                $($(#[$field_doc])* pub $field: $value,)*
            }

            impl From<$kernel> for (Kernel, Arguments) {
                fn from(given: $kernel) -> Self {
                    let $kernel { $($field,)* } = given;
                    (Kernel::$kernel, Arguments::default()$(.with($field))*)
                }
            }
        )*
    };
}

kernels! {
    /// Copies rows of a table: `out[i] = table[ids[i]]`. The embedding, and the choice of the rows that are sampled.
    /// An id outside `0..table_rows` reads row 0. Grid: rows; block: 256.
    Embed, Decoder, "embed_bf16" {
        /// bf16 `[rows, hidden]`, written.
        out: Address,
        /// bf16 `[table_rows, hidden]`.
        table: Address,
        /// i32 `[rows]`.
        ids: Address,
        /// Width of a row, a multiple of 8.
        hidden: i32,
        /// Rows of the table.
        table_rows: i32,
    }
    /// RMS norm of each row, with the residual stream: if `add` the residual becomes `residual + input` (rounded to
    /// bf16), else it becomes `input`; `out = residual / sqrt(mean(residual^2) + epsilon) * weight`. Grid: rows; block: 256.
    RmsNorm, Decoder, "rms_norm_bf16" {
        /// bf16 `[rows, hidden]`, written.
        out: Address,
        /// bf16 `[rows, hidden]`, read if `add`, always written.
        residual: Address,
        /// bf16 `[rows, hidden]`.
        input: Address,
        /// bf16 `[hidden]`.
        weight: Address,
        /// Width of a row, a multiple of 8.
        hidden: i32,
        /// Added to the mean of squares.
        epsilon: f32,
        /// 1 to add to the residual stream, 0 to begin it.
        add: i32,
    }
    /// RMS norm of every query and key head in place (QK-norm). Grid: (rows, ceil(heads / 4)) over query and key heads;
    /// block: 128, one warp a head.
    HeadNorm, Decoder, "head_norm_bf16" {
        /// bf16 `[rows, (query_heads + 2 kv_heads) * head_size]`, queries and keys rewritten.
        qkv: Address,
        /// bf16 `[head_size]`.
        query_weight: Address,
        /// bf16 `[head_size]`.
        key_weight: Address,
        /// Query heads.
        query_heads: i32,
        /// Key (and value) heads.
        kv_heads: i32,
        /// Elements of a head: 64 or 128.
        head_size: i32,
        /// Added to the mean of squares.
        epsilon: f32,
    }
    /// Rotary embedding of queries and keys in place, halves rotated (the layout of Llama checkpoints as served). The
    /// angle of element pair d is `position * 2^(-2 d / head_size * log2_theta)`. Grid: rows; block: 128.
    Rotary, Decoder, "rotary_bf16" {
        /// bf16 `[rows, (query_heads + 2 kv_heads) * head_size]`, queries and keys rewritten.
        qkv: Address,
        /// i32 `[rows]`.
        positions: Address,
        /// Query heads.
        query_heads: i32,
        /// Key (and value) heads.
        kv_heads: i32,
        /// Elements of a head: 64 or 128.
        head_size: i32,
        /// Logarithm to base 2 of the rotary base.
        log2_theta: f32,
    }
    /// Writes each row's keys and values into the paged cache. A negative slot is a padded row: nothing is written.
    /// Cache: bf16 `[block, 2 (keys, values), block_size, kv_heads, head_size]`; slot = block * block_size + offset.
    /// Grid: rows; block: 128.
    KvWrite, Decoder, "kv_write_bf16" {
        /// The cache, written.
        cache: Address,
        /// bf16 `[rows, (query_heads + 2 kv_heads) * head_size]`.
        qkv: Address,
        /// i32 `[rows]`.
        slots: Address,
        /// Query heads.
        query_heads: i32,
        /// Key (and value) heads.
        kv_heads: i32,
        /// Elements of a head: 64 or 128.
        head_size: i32,
        /// Tokens of a cache block.
        block_size: i32,
    }
    /// `out = silu(gate) * up` over `gate_up = [gate | up]`. Grid-stride over 8 elements a thread; block: 256.
    SiluMul, Decoder, "silu_mul_bf16" {
        /// bf16 `[rows, intermediate]`, written.
        out: Address,
        /// bf16 `[rows, 2 * intermediate]`.
        gate_up: Address,
        /// Rows.
        rows: i32,
        /// Width of one half, a multiple of 8.
        intermediate: i32,
    }
    /// Index of each row's largest logit, the first of equals. NaN is never chosen while anything else is there.
    /// Grid: rows; block: 256.
    Argmax, Decoder, "argmax_bf16" {
        /// i32 `[rows]`, written.
        out: Address,
        /// bf16 `[rows, vocabulary]`.
        logits: Address,
        /// Width of a row.
        vocabulary: i32,
    }
    /// Attention of one new token per request over its paged context, the grouped query heads of one key head together,
    /// the context cut into `splits` ranges of whole blocks. With one split it writes `out`; with more, each split's
    /// maximum, sum and weighted values go to `partial` in this order (the maximum in powers of two), for
    /// [`Kernel::DecodeAttentionMerge`]. A request of context 0 (padded) gives zeros. Grid: (requests, kv_heads, splits); block: 128.
    DecodeAttention, Attention, "decode_attention_bf16" {
        /// bf16 `[requests, query_heads * head_size]`, written if `splits` is 1.
        out: Address,
        /// f32 `[requests, query_heads, splits, head_size + 2]`, written if `splits` > 1, else unused.
        partial: Address,
        /// bf16 `[requests, (query_heads + 2 kv_heads) * head_size]`; only queries are read.
        qkv: Address,
        /// The cache, as [`KvWrite`] lays it out.
        cache: Address,
        /// i32 `[requests, blocks_per_request]`: cache blocks of each request.
        block_table: Address,
        /// i32 `[requests]`: tokens of context, the new one included.
        context_lens: Address,
        /// Query heads, a multiple of `kv_heads`, at most 16 times as many.
        query_heads: i32,
        /// Key (and value) heads.
        kv_heads: i32,
        /// Elements of a head: 64 or 128.
        head_size: i32,
        /// Tokens of a cache block.
        block_size: i32,
        /// Width of the block table.
        blocks_per_request: i32,
        /// Ranges that a context is cut into.
        splits: i32,
        /// Factor of the scores, 1 / sqrt(head_size).
        scale: f32,
    }
    /// Joins the ranges of [`Kernel::DecodeAttention`]. Grid: (requests, query_heads); block: `head_size`.
    DecodeAttentionMerge, Attention, "decode_attention_merge_bf16" {
        /// bf16 `[requests, query_heads * head_size]`, written.
        out: Address,
        /// f32 `[requests, query_heads, splits, head_size + 2]`.
        partial: Address,
        /// Query heads.
        query_heads: i32,
        /// Elements of a head: 64 or 128.
        head_size: i32,
        /// Ranges that a context was cut into.
        splits: i32,
    }
    /// Causal attention of chunks of new tokens over their paged contexts, the new tokens included (they are in the cache
    /// already). Request q owns rows `query_starts[q] .. query_starts[q + 1]`; its last row sees all of
    /// `context_lens[q]`, each row before it one token less. Rows that no request owns are not touched.
    /// Grid: (tiles of 64 rows of the longest chunk, query_heads, requests); block: 128.
    PrefillAttention, Attention, "prefill_attention_bf16" {
        /// bf16 `[rows, query_heads * head_size]`, written.
        out: Address,
        /// bf16 `[rows, (query_heads + 2 kv_heads) * head_size]`; only queries are read.
        qkv: Address,
        /// The cache, as [`KvWrite`] lays it out.
        cache: Address,
        /// i32 `[requests, blocks_per_request]`.
        block_table: Address,
        /// i32 `[requests + 1]`.
        query_starts: Address,
        /// i32 `[requests]`: tokens of context, the chunk included.
        context_lens: Address,
        /// Query heads.
        query_heads: i32,
        /// Key (and value) heads.
        kv_heads: i32,
        /// Elements of a head: 64 or 128.
        head_size: i32,
        /// Tokens of a cache block.
        block_size: i32,
        /// Width of the block table.
        blocks_per_request: i32,
        /// Factor of the scores, 1 / sqrt(head_size).
        scale: f32,
    }
    /// `out = input x weight^T (+ bias)` with tiles of 16 rows and 64 outputs. See [`GemmTile64`].
    GemmTile16, Gemm, "gemm_tile16_bf16" {
        /// bf16 `[rows, outputs]`, written.
        out: Address,
        /// bf16 `[rows, inputs]`.
        input: Address,
        /// bf16 `[outputs, inputs]`.
        weight: Address,
        /// bf16 `[outputs]`, or none.
        bias: Address,
        /// f32 `[splits, rows, outputs]`, unused if `splits` is 1.
        partial: Address,
        /// u32, one per output tile, zero before and after; unused if `splits` is 1.
        arrivals: Address,
        /// Rows of the input.
        rows: i32,
        /// Rows of the weight.
        outputs: i32,
        /// Columns of both, a multiple of 8.
        inputs: i32,
        /// Ranges that the inner dimension is cut into.
        splits: i32,
    }
    /// `out = input x weight^T (+ bias)` with tiles of 64 rows and 64 outputs by `mma.sync`, f32 accumulation. With more
    /// than one split each range of the inner dimension writes its sums to `partial`; the last block of a tile to arrive
    /// adds them in order, so that the result does not depend on who was last, and sets the tile's counter back to zero,
    /// so that a graph can be replayed. Grid: (tiles of outputs, tiles of rows, splits); block: 128.
    GemmTile64, Gemm, "gemm_tile64_bf16" {
        /// bf16 `[rows, outputs]`, written.
        out: Address,
        /// bf16 `[rows, inputs]`.
        input: Address,
        /// bf16 `[outputs, inputs]`.
        weight: Address,
        /// bf16 `[outputs]`, or none.
        bias: Address,
        /// f32 `[splits, rows, outputs]`, unused if `splits` is 1.
        partial: Address,
        /// u32, one per output tile, zero before and after; unused if `splits` is 1.
        arrivals: Address,
        /// Rows of the input.
        rows: i32,
        /// Rows of the weight.
        outputs: i32,
        /// Columns of both, a multiple of 8.
        inputs: i32,
        /// Ranges that the inner dimension is cut into.
        splits: i32,
    }
    /// `out = input x weight^T (+ bias)` with tiles of 128 rows and 128 outputs. See [`GemmTile64`].
    GemmTile128, Gemm, "gemm_tile128_bf16" {
        /// bf16 `[rows, outputs]`, written.
        out: Address,
        /// bf16 `[rows, inputs]`.
        input: Address,
        /// bf16 `[outputs, inputs]`.
        weight: Address,
        /// bf16 `[outputs]`, or none.
        bias: Address,
        /// f32 `[splits, rows, outputs]`, unused if `splits` is 1.
        partial: Address,
        /// u32, one per output tile, zero before and after; unused if `splits` is 1.
        arrivals: Address,
        /// Rows of the input.
        rows: i32,
        /// Rows of the weight.
        outputs: i32,
        /// Columns of both, a multiple of 8.
        inputs: i32,
        /// Ranges that the inner dimension is cut into.
        splits: i32,
    }
    /// Does nothing: the cost of a launch by itself. Grid: 1; block: 32.
    Null, Measure, "null_kernel" {}
    /// Holds its stream until the host sets `flag`, or until `timeout_ns` of the device's global timer have gone by;
    /// writes 1 (released) or 2 (timed out) to `outcome`. Grid: 1; block: 1.
    Gate, Measure, "gate_kernel" {
        /// u32 in mapped host memory; 0 holds.
        flag: Address,
        /// u32, written.
        outcome: Address,
        /// Longest wait.
        timeout_ns: u64,
    }
    /// Spins for `cycles` of the SM clock, and writes both clocks before and after: the rate of the SM clock without
    /// any management library. Grid: 1; block: 1.
    Clocks, Measure, "clocks_kernel" {
        /// u64 `[4]`: SM cycles, then global nanoseconds, before; the same after.
        out: Address,
        /// SM cycles to spin.
        cycles: u64,
    }
    /// Copies 16-byte vectors: copy bandwidth. Grid-stride; block: 256.
    Copy, Measure, "copy_kernel" {
        /// Written.
        to: Address,
        /// Read.
        from: Address,
        /// Vectors of 16 bytes.
        vectors: u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::argument::ParameterType;

    /// The parameter types of a kernel as its PTX declares them, `.param .u64` and so on.
    fn ptx_parameters(kernel: Kernel) -> Vec<&'static str> {
        let text = kernel.module().ptx();
        let entry = format!(".visible .entry {}(", kernel.symbol());
        let (_, after) = text.split_once(&entry).unwrap_or_else(|| panic!("{} has no entry", kernel.symbol()));
        let (list, _) = after.split_once(')').expect("an entry's parameters end");
        list.lines().filter_map(|line| line.trim().strip_prefix(".param ")?.split(' ').next()).collect()
    }

    #[test]
    fn the_table_is_what_the_ptx_declares() {
        for &kernel in Kernel::ALL {
            let expected: Vec<_> = kernel
                .parameters()
                .iter()
                .map(|parameter| match parameter.parameter_type {
                    ParameterType::Pointer | ParameterType::Long => ".u64",
                    ParameterType::Int => ".u32",
                    ParameterType::Float => ".f32",
                })
                .collect();
            assert_eq!(ptx_parameters(kernel), expected, "{}", kernel.symbol());
        }
    }

    #[test]
    fn parameter_names_are_those_of_the_source_in_the_same_order() {
        for &kernel in Kernel::ALL {
            let (_, after) = kernel
                .module()
                .source()
                .split_once(&format!("{}(", kernel.symbol()))
                .unwrap_or_else(|| panic!("{} is not in its source", kernel.symbol()));
            let (list, _) = after.split_once(") {").expect("a parameter list ends");
            let names: Vec<_> = list
                .split(',')
                .filter_map(|parameter| parameter.rsplit([' ', '*', '\n']).next())
                .filter(|name| !name.is_empty())
                .collect();
            let expected: Vec<_> = kernel.parameters().iter().map(|parameter| parameter.name).collect();
            assert_eq!(names, expected, "{}", kernel.symbol());
        }
    }

    #[test]
    fn modules_hold_their_kernels_and_no_others() {
        for module in Module::ALL {
            let held = Kernel::ALL.iter().filter(|kernel| kernel.module() == module).count();
            assert_eq!(module.ptx().matches(".visible .entry").count(), held, "{}", module.name());
            assert!(module.ptx().contains("\n.version 8.0\n.target sm_80\n"), "{}", module.name());
            assert!(!module.source().contains("#include"), "{}", module.name());
        }
    }

    #[test]
    fn symbols_are_different_and_arguments_match_the_table() {
        let mut symbols: Vec<_> = Kernel::ALL.iter().map(|kernel| kernel.symbol()).collect();
        symbols.sort_unstable();
        symbols.dedup();
        assert_eq!(symbols.len(), Kernel::ALL.len());
        let (kernel, arguments) =
            Embed { out: Address(1), table: Address(2), ids: Address(3), hidden: 4, table_rows: 5 }.into();
        assert_eq!(kernel.parameters().len(), arguments.offsets().len());
        assert_eq!(kernel.parameters()[3], Parameter { name: "hidden", parameter_type: ParameterType::Int });
        assert_eq!(arguments.bytes().len(), 3 * 8 + 2 * 4);
        let (null, nothing) = Null {}.into();
        assert_eq!((null, nothing), (Kernel::Null, Arguments::default()));
    }
}
