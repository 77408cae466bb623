// The kernels of a decoder step that are neither matrix products nor attention. Widths are multiples of 8, so that rows
// are read and written in vectors of 16 bytes; sums are f32.

// Elements of one 16-byte vector.
constexpr int VECTOR = 8;

// The start of row `row` of rows of `width` elements.
template <typename T>
GP_DEVICE T *row_start(T *base, int row, int width) {
    return base + static_cast<unsigned long long>(row) * width;
}

GP_KERNEL __launch_bounds__(256) embed_bf16(bf16 *__restrict__ out, const bf16 *__restrict__ table,
                                            const int *__restrict__ ids, int hidden, int table_rows) {
    int id = ids[blockIdx.x];
    if (id < 0 || id >= table_rows) id = 0;
    const bf16 *from = row_start(table, id, hidden);
    bf16 *to = row_start(out, blockIdx.x, hidden);
    for (int i = threadIdx.x * VECTOR; i < hidden; i += blockDim.x * VECTOR) gp_store(to + i, gp_load<uint4>(from + i));
}

constexpr int NORM_THREADS = 256;
// Vectors of a row that a thread keeps in registers: rows of up to 8,192 elements are read once.
constexpr int NORM_KEPT = 4;

// One vector of the residual stream: added to or begun, written back, and its sum of squares.
GP_DEVICE float residual_vector(uint4 &kept, bf16 *residual, uint4 input, uint4 before, int add) {
    float sum = 0.0f, values[8], earlier[8];
    kept = input;
    if (add) {
        gp_unpack(values, input);
        gp_unpack(earlier, before);
#pragma unroll
        for (int i = 0; i < VECTOR; i++) values[i] += earlier[i];
        kept = gp_pack(values);
    }
    gp_store(residual, kept);
    // What is normalised is what was stored: rounded.
    gp_unpack(values, kept);
#pragma unroll
    for (int i = 0; i < VECTOR; i++) sum += values[i] * values[i];
    return sum;
}

GP_DEVICE uint4 scaled_vector(uint4 kept, uint4 weight, float factor) {
    float values[8], weights[8];
    gp_unpack(values, kept);
    gp_unpack(weights, weight);
#pragma unroll
    for (int i = 0; i < VECTOR; i++) values[i] = values[i] * factor * weights[i];
    return gp_pack(values);
}

GP_KERNEL __launch_bounds__(NORM_THREADS)
    rms_norm_bf16(bf16 *out, bf16 *residual, const bf16 *input, const bf16 *__restrict__ weight, int hidden,
                  float epsilon, int add) {
    GP_SHARED(float, warp_sums, NORM_THREADS / GP_LANES);
    const bf16 *input_row = row_start(input, blockIdx.x, hidden);
    bf16 *residual_row = row_start(residual, blockIdx.x, hidden);
    bf16 *out_row = row_start(out, blockIdx.x, hidden);
    const int first = threadIdx.x * VECTOR;
    constexpr int stride = NORM_THREADS * VECTOR;

    // All loads before the first store, so that they are under way together.
    uint4 kept[NORM_KEPT], before[NORM_KEPT];
#pragma unroll
    for (int k = 0; k < NORM_KEPT; k++) {
        kept[k] = before[k] = make_uint4(0, 0, 0, 0);
        if (first + k * stride < hidden) {
            kept[k] = gp_load<uint4>(input_row + first + k * stride);
            if (add) before[k] = gp_load<uint4>(residual_row + first + k * stride);
        }
    }
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < NORM_KEPT; k++) {
        const int i = first + k * stride;
        if (i < hidden) sum += residual_vector(kept[k], residual_row + i, kept[k], before[k], add);
    }
    for (int i = first + NORM_KEPT * stride; i < hidden; i += stride) {
        uint4 beyond, earlier = make_uint4(0, 0, 0, 0);
        if (add) earlier = gp_load<uint4>(residual_row + i);
        sum += residual_vector(beyond, residual_row + i, gp_load<uint4>(input_row + i), earlier, add);
    }

    sum = gp_warp_sum(sum);
    if (threadIdx.x % GP_LANES == 0) warp_sums[threadIdx.x / GP_LANES] = sum;
    __syncthreads();
    sum = 0.0f;
#pragma unroll
    for (int warp = 0; warp < NORM_THREADS / GP_LANES; warp++) sum += warp_sums[warp];
    const float factor = rsqrtf(sum / static_cast<float>(hidden) + epsilon);

#pragma unroll
    for (int k = 0; k < NORM_KEPT; k++) {
        const int i = first + k * stride;
        if (i < hidden) gp_store(out_row + i, scaled_vector(kept[k], gp_load<uint4>(weight + i), factor));
    }
    for (int i = first + NORM_KEPT * stride; i < hidden; i += stride) {
        gp_store(out_row + i, scaled_vector(gp_load<uint4>(residual_row + i), gp_load<uint4>(weight + i), factor));
    }
}

