/*
 * Results of the portable backward: dQ of each tile of queries, dK and dV at the end.
 */
#ifndef GDPA_BWD_PORTABLE_STORE_CUH
#define GDPA_BWD_PORTABLE_STORE_CUH

#include "bwd_portable_tiles.cuh"
#include "config_default.cuh"
#include "fragment_mma.cuh"
#include "gradient.cuh"
#include "params.h"
#include "ptx/special_registers.cuh"

//@if !deterministic
/* Adds a tile of dQ to the sums of its rows. */
__device__ inline void add_dq(const DqSums &sums, const gdpa_bwd_params &params, const Work &work, Place place,
                              uint32_t first_row, uint32_t first_group)
{
    const uint32_t lane = tid_x() % 32;
#pragma unroll
    for (int m = 0; m < kDqRowTiles; ++m) {
        const int32_t row = place.tile * kBlockM + first_row + m * 16;
        float *const target =
            sum_block(params, work.sum_block + row / 16, work.first_head + place.head) + first_group * kSumBlock + lane * 4;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            if (row + half * 8 + static_cast<int32_t>(lane / 4) >= work.length_q) {
                continue;
            }
#pragma unroll
            for (int group = 0; group < kDqChunk; ++group) {
                if (first_group + group < kDepthGroups) {
                    const float values[4] = {sums[m][2 * group][2 * half], sums[m][2 * group][2 * half + 1],
                                             sums[m][2 * group + 1][2 * half], sums[m][2 * group + 1][2 * half + 1]};
                    add_four(target + group * kSumBlock + half * (kSumBlock / 2), values);
                }
            }
        }
    }
}

/* Writes a tile of dQ, of a block that has all keys. */
__device__ inline void store_dq(const DqSums &sums, const gdpa_bwd_params &params, const Work &work, Place place,
                                uint32_t first_row, uint32_t first_group)
{
    const uint32_t lane = tid_x() % 32;
    const float factor = gradient_factors(params).outer;
#pragma unroll
    for (int m = 0; m < kDqRowTiles; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int32_t row = place.tile * kBlockM + first_row + m * 16 + half * 8 + lane / 4;
            if (row >= work.length_q) {
                continue;
            }
            Gradient *const target = static_cast<Gradient *>(params.dq) + work.dq_offset +
                                     place.head * params.dq_stride_head + row * params.dq_stride_row;
#pragma unroll
            for (int n = 0; n < 2 * kDqChunk; ++n) {
                const uint32_t column = first_group * 16 + n * 8;
                if (column < kHeadDim) {
                    store_gradients(target + column + lane % 4 * 2, sums[m][n][2 * half], sums[m][n][2 * half + 1],
                                    factor, params.accumulate != 0);
                }
            }
        }
    }
}

/* dQ = dS K of a tile of queries: this warp's part of it. */
__device__ inline void compute_dq(const ScoreTile &gradients, const KeyTile &keys, const gdpa_bwd_params &params,
                                  const Work &work, Place place, uint32_t warp)
{
    const uint32_t first_row = warp % kDqRowWarps * (16 * kDqRowTiles);
    const uint32_t end_group = (warp / kDqRowWarps + 1) * kDqGroups;
#pragma unroll 1
    for (uint32_t group = end_group - kDqGroups; group < end_group && group < kDepthGroups; group += kDqChunk) {
        DqSums sums = {};
#pragma unroll
        for (int step = 0; step < kBlockN / 16; ++step) {
            uint32_t a[kDqRowTiles][4];
            load_columns(a, gradients, step * 16, first_row / 16);
            multiply_columns(sums, a, keys, step * 16, group);
        }
        if (params.dq_sum != nullptr) {
            add_dq(sums, params, work, place, first_row, group);
        } else {
            store_dq(sums, params, work, place, first_row, group);
        }
    }
}

/* +0 for the rows [begin, end) of every head of the group, which see no key. */
__device__ inline void clear_dq(const gdpa_bwd_params &params, const Work &work, int32_t begin, int32_t end)
{
    const int64_t pairs = static_cast<int64_t>(end - begin) * (kHeadDim / 2);
    for (int32_t head = 0; head < params.heads_per_group; ++head) {
        Gradient *const target =
            static_cast<Gradient *>(params.dq) + work.dq_offset + head * params.dq_stride_head;
        for (int64_t i = tid_x(); i < pairs; i += kThreads) {
            store_gradients(target + (begin + i / (kHeadDim / 2)) * params.dq_stride_row + i % (kHeadDim / 2) * 2, 0.0f,
                            0.0f, 1.0f, false);
        }
    }
}

/* The rows of dQ that no step of the block comes to. */
__device__ inline void clear_unseen_dq(const gdpa_bwd_params &params, const Work &work)
{
    if (params.accumulate != 0) {
        return;
    }
    const bool seen = work.begin_tile < work.end_tile;
    const int64_t end_row = static_cast<int64_t>(work.end_tile) * kBlockM;
    clear_dq(params, work, 0, seen ? work.begin_tile * kBlockM : work.length_q);
    if (seen && end_row < work.length_q) {
        clear_dq(params, work, static_cast<int32_t>(end_row), work.length_q);
    }
}
//@endif

/* Sums of keys -> a gradient. target: row 0 of the key tile. */
template <int kColumns, int kColumnTiles>
__device__ inline void store_keys(const float (&sums)[kKeyTiles][kColumnTiles][4], float factor, Gradient *target,
                                  int64_t row_stride, int32_t valid_keys, uint32_t first_key, uint32_t first_group,
                                  bool accumulate)
{
    const uint32_t lane = tid_x() % 32;
#pragma unroll
    for (int m = 0; m < kKeyTiles; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const uint32_t key = first_key + m * 16 + half * 8 + lane / 4;
            if (static_cast<int32_t>(key) >= valid_keys) {
                continue;
            }
#pragma unroll
            for (int n = 0; n < kColumnTiles; ++n) {
                const uint32_t column = first_group * 16 + n * 8;
                if (column < kColumns) {
                    store_gradients(target + key * row_stride + column + lane % 4 * 2, sums[m][n][2 * half],
                                    sums[m][n][2 * half + 1], factor, accumulate);
                }
            }
        }
    }
}

/* dK and dV, as far as they are wanted. first_key: of the block, among the rows of all sequences. */
__device__ inline void store_sums(const DepthSums &dk, const ValueSums &dv, const gdpa_bwd_params &params,
                                  const GradientTile &tile, int64_t first_key, int32_t valid_keys, uint32_t warp_key,
                                  uint32_t part)
{
    const bool accumulate = params.accumulate != 0;
    if (params.dk != nullptr) {
        Gradient *const target = static_cast<Gradient *>(params.dk) + tile.batch * params.dk_stride_batch +
                                 first_key * params.dk_stride_row + tile.head * params.dk_stride_head;
        store_keys<kHeadDim>(dk, gradient_factors(params).outer, target, params.dk_stride_row, valid_keys, warp_key,
                             part * kWarpDepthGroups, accumulate);
    }
    if (params.dv != nullptr) {
        Gradient *const target = static_cast<Gradient *>(params.dv) + tile.batch * params.dv_stride_batch +
                                 first_key * params.dv_stride_row + tile.head * params.dv_stride_head;
        store_keys<kHeadDimV>(dv, params.out_scale, target, params.dv_stride_row, valid_keys, warp_key,
                              part * kWarpValueGroups, accumulate);
    }
}

#endif
