//! Bugs planted into copies of the sources, each of which the cases must find. This is what their passing is worth.

use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use kernels::check::{Case, CheckError};
use kernels::launch::{Address, Argmax, Arguments, Kernel, Launch, Product, ProductPlan, Tile, Workspace};
use kernels::machine::Machine;
use kernels::units::Rows;

use crate::cases::{ORDERS, quick};
use crate::compiler;
use crate::executor::{Executor, ExecutorError, Library};

/// A change of one source file that must be noticed.
struct Bug {
    name: &'static str,
    file: &'static str,
    /// Occurs exactly once in the file.
    text: &'static str,
    replacement: &'static str,
    /// Which cases are run: those whose names begin so, or all of a kernel. At least one must fail, in at least one order.
    cases: &'static str,
}

/// What no case can catch on the CPU, where blocks run one after the other: a missing `__threadfence` around the arrivals of
/// a split product, or the barrier before them.
const BUGS: &[Bug] = &[
    // Barriers.
    Bug {
        name: "norm: no barrier before the warps' sums are read",
        file: "decoder.cu",
        text: "    __syncthreads();\n    sum = 0.0f;",
        replacement: "    sum = 0.0f;",
        cases: "rms_norm_bf16 7 x 2056",
    },
    Bug {
        name: "argmax: no barrier before the warps' candidates are read",
        file: "decoder.cu",
        text: "    __syncthreads();\n    if (threadIdx.x == 0) {\n        for (int other",
        replacement: "    if (threadIdx.x == 0) {\n        for (int other",
        cases: "argmax_bf16",
    },
    Bug {
        name: "argmax: barrier that one lane of a warp reaches",
        file: "decoder.cu",
        text: "        warp_indices[warp] = index;\n    }\n    __syncthreads();",
        replacement: "        warp_indices[warp] = index;\n    __syncthreads();\n    }",
        cases: "argmax_bf16",
    },
    Bug {
        name: "rotary: no barrier behind the angles",
        file: "decoder.cu",
        text: "    __syncthreads();\n    bf16 *row = row_start(qkv",
        replacement: "    bf16 *row = row_start(qkv",
        cases: "rotary_bf16",
    },
    Bug {
        name: "GEMM: no barrier between stages",
        file: "gemm.cu",
        text: "            __syncthreads();\n            if (tile + STAGES - 1 < end) {",
        replacement: "            if (tile + STAGES - 1 < end) {",
        cases: "gemm_tile16_bf16 5 x 512",
    },
    Bug {
        name: "GEMM: no barrier before the arrivals are looked at",
        file: "gemm.cu",
        text: "        __syncthreads();\n        if (arrived_before[0]",
        replacement: "        if (arrived_before[0]",
        cases: "gemm_tile16_bf16 7 x 328",
    },
    Bug {
        name: "prefill: no barrier between stages",
        file: "attention.cu",
        text: "            __syncthreads();\n            if (tile_token + TILE_TOKENS < end) copy_tokens",
        replacement: "            if (tile_token + TILE_TOKENS < end) copy_tokens",
        cases: "prefill_attention_bf16 chunks [(33, 161)]",
    },
    Bug {
        name: "decode: no fence of the warp behind the wait for its copies",
        file: "attention.cu",
        text: "            __syncwarp();\n            const int seen",
        replacement: "            const int seen",
        cases: "decode_attention_bf16 contexts [100, 3, 0, 64], heads 2/2",
    },
    // Asynchronous copies and shared memory.
    Bug {
        name: "GEMM: wait off by one group",
        file: "gemm.cu",
        text: "            gp_copy_wait<STAGES - 2>();",
        replacement: "            gp_copy_wait<STAGES - 1>();",
        cases: "gemm_tile16_bf16 1 x 64",
    },
    Bug {
        name: "decode: wait off by one group",
        file: "attention.cu",
        text: "            gp_copy_wait<1>();",
        replacement: "            gp_copy_wait<2>();",
        cases: "decode_attention_bf16 contexts [1]",
    },
    Bug {
        name: "GEMM: input read without the exchange of chunks",
        file: "gemm.cu",
        text: "input_tile + chunk_offset(line, step * 2 + lane / 8 % 2)",
        replacement: "input_tile + line * LINE_BYTES + (step * 2 + lane / 8 % 2) * CHUNK_BYTES",
        cases: "gemm_tile64_bf16 33 x 72",
    },
    Bug {
        name: "GEMM: weights' lines not permuted as they are copied",
        file: "gemm.cu",
        text: "first_output + output_of_line(line)",
        replacement: "first_output + line",
        cases: "gemm_tile64_bf16 33 x 72",
    },
    // Edges.
    Bug {
        name: "GEMM: inner dimension not cut off at its end",
        file: "gemm.cu",
        text: "const bool column_present = column < operands.inputs;",
        replacement: "const bool column_present = true;",
        cases: "gemm_tile16_bf16 7 x 8",
    },
    Bug {
        name: "GEMM: rows behind the last are written",
        file: "gemm.cu",
        text: "if (row < rows) own.store(out, row, outputs_of_row(sums, j), offset);",
        replacement: "own.store(out, row, outputs_of_row(sums, j), offset);",
        cases: "gemm_tile16_bf16 7 x 8",
    },
    Bug {
        name: "GEMM: bias of the first outputs everywhere",
        file: "gemm.cu",
        text: "gp_float(bias[first + i])",
        replacement: "gp_float(bias[i])",
        cases: "gemm_tile16_bf16 33 x 328",
    },
    Bug {
        name: "embedding: an id behind the table is read",
        file: "decoder.cu",
        text: "if (id < 0 || id >= table_rows) id = 0;",
        replacement: "if (id < 0) id = 0;",
        cases: "embed_bf16 33 x 264",
    },
    Bug {
        name: "cache write: padded rows are written",
        file: "decoder.cu",
        text: "    if (slot < 0) return;\n",
        replacement: "",
        cases: "kv_write_bf16 7 rows",
    },
    Bug {
        name: "decode: a padded request is divided by zero",
        file: "attention.cu",
        text: "const float factor = sum > 0.0f ? 1.0f / sum : 0.0f;",
        replacement: "const float factor = 1.0f / sum;",
        cases: "decode_attention_bf16 contexts [0]",
    },
    Bug {
        name: "attention: one token behind the context is read",
        file: "attention.cu",
        text: "if (token >= end) return -1;",
        replacement: "if (token > end) return -1;",
        cases: "decode_attention_bf16 contexts [1, 0, 15, 16, 17, 33], heads 2/2",
    },
    Bug {
        name: "prefill: a row sees the token behind it",
        file: "attention.cu",
        text: "before + low + 1 - tile_token",
        replacement: "before + low + 2 - tile_token",
        cases: "prefill_attention_bf16 chunks [(7, 7)",
    },
    Bug {
        name: "norm: weights of wide rows taken from the beginning",
        file: "decoder.cu",
        text: "scaled_vector(gp_load<uint4>(residual_row + i), gp_load<uint4>(weight + i), factor)",
        replacement: "scaled_vector(gp_load<uint4>(residual_row + i), gp_load<uint4>(weight + first), factor)",
        cases: "rms_norm_bf16 2 x 8456",
    },
    Bug {
        name: "activation: stride too long",
        file: "decoder.cu",
        text: "stride_rows = stride / per_row, stride_columns = stride % per_row;",
        replacement: "stride_rows = stride / per_row, stride_columns = stride % per_row + 1;",
        cases: "silu_mul_bf16 33 x 264, one block",
    },
    Bug {
        name: "copy: the last round is left out",
        file: "measure.cu",
        text: "    for (; i < vectors; i += stride) gp_store",
        replacement: "    for (; i + stride < vectors; i += stride) gp_store",
        cases: "copy_kernel",
    },
    Bug {
        name: "decode: the other stage copied over before it was taken in",
        file: "attention.cu",
        text: "            __syncwarp();\n            copy_tokens(context, (stage + 1) % STAGES, looked_up);",
        replacement: "            copy_tokens(context, (stage + 1) % STAGES, looked_up);",
        cases: "decode_attention_bf16 contexts [200, 1]",
    },
    // Arithmetic.
    Bug {
        name: "attention: earlier values not rescaled when the maximum grows",
        file: "attention.cu",
        text: "                rows.values[i][row * 2] *= rescale;\n",
        replacement: "",
        cases: "decode_attention_bf16 contexts [200, 1]",
    },
    Bug {
        name: "attention: ranges joined without rescaling",
        file: "attention.cu",
        text: "const float rescale = gp_exp2(range[0] - base);",
        replacement: "const float rescale = 1.0f;",
        cases: "decode_attention_bf16 contexts [1, 0, 15, 16, 17, 33], heads 2/2",
    },
    Bug {
        name: "attention: the last range is not joined",
        file: "attention.cu",
        text: "    for (int split = 0; split < splits; split++) {\n        const float *range",
        replacement: "    for (int split = 0; split < splits - 1; split++) {\n        const float *range",
        cases: "decode_attention_bf16 contexts [1, 0, 15, 16, 17, 33], heads 2/2",
    },
    Bug {
        name: "decode: rows of the block table too narrow by one",
        file: "attention.cu",
        text: "    const int request = blockIdx.x, kv_head = blockIdx.y, split = blockIdx.z;\n",
        replacement: "    const int request = blockIdx.x, kv_head = blockIdx.y, split = blockIdx.z;\n    blocks_per_request--;\n",
        cases: "decode_attention_bf16 contexts [1, 0, 15, 16, 17, 33], heads 2/2",
    },
    Bug {
        name: "attention: values read without the exchange of chunks",
        file: "attention.cu",
        text: "VALUES_OFFSET + chunk_offset(token, j * 2 + lane / 16)",
        replacement: "VALUES_OFFSET + token * LINE_BYTES + (j * 2 + lane / 16) * CHUNK_BYTES",
        cases: "decode_attention_bf16 contexts [1, 0, 15, 16, 17, 33], heads 2/2",
    },
    Bug {
        name: "attention: query heads of another group",
        file: "attention.cu",
        text: "first_head = context.kv_head * group;",
        replacement: "first_head = context.kv_head;",
        cases: "decode_attention_bf16 contexts [1, 0, 15, 16, 17, 33], heads 9/3",
    },
    Bug {
        name: "head norm: mean over 128 elements whatever the head",
        file: "decoder.cu",
        text: "sum / static_cast<float>(head_size) + epsilon",
        replacement: "sum / 128.0f + epsilon",
        cases: "head_norm_bf16",
    },
    Bug {
        name: "rotary: keys are not turned",
        file: "decoder.cu",
        text: "const int vectors = (query_heads + kv_heads) * vectors_per_half;",
        replacement: "const int vectors = query_heads * vectors_per_half;",
        cases: "rotary_bf16",
    },
    Bug {
        name: "cache write: keys in place of values",
        file: "decoder.cu",
        text: "gp_load<uint4>(keys + width + i)",
        replacement: "gp_load<uint4>(keys + i)",
        cases: "kv_write_bf16",
    },
    Bug {
        name: "argmax: the last of equals",
        file: "decoder.cu",
        text: "(equal && other_index < index)",
        replacement: "(equal && other_index > index)",
        cases: "argmax_bf16 33 x 257",
    },
    Bug {
        name: "argmax: NaN is chosen",
        file: "decoder.cu",
        text: "if (other == other && !(other <= value)) {",
        replacement: "if (!(other <= value)) {",
        cases: "argmax_bf16",
    },
    // Ranges and replay.
    Bug {
        name: "GEMM: counters not set back",
        file: "gemm.cu",
        text: "        if (threadIdx.x == 0) *counter = 0;\n",
        replacement: "",
        cases: "gemm_tile16_bf16 7 x 328",
    },
    Bug {
        name: "GEMM: the last range is not added",
        file: "gemm.cu",
        text: "for (int split = 0; split < splits; split++) {",
        replacement: "for (int split = 0; split < splits - 1; split++) {",
        cases: "gemm_tile16_bf16 7 x 328",
    },
    Bug {
        name: "gate: the host's release is not noticed",
        file: "measure.cu",
        text: "if (gp_load_from_host(flag) != 0) {",
        replacement: "if (gp_load_from_host(flag) == 2) {",
        cases: "gate_kernel",
    },
    // Numbers that are nearly right.
    Bug {
        name: "norm: the sum is not written back",
        file: "decoder.cu",
        text: "    gp_store(residual, kept);\n",
        replacement: "    if (!add) gp_store(residual, kept);\n",
        cases: "rms_norm_bf16 7 x 2056",
    },
    Bug {
        name: "norm: epsilon left out",
        file: "decoder.cu",
        text: "sum / static_cast<float>(hidden) + epsilon",
        replacement: "sum / static_cast<float>(hidden)",
        cases: "rms_norm_bf16 7 x 2056",
    },
    Bug {
        name: "norm: epsilon added to the sum",
        file: "decoder.cu",
        text: "sum / static_cast<float>(hidden) + epsilon",
        replacement: "(sum + epsilon) / static_cast<float>(hidden)",
        cases: "rms_norm_bf16 33 x 264",
    },
    Bug {
        name: "head norm: epsilon left out",
        file: "decoder.cu",
        text: "sum / static_cast<float>(head_size) + epsilon",
        replacement: "sum / static_cast<float>(head_size)",
        cases: "head_norm_bf16",
    },
    Bug {
        name: "rotary: angles in f32",
        file: "decoder.cu",
        text: "const double turns = positions[blockIdx.x] * exp2(-exponent) / TURN;",
        replacement: "const double turns = static_cast<float>(positions[blockIdx.x] * exp2(-exponent) / TURN);",
        cases: "rotary_bf16",
    },
    Bug {
        name: "rotary: frequencies of the next half pair",
        file: "decoder.cu",
        text: "(2 * pair) / head_size",
        replacement: "(2 * pair + 1) / head_size",
        cases: "rotary_bf16",
    },
    Bug {
        name: "embedding: an id before the table reads its last row",
        file: "decoder.cu",
        text: "if (id < 0 || id >= table_rows) id = 0;",
        replacement: "if (id < 0 || id >= table_rows) id = id < 0 ? table_rows - 1 : 0;",
        cases: "embed_bf16 7 x 2056",
    },
    Bug {
        name: "attention: scale off by one percent",
        file: "attention.cu",
        text: "scores[i][k] *= scale_log2;",
        replacement: "scores[i][k] *= 1.01f * scale_log2;",
        cases: "decode_attention_bf16 contexts [200, 1]",
    },
    Bug {
        name: "decode: the last token of longer contexts left out",
        file: "attention.cu",
        text: "split + 1, splits) * block_size, context_len);",
        replacement: "split + 1, splits) * block_size, context_len - (context_len > 99));",
        cases: "decode_attention_bf16 contexts [200, 1]",
    },
    Bug {
        name: "attention: weights of the other ranges not rescaled",
        file: "attention.cu",
        text: "sum += range[1] * rescale;",
        replacement: "sum += split == 0 ? range[1] * rescale : range[1];",
        cases: "decode_attention_bf16 contexts [1, 0, 15, 16, 17, 33], heads 2/2",
    },
    Bug {
        name: "prefill: key heads in turn",
        file: "attention.cu",
        text: "head / (query_heads / kv_heads), block_size",
        replacement: "head % kv_heads, block_size",
        cases: "prefill_attention_bf16 chunks [(7, 7)",
    },
    Bug {
        name: "GEMM: no bias where ranges are joined",
        file: "gemm.cu",
        text: "const Outputs<OWN> offset = own.bias(bias);\n#pragma unroll 1",
        replacement: "const Outputs<OWN> offset = own.bias(nullptr);\n#pragma unroll 1",
        cases: "gemm_tile16_bf16 7 x 328",
    },
    Bug {
        name: "clocks: no wait",
        file: "measure.cu",
        text: "while (gp_clock_cycles() - start_cycles < cycles) {",
        replacement: "while (false) {",
        cases: "clocks_kernel",
    },
    Bug {
        name: "gate: always released",
        file: "measure.cu",
        text: "unsigned result = TIMED_OUT;",
        replacement: "unsigned result = RELEASED;",
        cases: "gate_kernel",
    },
];

