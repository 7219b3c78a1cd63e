/*
 * The second kernel of a deterministic backward pass, for every architecture from sm_80 on: dQ from scratch, summed up in registers in one
 * order. A block owns kBlockM query rows of one (sequence, head), each warp 16 of them; keys and values come in tiles of kSliceN through
 * two slots.
 *
 *     for each tile of keys:  S = Q K^T,  dP = dO V^T,  dS = f'(S) dP,  dQ += dS K
 */
#ifndef GDPA_BWD_QUERIES_CUH
#define GDPA_BWD_QUERIES_CUH

#include "activation_pair.cuh"
#include "config_default.cuh"
#include "copy_rows.cuh"
#include "fragment_mma.cuh"
#include "gradient.cuh"
#include "gradient_tiles.cuh"
#include "mask_queries.cuh"
#include "params.h"
#include "ptx/barrier.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/shared_memory.cuh"
#include "sequence.cuh"
#include "shared_tile.cuh"

using DqQueryTile = SharedTile<kBlockM, kHeadDim>;
using DqGradientTile = SharedTile<kBlockM, kHeadDimV>;
using DqKeyTile = SharedTile<kSliceN, kHeadDim>;
using DqValueTile = SharedTile<kSliceN, kHeadDimV>;

/* The map of dynamic shared memory: Q, dO, K slots, V slots. */
constexpr int kDqStages = 2;
constexpr int kDqGradients = DqQueryTile::kBytes;
constexpr int kDqKeys = kDqGradients + DqGradientTile::kBytes;
constexpr int kDqValues = kDqKeys + kDqStages * DqKeyTile::kBytes;
static_assert(kDqValues + kDqStages * DqValueTile::kBytes <= kDqSmemBytes, "the plan gave too little shared memory");
static_assert(kDqThreads == kBlockM / 16 * 32, "a warp owns 16 rows");

/* Where a block reads. */
struct DqOperands {
    const uint16_t *k; // row 0 of the sequence
    const uint16_t *v;
    int32_t length_k;
};

/* Keys and values of a tile into their slots, as one group; an empty group behind the last tile. */
__device__ inline void copy_keys(uint32_t shared, const gdpa_bwd_params &params, const DqOperands &operands, int32_t tile,
                                 int32_t end_tile)
{
    if (tile < end_tile) {
        const int32_t first_key = tile * kSliceN;
        const int32_t valid_keys = operands.length_k - first_key;
        const DqKeyTile keys = {shared + kDqKeys + tile % kDqStages * DqKeyTile::kBytes};
        copy_rows<kDqThreads, kHeadDim>(keys, operands.k + first_key * params.k_stride_row, params.k_stride_row, valid_keys);
        const DqValueTile values = {shared + kDqValues + tile % kDqStages * DqValueTile::kBytes};
        copy_rows<kDqThreads, kHeadDimV>(values, operands.v + first_key * params.v_stride_row, params.v_stride_row,
                                         valid_keys);
    }
    cp_async_commit_group();
}

/* Packed A fragments of dS of 16 keys. */
__device__ inline void grade_keys(uint32_t (&slopes)[1][4], const float (&scores)[1][kSliceN / 8][4],
                                  const float (&products)[1][kSliceN / 8][4], int step, const gdpa_bwd_params &params,
                                  float inner)
{
#pragma unroll
    for (int i = 0; i < 4; ++i) { // i % 2: upper or lower 8 rows; i / 2: lower or upper 8 keys
        float results[2];
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            const float score = scores[0][2 * step + i / 2][i % 2 * 2 + j] * params.scale;
            const float slope = activation_pair(score, params.activation_param).slope;
            results[j] = slope * products[0][2 * step + i / 2][i % 2 * 2 + j];
            //@if fp16
            results[j] *= inner;
            //@endif
        }
        slopes[0][i] = pack_input(results[0], results[1]);
    }
}

//@if masked
__device__ inline void hide_keys(uint32_t (&slopes)[1][4], int32_t distance)
{
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        slopes[0][i] = hide_next_key(slopes[0][i], distance + i % 2 * 8 - i / 2 * 8);
    }
}
//@endif

