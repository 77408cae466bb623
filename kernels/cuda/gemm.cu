// out[rows, outputs] = input[rows, inputs] x weight[outputs, inputs]^T (+ bias): bf16 in and out, f32 sums.
//
//   kernel       rows  outputs  inputs  stages  dynamic shared bytes
//   gemm_tile16    16       64      64       4                40,960
//   gemm_tile64    64       64      64       4                65,536
//   gemm_tile128  128      128      64       3                98,304
//
// Shared bytes = stages * (rows + outputs) * inputs * 2; the device layer must allow more than 48 KiB where it is more.
// 98,304 is what sm_86, sm_89 and sm_120 still give to one block. Grid: (ceil(outputs / tile), ceil(rows / tile), splits);
// block: 128.
//
// The weight is the 16-wide operand of the mma, the tokens its 8-wide one: few tokens waste little. Tiles of weight and
// input come through a ring of stages filled by asynchronous copies; lines are 128 bytes, their eight 16-byte chunks
// exchanged by the line's number, so that neither the copies nor the matrix loads meet in one bank.

constexpr int THREADS = 128;
// Elements along the inner dimension of a tile: one 128-byte line.
constexpr int TILE_INPUTS = 64;
constexpr int LINE_BYTES = TILE_INPUTS * 2;
constexpr int CHUNK_BYTES = 16;
constexpr int CHUNK_ELEMENTS = 8;
constexpr int CHUNKS = LINE_BYTES / CHUNK_BYTES;
// Row tiles that run side by side, so that they share the weights in the second-level cache.
constexpr int RASTER_ROWS = 8;

// What is multiplied.
struct Operands {
    const bf16 *input;
    const bf16 *weight;
    int rows;
    int outputs;
    int inputs;
};

// Where a chunk of a line lies in shared memory, from the start of the tile.
GP_DEVICE unsigned chunk_offset(int line, int chunk) {
    return line * LINE_BYTES + (chunk ^ (line % CHUNKS)) * CHUNK_BYTES;
}

// Sums of neighbouring outputs of one row: 2, 4 or 8.
template <int COUNT>
struct Outputs {
    float values[COUNT];
};

// The neighbouring outputs that a thread computes of each of its rows, in matrices of `outputs` columns. They move as one
// vector where all are there and aligned.
template <int COUNT>
struct Own {
    int outputs;
    int first;
    // How many of them the matrix has; 0 or less: none.
    int present;

    GP_DEVICE bool whole() const { return present == COUNT && outputs % COUNT == 0; }

    GP_DEVICE unsigned long long at(int row) const { return static_cast<unsigned long long>(row) * outputs + first; }

    GP_DEVICE Outputs<COUNT> bias(const bf16 *bias) const {
        Outputs<COUNT> values = {};
        if (bias != nullptr) {
#pragma unroll
            for (int i = 0; i < COUNT; i++) {
                if (i < present) values.values[i] = gp_float(bias[first + i]);
            }
        }
        return values;
    }

    // The result of a row, in bf16.
    GP_DEVICE void store(bf16 *out, int row, Outputs<COUNT> sums, const Outputs<COUNT> &bias) const {
        bf16 *to = out + at(row);
#pragma unroll
        for (int i = 0; i < COUNT; i++) sums.values[i] += bias.values[i];
        if (!whole()) {
#pragma unroll
            for (int i = 0; i < COUNT; i++) {
                if (i < present) to[i] = gp_bf16(sums.values[i]);
            }
        } else if constexpr (COUNT == 2) {
            gp_store(to, gp_pack(sums.values[0], sums.values[1]));
        } else if constexpr (COUNT == 4) {
            gp_store(to, make_uint2(gp_pack(sums.values[0], sums.values[1]), gp_pack(sums.values[2], sums.values[3])));
        } else {
            gp_store(to, gp_pack(sums.values));
        }
    }

    // One range's sums of a row, in f32.
    GP_DEVICE void leave(float *range, int row, const Outputs<COUNT> &sums) const {
        float *to = range + at(row);
        if (!whole()) {
#pragma unroll
            for (int i = 0; i < COUNT; i++) {
                if (i < present) to[i] = sums.values[i];
            }
        } else if constexpr (COUNT == 2) {
            gp_store(to, make_float2(sums.values[0], sums.values[1]));
        } else {
#pragma unroll
            for (int i = 0; i < COUNT; i += 4) {
                gp_store(to + i,
                         make_float4(sums.values[i], sums.values[i + 1], sums.values[i + 2], sums.values[i + 3]));
            }
        }
    }

