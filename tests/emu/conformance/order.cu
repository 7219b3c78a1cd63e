/*
 * Sums that threads of different warps exchange, and a thread's number read anew: one block of two warps.
 */
#include "types.cuh"

#include "ptx/atomic.cuh"
#include "ptx/barrier.cuh"
#include "ptx/convert.cuh"
#include "ptx/fresh_registers.cuh"
#include "ptx/global_memory.cuh"
#include "ptx/global_order.cuh"
#include "ptx/special_registers.cuh"

struct order_params {
    const uint32_t *input;
    uint32_t *output; // zeros
};

constexpr uint32_t kSeen = 128;
constexpr uint32_t kNumbers = 384;

/* Thread t adds its four numbers to those of lane t % 32, and reads what lane (t + 5) % 32 has. */
extern "C" __global__ __launch_bounds__(64, 1) void conformance(const __grid_constant__ order_params params)
{
    float *sums = reinterpret_cast<float *>(params.output);
    float four[4];
    for (uint32_t i = 0; i < 4; ++i) {
        four[i] = bits_as_float(static_cast<uint32_t>(
            ld_global_nc_s32(reinterpret_cast<const int32_t *>(params.input) + tid_x() * 4 + i)));
    }
    red_global_add_v4_f32(sums + tid_x() % 32 * 4, four);
    fence_acq_rel_gpu();
    bar_sync_0();
    fence_acq_rel_gpu();
    float seen[4];
    ld_global_relaxed_v4_f32(seen, sums + (tid_x() + 5) % 32 * 4);
    for (uint32_t i = 0; i < 4; ++i) {
        st_global_b32(params.output + kSeen + tid_x() * 4 + i, float_as_bits(seen[i]));
    }
    st_global_b32(params.output + kNumbers + tid_x(), fresh_tid_x());
}