/// The folder of sources with the bug in it.
fn plant(bug: &Bug, into: &Path) {
    fs::create_dir_all(into).unwrap();
    for entry in fs::read_dir(compiler::sources()).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), into.join(entry.file_name())).unwrap();
        }
    }
    let file = into.join(bug.file);
    let source = fs::read_to_string(&file).unwrap();
    let found = source.matches(bug.text).count();
    assert_eq!(found, 1, "planted bug `{}`: its text occurs {found} times in {}, not once", bug.name, bug.file);
    fs::write(&file, source.replace(bug.text, bug.replacement)).unwrap();
}

/// The first of `cases` that fails, and why.
fn caught(library: &Library, cases: &[&Case], order: u32) -> Option<(String, CheckError<ExecutorError>)> {
    cases.iter().find_map(|case| {
        let result = case.run(&mut Executor::new(library, order));
        result.err().map(|error| (case.name.clone(), error))
    })
}

/// Builds the sources with one bug and says which case finds it, in how many orders.
fn hunt(bug: &Bug, cases: &[Case], compiler: &OsString, folder: &Path) -> Result<String, String> {
    plant(bug, folder);
    let library = compiler::build_module(compiler, folder, bug.file, &folder.join("planted.so"));
    let cases: Vec<_> = cases.iter().filter(|case| case.name.starts_with(bug.cases)).collect();
    assert!(!cases.is_empty(), "planted bug `{}`: no case begins with `{}`", bug.name, bug.cases);
    let found: Vec<_> = ORDERS.into_iter().filter_map(|order| caught(&library, &cases, order)).collect();
    let Some((case, error)) = found.first() else {
        return Err(format!("{}: NOT CAUGHT by {} cases `{}`", bug.name, cases.len(), bug.cases));
    };
    let orders = format!("{} of {}", found.len(), ORDERS.len());
    Ok(format!("{:<60} caught in {orders} orders by `{case}`: {error}", bug.name))
}

