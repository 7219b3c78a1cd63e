/*
 * Forward kernel for every architecture from sm_80 on: mma.sync on fragments, ldmatrix, a cp.async pipeline.
 *
 * A block owns kBlockM query rows of one (sequence, head); each warp owns kBlockM / kWarps of them. Keys and values come in tiles
 * of kBlockN through a ring of kStages slots; the copies of a tile run under the math of the kStages - 1 tiles before it, and one
 * barrier a tile tells both that it has arrived and that the slot of the tile before is free.
 *
 *     copies   KV0 | KV1                 | KV2                 | ...
 *     math         | f(Q K0^T) V0        | f(Q K1^T) V1        | ...
 *
 * There is no softmax: nothing is carried from tile to tile but the output sums. Scores live for kSliceN keys at a time.
 */
#include "activation.cuh"
#include "config_default.cuh"
#include "load_tile.cuh"
#include "mask.cuh"
#include "operands.cuh"
#include "params.h"
#include "ptx/barrier.cuh"
#include "ptx/cp_async.cuh"
#include "shared_tile.cuh"
#include "store_output.cuh"
#include "tile_schedule.cuh"
#include "warp_mma.cuh"

using QueryTile = SharedTile<kBlockM, kHeadDim>;
using KeyTile = SharedTile<kBlockN, kHeadDim>;
using ValueTile = SharedTile<kBlockN, kHeadDimV>;

/* The map of dynamic shared memory: Q (the output is staged there too), K slots, V slots, 16 bytes for the epilogue. */
constexpr int kQueryBytes = round_up(
    QueryTile::kBytes > SharedTile<kBlockM, kHeadDimV>::kBytes ? QueryTile::kBytes : SharedTile<kBlockM, kHeadDimV>::kBytes,
    1024);
constexpr int kKeySlot = kQueryBytes;
constexpr int kValueSlot = kKeySlot + kStages * KeyTile::kBytes;
constexpr int kParking = kValueSlot + kStages * ValueTile::kBytes;
static_assert(kParking + 16 <= kSmemBytes, "the plan gave too little shared memory");
static_assert(kWarpRows % 16 == 0 && kBlockN % kSliceN == 0 && kSliceN % 16 == 0, "tiles are made of 16 x 16 steps");
static_assert(kStages >= 2, "a tile is copied while another one is used");

/* Keys and values of a tile into their slots, as one group; an empty group behind the last tile. */
__device__ inline void load_keys_and_values(uint32_t shared, const gdpa_fwd_params &params, const Operands &operands,
                                            int32_t tile, int32_t end_tile)
{
    if (tile < end_tile) {
        const int32_t first_key = tile * kBlockN;
        const KeyTile keys = {shared + kKeySlot + tile % kStages * KeyTile::kBytes};
        load_tile<kHeadDim>(keys, operands.k + first_key * params.k_stride_row, params.k_stride_row,
                            operands.length_k - first_key);
        const ValueTile values = {shared + kValueSlot + tile % kStages * ValueTile::kBytes};
        load_tile<kHeadDimV>(values, operands.v + first_key * params.v_stride_row, params.v_stride_row,
                             operands.length_k - first_key);
    }
    cp_async_commit_group();
}

/* f of the scores of 16 keys -> packed A fragments of P. */
__device__ inline void activate_step(uint32_t (&weights)[kRowTiles][4],
                                     const float (&scores)[kRowTiles][kSliceTiles][4], int step,
                                     const ActivationConstants &constants)
{
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) { // i % 2: upper or lower 8 rows; i / 2: lower or upper 8 keys
            const float(&pair)[4] = scores[m][2 * step + i / 2];
            weights[m][i] = activation_pack(pair[i % 2 * 2] * activation_turn(constants),
                                            pair[i % 2 * 2 + 1] * activation_turn(constants), constants);
        }
    }
}

//@if masked
/* Zeroes the hidden pairs among 16 keys from `key` on. aligned_row: of the lane's first row. */
__device__ inline void hide_step(uint32_t (&weights)[kRowTiles][4], int64_t aligned_row, int64_t key)
{
    const int64_t lane_key = key + tid_x() % 4 * 2;
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            weights[m][i] = hide(weights[m][i], aligned_row + m * 16 + i % 2 * 8, lane_key + i / 2 * 8);
        }
    }
}
//@endif

