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
 * Each warp owns kWarpKeys keys. Scores of kSliceM queries are held at a time. With kColumnParts = 2, two warps share keys, for head dims whose dK and dV do not fit the registers of one:
 * each computes the scores of half of the queries, P goes through shared memory too, and each sums up half of the columns.
 */
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
    int64_t dq_offset;    // elements
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
    copy_rows<kThreads, kHeadDim>(keys,
                                  static_cast<const uint16_t *>(params.k) + tile.batch * params.k_stride_batch +
                                      first_key * params.k_stride_row + tile.head * params.k_stride_head,
                                  params.k_stride_row, valid_keys);
    copy_rows<kThreads, kHeadDimV>(values,
                                   static_cast<const uint16_t *>(params.v) + tile.batch * params.v_stride_batch +
                                       first_key * params.v_stride_row + tile.head * params.v_stride_head,
                                   params.v_stride_row, valid_keys);
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

    const bool accumulate = params.accumulate != 0;
    if (wants_dk) {
        Gradient *const target = static_cast<Gradient *>(params.dk) + tile.batch * params.dk_stride_batch +
                                 first_key * params.dk_stride_row + tile.head * params.dk_stride_head;
        store_keys<kHeadDim>(dk, gradient_factors(params).outer, target, params.dk_stride_row, valid_keys, warp_key,
                             part * kWarpDepthGroups, accumulate);
    }
    if (wants_dv) {
        Gradient *const target = static_cast<Gradient *>(params.dv) + tile.batch * params.dv_stride_batch +
                                 first_key * params.dv_stride_row + tile.head * params.dv_stride_head;
        store_keys<kHeadDimV>(dv, params.out_scale, target, params.dv_stride_row, valid_keys, warp_key,
                              part * kWarpValueGroups, accumulate);
    }
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