    // Adds what some block left of a row.
    GP_DEVICE void add(Outputs<COUNT> &sums, const float *range, int row) const {
        const float *from = range + at(row);
        if (!whole()) {
#pragma unroll
            for (int i = 0; i < COUNT; i++) {
                if (i < present) sums.values[i] += gp_load_written_by_others<float>(from + i);
            }
        } else if constexpr (COUNT == 2) {
            const float2 two = gp_load_written_by_others<float2>(from);
            sums.values[0] += two.x;
            sums.values[1] += two.y;
        } else {
#pragma unroll
            for (int i = 0; i < COUNT; i += 4) {
                const float4 four = gp_load_written_by_others<float4>(from + i);
                sums.values[i] += four.x;
                sums.values[i + 1] += four.y;
                sums.values[i + 2] += four.z;
                sums.values[i + 3] += four.w;
            }
        }
    }
};

// One matrix product tile. The four warps lie `WARPS_OF_OUTPUTS` along the outputs, the rest along the rows.
template <int TILE_ROWS, int TILE_OUTPUTS, int STAGES, int WARPS_OF_OUTPUTS>
struct Tile {
    static constexpr int WARPS_OF_ROWS = THREADS / GP_LANES / WARPS_OF_OUTPUTS;
    static constexpr int WARP_OUTPUTS = TILE_OUTPUTS / WARPS_OF_OUTPUTS;
    static constexpr int WARP_ROWS = TILE_ROWS / WARPS_OF_ROWS;
    // mma tiles of a warp: 16 outputs by 8 rows each.
    static constexpr int ACROSS = WARP_OUTPUTS / 16;
    static constexpr int DOWN = WARP_ROWS / 8;
    // What a thread ends up with: neighbouring outputs, and rows.
    static constexpr int OWN = 2 * ACROSS;
    static constexpr int OWN_ROWS = 2 * DOWN;
    // Rows that are joined together, so that their loads are under way together.
    static constexpr int JOINED_ROWS = 4;
    static constexpr unsigned WEIGHT_BYTES = TILE_OUTPUTS * LINE_BYTES;
    static constexpr unsigned STAGE_BYTES = WEIGHT_BYTES + TILE_ROWS * LINE_BYTES;
    static_assert(DOWN % 2 == 0, "the rows of a warp are loaded sixteen at a time");
    static_assert(OWN_ROWS % JOINED_ROWS == 0, "rows are joined in whole groups");

    // Where a thread's row `j` lies from its first.
    static GP_DEVICE int row_offset(int j) { return j / 2 * 8 + j % 2; }

    // An mma gives thread g = lane / 4 the outputs g and g + 8 of its 16. Lines of weight are therefore permuted as they
    // are copied, such that those of all the warp's mma tiles are neighbours: line 16 i + 8 h + g of a warp holds its
    // output OWN g + 2 i + h.
    static GP_DEVICE int output_of_line(int line) {
        const int within = line % WARP_OUTPUTS;
        return line - within + OWN * (within % 8) + within / 16 * 2 + within / 8 % 2;
    }

    // Begins the copies of one stage; what lies outside the matrices becomes zero.
    static GP_DEVICE void copy_stage(unsigned stage, const Operands &operands, int first_row, int first_output,
                                     int first_input) {
        const int chunk = threadIdx.x % CHUNKS;
        const int column = first_input + chunk * CHUNK_ELEMENTS;
        const bool column_present = column < operands.inputs;
#pragma unroll
        for (int i = 0; i < TILE_OUTPUTS * CHUNKS / THREADS; i++) {
            const int line = threadIdx.x / CHUNKS + i * (THREADS / CHUNKS);
            const int output = first_output + output_of_line(line);
            const bool present = column_present && output < operands.outputs;
            const bf16 *from = operands.weight;
            if (present) from += static_cast<unsigned long long>(output) * operands.inputs + column;
            gp_copy_async(stage * STAGE_BYTES + chunk_offset(line, chunk), from, present);
        }
#pragma unroll
        for (int i = 0; i < TILE_ROWS * CHUNKS / THREADS; i++) {
            const int line = threadIdx.x / CHUNKS + i * (THREADS / CHUNKS);
            const int row = first_row + line;
            const bool present = column_present && row < operands.rows;
            const bf16 *from = operands.input;
            if (present) from += static_cast<unsigned long long>(row) * operands.inputs + column;
            gp_copy_async(stage * STAGE_BYTES + WEIGHT_BYTES + chunk_offset(line, chunk), from, present);
        }
    }

