/*
 * The tiles of the portable backward: where they lie, how warps divide them, which of them a block goes through.
 */
#ifndef GDPA_BWD_PORTABLE_TILES_CUH
#define GDPA_BWD_PORTABLE_TILES_CUH

#include "config_default.cuh"
#include "copy_rows.cuh"
#include "gradient.cuh"
#include "gradient_tiles.cuh"
#include "mask_queries.cuh"
#include "params.h"
#include "ptx/cp_async.cuh"
#include "sequence.cuh"
#include "shared_tile.cuh"

using KeyTile = SharedTile<kBlockN, kHeadDim>;
using ValueTile = SharedTile<kBlockN, kHeadDimV>;
using QueryTile = SharedTile<kBlockM, kHeadDim>;
using OutputTile = SharedTile<kBlockM, kHeadDimV>; // of output gradients
using ScoreTile = SharedTile<kBlockN, kBlockM>;

/* The map of dynamic shared memory: K, V, Q slots, dO slots, dS^T, P^T. */
constexpr int kValues = KeyTile::kBytes;
constexpr int kQuerySlots = kValues + ValueTile::kBytes;
constexpr int kOutputSlots = kQuerySlots + kStages * QueryTile::kBytes;
constexpr int kSlopes = kOutputSlots + kStages * OutputTile::kBytes;
constexpr int kWeights = kSlopes + ScoreTile::kBytes;
constexpr int kEnd = kColumnParts > 1 ? kWeights + ScoreTile::kBytes : kWeights;
static_assert(kEnd <= kSmemBytes, "the plan gave too little shared memory");
static_assert(kStages >= 2, "a tile is copied while another one is used");

/* Scores and sums of a warp, in 16 x 8 fragments. */
constexpr int kKeyWarps = kWarps / kColumnParts;
constexpr int kWarpKeys = kBlockN / kKeyWarps;
constexpr int kKeyTiles = kWarpKeys / 16;
constexpr int kPartRows = kBlockM / kColumnParts; // query rows whose scores a warp computes
constexpr int kSliceSteps = kSliceM / 16;
constexpr int kDepthGroups = QueryTile::kUnits / 2; // groups of 16 columns
constexpr int kValueGroups = OutputTile::kUnits / 2;
constexpr int kWarpDepthGroups = (kDepthGroups + kColumnParts - 1) / kColumnParts; // of dK in one warp
constexpr int kWarpValueGroups = (kValueGroups + kColumnParts - 1) / kColumnParts; // of dV
static_assert(kWarps % kColumnParts == 0 && kWarpKeys * kKeyWarps == kBlockN && kWarpKeys % 16 == 0 &&
                  kPartRows % kSliceM == 0 && kSliceM % 16 == 0,
              "tiles are made of 16 x 16 steps");

/* dQ of a tile of queries, divided among all warps. */
constexpr int kDqRowTiles = kBlockM % 32 == 0 && kWarps % (kBlockM / 32) == 0 ? 2 : 1;
constexpr int kDqRowWarps = kBlockM / (16 * kDqRowTiles);
constexpr int kDqColumnWarps = kWarps / kDqRowWarps;
constexpr int kDqGroups = (kDepthGroups + kDqColumnWarps - 1) / kDqColumnWarps;
constexpr int kDqChunk = kDqGroups * kDqRowTiles <= 6 ? kDqGroups : kDqGroups % 2 == 0 ? 2 : 1; // in registers at a time
static_assert(kDqRowWarps * kDqColumnWarps == kWarps, "each warp has its part of dQ");

using ScoreFragments = float[kKeyTiles][kSliceM / 8][4];
using PackedScores = uint32_t[kSliceSteps][kKeyTiles][4]; // A fragments
using DepthSums = float[kKeyTiles][2 * kWarpDepthGroups][4];
using ValueSums = float[kKeyTiles][2 * kWarpValueGroups][4];
using DqSums = float[kDqRowTiles][2 * kDqChunk][4];

