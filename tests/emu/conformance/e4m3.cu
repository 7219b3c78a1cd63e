/*
 * wgmma of e4m3 numbers: block b runs case b, one warpgroup. Both matrices have K as the faster dimension.
 *
 * input: for each block 64 * 32 bytes of A, then 256 * 32 of B ([n][k]), then 128 * 128 floats of D. output: 128 words a thread.
 */
#include "ptx/barrier.cuh"
#include "ptx/convert.cuh"
#include "ptx/fence.cuh"
#include "ptx/global_memory.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/special_registers.cuh"
#include "ptx/wgmma.cuh"
#include "ptx/wgmma_e4m3_n128.cuh"
#include "ptx/wgmma_e4m3_n256.cuh"
#include "ptx/wgmma_e4m3_n64.cuh"

constexpr uint32_t kBytesA = 64 * 32;
constexpr uint32_t kBytesB = 256 * 32;
constexpr uint32_t kBlockWords = (kBytesA + kBytesB) / 4 + 128 * 128;
constexpr uint32_t kPlaceB = 16384;

__device__ constexpr uint32_t span_of(uint32_t mode)
{
    return mode == 0 ? 16 : mode == 1 ? 128 : mode == 2 ? 64 : 32;
}

__device__ inline uint32_t swizzle(uint32_t address, uint32_t mode)
{
    const uint32_t mask = mode == 0 ? 0 : mode == 1 ? 7 : mode == 2 ? 3 : 1;
    return address ^ (address >> 7 & mask) << 4;
}

/* Two bytes at a time; returns the descriptor. */
template <uint32_t kMode> __device__ inline uint64_t put_matrix(const uint32_t *input, uint32_t base, uint32_t extent)
{
    constexpr uint32_t kSpan = span_of(kMode);
    constexpr uint32_t kLeading = kMode == 0 ? 128 : 16;
    constexpr uint32_t kStride = kMode == 0 ? 384 : kSpan * 8;
    for (uint32_t i = tid_x(); i < extent * 16; i += 128) {
        const uint32_t row = i / 16;
        const uint32_t k = i % 16 * 2;
        const uint32_t place = kMode == 0 ? row / 8 * kStride + row % 8 * 16 + k / 16 * kLeading + k % 16
                                          : row / 8 * kStride + row % 8 * kSpan + k;
        st_shared_b16(swizzle(base + place, kMode), ld_global_nc_b16(reinterpret_cast<const uint16_t *>(input) + i));
    }
    return (wgmma_descriptor_128b(base, kLeading, kStride) & ~(3ull << 62)) | static_cast<uint64_t>(kMode) << 62;
}

template <uint32_t kColumns, uint32_t kMode, bool kRegisters>
__device__ inline void run(const uint32_t *input, uint32_t *output, bool accumulate)
{
    const uint32_t shared = dynamic_shared_base();
    const uint64_t a = put_matrix<kMode>(input, shared, 64);
    const uint64_t b = put_matrix<kMode>(input + kBytesA / 4, shared + kPlaceB, kColumns);
    fence_proxy_async_shared();
    bar_sync_0();
    float d[kColumns / 2];
    const auto *sums = reinterpret_cast<const int32_t *>(input) + (kBytesA + kBytesB) / 4 + tid_x() * 128;
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) {
        d[i] = bits_as_float(static_cast<uint32_t>(ld_global_nc_s32(sums + i)));
    }
    if (kRegisters) {
        uint32_t fragment[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const uint32_t row = tid_x() / 32 * 16 + tid_x() % 32 / 4 + i % 2 * 8;
            const uint32_t column = tid_x() % 4 * 4 + i / 2 * 16;
            fragment[i] = static_cast<uint32_t>(
                ld_global_nc_s32(reinterpret_cast<const int32_t *>(input) + row * 8 + column / 4));
        }
        tie(fragment);
        wgmma_fence();
        wgmma_m64k32_e4m3_rs(d, fragment, b, accumulate);
    } else {
        wgmma_fence();
        wgmma_m64k32_e4m3_ss(d, a, b, accumulate);
    }
    wgmma_commit_group();
    wgmma_wait_group<0>();
    tie(d);
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) {
        st_global_b32(output + tid_x() * 128 + i, float_as_bits(d[i]));
    }
}

extern "C" __global__ __launch_bounds__(128) void conformance(const uint32_t *all_input, uint32_t *all_output)
{
    const uint32_t *input = all_input + ctaid_x() * kBlockWords;
    uint32_t *output = all_output + ctaid_x() * (128 * 128);
    switch (ctaid_x()) {
    case 0:
        return run<64, 1, false>(input, output, true);
    case 1:
        return run<64, 2, false>(input, output, false);
    case 2:
        return run<64, 3, false>(input, output, true);
    case 3:
        return run<64, 0, false>(input, output, true);
    case 4:
        return run<128, 1, true>(input, output, true);
    case 5:
        return run<256, 1, false>(input, output, true);
    default:
        return run<256, 3, true>(input, output, false);
    }
}