constexpr int HEADS_PER_BLOCK = 4;
constexpr int HEAD_NORM_THREADS = HEADS_PER_BLOCK * GP_LANES;

GP_KERNEL __launch_bounds__(HEAD_NORM_THREADS)
    head_norm_bf16(bf16 *qkv, const bf16 *__restrict__ query_weight, const bf16 *__restrict__ key_weight,
                   int query_heads, int kv_heads, int head_size, float epsilon) {
    const int head = blockIdx.y * HEADS_PER_BLOCK + threadIdx.x / GP_LANES;
    if (head >= query_heads + kv_heads) return;
    const int lane = threadIdx.x % GP_LANES;
    bf16 *values = row_start(qkv, blockIdx.x, (query_heads + 2 * kv_heads) * head_size) + head * head_size;
    const bf16 *weight = head < query_heads ? query_weight : key_weight;
    // A lane holds two pairs, 64 elements apart; the second exists if the head has 128.
    const int low = lane * 2, high = 2 * GP_LANES + low;
    const bool wide = head_size > 2 * GP_LANES;
    const unsigned first = gp_load<unsigned>(values + low);
    const unsigned second = wide ? gp_load<unsigned>(values + high) : 0;
    const float a = gp_float_of_low(first), b = gp_float_of_high(first);
    const float c = gp_float_of_low(second), d = gp_float_of_high(second);
    const float sum = gp_warp_sum(a * a + b * b + c * c + d * d);
    const float factor = rsqrtf(sum / static_cast<float>(head_size) + epsilon);
    const unsigned first_weight = gp_load<unsigned>(weight + low);
    gp_store(values + low,
             gp_pack(a * factor * gp_float_of_low(first_weight), b * factor * gp_float_of_high(first_weight)));
    if (wide) {
        const unsigned second_weight = gp_load<unsigned>(weight + high);
        gp_store(values + high,
                 gp_pack(c * factor * gp_float_of_low(second_weight), d * factor * gp_float_of_high(second_weight)));
    }
}

constexpr int MAX_PAIRS = 64;

GP_KERNEL __launch_bounds__(128) rotary_bf16(bf16 *qkv, const int *__restrict__ positions, int query_heads,
                                             int kv_heads, int head_size, float log2_theta) {
    GP_SHARED(float, cosine, MAX_PAIRS);
    GP_SHARED(float, sine, MAX_PAIRS);
    const int half = head_size / 2;
    // The angles are the same for every head of a row. They are taken in turns and in f64: at position 100,000 an f32
    // angle is already wrong by a hundredth of a radian.
    for (int pair = threadIdx.x; pair < half; pair += blockDim.x) {
        constexpr double TURN = 6.283185307179586;
        const double exponent = static_cast<double>(log2_theta) * (2 * pair) / head_size;
        const double turns = positions[blockIdx.x] * exp2(-exponent) / TURN;
        float y, x;
        sincospif(2.0f * static_cast<float>(turns - rint(turns)), &y, &x);
        sine[pair] = y;
        cosine[pair] = x;
    }
    __syncthreads();
    bf16 *row = row_start(qkv, blockIdx.x, (query_heads + 2 * kv_heads) * head_size);
    const int vectors_per_half = half / VECTOR;
    const int vectors = (query_heads + kv_heads) * vectors_per_half;
    for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
        const int pair = i % vectors_per_half * VECTOR;
        bf16 *low = row + i / vectors_per_half * head_size + pair;
        float a[8], b[8];
        gp_unpack(a, gp_load<uint4>(low));
        gp_unpack(b, gp_load<uint4>(low + half));
#pragma unroll
        for (int k = 0; k < VECTOR; k++) {
            const float before = a[k];
            a[k] = before * cosine[pair + k] - b[k] * sine[pair + k];
            b[k] = b[k] * cosine[pair + k] + before * sine[pair + k];
        }
        gp_store(low, gp_pack(a));
        gp_store(low + half, gp_pack(b));
    }
}

GP_KERNEL __launch_bounds__(128)
    kv_write_bf16(bf16 *__restrict__ cache, const bf16 *__restrict__ qkv, const int *__restrict__ slots,
                  int query_heads, int kv_heads, int head_size, int block_size) {
    const int slot = slots[blockIdx.x];
    if (slot < 0) return;
    const int width = kv_heads * head_size;
    const bf16 *keys = row_start(qkv, blockIdx.x, (query_heads + 2 * kv_heads) * head_size) + query_heads * head_size;
    bf16 *to_keys = row_start(cache, slot / block_size * 2 * block_size + slot % block_size, width);
    bf16 *to_values = row_start(to_keys, block_size, width);
    for (int i = threadIdx.x * VECTOR; i < width; i += blockDim.x * VECTOR) {
        gp_store(to_keys + i, gp_load<uint4>(keys + i));
        gp_store(to_values + i, gp_load<uint4>(keys + width + i));
    }
}

