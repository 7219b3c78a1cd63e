/*
 * Forward kernel for sequences far shorter than a tile of the other kernels, from sm_80 on: each warp works on its own.
 *
 * A warp takes one (sequence, head) after the other, in steps of kBlockM queries and kBlockN keys (short_steps.cuh): Q, K and V of a step
 * lie in its own part of shared memory, and it waits for nobody. What the next step needs is asked for as soon as the place is free:
 *
 *     copies   Q K | V          | Q' K'              | V'      | Q" K" ...
 *     math         | P = f(Q K) |    O = P V | store O         | P' = f(Q' K') ...
 *
 * Of 16 rows that a step does not have, nothing is copied or multiplied. Many warps an SM hide what this leaves open.
 */
#include "activation.cuh"
#include "config_default.cuh"
#include "fragment_mma.cuh"
#include "mask.cuh"
#include "params.h"
#include "ptx/cp_async.cuh"
#include "ptx/warp.cuh"
#include "short_steps.cuh"
#include "warp_rows.cuh"

using QueryTile = SharedTile<kBlockM, kHeadDim>;
using KeyTile = SharedTile<kBlockN, kHeadDim>;
using ValueTile = SharedTile<kBlockN, kHeadDimV>;
using OutputTile = SharedTile<kBlockM, kHeadDimV>; // staged in the place of the values

constexpr int kRowTiles = kBlockM / 16;
constexpr int kKeySteps = kBlockN / 16;
constexpr int kDepthSteps = QueryTile::kUnits / 2; // of 16 columns
constexpr int kWarpBytes = round_up(QueryTile::kBytes + KeyTile::kBytes + ValueTile::kBytes, 1024);
static_assert(kWarpBytes * kWarps <= kSmemBytes, "the plan gave too little shared memory");
static_assert(kBlockM <= kBlockN, "the output is staged where the values were");
static_assert(kRowTiles <= 2, "one tile of 16 rows, or all of them");

using Weights = uint32_t[kKeySteps][kRowTiles][4]; // A fragments of P

struct WarpTiles {
    QueryTile queries;
    KeyTile keys;
    ValueTile values;
};

/* Queries, where the step before had others, and keys of a step. */
__device__ inline void load_queries_and_keys(const WarpTiles &tiles, const gdpa_fwd_params &params, const Step &step,
                                             bool new_queries)
{
    if (new_queries) {
        const uint16_t *queries = static_cast<const uint16_t *>(params.q) + step.batch * params.q_stride_batch +
                                  (step.q.first + step.row) * params.q_stride_row + step.head * params.q_stride_head;
        copy_warp_rows<kHeadDim>(tiles.queries, queries, params.q_stride_row, step.rows);
    }
    const int32_t head_k = step.head / params.heads_per_group;
    const uint16_t *keys = static_cast<const uint16_t *>(params.k) + step.batch * params.k_stride_batch +
                           (step.k.first + step.key) * params.k_stride_row + head_k * params.k_stride_head;
    copy_warp_rows<kHeadDim>(tiles.keys, keys, params.k_stride_row, keys_of(step));
}

__device__ inline void load_values(const WarpTiles &tiles, const gdpa_fwd_params &params, const Step &step)
{
    const int32_t head_k = step.head / params.heads_per_group;
    const uint16_t *values = static_cast<const uint16_t *>(params.v) + step.batch * params.v_stride_batch +
                             (step.k.first + step.key) * params.v_stride_row + head_k * params.v_stride_head;
    copy_warp_rows<kHeadDimV>(tiles.values, values, params.v_stride_row, keys_of(step));
}

/* P of kTiles tiles of 16 rows and of the keys that there are, in steps of 16. */
template <int kTiles>
__device__ inline void weigh_keys(Weights &weights, const WarpTiles &tiles, const Step &step,
                                  const ActivationConstants &constants)
{
    //@if masked
    const uint32_t lane = tid_x() % 32;
    const int64_t aligned_row = step.row + key_offset(step.q.length, step.k.length) + lane / 4;
    //@endif
#pragma unroll
    for (int part = 0; part < kKeySteps; ++part) {
        if (part * 16 < keys_of(step)) {
            float scores[kTiles][2][4] = {};
            multiply_tiles<kDepthSteps>(scores, tiles.queries, 0, tiles.keys, part * 16);
#pragma unroll
            for (int m = 0; m < kTiles; ++m) {
#pragma unroll
                for (int i = 0; i < 4; ++i) { // i % 2: upper or lower 8 rows; i / 2: lower or upper 8 keys
                    const float(&pair)[4] = scores[m][i / 2];
                    uint32_t packed = activation_pack(pair[i % 2 * 2] * activation_turn(constants),
                                                      pair[i % 2 * 2 + 1] * activation_turn(constants), constants);
                    //@if masked
                    packed = hide(packed, aligned_row + m * 16 + i % 2 * 8,
                                  step.key + part * 16 + lane % 4 * 2 + i / 2 * 8);
                    //@endif
                    weights[part][m][i] = packed;
                }
            }
        }
    }
}