#[test]
fn planted_bugs_are_caught() {
    let Some(compiler) = compiler::compiler() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (cases, began) = (quick(), Instant::now());
    let (next, lines) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    // Two at a time: each is mostly the C++ compiler.
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((index, bug)) = {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    BUGS.get(index).map(|bug| (index, bug))
                } {
                    let line = hunt(bug, &cases, &compiler, &folder.path().join(index.to_string()));
                    lines.lock().unwrap().push((index, line));
                }
            });
        }
    });
    let mut lines = lines.into_inner().unwrap();
    lines.sort_by_key(|(index, _)| *index);
    let mut missed = String::new();
    for (_, line) in &lines {
        match line {
            Ok(line) => println!("{line}"),
            Err(line) => writeln!(missed, "{line}").unwrap(),
        }
    }
    println!("{} planted bugs, {:.1} s", lines.len(), began.elapsed().as_secs_f64());
    assert!(lines.len() == BUGS.len() && missed.is_empty(), "{missed}");
}

/// A launch as the device layer could spoil it.
fn spoiled(launch: &Launch, arguments: Arguments) -> Launch {
    Launch { arguments, ..launch.clone() }
}

#[test]
fn missing_and_swapped_arguments_are_caught() {
    let Some(library) = compiler::executor() else { return };
    let mut machine = Executor::new(&library, 0);
    let out = machine.allocate(4_096).unwrap();
    let argmax = Argmax { out, logits: out.offset(256), vocabulary: 8 }.over(Rows(1)).unwrap();
    machine.launch(&argmax).unwrap();

    // One argument too few, and one too many: the size says so.
    for arguments in [
        Arguments::default().with(out).with(out.offset(256)),
        Arguments::default().with(out).with(out.offset(256)).with(8).with(0),
    ] {
        let error = machine.launch(&spoiled(&argmax, arguments)).unwrap_err();
        assert!(matches!(error, ExecutorError::Launch { code: 4, .. }), "{error}");
    }
    // An int before the pointers has the same bytes in another order; padding makes the buffer longer.
    let swapped = Arguments::default().with(8).with(out).with(out.offset(256));
    let error = machine.launch(&spoiled(&argmax, swapped)).unwrap_err();
    assert!(matches!(error, ExecutorError::Launch { code: 4, .. }), "{error}");

    // Operands of the same type in another order: only results and guards can tell. The cases do.
    for (kernel, operands) in [(Kernel::Embed, (0, 1)), (Kernel::RmsNorm, (1, 2)), (Kernel::KvWrite, (0, 1))] {
        let symbol = kernel.symbol();
        let cases: Vec<_> = quick().into_iter().filter(|case| case.name.starts_with(symbol)).collect();
        let failed = cases.iter().filter(|case| {
            let mut machine = Swapping { inner: Executor::new(&library, 0), operands };
            case.run(&mut machine).is_err()
        });
        assert!(failed.count() > 0, "swapped operands of {symbol} were not noticed");
    }
}

