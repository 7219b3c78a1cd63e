/*
 * wgmma on matrices in every layout: block b runs case b of the list at the end, one warpgroup. The values of A (64 x 16) and B (16 x N)
 * are put into shared memory element by element, by the formulas of the PTX manual; thread t writes its accumulator to words 128 (128 b + t) on.
 *
 * input: for each block 64 * 16 elements of A, then 16 * 256 of B ([k][n]), then 128 * 128 floats of D.
 */
#include "ptx/barrier.cuh"
#include "ptx/convert.cuh"
#include "ptx/fence.cuh"
#include "ptx/global_memory.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/special_registers.cuh"
#include "ptx/wgmma.cuh"
#include "ptx/wgmma_n112.cuh"
#include "ptx/wgmma_n128.cuh"
#include "ptx/wgmma_n160.cuh"
#include "ptx/wgmma_n176.cuh"
#include "ptx/wgmma_n192.cuh"
#include "ptx/wgmma_n256.cuh"
#include "ptx/wgmma_n32.cuh"
#include "ptx/wgmma_n64.cuh"
#include "ptx/wgmma_n80.cuh"
#include "ptx/wgmma_n96.cuh"

constexpr uint32_t kElementsA = 64 * 16;
constexpr uint32_t kElementsB = 16 * 256;
constexpr uint32_t kBlockWords = (kElementsA + kElementsB) / 2 + 128 * 128;
constexpr uint32_t kPlaceB = 16384; // of B in shared memory

/* Spans of the swizzle modes, by their number in a descriptor: none, 128, 64, 32 bytes. */
__device__ constexpr uint32_t span_of(uint32_t mode)
{
    return mode == 0 ? 16 : mode == 1 ? 128 : mode == 2 ? 64 : 32;
}

/* Where the swizzle puts a byte: bits 4 to 6 of the address change with bits 7 to 9, as far as the span reaches. */
__device__ inline uint32_t swizzle(uint32_t address, uint32_t mode)
{
    const uint32_t mask = mode == 0 ? 0 : mode == 1 ? 7 : mode == 2 ? 3 : 1;
    return address ^ (address >> 7 & mask) << 4;
}

/*
 * Byte of element (mn, k) of a 16-bit matrix, relative to its start. K-major: groups of 8 rows lie `stride` apart; without swizzle the two
 * 16-byte halves of K lie `leading` apart. MN-major: spans of columns lie `leading` apart and groups of 8 k `stride`; without swizzle the
 * other way round.
 */
template <bool kMnMajor, uint32_t kMode>
__device__ inline uint32_t place_of(uint32_t mn, uint32_t k, uint32_t leading, uint32_t stride)
{
    constexpr uint32_t kSpan = span_of(kMode);
    if (!kMnMajor) {
        if (kMode == 0) {
            return mn / 8 * stride + mn % 8 * 16 + k / 8 * leading + k % 8 * 2;
        }
        return mn / 8 * stride + mn % 8 * kSpan + k * 2;
    }
    if (kMode == 0) {
        return mn / 8 * stride + k / 8 * leading + k % 8 * 16 + mn % 8 * 2;
    }
    return mn / (kSpan / 2) * leading + k / 8 * stride + k % 8 * kSpan + mn % (kSpan / 2) * 2;
}

__device__ inline uint64_t descriptor(uint32_t address, uint32_t leading, uint32_t stride, uint32_t mode)
{
    return (wgmma_descriptor_128b(address, leading, stride) & ~(3ull << 62)) | static_cast<uint64_t>(mode) << 62;
}

__device__ inline uint16_t input_element(const uint32_t *input, uint32_t index)
{
    return ld_global_nc_b16(reinterpret_cast<const uint16_t *>(input) + index);
}

struct Layout {
    uint32_t leading, stride;
};

/* Distances for a matrix of `extent` rows or columns. All keep the pattern of the swizzle (8 rows) aligned. */
template <bool kMnMajor, uint32_t kMode> __device__ inline Layout layout_of()
{
    constexpr uint32_t kGroup = span_of(kMode) * 8;
    if (!kMnMajor) {
        return kMode == 0 ? Layout{128, 384} : Layout{16, kGroup};
    }
    return kMode == 0 ? Layout{128, 256} : Layout{2 * kGroup, kGroup};
}

template <bool kMnMajor, uint32_t kMode>
__device__ inline uint64_t put_matrix(const uint32_t *input, uint32_t first, uint32_t base, uint32_t extent,
                                      uint32_t step_mn, uint32_t step_k)
{
    const Layout layout = layout_of<kMnMajor, kMode>();
    for (uint32_t i = tid_x(); i < extent * 16; i += 128) {
        const uint32_t mn = i / 16;
        const uint32_t k = i % 16;
        const uint32_t place = place_of<kMnMajor, kMode>(mn, k, layout.leading, layout.stride);
        st_shared_b16(swizzle(base + place, kMode), input_element(input, first + mn * step_mn + k * step_k));
    }
    return descriptor(base, layout.leading, layout.stride, kMode);
}

