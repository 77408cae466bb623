// What measuring needs besides the model: null, gate, clocks, copy.

GP_KERNEL __launch_bounds__(32) null_kernel() {}

// Outcomes of the gate.
constexpr unsigned RELEASED = 1;
constexpr unsigned TIMED_OUT = 2;

GP_KERNEL __launch_bounds__(1) gate_kernel(const unsigned *flag, unsigned *outcome, unsigned long long timeout_ns) {
    const unsigned long long start_ns = gp_global_ns();
    unsigned result = TIMED_OUT;
    do {
        if (gp_load_from_host(flag) != 0) {
            result = RELEASED;
            break;
        }
    } while (gp_global_ns() - start_ns < timeout_ns);
    *outcome = result;
}

GP_KERNEL __launch_bounds__(1) clocks_kernel(unsigned long long *out, unsigned long long cycles) {
    const unsigned long long start_cycles = gp_clock_cycles();
    const unsigned long long start_ns = gp_global_ns();
    while (gp_clock_cycles() - start_cycles < cycles) {
    }
    const unsigned long long end_cycles = gp_clock_cycles();
    const unsigned long long end_ns = gp_global_ns();
    out[0] = start_cycles;
    out[1] = start_ns;
    out[2] = end_cycles;
    out[3] = end_ns;
}

// Vectors that a thread has under way at once.
constexpr int COPIES_IN_FLIGHT = 4;

GP_KERNEL __launch_bounds__(256)
    copy_kernel(uint4 *__restrict__ to, const uint4 *__restrict__ from, unsigned long long vectors) {
    const unsigned long long stride = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
    unsigned long long i = static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    for (; i + (COPIES_IN_FLIGHT - 1) * stride < vectors; i += COPIES_IN_FLIGHT * stride) {
        uint4 vector[COPIES_IN_FLIGHT];
#pragma unroll
        for (int copy = 0; copy < COPIES_IN_FLIGHT; copy++) vector[copy] = gp_load<uint4>(from + i + copy * stride);
#pragma unroll
        for (int copy = 0; copy < COPIES_IN_FLIGHT; copy++) gp_store(to + i + copy * stride, vector[copy]);
    }
    for (; i < vectors; i += stride) gp_store(to + i, gp_load<uint4>(from + i));
}
