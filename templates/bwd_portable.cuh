/*
 * Backward kernel for every architecture from sm_80 on: mma.sync on fragments, ldmatrix, a cp.async pipeline.
 *
 * A block owns kBlockN keys of one (sequence, kv head): K and V stay in shared memory, dK and dV in registers, summed up over all query heads of
 * the group, so that nothing but dQ needs more than one block. Queries and output gradients come in tiles of kBlockM rows. Scores stand
 * transposed, keys as rows: then P^T and dS^T leave the accumulators as the A operands of dV and dK.
 *
 *     for each head of the group, each tile of queries that sees the keys:
 *         S^T = K Q^T     P^T = f(S^T)           dV += P^T dO
 *         dP^T = V dO^T   dS^T = f'(S^T) dP^T    dK += dS^T Q
 *         dS^T -> shared memory, barrier         dQ  = dS K     -> added to dq_sum, or written when the block has all keys
 *
 * Each warp owns kWarpKeys keys. Scores of kSliceM queries are held at a time. With kColumnParts = 2, two warps share keys, for head dims whose
 * dK and dV do not fit the registers of one: each computes the scores of half of the queries, P goes through shared memory too, and each sums up
 * half of the columns.
 */
#include "bwd_portable_scores.cuh"
#include "bwd_portable_store.cuh"
#include "bwd_portable_tiles.cuh"
#include "config_default.cuh"
#include "gradient.cuh"
#include "gradient_tiles.cuh"
#include "mask_queries.cuh"
#include "params.h"
#include "ptx/barrier.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/shared_memory.cuh"
#include "sequence.cuh"

