/*
 * Which query tile a block works on: tile number -> sequence, head, tile in the sequence.
 *
 * Direct (tiles_per_seq > 0): every sequence has the same number of tiles, some of them perhaps empty. The tile in the sequence
 * runs fastest, so that blocks which run together share their keys and values in L2, then the head, then the sequence.
 *
 * With full_tiles_per_seq > 0 the last, shorter tiles of all sequences come behind the full ones: what is dealt out last should be small.
 *
 * Search (tiles_per_seq = 0, jagged queries): no bound of the lengths is known. Tiles are numbered through all sequences: sequence b
 * starts at tile cu_seqlens[b] / kBlockM + b. That leaves room for its ceil(length / kBlockM) tiles, whatever the lengths are,
 * and needs no other array. The sequence of a tile is found by a search with 32 probes a step. The head runs fastest.
 */
#ifndef GDPA_TILE_SCHEDULE_CUH
#define GDPA_TILE_SCHEDULE_CUH

#include "config_default.cuh"
#include "params.h"
#include "ptx/global_memory.cuh"
#include "ptx/integer.cuh"
#include "ptx/special_registers.cuh"
#include "ptx/warp.cuh"

struct TileWork {
    int32_t batch; // -1: no such sequence
    int32_t head;
    int64_t first_row; // of the tile, in its sequence; may lie beyond its end
};

struct Division {
    int64_t quotient;
    int32_t remainder;
};

/* 64-bit division takes many times the instructions of a 32-bit one, and is needed by the largest batches only. */
__device__ inline Division divide(int64_t value, int32_t divisor)
{
    if (value <= 0xffffffffll) {
        const uint32_t quotient = static_cast<uint32_t>(value) / static_cast<uint32_t>(divisor);
        return {quotient, static_cast<int32_t>(static_cast<uint32_t>(value) - quotient * static_cast<uint32_t>(divisor))};
    }
    const int64_t quotient = value / divisor;
    return {quotient, static_cast<int32_t>(value - quotient * divisor)};
}

__device__ inline int64_t divide_wide(int64_t value, int64_t divisor)
{
    if (value <= 0xffffffffll && divisor <= 0xffffffffll) {
        return static_cast<uint32_t>(value) / static_cast<uint32_t>(divisor);
    }
    return value / divisor;
}

/* First tile of a sequence in the numbering of the search. */
__device__ inline int64_t first_tile(const gdpa_fwd_params &params, uint32_t batch)
{
    return static_cast<int64_t>(ld_global_nc_s32(params.cu_seqlens_q + batch)) / kBlockM + batch;
}

/* The last sequence that starts at or before a tile, -1 when there is none. Called by whole warps. */
__device__ inline int32_t search_sequence(const gdpa_fwd_params &params, int64_t tile)
{
    const uint32_t lane = tid_x() % 32;
    uint32_t lowest = 0;
    uint32_t count = static_cast<uint32_t>(params.batch);
    while (true) {
        const uint32_t step = (count + 31) / 32;
        const uint32_t probe = lowest + lane * step;
        const bool starts_before = lane * step < count && first_tile(params, probe) <= tile;
        const uint32_t passed = popc_b32(vote_sync_ballot(starts_before));
        if (passed == 0) {
            return -1;
        }
        lowest += (passed - 1) * step;
        if (step == 1) {
            return static_cast<int32_t>(lowest);
        }
        const uint32_t left = count - (passed - 1) * step;
        count = left < step ? left : step;
    }
}

//@if causal
/*
 * Under a causal mask the tiles of a sequence differ in cost. Groups of kPairsInGroup (sequence, head) pairs, which share L2, go through
 * their tiles together, the last group from the longest tile to the shortest, the one before it the other way, and so on: then the places
 * block, block + grid, ... of a persistent block cost nearly the same, whatever the number of tiles is (docs/kernels.md).
 */
constexpr int32_t kPairsInGroup = 16;

__device__ inline TileWork find_direct_tile(const gdpa_fwd_params &params, int64_t tile)
{
    const int64_t pairs = static_cast<int64_t>(params.batch) * params.heads_q;
    const int64_t group_tiles = static_cast<int64_t>(params.tiles_per_seq) * kPairsInGroup;
    const int64_t groups = (pairs + kPairsInGroup - 1) / kPairsInGroup;
    const int64_t group = divide_wide(tile, group_tiles);
    const int64_t first_pair = group * kPairsInGroup;
    const int64_t pairs_left = pairs - first_pair;
    const int32_t pairs_here = static_cast<int32_t>(pairs_left < kPairsInGroup ? pairs_left : kPairsInGroup);
    const Division in_group = divide(tile - group * group_tiles, pairs_here);
    const Division in_batch = divide(first_pair + in_group.remainder, params.heads_q);
    const bool shortest_first = (groups - 1 - group) % 2 != 0;
    const int64_t place = shortest_first ? in_group.quotient : params.tiles_per_seq - 1 - in_group.quotient;
    return {static_cast<int32_t>(in_batch.quotient), in_batch.remainder, place * kBlockM};
}
//@else
__device__ inline TileWork find_direct_tile(const gdpa_fwd_params &params, int64_t tile)
{
    const int64_t full_tiles = static_cast<int64_t>(params.batch) * params.heads_q * params.full_tiles_per_seq;
    Division in_sequence;
    if (tile < full_tiles) {
        in_sequence = divide(tile, params.full_tiles_per_seq);
    } else if (full_tiles > 0) {
        in_sequence = {tile - full_tiles, params.full_tiles_per_seq};
    } else {
        in_sequence = divide(tile, params.tiles_per_seq);
    }
    const Division in_batch = divide(in_sequence.quotient, params.heads_q);
    return {static_cast<int32_t>(in_batch.quotient), in_batch.remainder,
            static_cast<int64_t>(in_sequence.remainder) * kBlockM};
}
//@endif

/*
 * How far a persistent block goes from its first place to its second; from there on the steps alternate between this and 2 grid - this. With
 * a single group of causal tiles the blocks are dealt with there and back, so that who got the longest tile gets the shortest next.
 */
__device__ inline uint32_t first_step(const gdpa_fwd_params &params)
{
    //@if causal
    if (static_cast<int64_t>(params.batch) * params.heads_q <= kPairsInGroup && params.tiles_per_seq > 0) {
        return 2 * (nctaid_x() - ctaid_x()) - 1;
    }
    //@endif
    return nctaid_x();
}

__device__ inline TileWork find_tile(const gdpa_fwd_params &params, int64_t tile)
{
    if (params.tiles_per_seq > 0) {
        return find_direct_tile(params, tile);
    }
    const Division of_head = divide(tile, params.heads_q);
    const int32_t batch = search_sequence(params, of_head.quotient);
    const int64_t place = batch < 0 ? -1 : of_head.quotient - first_tile(params, static_cast<uint32_t>(batch));
    // Offsets that do not increase may have led to a sequence that starts behind the tile.
    return {place < 0 ? -1 : batch, of_head.remainder, place * kBlockM};
}

#endif