    // Multiplies what one stage holds.
    static GP_DEVICE void multiply(float (&sums)[ACROSS][DOWN][4], unsigned stage) {
        const int lane = threadIdx.x % GP_LANES, warp = threadIdx.x / GP_LANES;
        const int warp_line = warp % WARPS_OF_OUTPUTS * WARP_OUTPUTS, warp_row = warp / WARPS_OF_OUTPUTS * WARP_ROWS;
        // Weight matrices: lines 0 to 7 and 8 to 15 of the lower chunk, then of the upper. Input matrices: both chunks of
        // lines 0 to 7, then of 8 to 15.
        const unsigned weight_tile = stage * STAGE_BYTES, input_tile = weight_tile + WEIGHT_BYTES;
#pragma unroll
        for (int step = 0; step < TILE_INPUTS / 16; step++) {
            unsigned weights[ACROSS][4], tokens[DOWN / 2][4];
#pragma unroll
            for (int i = 0; i < ACROSS; i++) {
                gp_load_matrices(weights[i],
                                 weight_tile + chunk_offset(warp_line + i * 16 + lane % 16, step * 2 + lane / 16));
            }
#pragma unroll
            for (int j = 0; j < DOWN / 2; j++) {
                const int line = warp_row + j * 16 + lane / 16 * 8 + lane % 8;
                gp_load_matrices(tokens[j], input_tile + chunk_offset(line, step * 2 + lane / 8 % 2));
            }
#pragma unroll
            for (int i = 0; i < ACROSS; i++) {
#pragma unroll
                for (int j = 0; j < DOWN; j++) {
                    gp_mma(sums[i][j], weights[i], tokens[j / 2][j % 2 * 2], tokens[j / 2][j % 2 * 2 + 1]);
                }
            }
        }
    }

    // Sums over the tiles `begin` to `end` of the inner dimension.
    static GP_DEVICE void accumulate(float (&sums)[ACROSS][DOWN][4], const Operands &operands, int first_row,
                                     int first_output, int begin, int end) {
#pragma unroll
        for (int i = 0; i < ACROSS; i++) {
#pragma unroll
            for (int j = 0; j < DOWN; j++) {
#pragma unroll
                for (int k = 0; k < 4; k++) sums[i][j][k] = 0.0f;
            }
        }
        // Every turn closes one group, empty or not, so that the number to wait for is always the same.
#pragma unroll
        for (int stage = 0; stage < STAGES - 1; stage++) {
            if (begin + stage < end) {
                copy_stage(stage, operands, first_row, first_output, (begin + stage) * TILE_INPUTS);
            }
            gp_copy_commit();
        }
        int stage = 0, free_stage = STAGES - 1;
        for (int tile = begin; tile < end; tile++) {
            gp_copy_wait<STAGES - 2>();
            // From here on every thread's copies of this stage are there, and nobody reads the stage before it any more.
            __syncthreads();
            if (tile + STAGES - 1 < end) {
                copy_stage(free_stage, operands, first_row, first_output, (tile + STAGES - 1) * TILE_INPUTS);
            }
            gp_copy_commit();
            multiply(sums, stage);
            free_stage = stage;
            stage = stage + 1 == STAGES ? 0 : stage + 1;
        }
    }

    // A thread's neighbouring outputs of its row `j`: of each mma, elements 0 and 2 belong to an even row, 1 and 3 to the
    // odd one after it.
    static GP_DEVICE Outputs<OWN> outputs_of_row(const float (&sums)[ACROSS][DOWN][4], int j) {
        Outputs<OWN> own;
#pragma unroll
        for (int i = 0; i < ACROSS; i++) {
            own.values[2 * i] = sums[i][j / 2][j % 2];
            own.values[2 * i + 1] = sums[i][j / 2][j % 2 + 2];
        }
        return own;
    }

