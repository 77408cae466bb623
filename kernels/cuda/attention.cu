// Attention over the paged cache, by mma with an online softmax in powers of two. A warp owns 16 query rows: in decode the
// query heads that share one key head, in prefill 16 tokens of one head. Keys and values come in tiles of 64 tokens, each
// warp copying the 16 of them that it looked up in the block table.
//
// Keys beyond the context are neither looked up nor read: zeros take their place, so that whatever a cache block holds
// there, NaN included, cannot reach the result through a product with zero.
//
//   dynamic shared bytes of decode and prefill: 2 stages * 64 tokens * (keys + values) * head_size * 2
//   = 65,536 for heads of 128, 32,768 for heads of 64; block: 128

constexpr int THREADS = 128;
constexpr int WARPS = THREADS / GP_LANES;
// Tokens that one warp copies, and that decode gives it to work on.
constexpr int WARP_TOKENS = 16;
constexpr int TILE_TOKENS = WARPS * WARP_TOKENS;
constexpr int STAGES = 2;
// Query rows of a warp, the 16-wide side of an mma, and of a prefill block.
constexpr int WARP_ROWS = 16;
constexpr int TILE_ROWS = WARPS * WARP_ROWS;
constexpr int CHUNK_BYTES = 16;
constexpr int CHUNK_ELEMENTS = 8;
constexpr float LOG2_E = 1.4426950408889634f;

// One request's part of the paged cache, for one key head.
struct Context {
    const bf16 *cache;
    const int *blocks;
    int kv_heads;
    int kv_head;
    int block_size;
};

// Query rows of a warp on the way through the keys. A thread holds two of the rows, lane / 4 and 8 more.
template <int HEAD_SIZE>
struct Rows {
    // As the 16 x 16 operands of mma, along the head.
    unsigned queries[HEAD_SIZE / 16][4];
    // Weighted values, as mma's sums, along the head.
    float values[HEAD_SIZE / 8][4];
    // Largest score so far, in powers of two, and the sum of this thread's weights.
    float maximum[2];
    float sum[2];
};

template <int HEAD_SIZE>
struct Attention {
    static constexpr int CHUNKS = HEAD_SIZE / CHUNK_ELEMENTS;
    static constexpr unsigned LINE_BYTES = HEAD_SIZE * 2;
    static constexpr unsigned VALUES_OFFSET = TILE_TOKENS * LINE_BYTES;
    static constexpr unsigned STAGE_BYTES = 2 * VALUES_OFFSET;

    // Where a chunk of a token's keys (or values, further on by VALUES_OFFSET) lies; chunks are exchanged by the token's
    // number, so that eight tokens' loads meet eight different banks.
    static GP_DEVICE unsigned chunk_offset(int token, int chunk) {
        return token * LINE_BYTES + (chunk ^ (token % 8)) * CHUNK_BYTES;
    }

    // The row of the cache (one token's keys or values) of token lane % 16 of this warp's tokens of a tile, or -1 from token
    // `end` on.
    static GP_DEVICE int look_up(const Context &context, int tile_token, int end) {
        const int token = tile_token + threadIdx.x / GP_LANES * WARP_TOKENS + threadIdx.x % WARP_TOKENS;
        if (token >= end) return -1;
        return context.blocks[token / context.block_size] * 2 * context.block_size + token % context.block_size;
    }

    // Begins the copies of this warp's tokens, as looked up, zeros where there is none, and closes the group.
    static GP_DEVICE void copy_tokens(const Context &context, unsigned stage, int looked_up) {
        const int lane = threadIdx.x % GP_LANES, warp_token = threadIdx.x / GP_LANES * WARP_TOKENS;
        constexpr int TOKENS_AT_ONCE = GP_LANES / CHUNKS;
#pragma unroll
        for (int i = 0; i < WARP_TOKENS / TOKENS_AT_ONCE; i++) {
            const int within = i * TOKENS_AT_ONCE + lane / CHUNKS, chunk = lane % CHUNKS;
            const int row = gp_shuffle(looked_up, within);
            const bool present = row >= 0;
            const bf16 *keys = context.cache, *values = context.cache;
            if (present) {
                const unsigned long long width = context.kv_heads * HEAD_SIZE;
                keys += row * width + context.kv_head * HEAD_SIZE + chunk * CHUNK_ELEMENTS;
                values = keys + context.block_size * width;
            }
            const unsigned to = stage * STAGE_BYTES + chunk_offset(warp_token + within, chunk);
            gp_copy_async(to, keys, present);
            gp_copy_async(to + VALUES_OFFSET, values, present);
        }
        gp_copy_commit();
    }

