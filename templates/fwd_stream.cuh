/*
 * Forward kernel for few keys and many queries, from sm_80 on: what a block does is bounded by the bandwidth of memory.
 *
 * A block owns kBlockM query rows of one (sequence, head). Its keys and values, kBlockN of them, come once and stay; the rows pass by, kSliceM
 * at a time for each warp, and no warp waits for another one: the next queries are on their way while these are used, and the output is
 * staged in their place.
 *
 *     warp w   Q K V | Q'        | Q"          | ...
 *                    | f(Q K) V  | f(Q' K) V   | ...
 *
 * Where a sequence has more keys, their tiles take turns, with the whole block waiting: right, but slow.
 */
#include "activation.cuh"
#include "config_default.cuh"
#include "fragment_mma.cuh"
#include "load_tile.cuh"
#include "mask.cuh"
#include "operands.cuh"
#include "params.h"
#include "ptx/barrier.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/warp.cuh"
#include "shared_tile.cuh"
#include "tile_schedule.cuh"
#include "warp_rows.cuh"

constexpr int kRowTiles = kSliceM / 16;
constexpr int kGroupRows = kWarps * kSliceM; // of a block at a time

using QueryTile = SharedTile<kSliceM, kHeadDim>;
using OutputTile = SharedTile<kSliceM, kHeadDimV>;
using KeyTile = SharedTile<kBlockN, kHeadDim>;
using ValueTile = SharedTile<kBlockN, kHeadDimV>;

/* The map of dynamic shared memory: two slots a warp, which the output shares; K; V; what is seldom read and would take registers. */
constexpr int kSlotBytes =
    round_up(QueryTile::kBytes > OutputTile::kBytes ? QueryTile::kBytes : OutputTile::kBytes, 1024);
constexpr int kKeyPlace = 2 * kWarps * kSlotBytes;
constexpr int kValuePlace = kKeyPlace + round_up(KeyTile::kBytes, 1024);
constexpr int kParking = kValuePlace + round_up(ValueTile::kBytes, 1024);
constexpr int kDepthSteps = QueryTile::kUnits / 2; // of 16 columns
constexpr int kSliceTiles = kSliceN / 8;
static_assert(kParking + 32 <= kSmemBytes, "the plan gave too little shared memory");
static_assert(kBlockN % kSliceN == 0 && kSliceN % 16 == 0, "tiles are made of 16 x 16 steps");

/* Where keys, values and output of the block lie, and the factor of the output. */
__device__ inline void park(uint32_t shared, const Operands &operands, float epilogue)
{
    if (tid_x() == 0) {
        st_shared_b64(shared + kParking, reinterpret_cast<int64_t>(operands.k));
        st_shared_b64(shared + kParking + 8, reinterpret_cast<int64_t>(operands.v));
        st_shared_b64(shared + kParking + 16, operands.o_offset);
        st_shared_b32(shared + kParking + 24, float_as_bits(epilogue));
        st_shared_b32(shared + kParking + 28, static_cast<uint32_t>(operands.length_k));
    }
    bar_sync_0();
}

__device__ inline void load_keys_and_values(uint32_t shared, const gdpa_fwd_params &params, int32_t first_key)
{
    const uint16_t *keys = reinterpret_cast<const uint16_t *>(ld_shared_b64(shared + kParking));
    const uint16_t *values = reinterpret_cast<const uint16_t *>(ld_shared_b64(shared + kParking + 8));
    const int32_t keys_left = static_cast<int32_t>(ld_shared_b32(shared + kParking + 28)) - first_key;
    const KeyTile key_tile = {shared + kKeyPlace};
    const ValueTile value_tile = {shared + kValuePlace};
#pragma unroll 1
    for (int32_t block = tid_x() / 32 * 16; block < kBlockN; block += kWarps * 16) {
        copy_16_rows<kHeadDim>(key_tile, keys + first_key * params.k_stride_row, params.k_stride_row, keys_left, block);
        copy_16_rows<kHeadDimV>(value_tile, values + first_key * params.v_stride_row, params.v_stride_row, keys_left,
                                block);
    }
}

/* The kSliceM queries of a warp's step, `rows` of which there are; zeros behind them. Nothing where there is none. */
__device__ inline void load_queries(const QueryTile &tile, const gdpa_fwd_params &params, const Operands &operands,
                                    int32_t first_row, int32_t rows)
{
    if (rows > 0) {
#pragma unroll
        for (int block = 0; block < kSliceM; block += 16) {
            copy_16_rows<kHeadDim>(tile, operands.q + first_row * params.q_stride_row, params.q_stride_row, rows, block);
        }
    }
    cp_async_commit_group();
}