    static GP_DEVICE void run(bf16 *out, const Operands &operands, const bf16 *bias, float *partial, unsigned *arrivals,
                              int splits) {
        const int rows = operands.rows, outputs = operands.outputs;
        // Blocks are numbered down RASTER_ROWS row tiles first, then along the outputs.
        const int number = blockIdx.y * gridDim.x + blockIdx.x;
        const int group = number / (RASTER_ROWS * gridDim.x), within = number % (RASTER_ROWS * gridDim.x);
        const int group_rows = min(static_cast<int>(gridDim.y) - group * RASTER_ROWS, RASTER_ROWS);
        const int first_row = (group * RASTER_ROWS + within % group_rows) * TILE_ROWS;
        const int first_output = within / group_rows * TILE_OUTPUTS;
        const int tiles = (operands.inputs + TILE_INPUTS - 1) / TILE_INPUTS;
        const int begin = gp_part_begin(tiles, blockIdx.z, splits), end = gp_part_begin(tiles, blockIdx.z + 1, splits);
        float sums[ACROSS][DOWN][4];
        accumulate(sums, operands, first_row, first_output, begin, end);

        const int lane = threadIdx.x % GP_LANES, warp = threadIdx.x / GP_LANES;
        const int output = first_output + warp % WARPS_OF_OUTPUTS * WARP_OUTPUTS + lane / 4 * OWN;
        const int own_row = first_row + warp / WARPS_OF_OUTPUTS * WARP_ROWS + lane % 4 * 2;
        const Own<OWN> own = {outputs, output, min(outputs - output, OWN)};
        if (splits == 1) {
            const Outputs<OWN> offset = own.bias(bias);
#pragma unroll
            for (int j = 0; j < OWN_ROWS; j++) {
                const int row = own_row + row_offset(j);
                if (row < rows) own.store(out, row, outputs_of_row(sums, j), offset);
            }
            return;
        }
        const unsigned long long per_split = static_cast<unsigned long long>(rows) * outputs;
#pragma unroll
        for (int j = 0; j < OWN_ROWS; j++) {
            const int row = own_row + row_offset(j);
            if (row < rows) own.leave(partial + blockIdx.z * per_split, row, outputs_of_row(sums, j));
        }
        if (is_last_of_tile(arrivals + number, splits)) join(out, bias, partial, own, own_row, rows, per_split, splits);
    }

    // Counts this block's arrival, and says whether all the tile's ranges are now there; the last sets the counter back.
    static GP_DEVICE bool is_last_of_tile(unsigned *counter, int splits) {
        GP_SHARED(unsigned, arrived_before, 1);
        // Every thread's sums are visible to the device before the block counts as arrived, and the last block reads the
        // others' only after it has seen them all arrive.
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) arrived_before[0] = atomicAdd(counter, 1u);
        __syncthreads();
        if (arrived_before[0] != static_cast<unsigned>(splits - 1)) return false;
        __threadfence();
        if (threadIdx.x == 0) *counter = 0;
        return true;
    }

    // Adds the ranges' sums, always in the same order.
    static GP_DEVICE void join(bf16 *out, const bf16 *bias, const float *partial, const Own<OWN> &own, int own_row,
                               int rows, unsigned long long per_split, int splits) {
        const Outputs<OWN> offset = own.bias(bias);
#pragma unroll 1
        for (int j = 0; j < OWN_ROWS; j += JOINED_ROWS) {
            Outputs<OWN> sums[JOINED_ROWS] = {};
            for (int split = 0; split < splits; split++) {
#pragma unroll
                for (int k = 0; k < JOINED_ROWS; k++) {
                    const int row = own_row + row_offset(j + k);
                    if (row < rows) own.add(sums[k], partial + split * per_split, row);
                }
            }
#pragma unroll
            for (int k = 0; k < JOINED_ROWS; k++) {
                const int row = own_row + row_offset(j + k);
                if (row < rows) own.store(out, row, sums[k], offset);
            }
        }
    }
};

GP_KERNEL __launch_bounds__(THREADS, 4)
    gemm_tile16_bf16(bf16 *out, const bf16 *input, const bf16 *weight, const bf16 *bias, float *partial,
                     unsigned *arrivals, int rows, int outputs, int inputs, int splits) {
    Tile<16, 64, 4, 4>::run(out, {input, weight, rows, outputs, inputs}, bias, partial, arrivals, splits);
}

GP_KERNEL __launch_bounds__(THREADS, 3)
    gemm_tile64_bf16(bf16 *out, const bf16 *input, const bf16 *weight, const bf16 *bias, float *partial,
                     unsigned *arrivals, int rows, int outputs, int inputs, int splits) {
    Tile<64, 64, 4, 2>::run(out, {input, weight, rows, outputs, inputs}, bias, partial, arrivals, splits);
}

GP_KERNEL __launch_bounds__(THREADS, 2)
    gemm_tile128_bf16(bf16 *out, const bf16 *input, const bf16 *weight, const bf16 *bias, float *partial,
                      unsigned *arrivals, int rows, int outputs, int inputs, int splits) {
    Tile<128, 128, 3, 2>::run(out, {input, weight, rows, outputs, inputs}, bias, partial, arrivals, splits);
}