template <uint32_t kColumns> __device__ inline void load_sums(float (&d)[kColumns / 2], const uint32_t *input)
{
    const auto *sums = reinterpret_cast<const int32_t *>(input) + (kElementsA + kElementsB) / 2 + tid_x() * 128;
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) {
        d[i] = bits_as_float(static_cast<uint32_t>(ld_global_nc_s32(sums + i)));
    }
}

template <uint32_t kColumns> __device__ inline void store_sums(const float (&d)[kColumns / 2], uint32_t *output)
{
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) {
        st_global_b32(output + tid_x() * 128 + i, float_as_bits(d[i]));
    }
}

template <uint32_t kColumns, bool kMnA, uint32_t kModeA, bool kMnB, uint32_t kModeB>
__device__ inline void run_ss(const uint32_t *input, uint32_t *output, bool accumulate)
{
    const uint32_t shared = dynamic_shared_base();
    const uint64_t a = put_matrix<kMnA, kModeA>(input, 0, shared, 64, 16, 1);
    const uint64_t b = put_matrix<kMnB, kModeB>(input, kElementsA, shared + kPlaceB, kColumns, 1, 256);
    fence_proxy_async_shared();
    bar_sync_0();
    float d[kColumns / 2];
    load_sums<kColumns>(d, input);
    wgmma_fence();
    wgmma_m64k16_ss<kMnA, kMnB>(d, a, b, accumulate);
    wgmma_commit_group();
    wgmma_wait_group<0>();
    tie(d);
    store_sums<kColumns>(d, output);
}

/* A fragment of thread t: rows 16 (t / 32) + t % 32 / 4 and + 8, columns 2 (t % 4) and + 8. */
template <uint32_t kColumns, bool kMnB, uint32_t kModeB>
__device__ inline void run_rs(const uint32_t *input, uint32_t *output, bool accumulate)
{
    const uint64_t b =
        put_matrix<kMnB, kModeB>(input, kElementsA, dynamic_shared_base() + kPlaceB, kColumns, 1, 256);
    fence_proxy_async_shared();
    bar_sync_0();
    uint32_t a[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const uint32_t row = tid_x() / 32 * 16 + tid_x() % 32 / 4 + i % 2 * 8;
        const uint32_t column = tid_x() % 4 * 2 + i / 2 * 8;
        a[i] = input_element(input, row * 16 + column) |
               static_cast<uint32_t>(input_element(input, row * 16 + column + 1)) << 16;
    }
    float d[kColumns / 2];
    load_sums<kColumns>(d, input);
    tie(a);
    wgmma_fence();
    wgmma_m64k16_rs<kMnB>(d, a, b, accumulate);
    wgmma_commit_group();
    wgmma_wait_group<0>();
    tie(d);
    store_sums<kColumns>(d, output);
}

extern "C" __global__ __launch_bounds__(128) void conformance(const uint32_t *all_input, uint32_t *all_output)
{
    const uint32_t *input = all_input + ctaid_x() * kBlockWords;
    uint32_t *output = all_output + ctaid_x() * (128 * 128);
    switch (ctaid_x()) {
    case 0: // A and B K-major, one swizzle after the other
        return run_ss<64, false, 1, false, 1>(input, output, true);
    case 1:
        return run_ss<64, false, 2, false, 2>(input, output, true);
    case 2:
        return run_ss<64, false, 3, false, 3>(input, output, true);
    case 3:
        return run_ss<64, false, 0, false, 0>(input, output, true);
    case 4: // both MN-major
        return run_ss<64, true, 1, true, 1>(input, output, true);
    case 5:
        return run_ss<64, true, 2, true, 2>(input, output, true);
    case 6:
        return run_ss<64, true, 3, true, 3>(input, output, true);
    case 7:
        return run_ss<64, true, 0, true, 0>(input, output, true);
    case 8: // mixed
        return run_ss<128, false, 1, true, 2>(input, output, true);
    case 9:
        return run_ss<128, true, 3, false, 1>(input, output, false);
    case 10: // A in registers
        return run_rs<64, false, 1>(input, output, true);
    case 11:
        return run_rs<64, true, 1>(input, output, false);
    case 12:
        return run_rs<128, true, 3>(input, output, true);
    case 13: // every width
        return run_ss<32, false, 1, false, 1>(input, output, true);
    case 14:
        return run_rs<80, true, 1>(input, output, true);
    case 15:
        return run_ss<96, false, 1, true, 1>(input, output, true);
    case 16:
        return run_ss<112, false, 1, false, 1>(input, output, true);
    case 17:
        return run_rs<160, true, 1>(input, output, true);
    case 18:
        return run_ss<176, false, 1, false, 1>(input, output, true);
    case 19:
        return run_rs<192, true, 1>(input, output, true);
    case 20:
        return run_ss<256, false, 1, true, 1>(input, output, true);
    case 21:
        return run_ss<256, false, 0, false, 3>(input, output, true);
    default:
        return run_rs<256, true, 0>(input, output, true);
    }
}