    // Begins the rows: `low` and `high` are the queries of this thread's two rows, null for a row that is not there.
    static GP_DEVICE void begin(Rows<HEAD_SIZE> &rows, const bf16 *low, const bf16 *high) {
        const int column = threadIdx.x % 4 * 2;
#pragma unroll
        for (int step = 0; step < HEAD_SIZE / 16; step++) {
            rows.queries[step][0] = low == nullptr ? 0 : gp_load<unsigned>(low + step * 16 + column);
            rows.queries[step][1] = high == nullptr ? 0 : gp_load<unsigned>(high + step * 16 + column);
            rows.queries[step][2] = low == nullptr ? 0 : gp_load<unsigned>(low + step * 16 + column + 8);
            rows.queries[step][3] = high == nullptr ? 0 : gp_load<unsigned>(high + step * 16 + column + 8);
        }
#pragma unroll
        for (int i = 0; i < HEAD_SIZE / 8; i++) {
#pragma unroll
            for (int k = 0; k < 4; k++) rows.values[i][k] = 0.0f;
        }
        rows.maximum[0] = rows.maximum[1] = GP_MINUS_INFINITY;
        rows.sum[0] = rows.sum[1] = 0.0f;
    }

    // Takes in `TOKENS` tokens of a stage, from `stage_token` on. A row sees the first `seen` of them, by row.
    template <int TOKENS>
    static GP_DEVICE void take(Rows<HEAD_SIZE> &rows, unsigned stage, int stage_token, int seen_low, int seen_high,
                               float scale_log2) {
        const int lane = threadIdx.x % GP_LANES;
        const unsigned tile = stage * STAGE_BYTES;
        float scores[TOKENS / 8][4];
#pragma unroll
        for (int i = 0; i < TOKENS / 8; i++) {
#pragma unroll
            for (int k = 0; k < 4; k++) scores[i][k] = 0.0f;
        }
#pragma unroll
        for (int step = 0; step < HEAD_SIZE / 16; step++) {
#pragma unroll
            for (int i = 0; i < TOKENS / 16; i++) {
                unsigned keys[4];
                const int token = stage_token + i * 16 + lane / 16 * 8 + lane % 8;
                gp_load_matrices(keys, tile + chunk_offset(token, step * 2 + lane / 8 % 2));
                gp_mma(scores[2 * i], rows.queries[step], keys[0], keys[1]);
                gp_mma(scores[2 * i + 1], rows.queries[step], keys[2], keys[3]);
            }
        }

        float maximum[2] = {rows.maximum[0], rows.maximum[1]};
#pragma unroll
        for (int i = 0; i < TOKENS / 8; i++) {
#pragma unroll
            for (int k = 0; k < 4; k++) scores[i][k] *= scale_log2;
        }
        if (seen_low < TOKENS || seen_high < TOKENS) {
#pragma unroll
            for (int i = 0; i < TOKENS / 8; i++) {
#pragma unroll
                for (int k = 0; k < 4; k++) {
                    const int token = i * 8 + lane % 4 * 2 + k % 2;
                    if (token >= (k < 2 ? seen_low : seen_high)) scores[i][k] = GP_MINUS_INFINITY;
                }
            }
        }
#pragma unroll
        for (int i = 0; i < TOKENS / 8; i++) {
#pragma unroll
            for (int k = 0; k < 4; k++) maximum[k / 2] = fmaxf(maximum[k / 2], scores[i][k]);
        }
        float base[2];
#pragma unroll
        for (int row = 0; row < 2; row++) {
            maximum[row] = fmaxf(maximum[row], gp_shuffle_xor(maximum[row], 1));
            maximum[row] = fmaxf(maximum[row], gp_shuffle_xor(maximum[row], 2));
            // A row that has seen nothing yet: infinity minus infinity would be NaN.
            base[row] = maximum[row] == GP_MINUS_INFINITY ? 0.0f : maximum[row];
            const float rescale = gp_exp2(rows.maximum[row] - base[row]);
            rows.maximum[row] = maximum[row];
            rows.sum[row] *= rescale;
#pragma unroll
            for (int i = 0; i < HEAD_SIZE / 8; i++) {
                rows.values[i][row * 2] *= rescale;
                rows.values[i][row * 2 + 1] *= rescale;
            }
        }
#pragma unroll
        for (int i = 0; i < TOKENS / 8; i++) {
#pragma unroll
            for (int k = 0; k < 4; k++) {
                scores[i][k] = gp_exp2(scores[i][k] - base[k / 2]);
                rows.sum[k / 2] += scores[i][k];
            }
        }

        // Sums of one mma are, in pairs, the operand of the next.
#pragma unroll
        for (int i = 0; i < TOKENS / 16; i++) {
            const unsigned weights[4] = {gp_pack(scores[2 * i][0], scores[2 * i][1]),
                                         gp_pack(scores[2 * i][2], scores[2 * i][3]),
                                         gp_pack(scores[2 * i + 1][0], scores[2 * i + 1][1]),
                                         gp_pack(scores[2 * i + 1][2], scores[2 * i + 1][3])};
#pragma unroll
            for (int j = 0; j < HEAD_SIZE / 16; j++) {
                unsigned values[4];
                const int token = stage_token + i * 16 + lane / 8 % 2 * 8 + lane % 8;
                gp_load_matrices_transposed(values, tile + VALUES_OFFSET + chunk_offset(token, j * 2 + lane / 16));
                gp_mma(rows.values[2 * j], weights, values[0], values[1]);
                gp_mma(rows.values[2 * j + 1], weights, values[2], values[3]);
            }
        }
    }

