/*
 * The second kernel of a backward pass: dq = factor * the sums in dq_sum, rounded once. A block has kBlockM query rows of one
 * (sequence, head). Rows that saw no key have sums of 0; rows outside of every sequence are not written.
 */
#ifndef GDPA_BWD_CONVERT_CUH
#define GDPA_BWD_CONVERT_CUH

#include "config_default.cuh"
#include "gradient.cuh"
#include "gradient_tiles.cuh"
#include "params.h"
#include "sequence.cuh"

extern "C" __global__ __launch_bounds__(kDqThreads) void gdpa_kernel_entry_dq(
    const __grid_constant__ gdpa_bwd_params params)
{
    const int64_t tile = block_number();
    if (tile >= params.num_query_tiles) {
        return;
    }
    const GradientTile work = find_query_tile(params, tile);
    if (work.batch < 0) {
        return;
    }
    const Sequence q = find_sequence(params.cu_seqlens_q, params.seqused_q, params.rows_q, work.batch);
    if (work.first_row >= q.length) {
        return;
    }
    const int32_t first_row = static_cast<int32_t>(work.first_row);
    const int32_t valid_rows = q.length - first_row < kBlockM ? q.length - first_row : kBlockM;
    const int64_t sequence_row = params.cu_seqlens_q != nullptr ? q.first_row : work.batch * params.rows_q;
    const float factor = gradient_factors(params).outer;
    const bool accumulate = params.accumulate != 0;
    Gradient *const dq = static_cast<Gradient *>(params.dq) + work.batch * params.dq_stride_batch +
                         (q.first_row + first_row) * params.dq_stride_row + work.head * params.dq_stride_head;
    constexpr uint32_t kQuads = kSumColumns / 4; // of a row, each of two pairs of columns that are 8 apart
    for (uint32_t index = tid_x(); index < valid_rows * kQuads; index += kDqThreads) {
        const uint32_t row = index / kQuads;
        const uint32_t quad = index % kQuads;
        float sums[4];
        ld_global_v4_f32(sums, sum_row(params, sequence_row, first_row + row, work.head) + quad * 4);
        const uint32_t column = quad / 4 * 16 + quad % 4 * 2;
        Gradient *const place = dq + row * params.dq_stride_row + column;
        store_gradients(place, sums[0], sums[1], factor, accumulate);
        if (column + 8 < kHeadDim) {
            store_gradients(place + 8, sums[2], sums[3], factor, accumulate);
        }
    }
}

#endif
