/*
 * Scores of the portable backward, transposed: from accumulators to P^T and dS^T, and their products with rows of queries.
 */
#ifndef GDPA_BWD_PORTABLE_SCORES_CUH
#define GDPA_BWD_PORTABLE_SCORES_CUH

#include "activation_pair.cuh"
#include "bwd_portable_tiles.cuh"
#include "config_default.cuh"
#include "fragment_mma.cuh"
#include "mask_queries.cuh"
#include "numeric.cuh"
#include "params.h"
#include "ptx/shared_memory.cuh"
#include "ptx/special_registers.cuh"

/* P^T of the scores, packed, and f' in place of the scores. */
__device__ inline void activate(PackedScores &weights, ScoreFragments &scores, const gdpa_bwd_params &params)
{
#pragma unroll
    for (int m = 0; m < kKeyTiles; ++m) {
#pragma unroll
        for (int n = 0; n < kSliceM / 8; ++n) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float(&pair)[4] = scores[m][n];
                const ActivationPair low =
                    activation_pair(pair[2 * half] * params.scale, params.activation_param);
                const ActivationPair high =
                    activation_pair(pair[2 * half + 1] * params.scale, params.activation_param);
                weights[n / 2][m][n % 2 * 2 + half] = pack_input(low.value, high.value);
                pair[2 * half] = low.slope;
                pair[2 * half + 1] = high.slope;
            }
        }
    }
}

/* dS^T = f' dP^T, packed. */
__device__ inline void grade(PackedScores &gradients, const ScoreFragments &slopes, const ScoreFragments &products,
                             float inner)
{
#pragma unroll
    for (int m = 0; m < kKeyTiles; ++m) {
#pragma unroll
        for (int n = 0; n < kSliceM / 8; ++n) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float low = slopes[m][n][2 * half] * products[m][n][2 * half];
                float high = slopes[m][n][2 * half + 1] * products[m][n][2 * half + 1];
                //@if fp16
                low *= inner;
                high *= inner;
                //@endif
                gradients[n / 2][m][n % 2 * 2 + half] = pack_input(low, high);
            }
        }
    }
}

//@if masked
/* Zeroes the hidden pairs. distance: of the lane's first pair, see hide_queries. */
__device__ inline void hide_scores(PackedScores &packed, int32_t distance)
{
#pragma unroll
    for (int step = 0; step < kSliceSteps; ++step) {
#pragma unroll
        for (int m = 0; m < kKeyTiles; ++m) {
#pragma unroll
            for (int i = 0; i < 4; ++i) { // i % 2: upper or lower 8 keys; i / 2: lower or upper 8 queries
                packed[step][m][i] =
                    hide_queries(packed[step][m][i], distance + step * 16 + i / 2 * 8 - m * 16 - i % 2 * 8);
            }
        }
    }
}
//@endif

/* Fragments -> [keys][queries] in shared memory. */
__device__ inline void stage_scores(const ScoreTile &tile, const PackedScores &packed, uint32_t first_key,
                                    uint32_t first_row)
{
    const uint32_t lane = tid_x() % 32;
#pragma unroll
    for (int step = 0; step < kSliceSteps; ++step) {
#pragma unroll
        for (int m = 0; m < kKeyTiles; ++m) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const uint32_t key = first_key + m * 16 + i % 2 * 8 + lane / 4;
                st_shared_b32(tile.unit_address(key, first_row / 8 + step * 2 + i / 2) + lane % 4 * 4,
                              packed[step][m][i]);
            }
        }
    }
}

//@if split_columns
/* sums += scores^T x rows, from shared memory, for the columns of this warp. */
template <int kColumnTiles, typename Tile>
__device__ inline void multiply_staged(float (&sums)[kKeyTiles][kColumnTiles][4], const ScoreTile &scores,
                                       uint32_t first_key, const Tile &rows, uint32_t first_group)
{
    if (kColumnTiles / 2 * kColumnParts > Tile::kUnits / 2 && first_group >= Tile::kUnits / 2) {
        return; // more warps than columns
    }
#pragma unroll
    for (int step = 0; step < kBlockM / 16; ++step) {
        uint32_t a[kKeyTiles][4];
        load_rows(a, scores, first_key, step);
        multiply_columns(sums, a, rows, step * 16, first_group);
    }
}
//@else
/* sums += scores^T x rows, from registers. */
template <int kColumnTiles, typename Tile>
__device__ inline void multiply_packed(float (&sums)[kKeyTiles][kColumnTiles][4], const PackedScores &scores,
                                       const Tile &rows, uint32_t first_row)
{
#pragma unroll
    for (int step = 0; step < kSliceSteps; ++step) {
        multiply_columns(sums, scores[step], rows, first_row + step * 16, 0);
    }
}
//@endif

#endif