/* Where a block works. Pointers to the sequence's row 0 and the first head of the group. */
struct Work {
    const uint16_t *q;
    const uint16_t *dout;
    int64_t sum_block; // of row 0, in dq_sum
    int64_t dq_offset; // elements
    int32_t first_head;
    int32_t first_key; // of the tile
    int32_t length_q;
    int32_t length_k;
    int32_t begin_tile; // of the queries that see the keys
    int32_t end_tile;
};

/* A tile of queries of a head of the group. */
struct Place {
    int32_t head;
    int32_t tile;
};

__device__ inline Place next_place(Place place, const Work &work)
{
    return place.tile + 1 < work.end_tile ? Place{place.head, place.tile + 1} : Place{place.head + 1, work.begin_tile};
}

__device__ inline Work find_work(const gdpa_bwd_params &params, const GradientTile &tile, const Sequence &q,
                                 const Sequence &k)
{
    Work work;
    work.first_head = tile.head * params.heads_per_group;
    work.q = static_cast<const uint16_t *>(params.q) + tile.batch * params.q_stride_batch +
             q.first_row * params.q_stride_row + work.first_head * params.q_stride_head;
    work.dout = static_cast<const uint16_t *>(params.dout) + tile.batch * params.dout_stride_batch +
                q.first_row * params.dout_stride_row + work.first_head * params.dout_stride_head;
    work.sum_block = first_sum_block(params, tile.batch, q.first_row);
    work.dq_offset = tile.batch * params.dq_stride_batch + q.first_row * params.dq_stride_row +
                     work.first_head * params.dq_stride_head;
    work.length_q = q.length;
    work.length_k = k.length;
    work.first_key = static_cast<int32_t>(tile.first_row);
    const int32_t keys_left = k.length - work.first_key;
    const QueryRange range = visible_queries(
        work.first_key, work.first_key + (keys_left < kBlockN ? keys_left : kBlockN) - 1, q.length, k.length);
    work.begin_tile = range.begin / kBlockM;
    work.end_tile = (range.end + kBlockM - 1) / kBlockM;
    return work;
}

/* Queries and output gradients of a place into the slots of a step, as one group; an empty group behind the last step. */
__device__ inline void copy_queries(uint32_t shared, const gdpa_bwd_params &params, const Work &work, Place place,
                                    uint32_t step)
{
    if (place.head < params.heads_per_group && work.begin_tile < work.end_tile) {
        const int32_t first_row = place.tile * kBlockM;
        const int32_t valid_rows = work.length_q - first_row;
        const uint32_t slot = step % kStages;
        const QueryTile queries = {shared + kQuerySlots + slot * QueryTile::kBytes};
        copy_rows<kThreads, kHeadDim>(queries,
                                      work.q + place.head * params.q_stride_head + first_row * params.q_stride_row,
                                      params.q_stride_row, valid_rows);
        const OutputTile outputs = {shared + kOutputSlots + slot * OutputTile::kBytes};
        copy_rows<kThreads, kHeadDimV>(
            outputs, work.dout + place.head * params.dout_stride_head + first_row * params.dout_stride_row,
            params.dout_stride_row, valid_rows);
    }
    cp_async_commit_group();
}

/* The keys and values of a block. first_key: among the rows of all sequences. */
__device__ inline void copy_key_tiles(uint32_t shared, const gdpa_bwd_params &params, const GradientTile &tile,
                                      int64_t first_key, int32_t valid_keys)
{
    const KeyTile keys = {shared};
    copy_rows<kThreads, kHeadDim>(keys,
                                  static_cast<const uint16_t *>(params.k) + tile.batch * params.k_stride_batch +
                                      first_key * params.k_stride_row + tile.head * params.k_stride_head,
                                  params.k_stride_row, valid_keys);
    const ValueTile values = {shared + kValues};
    copy_rows<kThreads, kHeadDimV>(values,
                                   static_cast<const uint16_t *>(params.v) + tile.batch * params.v_stride_batch +
                                       first_key * params.v_stride_row + tile.head * params.v_stride_head,
                                   params.v_stride_row, valid_keys);
}

#endif
