/*
 * The second kernel of a backward pass: dq = factor * the sums in dq_sum, rounded once. A block has kBlockM query rows of one
 * (sequence, head). The factor is sums_factor of the main kernel. Rows that saw no key have sums of 0; rows outside of every sequence are not written.
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
    const int64_t block = first_sum_block(params, work.batch, q.first_row) + first_row / 16;
    const float factor = sums_factor(params);
    const bool accumulate = params.accumulate != 0;
    Gradient *const dq = static_cast<Gradient *>(params.dq) + work.batch * params.dq_stride_batch +
                         (q.first_row + first_row) * params.dq_stride_row + work.head * params.dq_stride_head;
    constexpr uint32_t kBlockQuads = 16 * kSumColumns / 4; // of a block of 16 rows: four sums, two and two neighbours
    for (uint32_t index = tid_x(); index < (valid_rows + 15) / 16 * kBlockQuads; index += kDqThreads) {
        const uint32_t quad = index % kBlockQuads;
        const uint32_t row = index / kBlockQuads * 16 + quad % 64 / 4 % 8 + quad % 64 / 32 * 8;
        const uint32_t column = quad / 64 * 16 + quad % 4 * 2;
        if (row < static_cast<uint32_t>(valid_rows)) {
            float sums[4];
            ld_global_v4_f32(sums, sum_block(params, block + index / kBlockQuads, work.head) + quad * 4);
            Gradient *const place = dq + row * params.dq_stride_row + column;
            store_gradients(place, sums[0], sums[1], factor, accumulate);
            if (column + 8 < kHeadDim) {
                store_gradients(place + 8, sums[2], sums[3], factor, accumulate);
            }
        }
    }
}

#endif
