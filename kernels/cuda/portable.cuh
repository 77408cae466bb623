// What every module is written with: bf16 without a toolkit header, and the few things that only a GPU has, each behind a
// small `gp_` wrapper ("GPU primitive"). This text and one .cu file are compiled as one translation unit: by NVRTC to PTX,
// and with RUNGWISE_EXECUTOR defined by a C++ compiler, for the CPU executor of the tests, which brings its own wrappers.
//
// Rules for the modules, so that both compilers see the same program:
//  - no `asm` and no `extern __shared__` outside this file;
//  - static shared memory through GP_SHARED, dynamic shared memory by byte offset through the wrappers;
//  - a warp's lanes reach every shuffle, matrix load and mma together.
#pragma once

// bf16 is the upper half of an f32.
typedef unsigned short bf16;

#ifndef RUNGWISE_EXECUTOR

#define GP_DEVICE __device__ __forceinline__
#define GP_KERNEL extern "C" __global__ void
// A static array of shared memory, undefined at the start of a block.
#define GP_SHARED(type, name, count) __shared__ type name[count]

// The dynamic shared memory of a block; everything else names it by offset.
extern __shared__ __align__(128) unsigned char gp_dynamic_shared[];

GP_DEVICE unsigned gp_shared_address(unsigned offset) {
    return static_cast<unsigned>(__cvta_generic_to_shared(gp_dynamic_shared)) + offset;
}

template <typename T>
GP_DEVICE T gp_load_shared(unsigned offset) {
    return *reinterpret_cast<const T *>(gp_dynamic_shared + offset);
}

template <typename T>
GP_DEVICE void gp_store_shared(unsigned offset, T value) {
    *reinterpret_cast<T *>(gp_dynamic_shared + offset) = value;
}

// Vectors of 16, 8 or 4 bytes; the address is a multiple of the size.
template <typename T>
GP_DEVICE T gp_load(const void *address) {
    return *reinterpret_cast<const T *>(address);
}

template <typename T>
GP_DEVICE void gp_store(void *address, T value) {
    *reinterpret_cast<T *>(address) = value;
}

// Reads past the first-level cache: what other blocks wrote in this launch.
template <typename T>
GP_DEVICE T gp_load_written_by_others(const void *address) {
    return __ldcg(reinterpret_cast<const T *>(address));
}

// Begins a copy of 16 bytes to shared memory, zeros if `present` is false; the address must be a valid one even then.
GP_DEVICE void gp_copy_async(unsigned shared, const void *global, bool present) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(gp_shared_address(shared)), "l"(global),
                 "r"(present ? 16 : 0)
                 : "memory");
}

// Closes the group of the copies begun so far.
GP_DEVICE void gp_copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most `newest` of this thread's groups are under way.
template <int newest>
GP_DEVICE void gp_copy_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(newest) : "memory");
}

// Four 8x8 matrices of bf16: lane i gives the address of row i % 8 of matrix i / 8, and receives of each matrix the
// elements 2 (i % 4) and the next of row i / 4.
GP_DEVICE void gp_load_matrices(unsigned (&matrices)[4], unsigned shared) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
                 : "r"(gp_shared_address(shared))
                 : "memory");
}

// The same, each matrix transposed.
GP_DEVICE void gp_load_matrices_transposed(unsigned (&matrices)[4], unsigned shared) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
                 : "r"(gp_shared_address(shared))
                 : "memory");
}

// sums (16 x 8) += a (16 x 16) * b (16 x 8), each spread over a warp as PTX's mma.m16n8k16 says.
GP_DEVICE void gp_mma(float (&sums)[4], const unsigned (&a)[4], unsigned b_low, unsigned b_high) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_low), "r"(b_high));
}

// Two values as bf16, rounded to nearest even, `low` at the lower address.
GP_DEVICE unsigned gp_pack(float low, float high) {
    unsigned packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

// 2^x, approximately (2 ulp); 0 for minus infinity.
GP_DEVICE float gp_exp2(float x) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}

GP_DEVICE float gp_shuffle_xor(float value, int lanes) { return __shfl_xor_sync(0xffffffffu, value, lanes); }
GP_DEVICE int gp_shuffle_xor(int value, int lanes) { return __shfl_xor_sync(0xffffffffu, value, lanes); }
GP_DEVICE int gp_shuffle(int value, int lane) { return __shfl_sync(0xffffffffu, value, lane); }

// Counter of the multiprocessor's clock.
GP_DEVICE unsigned long long gp_clock_cycles() {
    unsigned long long cycles;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles)::"memory");
    return cycles;
}

// The device's global timer, in nanoseconds; it advances in coarse steps on some devices.
GP_DEVICE unsigned long long gp_global_ns() {
    unsigned long long ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns)::"memory");
    return ns;
}

// Reads what the host may have written meanwhile.
GP_DEVICE unsigned gp_load_from_host(const unsigned *address) {
    unsigned value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    return value;
}

#endif

#define GP_MINUS_INFINITY __int_as_float(static_cast<int>(0xff800000u))

// A warp has 32 lanes on every device that this is compiled for.
constexpr int GP_LANES = 32;

GP_DEVICE float gp_float_of_low(unsigned packed) { return __uint_as_float(packed << 16); }
GP_DEVICE float gp_float_of_high(unsigned packed) { return __uint_as_float(packed & 0xffff0000u); }
GP_DEVICE float gp_float(bf16 value) { return __uint_as_float(static_cast<unsigned>(value) << 16); }
GP_DEVICE bf16 gp_bf16(float value) { return static_cast<bf16>(gp_pack(value, 0.0f)); }

// Eight bf16 of one 16-byte vector, in order.
GP_DEVICE void gp_unpack(float (&values)[8], uint4 vector) {
    values[0] = gp_float_of_low(vector.x);
    values[1] = gp_float_of_high(vector.x);
    values[2] = gp_float_of_low(vector.y);
    values[3] = gp_float_of_high(vector.y);
    values[4] = gp_float_of_low(vector.z);
    values[5] = gp_float_of_high(vector.z);
    values[6] = gp_float_of_low(vector.w);
    values[7] = gp_float_of_high(vector.w);
}

GP_DEVICE uint4 gp_pack(const float (&values)[8]) {
    uint4 vector;
    vector.x = gp_pack(values[0], values[1]);
    vector.y = gp_pack(values[2], values[3]);
    vector.z = gp_pack(values[4], values[5]);
    vector.w = gp_pack(values[6], values[7]);
    return vector;
}

// Where part `part` of `parts` begins when `count` things are dealt out as evenly as they can be.
GP_DEVICE int gp_part_begin(int count, int part, int parts) { return count / parts * part + min(part, count % parts); }

// Sum over a warp, the same in every lane.
GP_DEVICE float gp_warp_sum(float value) {
#pragma unroll
    for (int lanes = GP_LANES / 2; lanes > 0; lanes /= 2) value += gp_shuffle_xor(value, lanes);
    return value;
}