#[test]
fn misaligned_operands_and_too_little_shared_memory_are_caught() {
    let Some(library) = compiler::executor() else { return };
    let mut machine = Executor::new(&library, 0);
    let at = machine.allocate(1 << 16).unwrap();

    // Typed launches refuse this operand; the device layer could still pass it on.
    let arguments = Arguments::default().with(at).with(at.offset(256 + 2)).with(8);
    let argmax = Argmax { out: at, logits: at.offset(256), vocabulary: 8 }.over(Rows(1)).unwrap();
    let error = machine.launch(&spoiled(&argmax, arguments)).unwrap_err();
    assert!(
        matches!(&error, ExecutorError::Launch { code: 3, message } if message.contains("no multiple of 16")),
        "{error}"
    );

    let [rows, outputs, inputs] = [1, 64, 64];
    let product = Product { out: at, input: at, weight: at, bias: Address::NONE, rows: Rows(rows), outputs, inputs };
    let whole = product.under(ProductPlan { tile: Tile::Rows16, splits: 1 }, Workspace::default()).unwrap();
    machine.launch(&whole).unwrap();
    // One stage is enough for one step along the inner dimension; half a one is not.
    let error = machine.launch(&Launch { shared_bytes: whole.shared_bytes / 8, ..whole }).unwrap_err();
    assert!(
        matches!(&error, ExecutorError::Launch { code: 3, message } if message.contains("of 5120 that the block has")),
        "{error}"
    );
}

