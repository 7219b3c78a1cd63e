/*
 * Jagged queries of uneven lengths: each block takes one piece of the work, and all pieces cost the same. The work is a line: sequences in
 * their order, each head by head, each head tile by tile; a tile's place on it is the cost of all tiles before it. Block i takes the tiles
 * that begin in [i, i + 1) of total / blocks, finds its first one by itself, and goes on from there without any search.
 *
 * Tiles that are dealt out in turn leave the block with the most work 10 to 20 % above the mean where lengths vary. In turn, though, blocks
 * work on the same keys at a time, so it has to be where the keys and values of as many heads as there are blocks do not fit into L2
 * (docs/kernels.md).
 *
 * All threads add up the costs of some sequences each, before the block's first barrier; behind it the scout takes its share.
 */
#ifndef GDPA_SHARE_SCHEDULE_CUH
#define GDPA_SHARE_SCHEDULE_CUH

#include "config_default.cuh"
#include "params.h"
#include "ptx/integer.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/special_registers.cuh"
#include "ptx/warp.cuh"
#include "sequence.cuh"
#include "tile_schedule.cuh"

/* Beyond these the sum of all costs would take too long, or might not stay below 2^52. */
constexpr int32_t kMostShared = 32 * kThreads; // sequences
constexpr int32_t kMostSharedHeads = 1 << 12;

constexpr int64_t kSharedKeyBytes = 40 << 20; // of keys and values, one head for each block, that L2 keeps

/*
 * Lengths are uneven where tiles are found by a search. Where they are even, query tiles of a head are better together if there are some and all
 * keys fit into the slots at a time, for they stay there from one to the next; but not with narrow heads, whose keys are loaded soon.
 */
__device__ inline bool is_shared_out(const gdpa_fwd_params &params)
{
    const int64_t rows_k = params.cu_seqlens_k != nullptr ? params.rows_k : params.rows_k * params.batch;
    const bool keys_fit = rows_k * ((kHeadDim + kHeadDimV) * 2) * nctaid_x() <= kSharedKeyBytes * params.batch;
    const int64_t slots = static_cast<int64_t>(kStages * kBlockN) * params.batch;
    const bool keys_stay = rows_k <= slots && params.tiles_per_seq > 2 && kHeadDim + kHeadDimV > 128;
    return (params.tiles_per_seq == 0 || keys_stay) && params.batch <= kMostShared && params.heads_q <= kMostSharedHeads && keys_fit;
}

/* Of a sequence, for one head: query tiles, and what each of them costs, rounded to their mean. */
struct TileCosts {
    int32_t tiles;
    int32_t cost;
};

/*
 * In sixths of what a key tile costs a whole query tile. One warpgroup alone takes half of that time, two of three take two thirds; to begin
 * and end a query tile takes as long as a key tile. Where there are so many keys that it does not matter, they are not counted.
 */
__device__ inline TileCosts tile_costs(int32_t length_q, int32_t length_k)
{
    const int32_t all_key_tiles = (length_k + kBlockN - 1) / kBlockN;
    const int32_t key_tiles = all_key_tiles < 512 ? all_key_tiles : 512;
    const int32_t rest = length_q % kBlockM;
    const int32_t tiles = length_q / kBlockM + (rest > 0 ? 1 : 0);
    const int32_t rest_cost = 2 + 4 * ((rest + 63) / 64) / (kBlockM / 64);
    const int32_t saved = rest > 0 ? (6 - rest_cost) * key_tiles / tiles : 0;
    return {tiles, 6 * key_tiles + 6 - saved};
}

struct SequencePair {
    Sequence q, k;
};

__device__ inline SequencePair find_sequences(const gdpa_fwd_params &params, int32_t batch)
{
    return {find_sequence(params.cu_seqlens_q, params.seqused_q, params.rows_q, batch),
            find_sequence(params.cu_seqlens_k, params.seqused_k, params.rows_k, batch)};
}

__device__ inline int64_t sequence_cost(const gdpa_fwd_params &params, int32_t batch)
{
    if (batch >= params.batch) {
        return 0;
    }
    const SequencePair pair = find_sequences(params, batch);
    const TileCosts costs = tile_costs(pair.q.length, pair.k.length);
    return static_cast<int64_t>(costs.tiles) * costs.cost * params.heads_q;
}

__device__ inline int32_t sequences_a_thread(const gdpa_fwd_params &params)
{
    return (params.batch + kThreads - 1) / kThreads;
}