    // Adds up the weights that the four threads of a row hold.
    static GP_DEVICE void finish(Rows<HEAD_SIZE> &rows) {
#pragma unroll
        for (int row = 0; row < 2; row++) {
            rows.sum[row] += gp_shuffle_xor(rows.sum[row], 1);
            rows.sum[row] += gp_shuffle_xor(rows.sum[row], 2);
        }
    }

    static GP_DEVICE void decode(bf16 *out, float *partial, const bf16 *qkv, const Context &context, int request,
                                 int query_heads, int first, int end, int split, int splits, float scale_log2) {
        const int lane = threadIdx.x % GP_LANES, warp = threadIdx.x / GP_LANES;
        const int group = query_heads / context.kv_heads, first_head = context.kv_head * group;
        const int width = (query_heads + 2 * context.kv_heads) * HEAD_SIZE;
        const bf16 *queries = qkv + static_cast<unsigned long long>(request) * width + first_head * HEAD_SIZE;
        Rows<HEAD_SIZE> rows;
        const int low = lane / 4, high = low + 8;
        begin(rows, low < group ? queries + low * HEAD_SIZE : nullptr,
              high < group ? queries + high * HEAD_SIZE : nullptr);

        // The warps share nothing until the end: each takes in the tokens that it copied itself.
        copy_tokens(context, 0, look_up(context, first, end));
        int looked_up = look_up(context, first + TILE_TOKENS, end);
        unsigned stage = 0;
        for (int tile_token = first; tile_token < end; tile_token += TILE_TOKENS) {
            // The other stage's tokens have been taken in by all lanes.
            __syncwarp();
            copy_tokens(context, (stage + 1) % STAGES, looked_up);
            looked_up = look_up(context, tile_token + 2 * TILE_TOKENS, end);
            gp_copy_wait<1>();
            // This stage's copies are there, those of the other lanes too.
            __syncwarp();
            const int seen = end - tile_token - warp * WARP_TOKENS;
            if (seen > 0) take<WARP_TOKENS>(rows, stage, warp * WARP_TOKENS, seen, seen, scale_log2);
            stage = (stage + 1) % STAGES;
        }
        finish(rows);

        // Each warp leaves maximum, sum and values of its tokens in shared memory, where the stages were.
        constexpr unsigned ROW_BYTES = (HEAD_SIZE + 2) * sizeof(float), WARP_BYTES = WARP_ROWS * ROW_BYTES;
        gp_copy_wait<0>();
        __syncthreads();
#pragma unroll
        for (int row = 0; row < 2; row++) {
            const unsigned to = warp * WARP_BYTES + (lane / 4 + row * 8) * ROW_BYTES;
            if (lane % 4 == 0) gp_store_shared(to, make_float2(rows.maximum[row], rows.sum[row]));
#pragma unroll
            for (int i = 0; i < HEAD_SIZE / 8; i++) {
                const unsigned column = 2 + i * 8 + lane % 4 * 2;
                gp_store_shared(to + column * sizeof(float),
                                make_float2(rows.values[i][row * 2], rows.values[i][row * 2 + 1]));
            }
        }
        __syncthreads();
        for (int i = threadIdx.x; i < group * (HEAD_SIZE / 2); i += THREADS) {
            const int row = i / (HEAD_SIZE / 2), column = i % (HEAD_SIZE / 2) * 2;
            float maximum = GP_MINUS_INFINITY;
#pragma unroll
            for (int from = 0; from < WARPS; from++) {
                maximum = fmaxf(maximum, gp_load_shared<float>(from * WARP_BYTES + row * ROW_BYTES));
            }
            const float base = maximum == GP_MINUS_INFINITY ? 0.0f : maximum;
            float sum = 0.0f, first_value = 0.0f, second_value = 0.0f;
#pragma unroll
            for (int from = 0; from < WARPS; from++) {
                const unsigned start = from * WARP_BYTES + row * ROW_BYTES;
                const float2 head = gp_load_shared<float2>(start);
                const float2 values = gp_load_shared<float2>(start + (2 + column) * sizeof(float));
                const float rescale = gp_exp2(head.x - base);
                sum += head.y * rescale;
                first_value += values.x * rescale;
                second_value += values.y * rescale;
            }
            const unsigned long long head = static_cast<unsigned long long>(request) * query_heads + first_head + row;
            if (splits == 1) {
                const float factor = sum > 0.0f ? 1.0f / sum : 0.0f;
                gp_store(out + head * HEAD_SIZE + column, gp_pack(first_value * factor, second_value * factor));
            } else {
                float *to = partial + (head * splits + split) * (HEAD_SIZE + 2);
                if (column == 0) gp_store(to, make_float2(maximum, sum));
                gp_store(to + 2 + column, make_float2(first_value, second_value));
            }
        }
    }