/// The launch's arguments with two pointers exchanged.
fn swap_pointers(launch: &Launch, (first, second): (usize, usize)) -> Arguments {
    let bytes = launch.arguments.bytes();
    let mut order: Vec<usize> = (0..launch.arguments.offsets().len()).collect();
    order.swap(first, second);
    order.into_iter().fold(Arguments::default(), |arguments, index| {
        let at = launch.arguments.offsets()[index];
        match launch.kernel.parameters()[index].parameter_type.bytes() {
            8 => arguments.with(Address(u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()))),
            _ => arguments.with(i32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())),
        }
    })
}

/// A machine whose launches have two of their operands exchanged.
struct Swapping<'l> {
    inner: Executor<'l>,
    operands: (usize, usize),
}

impl Machine for Swapping<'_> {
    type Error = ExecutorError;
    fn allocate(&mut self, bytes: u64) -> Result<Address, ExecutorError> {
        self.inner.allocate(bytes)
    }
    fn write(&mut self, to: Address, bytes: &[u8]) -> Result<(), ExecutorError> {
        self.inner.write(to, bytes)
    }
    fn read(&mut self, from: Address, bytes: &mut [u8]) -> Result<(), ExecutorError> {
        self.inner.read(from, bytes)
    }
    fn launch(&mut self, launch: &Launch) -> Result<(), ExecutorError> {
        self.inner.launch(&spoiled(launch, swap_pointers(launch, self.operands)))
    }
}