/* output += f(queries x keys^T) x values for kSliceN keys from first_key of the tile on. aligned_row: of the lane's first row. */
__device__ inline void add_slice(Output<kRowTiles> &output, const uint32_t (&queries)[kDepthSteps][kRowTiles][4],
                                 uint32_t shared, int first_key, const ActivationConstants &constants, int64_t aligned_row,
                                 int32_t tile_key)
{
    const uint32_t lane = tid_x() % 32;
    const KeyTile keys = {shared + kKeyPlace};
    const ValueTile values = {shared + kValuePlace};
    float scores[kRowTiles][kSliceTiles][4] = {};
#pragma unroll
    for (int step = 0; step < kDepthSteps; ++step) {
        multiply_rows(scores, queries[step], keys, first_key, step);
    }
#pragma unroll
    for (int part = 0; part < kSliceN / 16; ++part) {
        uint32_t weights[kRowTiles][4];
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
            for (int i = 0; i < 4; ++i) { // i % 2: upper or lower 8 rows; i / 2: lower or upper 8 keys
                const float(&pair)[4] = scores[m][2 * part + i / 2];
                weights[m][i] = activation_pack(pair[i % 2 * 2] * activation_turn(constants),
                                                pair[i % 2 * 2 + 1] * activation_turn(constants), constants);
                //@if masked
                weights[m][i] = hide(weights[m][i], aligned_row + m * 16 + i % 2 * 8,
                                     tile_key + first_key + part * 16 + lane % 4 * 2 + i / 2 * 8);
                //@endif
            }
        }
        multiply_columns(output, weights, values, first_key + part * 16, 0);
    }
}

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
    const int32_t block_rows = rows_left < kBlockM ? rows_left : kBlockM;
    const KeyRange range =
        visible_keys(first_row, first_row + block_rows - 1, operands.length_q, operands.length_k);
    const int32_t first_tile_k = range.begin / kBlockN;
    const int32_t end_tile_k = (range.end + kBlockN - 1) / kBlockN;
    const int64_t offset = key_offset(operands.length_q, operands.length_k);

    park(shared, operands, constants.epilogue);
    const uint32_t slots = shared + warp * 2 * kSlotBytes;
    int32_t held_tile_k = -1;
    if (first_tile_k < end_tile_k) {
        load_queries({slots}, params, operands, first_row + warp * kSliceM, block_rows - warp * kSliceM);
    }
    for (int32_t group_row = 0; group_row < block_rows; group_row += kGroupRows) {
        const int32_t row = group_row + warp * kSliceM; // of the warp's step, in the block's rows
        const uint32_t slot = group_row / kGroupRows % 2;
        const QueryTile queries = {slots + slot * kSlotBytes};
        Output<kRowTiles> output = {};
        uint32_t query_steps[kDepthSteps][kRowTiles][4];
        for (int32_t tile_k = first_tile_k; tile_k < end_tile_k; ++tile_k) {
            if (tile_k != held_tile_k) {
                bar_sync_0(); // nobody reads the keys and values that are there
                load_keys_and_values(shared, params, tile_k * kBlockN);
                cp_async_commit_group();
                cp_async_wait_group<0>();
                bar_sync_0();
                held_tile_k = tile_k;
            }
            if (row < block_rows) {
                if (tile_k == first_tile_k) {
                    cp_async_wait_group<0>(); // the queries are there,
                    bar_warp_sync();          // for every lane
#pragma unroll
                    for (int step = 0; step < kDepthSteps; ++step) {
                        load_rows(query_steps[step], queries, 0, step);
                    }
                    load_queries({slots + (slot ^ 1) * kSlotBytes}, params, operands, first_row + row + kGroupRows,
                                 block_rows - row - kGroupRows);
                }
const int32_t keys = range.end - tile_k * kBlockN;
                const int64_t aligned_row = first_row + row + offset + tid_x() % 32 / 4;
                if (keys > kBlockN - kSliceN) {
#pragma unroll
                    for (int slice = 0; slice < kBlockN; slice += kSliceN) {
                        add_slice(output, query_steps, shared, slice, constants, aligned_row, tile_k * kBlockN);
                    }
                } else {
#pragma unroll 1
                    for (int slice = 0; slice < keys; slice += kSliceN) {
                        add_slice(output, query_steps, shared, slice, constants, aligned_row, tile_k * kBlockN);
                    }
                }
            }
        }
        if (row < block_rows) {
            const OutputTile staging = {queries.base};
            bar_warp_sync(); // the queries are no longer read
            store_warp_rows<kRowTiles>(output, bits_as_float(ld_shared_b32(shared + kParking + 24)), staging, params.o,
                                       ld_shared_b64(shared + kParking + 16) + (first_row + row) * params.o_stride_row,
                                       params.o_stride_row, block_rows - row);
            bar_warp_sync(); // the slot is free
        }
    }
}
