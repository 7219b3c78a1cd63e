/*
 * Which tile a block of a backward kernel works on: tile number -> sequence, head, tile in the sequence. Key tiles of (sequence, kv head)
 * and query tiles of (sequence, q head) are counted alike.
 *
 * Direct (tiles_per_seq > 0): every sequence has the same number of tiles, some of them perhaps empty. The tile in the sequence runs
 * fastest, so that blocks which run together share what they read in L2, then the head, then the sequence.
 *
 * Search (tiles_per_seq = 0, jagged): as in templates/tile_schedule.cuh, sequence b starts at tile cu_seqlens[b] / rows + b, and is found
 * by a search with 32 probes a step. The head runs fastest.
 */
#ifndef GDPA_GRADIENT_TILES_CUH
#define GDPA_GRADIENT_TILES_CUH

#include "config_default.cuh"
#include "params.h"
#include "ptx/global_memory.cuh"
#include "ptx/integer.cuh"
#include "ptx/special_registers.cuh"
#include "ptx/warp.cuh"

struct GradientTile {
    int32_t batch; // -1: no such sequence
    int32_t head;
    int64_t first_row; // of the tile, in its sequence; may lie beyond its end
};

//@if paired
/* Keys of what is dealt out: the tiles of all blocks of a cluster. */
constexpr int kTileKeys = kCluster * kBlockN;
//@else
constexpr int kTileKeys = kBlockN;
//@endif

/* What tiles of one kind are counted over. */
struct TileCounts {
    const int32_t *cu_seqlens;
    int32_t batch;
    int32_t heads;
    int32_t tiles_per_seq;
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

/* First tile of a sequence in the numbering of the search. */
template <int kRows> __device__ inline int64_t first_tile(const TileCounts &counts, uint32_t batch)
{
    return static_cast<int64_t>(ld_global_nc_s32(counts.cu_seqlens + batch)) / kRows + batch;
}

/* The last sequence that starts at or before a tile, -1 when there is none. Called by whole warps. */
template <int kRows> __device__ inline int32_t search_sequence(const TileCounts &counts, int64_t tile)
{
    const uint32_t lane = tid_x() % 32;
    uint32_t lowest = 0;
    uint32_t count = static_cast<uint32_t>(counts.batch);
    while (true) {
        const uint32_t step = (count + 31) / 32;
        const uint32_t probe = lowest + lane * step;
        const bool starts_before = lane * step < count && first_tile<kRows>(counts, probe) <= tile;
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

template <int kRows> __device__ inline GradientTile find_tile(const TileCounts &counts, int64_t tile)
{
    if (counts.tiles_per_seq > 0) {
        const Division in_sequence = divide(tile, counts.tiles_per_seq);
        const Division in_batch = divide(in_sequence.quotient, counts.heads);
        return {static_cast<int32_t>(in_batch.quotient), in_batch.remainder,
                static_cast<int64_t>(in_sequence.remainder) * kRows};
    }
    const Division of_head = divide(tile, counts.heads);
    const int32_t batch = search_sequence<kRows>(counts, of_head.quotient);
    const int64_t place =
        batch < 0 ? -1 : of_head.quotient - first_tile<kRows>(counts, static_cast<uint32_t>(batch));
    // Offsets that do not increase may have led to a sequence that starts behind the tile.
    return {place < 0 ? -1 : batch, of_head.remainder, place * kRows};
}

/* The number of this block among all blocks of the launch. */
__device__ inline int64_t block_number()
{
    return static_cast<int64_t>(ctaid_y()) * nctaid_x() + ctaid_x();
}

/* The key tile of a block of the main kernel. */
__device__ inline GradientTile find_key_tile(const gdpa_bwd_params &params, int64_t tile)
{
    return find_tile<kTileKeys>({params.cu_seqlens_k, params.batch, params.heads_k, params.tiles_per_seq}, tile);
}

/* The query tile of a block of the second kernel. */
__device__ inline GradientTile find_query_tile(const gdpa_bwd_params &params, int64_t tile)
{
    return find_tile<kBlockM>({params.cu_seqlens_q, params.batch, params.heads_q, params.query_tiles_per_seq}, tile);
}

#endif