/* By all threads: what the thread's sequences cost together, to 8 bytes a thread of shared memory that the copy engine writes later. */
__device__ inline void add_up_shares(const gdpa_fwd_params &params, uint32_t sums)
{
    const int32_t count = sequences_a_thread(params);
    int64_t sum = 0;
#pragma unroll 4
    for (int32_t i = 0; i < count; ++i) {
        sum += sequence_cost(params, static_cast<int32_t>(tid_x()) * count + i);
    }
    st_shared_b64(sums + tid_x() * 8, sum);
    fence_proxy_async_shared();
}

__device__ inline int64_t shfl_sync_idx_64(int64_t value, uint32_t source)
{
    const uint32_t low = shfl_sync_idx(static_cast<uint32_t>(value), source);
    const uint32_t high = shfl_sync_idx(static_cast<uint32_t>(value >> 32), source);
    return static_cast<int64_t>(high) << 32 | low;
}

/* Of a value below 2^52 by a divisor below 2^12, in two 32-bit steps: 64-bit division needs more registers than the scout has. */
__device__ inline Division divide_cost(int64_t value, uint32_t divisor)
{
    const uint32_t high = static_cast<uint32_t>(value >> 20);
    const uint32_t low = high % divisor << 20 | (static_cast<uint32_t>(value) & 0xfffff);
    return {(static_cast<int64_t>(high / divisor) << 20) + low / divisor, static_cast<int32_t>(low % divisor)};
}

/* Where on the line the share of a block begins; that of a block that does not exist: the end. */
__device__ inline int64_t share_begin(int64_t total, uint32_t block)
{
    const Division each = divide_cost(total, nctaid_x());
    const uint32_t rest = static_cast<uint32_t>(each.remainder);
    return each.quotient * block + (block < rest ? block : rest);
}

struct Share {
    int64_t place; // of the first tile
    int64_t end;   // of the share
    int32_t batch; // of the first tile; it may be that behind the last of its head or sequence
    int32_t head;
    int32_t tile;
};

/* The first of 32 values of a line, one a lane, that ends behind `target`; `place` moves to its beginning. */
__device__ inline uint32_t walk_lanes(int64_t value, int64_t target, int64_t &place)
{
    uint32_t lane = 0;
    for (uint32_t i = 0; i < 32; ++i) {
        const int64_t end = place + shfl_sync_idx_64(value, i);
        if (lane == i && end <= target) {
            place = end;
            ++lane;
        }
    }
    return lane;
}

/* By one whole warp, behind the barrier. */
__device__ inline Share take_share(const gdpa_fwd_params &params, uint32_t sums)
{
    constexpr uint32_t kThreadsALane = kThreads / 32;
    const uint32_t lane = tid_x() % 32;
    int64_t lane_sum = 0;
#pragma unroll 4
    for (uint32_t i = 0; i < kThreadsALane; ++i) {
        lane_sum += ld_shared_b64(sums + (lane * kThreadsALane + i) * 8);
    }
    int64_t total = 0;
    for (uint32_t i = 0; i < 32; ++i) {
        total += shfl_sync_idx_64(lane_sum, i);
    }
    Share share = {0, share_begin(total, ctaid_x() + 1), params.batch, 0, 0};
    const int64_t begin = share_begin(total, ctaid_x());
    if (begin < share.end) {
        const uint32_t found_lane = walk_lanes(lane_sum, begin, share.place);
        const uint32_t first_thread = found_lane * kThreadsALane;
        const int64_t thread_sum = lane < kThreadsALane ? ld_shared_b64(sums + (first_thread + lane) * 8) : 0;
        const uint32_t thread = first_thread + walk_lanes(thread_sum, begin, share.place);
        const int32_t count = sequences_a_thread(params);
        const int32_t first_batch = static_cast<int32_t>(thread) * count;
        const int64_t cost = static_cast<int32_t>(lane) < count ? sequence_cost(params, first_batch + lane) : 0;
        share.batch = first_batch + static_cast<int32_t>(walk_lanes(cost, begin, share.place));
    }
    fence_proxy_async_shared();
    bar_warp_sync(); // one lane asks for copies over what all of them have read
    if (begin < share.end && share.batch < params.batch) { // sums of offsets that overlap could be anything
        const SequencePair pair = find_sequences(params, share.batch);
        const TileCosts costs = tile_costs(pair.q.length, pair.k.length);
        const int64_t head_cost = static_cast<int64_t>(costs.tiles) * costs.cost;
        for (int32_t bit = kMostSharedHeads; bit > 0; bit /= 2) {
            if (share.place + bit * head_cost <= begin) {
                share.place += bit * head_cost;
                share.head += bit;
            }
        }
        share.tile = static_cast<int32_t>(divide_cost(begin - share.place + costs.cost - 1, costs.cost).quotient);
        share.place += static_cast<int64_t>(share.tile) * costs.cost;
    }
    return share;
}

#endif