extern "C" __global__ __launch_bounds__(kDqThreads) void gdpa_kernel_entry_dq(
    const __grid_constant__ gdpa_bwd_params params)
{
    const uint32_t shared = dynamic_shared_base();
    const uint32_t warp = tid_x() / 32;
    const uint32_t lane = tid_x() % 32;
    const int64_t tile = block_number();
    if (tile >= params.num_query_tiles) {
        return;
    }
    const GradientTile work = find_query_tile(params, tile);
    if (work.batch < 0) {
        return;
    }
    const Sequence q = find_sequence(params.cu_seqlens_q, params.seqused_q, params.rows_q, work.batch);
    const Sequence k = find_sequence(params.cu_seqlens_k, params.seqused_k, params.rows_k, work.batch);
    if (work.first_row >= q.length) {
        return;
    }
    const int32_t first_row = static_cast<int32_t>(work.first_row);
    const int32_t valid_rows = q.length - first_row < kBlockM ? q.length - first_row : kBlockM;
    const KeyRange range = visible_keys(first_row, first_row + valid_rows - 1, q.length, k.length);
    const int32_t begin_tile = range.begin / kSliceN;
    const int32_t end_tile = (range.end + kSliceN - 1) / kSliceN;

    const int64_t row = q.first_row + first_row;
    const int32_t head_k = work.head / params.heads_per_group;
    const DqQueryTile queries = {shared};
    const DqGradientTile gradients = {shared + kDqGradients};
    copy_rows<kDqThreads, kHeadDim>(queries,
                                    static_cast<const uint16_t *>(params.q) + work.batch * params.q_stride_batch +
                                        row * params.q_stride_row + work.head * params.q_stride_head,
                                    params.q_stride_row, valid_rows);
    copy_rows<kDqThreads, kHeadDimV>(gradients,
                                     static_cast<const uint16_t *>(params.dout) + work.batch * params.dout_stride_batch +
                                         row * params.dout_stride_row + work.head * params.dout_stride_head,
                                     params.dout_stride_row, valid_rows);
    const DqOperands operands = {static_cast<const uint16_t *>(params.k) + work.batch * params.k_stride_batch +
                                     k.first_row * params.k_stride_row + head_k * params.k_stride_head,
                                 static_cast<const uint16_t *>(params.v) + work.batch * params.v_stride_batch +
                                     k.first_row * params.v_stride_row + head_k * params.v_stride_head,
                                 k.length};
    copy_keys(shared, params, operands, begin_tile, end_tile); // the query tiles share the first group
    const GradientFactors factors = gradient_factors(params);
    //@if masked
    const int64_t offset = key_offset(q.length, k.length);
    const int32_t lane_place = static_cast<int32_t>(warp * 16 + lane / 4 - lane % 4 * 2);
    //@endif

    float sums[1][kSumColumns / 8][4] = {};
    for (int32_t tile_k = begin_tile; tile_k < end_tile; ++tile_k) {
        cp_async_wait_group<0>(); // this tile is there,
        bar_sync_0();             // for every thread, and the tile before is no longer read
        copy_keys(shared, params, operands, tile_k + 1, end_tile);
        const DqKeyTile keys = {shared + kDqKeys + tile_k % kDqStages * DqKeyTile::kBytes};
        const DqValueTile values = {shared + kDqValues + tile_k % kDqStages * DqValueTile::kBytes};
        float scores[1][kSliceN / 8][4] = {};
        multiply_tiles<DqQueryTile::kUnits / 2>(scores, queries, warp * 16, keys, 0);
        float products[1][kSliceN / 8][4] = {};
        multiply_tiles<DqGradientTile::kUnits / 2>(products, gradients, warp * 16, values, 0);
        //@if masked
        const bool needs_mask = tile_needs_mask(first_row, first_row + valid_rows - 1, offset, tile_k * kSliceN);
        //@endif
#pragma unroll
        for (int step = 0; step < kSliceN / 16; ++step) {
            uint32_t slopes[1][4];
            grade_keys(slopes, scores, products, step, params, factors.inner);
            //@if masked
            if (needs_mask) {
                hide_keys(slopes, static_cast<int32_t>(first_row + offset - tile_k * kSliceN) + lane_place - step * 16);
            }
            //@endif
            multiply_columns(sums, slopes, keys, step * 16, 0);
        }
    }
    cp_async_wait_group<0>(); // what is still on its way must not outlive the block

    Gradient *const dq = static_cast<Gradient *>(params.dq) + work.batch * params.dq_stride_batch +
                         row * params.dq_stride_row + work.head * params.dq_stride_head;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const uint32_t place = warp * 16 + half * 8 + lane / 4;
        if (static_cast<int32_t>(place) < valid_rows) {
#pragma unroll
            for (int n = 0; n < kHeadDim / 8; ++n) {
                store_gradients(dq + place * params.dq_stride_row + n * 8 + lane % 4 * 2, sums[0][n][2 * half],
                                sums[0][n][2 * half + 1], factors.outer, params.accumulate != 0);
            }
        }
    }
}

#endif