template <int kTiles>
__device__ inline void add_values(Output<kTiles> &output, const Weights &weights, const ValueTile &values, int32_t keys)
{
    const uint32_t lane = tid_x() % 32;
#pragma unroll
    for (int part = 0; part < kKeySteps; ++part) {
        if (part * 16 < keys) {
#pragma unroll
            for (int n = 0; n < kValueTiles / 2; ++n) {
                uint32_t b[4]; // matrices: (keys 0-7, 8-15) x (columns 0-7, 8-15), keys faster
                ldmatrix_x4_trans(b, step_address(values, lane % 16, lane / 16, part * 16, n));
#pragma unroll
                for (int m = 0; m < kTiles; ++m) {
                    mma_m16n8k16(output[m][2 * n], weights[part][m], b[0], b[1]);
                    mma_m16n8k16(output[m][2 * n + 1], weights[part][m], b[2], b[3]);
                }
            }
        }
    }
}

/* The output of a step whose values nobody reads any more. */
template <int kTiles>
__device__ inline void store_output(const Output<kTiles> &output, float factor, const WarpTiles &tiles,
                                    const gdpa_fwd_params &params, const Step &step)
{
    const int64_t place = step.batch * params.o_stride_batch + (step.q.first + step.row) * params.o_stride_row +
                          step.head * params.o_stride_head;
    const OutputTile staging = {tiles.values.base};
    bar_warp_sync();
    store_warp_rows<kTiles>(output, factor, staging, params.o, place, params.o_stride_row, step.rows);
}

extern "C" __global__ __launch_bounds__(kThreads, kMinBlocks) void gdpa_kernel_entry(
    const __grid_constant__ gdpa_fwd_params params)
{
    const uint32_t warp = tid_x() / 32;
    const uint32_t own = dynamic_shared_base() + warp * kWarpBytes;
    const WarpTiles tiles = {{own}, {own + QueryTile::kBytes}, {own + QueryTile::kBytes + KeyTile::kBytes}};
    const ActivationConstants constants =
        activation_constants(params.scale, params.out_scale, params.activation_param);
    PairWalk walk = begin_walk(params, warp);
    Step step = {};
    if (!next_step(step, walk, params)) {
        return;
    }
    load_queries_and_keys(tiles, params, step, true);
    cp_async_commit_group();
    load_values(tiles, params, step);
    cp_async_commit_group();
    Output<1> carried = {};
    while (true) {
        const bool many_rows = kRowTiles > 1 && step.rows > 16;
        Weights weights;
        cp_async_wait_group<1>(); // queries and keys are there,
        bar_warp_sync();          // for every lane
        if (many_rows) {
            weigh_keys<kRowTiles>(weights, tiles, step, constants);
        } else {
            weigh_keys<1>(weights, tiles, step, constants);
        }
        Step next = step;
        const bool more = next_step(next, walk, params);
        bar_warp_sync(); // nobody reads them any more
        if (more) {
            load_queries_and_keys(tiles, params, next, is_last_of_queries(step));
        }
        cp_async_commit_group();

        cp_async_wait_group<1>(); // the values are there
        bar_warp_sync();
        if (many_rows) {
            Output<kRowTiles> output = {};
            add_values<kRowTiles>(output, weights, tiles.values, keys_of(step));
            store_output<kRowTiles>(output, constants.epilogue, tiles, params, step);
            clear(carried);
        } else {
            add_values<1>(carried, weights, tiles.values, keys_of(step));
            if (is_last_of_queries(step)) {
                store_output<1>(carried, constants.epilogue, tiles, params, step);
                clear(carried);
            }
        }
        if (!more) {
            return;
        }
        bar_warp_sync(); // nor the values, nor what was staged in their place
        load_values(tiles, params, next);
        cp_async_commit_group();
        step = next;
    }
}
