// The words of CUDA C++ that the kernels use, and the `gp_` wrappers of portable.cuh, over the executor's block.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "shared.h"

#define RUNGWISE_EXECUTOR 1
#define GP_DEVICE inline
#define GP_KERNEL void
#define GP_SHARED(type, name, count) static executor::SharedArray<type, count> name(#name)
#define __launch_bounds__(...)
#define threadIdx (executor::run.current->index)
#define blockIdx (executor::run.block_index)
#define blockDim (executor::run.block)
#define gridDim (executor::run.grid)
#define __syncthreads() executor::wait_for_block(__FILE__, __LINE__)

namespace {

struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

template <typename To, typename From>
inline To executor_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "bits are taken over one to one");
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}
inline float __uint_as_float(unsigned bits) { return executor_bits<float>(bits); }
inline float __int_as_float(int bits) { return executor_bits<float>(bits); }
inline int min(int a, int b) { return a < b ? a : b; }
inline float __fdividef(float x, float y) { return x / y; }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline void sincospif(float x, float *sine, float *cosine) {
    constexpr double PI = 3.141592653589793;
    *sine = static_cast<float>(std::sin(PI * x));
    *cosine = static_cast<float>(std::cos(PI * x));
}

// Blocks run one after the other: a fence has nothing to order, and a missing one cannot be noticed.
inline void __threadfence() {}
inline unsigned atomicAdd(unsigned *counter, unsigned value) {
    const unsigned before = *counter;
    *counter = before + value;
    return before;
}
inline void __syncwarp() {
    executor::with_warp("__syncwarp", nullptr, [](executor::Warp &warp) { warp.fences++; });
}

template <typename T>
inline const T *executor_aligned(const void *address) {
    if (reinterpret_cast<uintptr_t>(address) % alignof(T) != 0) {
        executor::fault(executor::BAD_ACCESS, "accesses %zu bytes of memory at %p, which is no multiple of %zu",
                        sizeof(T), address, alignof(T));
    }
    return static_cast<const T *>(address);
}
template <typename T>
inline T gp_load(const void *address) {
    return *executor_aligned<T>(address);
}
template <typename T>
inline void gp_store(void *address, T value) {
    *const_cast<T *>(executor_aligned<T>(address)) = value;
}
template <typename T>
inline T gp_load_written_by_others(const void *address) {
    return *executor_aligned<T>(address);
}
inline unsigned gp_load_from_host(const unsigned *address) {
    return *const_cast<const volatile unsigned *>(executor_aligned<unsigned>(address));
}

template <typename T>
inline T gp_load_shared(unsigned offset) {
    T value;
    std::memcpy(&value, executor::dynamic_shared.read(offset, sizeof(T), alignof(T)), sizeof(T));
    return value;
}
template <typename T>
inline void gp_store_shared(unsigned offset, T value) {
    std::memcpy(executor::dynamic_shared.write(offset, sizeof(T), alignof(T)), &value, sizeof(T));
}

constexpr unsigned EXECUTOR_COPY_BYTES = 16;

// A device may let a copy land at any time between its begin and the end of the wait for it: here it lands late in
// ascending order, at once in descending order, and either way in seeded ones.
inline void gp_copy_async(unsigned shared, const void *global, bool present) {
    executor_aligned<uint4>(global);
    const executor::Copy copy = {shared, present ? global : nullptr};
    executor::dynamic_shared.begin_copy(shared, EXECUTOR_COPY_BYTES);
    const bool at_once = executor::run.order == 1 || (executor::run.order >= 2 && executor::run.random.below(2) == 0);
    if (at_once) executor::dynamic_shared.land(copy, EXECUTOR_COPY_BYTES);
    executor::run.current->copies.begin(copy);
}
inline void gp_copy_commit() { executor::run.current->copies.close_group(); }
template <int newest>
inline void gp_copy_wait() {
    executor::run.current->copies.wait(newest, [](const executor::Copy &copy) {
        executor::dynamic_shared.land(copy, EXECUTOR_COPY_BYTES);
        executor::dynamic_shared.end_copy(copy, EXECUTOR_COPY_BYTES);
    });
}

// Operands of a warp's operations, one set a lane. They lie on the stacks of waiting threads.
struct ExecutorShuffle {
    unsigned bits, from, result;
};
inline unsigned executor_shuffle(const char *what, unsigned bits, unsigned from) {
    ExecutorShuffle own = {bits, from, 0};
    executor::with_warp(what, &own, [](executor::Warp &warp) {
        for (unsigned lane = 0; lane < warp.lanes; lane++) {
            ExecutorShuffle &to = *static_cast<ExecutorShuffle *>(warp.operands[lane]);
            // A lane that is not there: undefined on a device.
            if (to.from >= warp.lanes) {
                executor::fault(executor::DIVERGENCE, "a shuffle reads lane %u of %u", to.from, warp.lanes);
            }
            to.result = static_cast<ExecutorShuffle *>(warp.operands[to.from])->bits;
        }
    });
    return own.result;
}
inline float gp_shuffle_xor(float value, int lanes) {
    return __uint_as_float(executor_shuffle("__shfl_xor_sync", executor_bits<unsigned>(value),
                                            executor::run.current->lane ^ static_cast<unsigned>(lanes)));
}
inline int gp_shuffle_xor(int value, int lanes) {
    return static_cast<int>(executor_shuffle("__shfl_xor_sync", static_cast<unsigned>(value),
                                             executor::run.current->lane ^ static_cast<unsigned>(lanes)));
}
inline int gp_shuffle(int value, int lane) {
    return static_cast<int>(executor_shuffle("__shfl_sync", static_cast<unsigned>(value), static_cast<unsigned>(lane)));
}

