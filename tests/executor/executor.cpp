// Runs the kernels of kernels/cuda on the CPU, from the same sources as the GPU: each CUDA thread is a fiber, blocks run one
// after the other, in an order that the caller chooses.
//
//   g++ -std=c++17 -O2 -shared -fPIC -I kernels/cuda tests/executor/executor.cpp -o libkernels_cpu.so
//
// Pointers are addresses of this process. What it notices besides wrong results: barriers and warp operations that not all
// threads reach, misaligned accesses and shared ones out of bounds, reads of shared memory that nobody wrote, and shared
// accesses that no barrier orders, copies under way included. What it cannot notice: missing fences and races between
// blocks, bank conflicts, the approximations of a device's functions, and what only the PTX of a wrapper says.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "device.h"

// Everything has internal linkage, statics of templates too, so that several builds of changed sources live in one process.
namespace {

#include "portable.cuh"

// The modules named by -DRUNGWISE_WITH_GEMM and so on, so that a changed copy of one builds quickly; all if none is named.
#if !defined(RUNGWISE_WITH_DECODER) && !defined(RUNGWISE_WITH_ATTENTION) && !defined(RUNGWISE_WITH_GEMM) && \
    !defined(RUNGWISE_WITH_MEASURE)
#define RUNGWISE_WITH_DECODER
#define RUNGWISE_WITH_ATTENTION
#define RUNGWISE_WITH_GEMM
#define RUNGWISE_WITH_MEASURE
#endif

#ifdef RUNGWISE_WITH_DECODER
namespace decoder {
#include "decoder.cu"
}
#endif
#ifdef RUNGWISE_WITH_ATTENTION
namespace attention {
#include "attention.cu"
}
#endif
#ifdef RUNGWISE_WITH_GEMM
namespace gemm {
#include "gemm.cu"
}
#endif
#ifdef RUNGWISE_WITH_MEASURE
namespace measure {
#include "measure.cu"
}
#endif

// How a kernel is called with a packed argument buffer, each argument at its natural alignment.
template <typename... Parameters>
constexpr size_t packed_bytes(void (*)(Parameters...)) {
    size_t bytes = 0;
    ((bytes = (bytes + sizeof(Parameters) - 1) / sizeof(Parameters) * sizeof(Parameters) + sizeof(Parameters)), ...);
    return bytes;
}

template <typename T>
T next_argument(const unsigned char *arguments, size_t &at) {
    T value;
    at = (at + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    std::memcpy(&value, arguments + at, sizeof(T));
    at += sizeof(T);
    return value;
}

template <typename... Parameters>
void call(void (*kernel)(Parameters...), [[maybe_unused]] const unsigned char *arguments) {
    [[maybe_unused]] size_t at = 0;
    // Braces, so that the arguments are taken in order.
    std::apply(kernel, std::tuple<Parameters...>{next_argument<Parameters>(arguments, at)...});
}

struct Kernel {
    const char *symbol;
    void (*run)(const unsigned char *);
    size_t argument_bytes;
};

#define KERNEL(module, symbol) \
    {#symbol, [](const unsigned char *arguments) { call(module::symbol, arguments); }, packed_bytes(module::symbol)}
const Kernel KERNELS[] = {
#ifdef RUNGWISE_WITH_DECODER
    KERNEL(decoder, embed_bf16),
    KERNEL(decoder, rms_norm_bf16),
    KERNEL(decoder, head_norm_bf16),
    KERNEL(decoder, rotary_bf16),
    KERNEL(decoder, kv_write_bf16),
    KERNEL(decoder, silu_mul_bf16),
    KERNEL(decoder, argmax_bf16),
#endif
#ifdef RUNGWISE_WITH_ATTENTION
    KERNEL(attention, decode_attention_bf16),
    KERNEL(attention, decode_attention_merge_bf16),
    KERNEL(attention, prefill_attention_bf16),
#endif
#ifdef RUNGWISE_WITH_GEMM
    KERNEL(gemm, gemm_tile16_bf16),
    KERNEL(gemm, gemm_tile64_bf16),
    KERNEL(gemm, gemm_tile128_bf16),
#endif
#ifdef RUNGWISE_WITH_MEASURE
    KERNEL(measure, null_kernel),
    KERNEL(measure, gate_kernel),
    KERNEL(measure, clocks_kernel),
    KERNEL(measure, copy_kernel),
#endif
};

constexpr unsigned MAX_THREADS = 1024;

executor::Outcome launch(const Kernel *kernel, const char *symbol, const unsigned grid[3], const unsigned block[3],
                         unsigned shared_bytes, const unsigned char *arguments, size_t argument_bytes, unsigned order,
                         std::string &message) {
    using executor::run;
    if (kernel == nullptr) {
        message = std::string(symbol) + " is no kernel";
        return executor::UNKNOWN_KERNEL;
    }
    if (argument_bytes != kernel->argument_bytes) {
        message = std::string(symbol) + " takes " + std::to_string(kernel->argument_bytes) +
                  " bytes of arguments, not " + std::to_string(argument_bytes);
        return executor::BAD_ARGUMENTS;
    }
    const uint64_t threads = static_cast<uint64_t>(block[0]) * block[1] * block[2];
    const uint64_t blocks = static_cast<uint64_t>(grid[0]) * grid[1] * grid[2];
    if (threads == 0 || threads > MAX_THREADS || blocks == 0 || blocks > UINT32_MAX ||
        shared_bytes > executor::MAX_SHARED_BYTES) {
        message = std::string(symbol) + ": " + std::to_string(blocks) + " blocks of " + std::to_string(threads) +
                  " threads with " + std::to_string(shared_bytes) +
                  " bytes of shared memory are not what a device can run";
        return executor::BAD_ACCESS;
    }
    run.symbol = kernel->symbol;
    run.kernel = kernel->run;
    run.arguments = arguments;
    run.grid = {grid[0], grid[1], grid[2]};
    run.block = {block[0], block[1], block[2]};
    run.shared_bytes = shared_bytes;
    run.order = order;
    run.random = {order * UINT64_C(0x9e3779b97f4a7c15) + 1};
    run.device_ns = 0;
    run.outcome = executor::DONE;
    run.message.clear();
    run.threads.resize(threads);
    run.warps.resize((threads + executor::LANES - 1) / executor::LANES);
    if (run.stacks.at(threads - 1) == nullptr) {
        message = "no memory for the stacks of " + std::to_string(threads) + " threads";
        return executor::BAD_ACCESS;
    }

    std::vector<unsigned> block_order(blocks), thread_order(threads);
    for (unsigned i = 0; i < blocks; i++) block_order[i] = i;
    for (unsigned i = 0; i < threads; i++) thread_order[i] = i;
    if (order == 1) {
        std::reverse(block_order.begin(), block_order.end());
        std::reverse(thread_order.begin(), thread_order.end());
    }
    if (order >= 2) run.random.shuffle(block_order);
    for (const unsigned number : block_order) {
        run.block_index = {number % grid[0], number / grid[0] % grid[1], number / grid[0] / grid[1]};
        executor::dynamic_shared.poison();
        executor::run_block(thread_order);
        if (run.outcome != executor::DONE) break;
    }
    message = run.message;
    return run.outcome;
}

std::mutex one_launch_at_a_time;

}  // namespace

// Runs one launch. `arguments` are packed, each at its natural alignment. `order` is that of threads and blocks: 0
// ascending, 1 descending, from 2 on shuffled by this seed. Returns 0, or with a message (cut to `message_bytes`, ended by a
// zero): 1 unknown kernel; 2 a barrier or a warp operation that not all threads reach; 3 a misaligned or out-of-range
// access, or a launch that no device can run; 4 wrong size of the arguments; 5 shared memory read before it is written, or
// accessed with no barrier between.
extern "C" __attribute__((visibility("default"))) int rungwise_cpu_launch(
    const char *symbol, const unsigned grid[3], const unsigned block[3], unsigned shared_bytes,
    const unsigned char *arguments, size_t argument_bytes, unsigned order, char *message, size_t message_bytes) {
    const std::lock_guard<std::mutex> lock(one_launch_at_a_time);
    const Kernel *kernel = nullptr;
    for (const Kernel &known : KERNELS) {
        if (std::strcmp(known.symbol, symbol) == 0) kernel = &known;
    }
    std::string text;
    const int outcome = launch(kernel, symbol, grid, block, shared_bytes, arguments, argument_bytes, order, text);
    if (message_bytes > 0) std::snprintf(message, message_bytes, "%s", text.c_str());
    return outcome;
}
