/*
 * The epilogue: output fragments -> global memory, scaled and rounded once. Rows from valid_rows on are not written.
 *
 * 16-bit results go through shared memory (the query tile's, which nobody reads any more), so that global stores are 16 bytes wide and
 * contiguous; fp32 and unaligned results go straight from the fragments.
 */
#ifndef GDPA_STORE_OUTPUT_CUH
#define GDPA_STORE_OUTPUT_CUH

#include "numeric.cuh"
#include "ptx/barrier.cuh"
#include "ptx/global_memory.cuh"
#include "ptx/shared_memory.cuh"
#include "warp_mma.cuh"

//@if out_fp32
__device__ inline void store_fragments(const float (&output)[kRowTiles][kValueTiles][4], float factor, float *target,
                                       int64_t row_stride, int32_t valid_rows, uint32_t warp)
{
    const uint32_t lane = tid_x() % 32;
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const uint32_t row = warp * kWarpRows + m * 16 + half * 8 + lane / 4;
            if (static_cast<int32_t>(row) < valid_rows) {
                float *place = target + row * row_stride + lane % 4 * 2;
#pragma unroll
                for (int n = 0; n < kValueTiles; ++n) {
                    const uint32_t low = float_as_bits(scale_output(output[m][n][2 * half], factor));
                    const uint32_t high = float_as_bits(scale_output(output[m][n][2 * half + 1], factor));
                    //@if unaligned
                    st_global_b32(place + n * 8, low);
                    st_global_b32(place + n * 8 + 1, high);
                    //@else
                    st_global_v2_b32(place + n * 8, low, high);
                    //@endif
                }
            }
        }
    }
}
//@else
using OutputTile = SharedTile<kBlockM, kHeadDimV>;

__device__ inline void stage_fragments(const float (&output)[kRowTiles][kValueTiles][4], float factor,
                                       const OutputTile &staging, uint32_t warp)
{
    const uint32_t lane = tid_x() % 32;
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const uint32_t row = warp * kWarpRows + m * 16 + half * 8 + lane / 4;
#pragma unroll
            for (int n = 0; n < kValueTiles; ++n) {
                const uint32_t packed = pack_output(scale_output(output[m][n][2 * half], factor), scale_output(output[m][n][2 * half + 1], factor));
                st_shared_b32(staging.unit_address(row, n) + lane % 4 * 4, packed);
            }
        }
    }
}

__device__ inline void store_staged(const OutputTile &staging, uint16_t *target, int64_t row_stride, int32_t valid_rows)
{
    constexpr int kUnits = kHeadDimV / 8;
    constexpr int kStores = (kBlockM * kUnits + kThreads - 1) / kThreads;
#pragma unroll
    for (int i = 0; i < kStores; ++i) {
        const uint32_t index = i * kThreads + tid_x();
        const uint32_t row = index / kUnits;
        const uint32_t unit = index % kUnits;
        if (static_cast<int32_t>(row) < valid_rows) {
            uint32_t words[4];
            ld_shared_v4_b32(words, staging.unit_address(row, unit));
            uint16_t *place = target + row * row_stride + unit * 8;
            //@if unaligned
#pragma unroll
            for (int word = 0; word < 4; ++word) {
                st_global_b16(place + 2 * word, static_cast<uint16_t>(words[word]));
                st_global_b16(place + 2 * word + 1, static_cast<uint16_t>(words[word] >> 16));
            }
            //@else
            st_global_v4_b32(place, words);
            //@endif
        }
    }
}
//@endif

/* Called by all threads of the block, after a barrier behind the last read of the query tile. target: row 0 of the tile. */
__device__ inline void store_output(const float (&output)[kRowTiles][kValueTiles][4], float factor, uint32_t staging_base,
                                    void *target, int64_t row_stride, int32_t valid_rows, uint32_t warp)
{
    //@if out_fp32
    store_fragments(output, factor, static_cast<float *>(target), row_stride, valid_rows, warp);
    //@else
    const OutputTile staging = {staging_base};
    stage_fragments(output, factor, staging, warp);
    bar_sync_0(); // rows are written by one warp and stored by another
    store_staged(staging, static_cast<uint16_t *>(target), row_stride, valid_rows);
    //@endif
}

#endif