    static GP_DEVICE void prefill(bf16 *out, const bf16 *qkv, const Context &context, int tile_row, int first_row,
                                  int chunk, int context_len, int query_heads, int head, float scale_log2) {
        const int lane = threadIdx.x % GP_LANES, warp = threadIdx.x / GP_LANES;
        const int width = (query_heads + 2 * context.kv_heads) * HEAD_SIZE;
        const int low = tile_row + warp * WARP_ROWS + lane / 4, high = low + 8;
        const bf16 *queries = qkv + static_cast<unsigned long long>(first_row) * width + head * HEAD_SIZE;
        Rows<HEAD_SIZE> rows;
        begin(rows, low < chunk ? queries + static_cast<unsigned long long>(low) * width : nullptr,
              high < chunk ? queries + static_cast<unsigned long long>(high) * width : nullptr);

        // Row r of the chunk sees the tokens up to and including its own.
        const int before = context_len - chunk;
        const int end = before + min(tile_row + TILE_ROWS, chunk);
        copy_tokens(context, 0, look_up(context, 0, end));
        int looked_up = look_up(context, TILE_TOKENS, end);
        unsigned stage = 0;
        for (int tile_token = 0; tile_token < end; tile_token += TILE_TOKENS) {
            gp_copy_wait<0>();
            // From here on the tile is there for every warp, and nobody reads the other stage any more.
            __syncthreads();
            if (tile_token + TILE_TOKENS < end) copy_tokens(context, (stage + 1) % STAGES, looked_up);
            looked_up = look_up(context, tile_token + 2 * TILE_TOKENS, end);
            take<TILE_TOKENS>(rows, stage, 0, before + low + 1 - tile_token, before + high + 1 - tile_token,
                              scale_log2);
            stage = (stage + 1) % STAGES;
        }
        gp_copy_wait<0>();
        finish(rows);

#pragma unroll
        for (int row = 0; row < 2; row++) {
            const int chunk_row = row == 0 ? low : high;
            if (chunk_row >= chunk) continue;
            const float factor = rows.sum[row] > 0.0f ? 1.0f / rows.sum[row] : 0.0f;
            bf16 *to = out + (static_cast<unsigned long long>(first_row + chunk_row) * query_heads + head) * HEAD_SIZE;
#pragma unroll
            for (int i = 0; i < HEAD_SIZE / 8; i++) {
                gp_store(to + i * 8 + lane % 4 * 2,
                         gp_pack(rows.values[i][row * 2] * factor, rows.values[i][row * 2 + 1] * factor));
            }
        }
    }
};