GP_KERNEL __launch_bounds__(256)
    silu_mul_bf16(bf16 *__restrict__ out, const bf16 *__restrict__ gate_up, int rows, int intermediate) {
    constexpr float LOG2_E = 1.4426950408889634f;
    const unsigned per_row = intermediate / VECTOR, first = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned stride = gridDim.x * blockDim.x, stride_rows = stride / per_row, stride_columns = stride % per_row;
    // Row and column step on by themselves: a division for each vector would cost more than the vector.
    unsigned row = first / per_row, column = first % per_row;
    while (row < static_cast<unsigned>(rows)) {
        const bf16 *from = row_start(gate_up, row, 2 * intermediate) + column * VECTOR;
        float gate[8], up[8];
        gp_unpack(gate, gp_load<uint4>(from));
        gp_unpack(up, gp_load<uint4>(from + intermediate));
#pragma unroll
        for (int k = 0; k < VECTOR; k++) gate[k] = __fdividef(gate[k], 1.0f + gp_exp2(-gate[k] * LOG2_E)) * up[k];
        gp_store(row_start(out, row, intermediate) + column * VECTOR, gp_pack(gate));
        row += stride_rows;
        column += stride_columns;
        if (column >= per_row) {
            column -= per_row;
            row++;
        }
    }
}

constexpr int ARGMAX_THREADS = 256;
constexpr int NO_INDEX = 0x7fffffff;
// Vectors of a row that a thread has under way at once.
constexpr int ARGMAX_IN_FLIGHT = 8;

// The larger of two candidates, the first of equals. NaN, which no comparison holds for, stands for "none yet".
GP_DEVICE void keep_larger(float &value, int &index, float other, int other_index) {
    const bool larger = other > value || (value != value && other == other);
    const bool equal = other == value || (value != value && other != other);
    if (larger || (equal && other_index < index)) {
        value = other;
        index = other_index;
    }
}

// The same where indices ascend: an equal one comes too late, and so does NaN.
GP_DEVICE void keep_if_larger(float &value, int &index, float other, int other_index) {
    if (other == other && !(other <= value)) {
        value = other;
        index = other_index;
    }
}

GP_DEVICE void keep_larger_of_warp(float &value, int &index) {
#pragma unroll
    for (int lanes = GP_LANES / 2; lanes > 0; lanes /= 2) {
        const float other = gp_shuffle_xor(value, lanes);
        const int other_index = gp_shuffle_xor(index, lanes);
        keep_larger(value, index, other, other_index);
    }
}

GP_KERNEL __launch_bounds__(ARGMAX_THREADS)
    argmax_bf16(int *__restrict__ out, const bf16 *__restrict__ logits, int vocabulary) {
    GP_SHARED(float, warp_values, ARGMAX_THREADS / GP_LANES);
    GP_SHARED(int, warp_indices, ARGMAX_THREADS / GP_LANES);
    const bf16 *row = row_start(logits, blockIdx.x, vocabulary);
    float best = __uint_as_float(0xffffffffu);
    int index = static_cast<int>(threadIdx.x) < vocabulary ? threadIdx.x : NO_INDEX;
    if (vocabulary % VECTOR == 0) {
        constexpr int stride = ARGMAX_THREADS * VECTOR;
        for (int start = threadIdx.x * VECTOR; start < vocabulary; start += ARGMAX_IN_FLIGHT * stride) {
            uint4 vectors[ARGMAX_IN_FLIGHT];
            // Past the end the last vector again: what is seen twice changes nothing.
#pragma unroll
            for (int k = 0; k < ARGMAX_IN_FLIGHT; k++) {
                vectors[k] = gp_load<uint4>(row + min(start + k * stride, vocabulary - VECTOR));
            }
#pragma unroll
            for (int k = 0; k < ARGMAX_IN_FLIGHT; k++) {
                const int i = min(start + k * stride, vocabulary - VECTOR);
                float values[8];
                gp_unpack(values, vectors[k]);
#pragma unroll
                for (int element = 0; element < VECTOR; element++) {
                    keep_if_larger(best, index, values[element], i + element);
                }
            }
        }
    } else {
        for (int i = threadIdx.x; i < vocabulary; i += blockDim.x) {
            keep_if_larger(best, index, gp_float(row[i]), i);
        }
    }
    keep_larger_of_warp(best, index);
    const int warp = threadIdx.x / GP_LANES, lane = threadIdx.x % GP_LANES;
    if (lane == 0) {
        warp_values[warp] = best;
        warp_indices[warp] = index;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int other = 1; other < ARGMAX_THREADS / GP_LANES; other++) {
            keep_larger(best, index, warp_values[other], warp_indices[other]);
        }
        out[blockIdx.x] = index;
    }
}
