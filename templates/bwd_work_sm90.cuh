/*
 * Shared memory of the Hopper backward kernel: addresses, barriers, words of messages (bwd_layout_sm90.cuh has the map).
 */
#ifndef GDPA_BWD_WORK_SM90_CUH
#define GDPA_BWD_WORK_SM90_CUH

#include "bwd_layout_sm90.cuh"
#include "config_default.cuh"
#include "params.h"
#include "ptx/mbarrier.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/warp.cuh"
#include "types.cuh"

/*
 * The query tiles that see a key tile, in the order in which they pass by, the same for each head of the group. Blocks that run together have
 * key tiles of the same sequence: each begins elsewhere, so that they do not add to the same dQ at the same time.
 */
struct QueryTiles {
    int32_t first;
    int32_t end;
    int32_t start;

    __device__ int32_t count() const
    {
        return end - first;
    }

    __device__ int32_t next(int32_t tile) const
    {
        return tile + 1 == end ? first : tile + 1;
    }
};

/* A tile that is loaded: arrived (full), or arrived with rows still to be zeroed (raw), or free (empty). */
struct TileBarriers {
    uint32_t full;
    uint32_t empty;
    uint32_t raw;
};

/* Addresses of everything, from the base of dynamic shared memory. */
struct Shared {
    uint32_t base;

    __device__ uint32_t keys() const
    {
        return base + kKeyPlace;
    }
    __device__ uint32_t values() const
    {
        return base + kValuePlace;
    }
    __device__ uint32_t queries(uint32_t slot) const
    {
        return base + kQueryPlace + slot * kQueryBytes;
    }
    __device__ uint32_t outputs(uint32_t slot) const
    {
        return base + kOutputPlace + slot * kOutputBytes;
    }
    __device__ uint32_t scores(uint32_t step) const
    {
        return base + kScorePlace + step % kScoreSlots * kScoreBytes;
    }
    //@if paired
    /* The columns of K of the other block that this one makes of dQ. */
    __device__ uint32_t other_keys() const
    {
        return base + kOtherKeyPlace;
    }
    __device__ uint32_t received_scores(uint32_t step) const
    {
        return scores(step) + kScoreSlots * kScoreBytes;
    }
    /* The warpgroup's own keys in the dS whose dQ it makes itself: when it has done so, and the other block has them, nobody else needs them. */
    __device__ uint32_t staging(uint32_t consumer) const
    {
        return scores(consumer) + consumer * kStagingBytes;
    }
    //@else
    __device__ uint32_t staging(uint32_t consumer) const
    {
        return base + kStagingPlace + consumer * kStagingBytes;
    }
    //@endif
    __device__ uint32_t work(uint32_t tile) const
    {
        return base + kWorkPlace + tile % 2 * kWorkBytes;
    }
    __device__ uint32_t note(uint32_t step) const
    {
        return base + kNotePlace + step % kNotes * kNoteBytes;
    }
    __device__ uint32_t found() const
    {
        return base + kFoundPlace;
    }
    __device__ uint32_t barrier(uint32_t number) const
    {
        return base + kBarrierPlace + number * 8;
    }
    __device__ uint32_t work_full(uint32_t tile) const
    {
        return barrier(tile % 2);
    }
    /* The scout's message is there; the producer has it. */
    __device__ uint32_t found_full() const
    {
        return barrier(kTileBarriers);
    }
    __device__ uint32_t found_empty() const
    {
        return barrier(kTileBarriers + 1);
    }
    __device__ TileBarriers of_keys() const
    {
        return {barrier(2), barrier(3), barrier(4)};
    }
    __device__ TileBarriers of_values() const
    {
        return {barrier(5), barrier(6), barrier(7)};
    }
    __device__ TileBarriers of_queries(uint32_t slot) const
    {
        return {barrier(8 + 3 * slot), barrier(9 + 3 * slot), barrier(10 + 3 * slot)};
    }
    __device__ TileBarriers of_outputs(uint32_t slot) const
    {
        constexpr uint32_t first = 8 + 3 * kQueryStages;
        return {barrier(first + 3 * slot), barrier(first + 1 + 3 * slot), barrier(first + 2 + 3 * slot)};
    }
    //@if paired
    TileBarriers __device__ of_other_keys() const
    {
        return {barrier(kTileBarriers + 2), barrier(kTileBarriers + 3), barrier(kTileBarriers + 4)};
    }
    __device__ uint32_t claimed() const
    {
        return base + kClaimPlace;
    }
    /* In the second block: the number is there; in the first one: the second one has it. */
    __device__ uint32_t claimed_full() const
    {
        return barrier(kTileBarriers + 13);
    }
    __device__ uint32_t claimed_empty() const
    {
        return barrier(kTileBarriers + 14);
    }
    /* All warps have left their dS. */
    __device__ uint32_t scores_full(uint32_t step) const
    {
        return barrier(kTileBarriers + 5 + step % kScoreSlots);
    }
    /* Its dQ has been made here, and the other block has it. */
    __device__ uint32_t scores_empty(uint32_t step) const
    {
        return barrier(kTileBarriers + 7 + step % kScoreSlots);
    }
    /* dS of the other block has arrived. */
    __device__ uint32_t received_full(uint32_t step) const
    {
        return barrier(kTileBarriers + 9 + step % kScoreSlots);
    }
    /* The other block has made dQ of what was sent to it. */
    __device__ uint32_t target_empty(uint32_t step) const
    {
        return barrier(kTileBarriers + 11 + step % kScoreSlots);
    }
    //@endif
};