GP_KERNEL __launch_bounds__(THREADS)
    decode_attention_bf16(bf16 *out, float *partial, const bf16 *qkv, const bf16 *cache, const int *block_table,
                          const int *context_lens, int query_heads, int kv_heads, int head_size, int block_size,
                          int blocks_per_request, int splits, float scale) {
    const int request = blockIdx.x, kv_head = blockIdx.y, split = blockIdx.z;
    const Context context = {cache, block_table + static_cast<unsigned long long>(request) * blocks_per_request,
                             kv_heads, kv_head, block_size};
    // Ranges of whole blocks, as even as they can be.
    const int context_len = context_lens[request];
    const int blocks = (context_len + block_size - 1) / block_size;
    const int first = gp_part_begin(blocks, split, splits) * block_size;
    const int end = min(gp_part_begin(blocks, split + 1, splits) * block_size, context_len);
    if (head_size == 128) {
        Attention<128>::decode(out, partial, qkv, context, request, query_heads, first, end, split, splits,
                               scale * LOG2_E);
    } else {
        Attention<64>::decode(out, partial, qkv, context, request, query_heads, first, end, split, splits,
                              scale * LOG2_E);
    }
}

GP_KERNEL __launch_bounds__(128) decode_attention_merge_bf16(bf16 *__restrict__ out, const float *__restrict__ partial,
                                                             int query_heads, int head_size, int splits) {
    const unsigned long long head = static_cast<unsigned long long>(blockIdx.x) * query_heads + blockIdx.y;
    const float *ranges = partial + head * splits * (head_size + 2);
    float maximum = GP_MINUS_INFINITY;
    for (int split = 0; split < splits; split++) maximum = fmaxf(maximum, ranges[split * (head_size + 2)]);
    const float base = maximum == GP_MINUS_INFINITY ? 0.0f : maximum;
    float sum = 0.0f, value = 0.0f;
    for (int split = 0; split < splits; split++) {
        const float *range = ranges + split * (head_size + 2);
        const float rescale = gp_exp2(range[0] - base);
        sum += range[1] * rescale;
        value += range[2 + threadIdx.x] * rescale;
    }
    out[head * head_size + threadIdx.x] = gp_bf16(sum > 0.0f ? value / sum : 0.0f);
}

GP_KERNEL __launch_bounds__(THREADS)
    prefill_attention_bf16(bf16 *out, const bf16 *qkv, const bf16 *cache, const int *block_table,
                           const int *query_starts, const int *context_lens, int query_heads, int kv_heads,
                           int head_size, int block_size, int blocks_per_request, float scale) {
    const int head = blockIdx.y, request = blockIdx.z;
    const int first_row = query_starts[request], chunk = query_starts[request + 1] - first_row;
    // The grid is as long as the longest chunk; the tiles that see most begin first.
    const int tile_row = static_cast<int>(gridDim.x - 1 - blockIdx.x) * TILE_ROWS;
    if (tile_row >= chunk) return;
    const Context context = {cache, block_table + static_cast<unsigned long long>(request) * blocks_per_request,
                             kv_heads, head / (query_heads / kv_heads), block_size};
    if (head_size == 128) {
        Attention<128>::prefill(out, qkv, context, tile_row, first_row, chunk, context_lens[request], query_heads, head,
                                scale * LOG2_E);
    } else {
        Attention<64>::prefill(out, qkv, context, tile_row, first_row, chunk, context_lens[request], query_heads, head,
                               scale * LOG2_E);
    }
}