extern "C" __global__ __launch_bounds__(kThreads, kMinBlocks) void gdpa_kernel_entry(
    const __grid_constant__ gdpa_bwd_params params)
{
    const uint32_t shared = dynamic_shared_base();
    const uint32_t warp = tid_x() / 32;
    const int64_t number = block_number();
    if (number >= params.num_tiles) {
        return;
    }
    const GradientTile tile = find_key_tile(params, number);
    if (tile.batch < 0) {
        return;
    }
    const Sequence q = find_sequence(params.cu_seqlens_q, params.seqused_q, params.rows_q, tile.batch);
    const Sequence k = find_sequence(params.cu_seqlens_k, params.seqused_k, params.rows_k, tile.batch);
    //@if deterministic
    if (tile.first_row >= k.length) {
        return;
    }
    const Work work = find_work(params, tile, q, k);
    const bool wants_dq = false;
    //@else
    const bool writes_dq = params.dq != nullptr && params.dq_sum == nullptr;
    if (tile.first_row >= k.length && !(writes_dq && tile.first_row == 0)) {
        return;
    }
    const Work work = find_work(params, tile, q, k);
    const bool wants_dq = params.dq != nullptr;
    if (writes_dq) {
        clear_unseen_dq(params, work);
    }
    //@endif
    const bool wants_dk = params.dk != nullptr;
    const bool wants_dv = params.dv != nullptr;
    const int32_t valid_keys = k.length - work.first_key;

    const KeyTile keys = {shared};
    const ValueTile values = {shared + kValues};
    const int64_t first_key = k.first_row + work.first_key;
    copy_key_tiles(shared, params, tile, first_key, valid_keys);
    // The key and value tiles share the first group.
    Place ahead = {0, work.begin_tile};
#pragma unroll
    for (int i = 0; i < kStages - 1; ++i) {
        copy_queries(shared, params, work, ahead, i);
        ahead = next_place(ahead, work);
    }

    const uint32_t warp_key = warp / kColumnParts * kWarpKeys;
    const uint32_t part = warp % kColumnParts;
    const uint32_t part_row = part * kPartRows;
    const ScoreTile staged_slopes = {shared + kSlopes};
    //@if split_columns
    const ScoreTile staged_weights = {shared + kWeights};
    //@endif
    //@if fp16
    const float inner = gradient_factors(params).inner;
    //@else
    const float inner = 1.0f;
    //@endif
    //@if masked
    const int64_t offset = key_offset(work.length_q, work.length_k);
    //@endif
    DepthSums dk = {};
    ValueSums dv = {};

    const int32_t heads = work.begin_tile < work.end_tile ? params.heads_per_group : 0;
    uint32_t step = 0;
    for (Place place = {0, work.begin_tile}; place.head < heads; place = next_place(place, work), ++step) {
        cp_async_wait_group<kStages - 2>(); // this tile is there,
        bar_sync_0();                       // for every thread, and nothing of the tile before is read any more
        copy_queries(shared, params, work, ahead, step + kStages - 1);
        ahead = next_place(ahead, work);
        const QueryTile queries = {shared + kQuerySlots + step % kStages * QueryTile::kBytes};
        const OutputTile outputs = {shared + kOutputSlots + step % kStages * OutputTile::kBytes};
        //@if masked
        const int32_t first_row = place.tile * kBlockM;
        const int32_t rows_left = work.length_q - first_row;
        const bool needs_mask = tile_needs_mask(
            first_row, first_row + (rows_left < kBlockM ? rows_left : kBlockM) - 1, offset, work.first_key);
        const int32_t distance = static_cast<int32_t>(first_row + offset - work.first_key) +
                                 static_cast<int32_t>(part_row + tid_x() % 4 * 2 - warp_key - tid_x() % 32 / 4);
        //@endif

#pragma unroll
        for (int slice = 0; slice < kPartRows / kSliceM; ++slice) {
            const uint32_t slice_row = part_row + slice * kSliceM;
            ScoreFragments scores = {};
            multiply_tiles<kDepthGroups>(scores, keys, warp_key, queries, slice_row);
            PackedScores packed;
            activate(packed, scores, params);
            if (wants_dv) {
                //@if masked
                if (needs_mask) {
                    hide_scores(packed, distance + slice * kSliceM);
                }
                //@endif
                //@if split_columns
                stage_scores(staged_weights, packed, warp_key, slice_row);
                //@else
                multiply_packed(dv, packed, outputs, slice_row);
                //@endif
            }
            if (wants_dk || wants_dq) {
                ScoreFragments products = {};
                multiply_tiles<kValueGroups>(products, values, warp_key, outputs, slice_row);
                grade(packed, scores, products, inner);
                //@if masked
                if (needs_mask) {
                    hide_scores(packed, distance + slice * kSliceM);
                }
                //@endif
                //@if split_columns
                stage_scores(staged_slopes, packed, warp_key, slice_row);
                //@else
                if (wants_dq) {
                    stage_scores(staged_slopes, packed, warp_key, slice_row);
                }
                if (wants_dk) {
                    multiply_packed(dk, packed, queries, slice_row);
                }
                //@endif
            }
        }
        //@if split_columns
        bar_sync_0(); // what the other warps have staged
        if (wants_dv) {
            multiply_staged(dv, staged_weights, warp_key, outputs, part * kWarpValueGroups);
        }
        if (wants_dk) {
            multiply_staged(dk, staged_slopes, warp_key, queries, part * kWarpDepthGroups);
        }
        //@if !deterministic
        if (wants_dq) {
            compute_dq(staged_slopes, keys, params, work, place, warp);
        }
        //@endif
        //@else
        //@if !deterministic
        if (wants_dq) {
            bar_sync_0(); // what the other warps have staged
            compute_dq(staged_slopes, keys, params, work, place, warp);
        }
        //@endif
        //@endif
    }
    cp_async_wait_group<0>(); // what is still on its way must not outlive the block
    store_sums(dk, dv, params, tile, first_key, valid_keys, warp_key, part);
}

//@if deterministic
#include "bwd_queries.cuh"
//@else
/* What the sums of dQ are multiplied by. */
__device__ inline float sums_factor(const gdpa_bwd_params &params)
{
    return gradient_factors(params).outer;
}

#include "bwd_convert.cuh"
//@endif