struct ExecutorMatrices {
    unsigned *matrices;
    const unsigned char *row;
};
template <bool transposed>
inline void executor_load_matrices(const char *what, unsigned (&matrices)[4], unsigned shared) {
    constexpr unsigned ROW_BYTES = 16;
    // Each lane reads the row that it names.
    ExecutorMatrices own = {matrices, executor::dynamic_shared.read(shared, ROW_BYTES, ROW_BYTES)};
    executor::with_warp(what, &own, [](executor::Warp &warp) {
        // Copied first: rows could be in use as somebody's result only after everybody has read.
        uint16_t rows[executor::LANES][8];
        for (unsigned lane = 0; lane < executor::LANES; lane++) {
            std::memcpy(rows[lane], static_cast<ExecutorMatrices *>(warp.operands[lane])->row, ROW_BYTES);
        }
        for (unsigned lane = 0; lane < executor::LANES; lane++) {
            unsigned *const to = static_cast<ExecutorMatrices *>(warp.operands[lane])->matrices;
            const unsigned line = lane / 4, column = lane % 4 * 2;
            for (unsigned matrix = 0; matrix < 4; matrix++) {
                const auto *const at = rows + matrix * 8;
                const unsigned low = transposed ? at[column][line] : at[line][column];
                const unsigned high = transposed ? at[column + 1][line] : at[line][column + 1];
                to[matrix] = low | high << 16;
            }
        }
    });
}
inline void gp_load_matrices(unsigned (&matrices)[4], unsigned shared) {
    executor_load_matrices<false>("ldmatrix", matrices, shared);
}
inline void gp_load_matrices_transposed(unsigned (&matrices)[4], unsigned shared) {
    executor_load_matrices<true>("ldmatrix.trans", matrices, shared);
}

struct ExecutorMma {
    float *sums;
    const unsigned *a;
    unsigned b[2];
};
inline void gp_mma(float (&sums)[4], const unsigned (&a)[4], unsigned b_low, unsigned b_high) {
    ExecutorMma own = {sums, a, {b_low, b_high}};
    executor::with_warp("mma", &own, [](executor::Warp &warp) {
        typedef float Columns __attribute__((vector_size(32)));
        // PTX, "Matrix Fragments for mma.m16n8k16": lane 4 g + t holds of a the rows g and g + 8, of b the column g, and
        // of both the pairs 2 t and 2 t + 8 along the inner dimension; of the sums the columns 2 t and 2 t + 1.
        float a[16][16];
        Columns b[16], sums[16];
        for (unsigned lane = 0; lane < executor::LANES; lane++) {
            const ExecutorMma &from = *static_cast<ExecutorMma *>(warp.operands[lane]);
            const unsigned g = lane / 4, t = lane % 4;
            for (unsigned part = 0; part < 4; part++) {
                const unsigned row = g + part % 2 * 8, inner = 2 * t + part / 2 * 8;
                a[row][inner] = __uint_as_float(from.a[part] << 16);
                a[row][inner + 1] = __uint_as_float(from.a[part] & 0xffff0000u);
                sums[row][2 * t] = from.sums[part % 2 * 2];
                sums[row][2 * t + 1] = from.sums[part % 2 * 2 + 1];
            }
            for (unsigned part = 0; part < 2; part++) {
                const unsigned inner = 2 * t + part * 8;
                b[inner][g] = __uint_as_float(from.b[part] << 16);
                b[inner + 1][g] = __uint_as_float(from.b[part] & 0xffff0000u);
            }
        }
        // Four rows at a time, so that the processor has independent sums to work on.
        for (unsigned row = 0; row < 16; row += 4) {
            Columns first = sums[row], second = sums[row + 1], third = sums[row + 2], fourth = sums[row + 3];
            for (unsigned inner = 0; inner < 16; inner++) {
                first += a[row][inner] * b[inner];
                second += a[row + 1][inner] * b[inner];
                third += a[row + 2][inner] * b[inner];
                fourth += a[row + 3][inner] * b[inner];
            }
            sums[row] = first;
            sums[row + 1] = second;
            sums[row + 2] = third;
            sums[row + 3] = fourth;
        }
        for (unsigned lane = 0; lane < executor::LANES; lane++) {
            float *const to = static_cast<ExecutorMma *>(warp.operands[lane])->sums;
            const unsigned g = lane / 4, t = lane % 4;
            for (unsigned part = 0; part < 4; part++) to[part] = sums[g + part / 2 * 8][2 * t + part % 2];
        }
    });
}

// bf16 of a value, rounded to nearest even; every NaN becomes the one that cvt gives.
inline unsigned executor_bf16(float value) {
    if (value != value) return 0x7fff;
    const unsigned bits = executor_bits<unsigned>(value);
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
inline unsigned gp_pack(float low, float high) { return executor_bf16(low) | executor_bf16(high) << 16; }
inline float gp_exp2(float x) { return std::exp2(x); }

// Both clocks show one device time, which every look moves on by half a microsecond; two cycles are a nanosecond.
constexpr uint64_t EXECUTOR_LOOK_NS = 500;
inline unsigned long long gp_global_ns() { return executor::run.device_ns += EXECUTOR_LOOK_NS; }
inline unsigned long long gp_clock_cycles() { return 2 * (executor::run.device_ns += EXECUTOR_LOOK_NS); }

}  // namespace