extern "C" __global__ __launch_bounds__(kThreads, kMinBlocks) void gdpa_kernel_entry(
    const __grid_constant__ gdpa_fwd_params params)
{
    const uint32_t shared = dynamic_shared_base();
    const uint32_t warp = tid_x() / 32;
    const ActivationConstants constants =
        activation_constants(params.scale, params.out_scale, params.activation_param);
    const int64_t tile = static_cast<int64_t>(ctaid_y()) * nctaid_x() + ctaid_x();
    if (tile >= params.num_tiles) {
        return;
    }
    const TileWork work = find_tile(params, tile);
    if (work.batch < 0) {
        return;
    }
    const Operands operands = find_operands(params, work.batch, work.head);
    if (work.first_row >= operands.length_q) {
        return;
    }
    const int32_t first_row = static_cast<int32_t>(work.first_row);
    const int32_t rows_left = operands.length_q - first_row;
    const int32_t valid_rows = rows_left < kBlockM ? rows_left : kBlockM;
    const KeyRange range =
        visible_keys(first_row, first_row + valid_rows - 1, operands.length_q, operands.length_k);
    const int32_t first_tile_k = range.begin / kBlockN;
    const int32_t end_tile_k = (range.end + kBlockN - 1) / kBlockN;

    const QueryTile queries = {shared};
    load_tile<kHeadDim>(queries, operands.q + first_row * params.q_stride_row, params.q_stride_row, valid_rows);
    // The query tile shares the first group.
#pragma unroll
    for (int i = 0; i < kStages - 1; ++i) {
        load_keys_and_values(shared, params, operands, first_tile_k + i, end_tile_k);
    }

    // Registers are short in the loop: what only the epilogue needs waits in shared memory.
    if (tid_x() == 0) {
        st_shared_b64(shared + kParking, operands.o_offset + first_row * params.o_stride_row);
        st_shared_b32(shared + kParking + 8, static_cast<uint32_t>(valid_rows));
        st_shared_b32(shared + kParking + 12, float_as_bits(constants.epilogue));
    }
    float output[kRowTiles][kValueTiles][4] = {};
    //@if q_in_registers
    uint32_t query_steps[kDepthSteps][kRowTiles][4];
    cp_async_wait_group<kStages - 2>();
    bar_sync_0();
#pragma unroll
    for (int step = 0; step < kDepthSteps; ++step) {
        load_query_step(query_steps[step], queries, warp, step);
    }
    //@endif
    //@if masked
    const int64_t offset = key_offset(operands.length_q, operands.length_k);
    const int64_t aligned_row = first_row + offset + warp * kWarpRows + tid_x() % 32 / 4;
    //@endif

    for (int32_t tile_k = first_tile_k; tile_k < end_tile_k; ++tile_k) {
        cp_async_wait_group<kStages - 2>(); // this tile is there,
        bar_sync_0();                       // for every thread, and the tile before is no longer read
        load_keys_and_values(shared, params, operands, tile_k + kStages - 1, end_tile_k);
        const KeyTile keys = {shared + kKeySlot + tile_k % kStages * KeyTile::kBytes};
        const ValueTile values = {shared + kValueSlot + tile_k % kStages * ValueTile::kBytes};
        //@if masked
        const bool needs_mask =
            tile_needs_mask(first_row, first_row + valid_rows - 1, offset, tile_k * kBlockN);
        //@endif
#pragma unroll
        for (int slice = 0; slice < kBlockN / kSliceN; ++slice) {
            float scores[kRowTiles][kSliceTiles][4] = {};
#pragma unroll
            for (int step = 0; step < kDepthSteps; ++step) {
                //@if q_in_registers
                multiply_keys_step(scores, query_steps[step], keys, slice * kSliceN, step);
                //@else
                uint32_t query_step[kRowTiles][4];
                load_query_step(query_step, queries, warp, step);
                multiply_keys_step(scores, query_step, keys, slice * kSliceN, step);
                //@endif
            }
#pragma unroll
            for (int step = 0; step < kSliceN / 16; ++step) {
                uint32_t weights[kRowTiles][4];
                activate_step(weights, scores, step, constants);
                //@if masked
                if (needs_mask) {
                    hide_step(weights, aligned_row, tile_k * kBlockN + slice * kSliceN + step * 16);
                }
                //@endif
                multiply_values_step(output, weights, values, slice * kSliceN + step * 16);
            }
        }
    }
    // Without any key tile the query tile may still be on its way to where the output is staged.
    cp_async_wait_group<0>();
    bar_sync_0();
    //@if out_fp32
    float *target = static_cast<float *>(params.o);
    //@else
    uint16_t *target = static_cast<uint16_t *>(params.o);
    //@endif
    target += ld_shared_b64(shared + kParking);
    store_output(output, bits_as_float(ld_shared_b32(shared + kParking + 12)), shared, target, params.o_stride_row,
                 static_cast<int32_t>(ld_shared_b32(shared + kParking + 8)), warp);
}