__device__ inline void init_tile_barriers(const TileBarriers &barriers, uint32_t readers)
{
    mbarrier_init(barriers.full, 1);
    mbarrier_init(barriers.empty, readers);
    mbarrier_init(barriers.raw, 1);
}

/* By one thread, followed by a barrier of the block. */
__device__ inline void init_barriers(const Shared &shared)
{
    mbarrier_init(shared.work_full(0), 32); // each lane passes on a word
    mbarrier_init(shared.work_full(1), 32);
    init_tile_barriers(shared.of_keys(), kConsumers); // one thread a warpgroup: products end for all of it
    // The last one that a tile of keys is done with, its message included: every reader of both, repairs included.
    init_tile_barriers(shared.of_values(), kConsumers * kWarpgroupThreads + (kPaired ? 64 : 32));
    for (uint32_t slot = 0; slot < kQueryStages; ++slot) {
        init_tile_barriers(shared.of_queries(slot), kConsumers);
    }
    for (uint32_t slot = 0; slot < kOutputStages; ++slot) {
        init_tile_barriers(shared.of_outputs(slot), kConsumers);
    }
    //@if paired
    init_tile_barriers(shared.of_other_keys(), kConsumers);
    for (uint32_t slot = 0; slot < kScoreSlots; ++slot) {
        mbarrier_init(shared.scores_full(slot), kConsumers * 4); // a thread a warp
        mbarrier_init(shared.scores_empty(slot), 2);
        mbarrier_init(shared.received_full(slot), 1);
        mbarrier_init(shared.target_empty(slot), 1);
    }
    mbarrier_init(shared.claimed_full(), 1);
    mbarrier_init(shared.claimed_empty(), 1);
    //@endif
    mbarrier_init(shared.found_full(), 1);
    mbarrier_init(shared.found_empty(), 32);
    fence_mbarrier_init();
}

__device__ inline void write_word(uint32_t address, int32_t value)
{
    st_shared_b32(address, static_cast<uint32_t>(value));
}

__device__ inline int32_t read_word(uint32_t address)
{
    return static_cast<int32_t>(ld_shared_b32(address));
}

/* The same for all lanes, and known to be so: what depends on it can live in uniform registers. By whole warps. */
__device__ inline int32_t read_uniform_word(uint32_t address)
{
    return static_cast<int32_t>(shfl_sync_idx(ld_shared_b32(address), 0));
}

__device__ inline QueryTiles query_tiles(uint32_t work)
{
    return {read_uniform_word(work + kWorkFirstTile), read_uniform_word(work + kWorkEndTile),
            read_uniform_word(work + kWorkStartTile)};
}

#endif
