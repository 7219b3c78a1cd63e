/*
 * Shared memory of the Hopper backward kernel, and the messages in it.
 *
 *     K, V     one tile each [kBlockN x head dim]
 *     Q        kQueryStages x [kBlockM x head dim]
 *     dO       kOutputStages x [kBlockM x head dim v]
 *     dS       kScoreStages x [kBlockN keys x kBlockM queries]
 *     64 x 64 of a gradient for each consumer, on their way to global memory
 *     (paired: of K of the other block a chunk, two tiles of dS, where gradients are staged, too, and two of that of the other block)
 *     messages, notes on the steps, and barriers
 *
 * Every tile consists of chunks of 64 columns, [rows][128 bytes] with the 128-byte swizzle of the copy engine; columns beyond the head dim
 * are zeros.
 */
#ifndef GDPA_BWD_WORK_SM90_CUH
#define GDPA_BWD_WORK_SM90_CUH

#include "config_default.cuh"
#include "params.h"
#include "ptx/mbarrier.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/warp.cuh"
#include "types.cuh"

constexpr int kConsumers = kWarps / 4 - 1; // warpgroups of 64 keys each; warpgroup 0 feeds them
constexpr int kWarpgroupThreads = 128;
// Named barriers of the feeding warps, each of that warp alone; consumers have the first ones (bwd_products_sm90.cuh).
constexpr uint32_t kProducerBarrier = 15;
constexpr uint32_t kRepairBarrier = 14; // of consumers, where dS has three slots: but then they hold no V
constexpr int kChunkColumns = 64;
//@if deterministic
constexpr bool kSumsQueries = false; // the second kernel makes dQ
//@else
constexpr bool kSumsQueries = true;
//@endif
constexpr int kDepthChunks = (kHeadDim + kChunkColumns - 1) / kChunkColumns;
constexpr int kValueChunks = (kHeadDimV + kChunkColumns - 1) / kChunkColumns;
//@if whole
constexpr bool kWhole = true; // dQ is complete, and written instead of added up
//@else
constexpr bool kWhole = false;
//@endif
//@if paired
constexpr bool kPaired = true;
//@else
constexpr bool kPaired = false;
//@endif
constexpr int kOutputStages = 2; // dO is read within one step
// The two warpgroups share dQ by its rows where a step has 128 of them, else by its columns.
constexpr bool kSharesRows = kBlockM == 128;
// dQ of a step follows two steps behind, and the other warpgroup may be one step behind that; with three slots it is waited for.
//@if paired
constexpr int kScoreSlots = 2; // of the own ones and of those of the other block
constexpr int kScoreStages = 2 * kScoreSlots;
//@else
constexpr int kScoreSlots = kSharesRows ? 3 : 4;
constexpr int kScoreStages = kSumsQueries ? kScoreSlots : 0;
//@endif
constexpr int kKeyChunkBytes = kBlockN * 128;
constexpr int kQueryChunkBytes = kBlockM * 128;
constexpr int kKeyBytes = kDepthChunks * kKeyChunkBytes;
constexpr int kValueBytes = kValueChunks * kKeyChunkBytes;
constexpr int kQueryBytes = kDepthChunks * kQueryChunkBytes;
constexpr int kOutputBytes = kValueChunks * kQueryChunkBytes;
constexpr int kScoreBytes = kBlockN * kBlockM * 2;

/* The message of a key tile, written by the scout and passed on by the producer: 32-bit words at these bytes. */
constexpr int kWorkOffsetK = 0;    // 64 bits: elements of dk before key 0 of the tile
constexpr int kWorkOffsetV = 8;    // 64 bits: of dv
constexpr int kWorkSumBlock = 16;  // 64 bits: blocks of dq_sum before row 0 of the sequence
constexpr int kWorkFirstKey = 24;  // of the tile, in its sequence
constexpr int kWorkValidKeys = 28; // keys of the tile that exist; negative: no more work
constexpr int kWorkLengthQ = 32;
constexpr int kWorkLengthK = 36;
constexpr int kWorkFirstTile = 40; // query tiles [first, end)
constexpr int kWorkEndTile = 44;
constexpr int kWorkStartTile = 48; // where the walk over them begins, and ends
constexpr int kWorkHeadK = 52;     // coordinates in the tensor maps
constexpr int kWorkRowQ = 56;      // of the sequence; 0 in dense tensors
constexpr int kWorkRowK = 60;
constexpr int kWorkBatchQ = 64; // 0 in jagged tensors
constexpr int kWorkBatchK = 68;
//@if deterministic
constexpr int kWorkWords = 18;
//@else
constexpr int kWorkPieces = 72;  // blocks that have the tile, each with some of the queries
constexpr int kWorkPiece = 76;   // which of them this one is
constexpr int kWorkRecords = 80; // 64 bits: address of the records of the pieces
constexpr int kWorkArrived = 88; // 64 bits: address of their counters
constexpr int kWorkWords = 24;
//@endif
constexpr int kWorkBytes = 96;

/* The note on a step, written before its queries arrive, and read until its dQ is done. */
constexpr int kNoteOffset = 0;    // 64 bits: elements of dq_sum, or of dq, before row 0 of the query tile
constexpr int kNoteValidRows = 8; // of the query tile
//@if whole
constexpr int kNoteRow = 12; // coordinates in the tensor map of dq
constexpr int kNoteHead = 16;
constexpr int kNoteBatch = 20;
constexpr int kNoteBytes = 32;
//@else
constexpr int kNoteBytes = 16;
//@endif
constexpr int kNotes = 8; // queries are kQueryStages steps ahead of those that are done with, and dQ lags behind by two

constexpr int kKeyPlace = 0;
constexpr int kOtherKeyPlace = kKeyPlace + kKeyBytes;
constexpr int kValuePlace = kOtherKeyPlace + (kPaired ? kKeyChunkBytes : 0);
constexpr int kQueryPlace = kValuePlace + kValueBytes;
constexpr int kOutputPlace = kQueryPlace + kQueryStages * kQueryBytes;
constexpr int kScorePlace = kOutputPlace + kOutputStages * kOutputBytes;
constexpr int kStagingPlace = kScorePlace + kScoreStages * kScoreBytes;
constexpr int kStagingBytes = 64 * 128;
//@if out_fp32
constexpr int kStagings = 0;
//@else
constexpr int kStagings = kPaired ? 0 : kConsumers;
//@endif
constexpr int kWorkPlace = kStagingPlace + kStagings * kStagingBytes;
constexpr int kNotePlace = kWorkPlace + 2 * kWorkBytes;
constexpr int kFoundPlace = kNotePlace + kNotes * kNoteBytes;
//@if paired
constexpr int kClaimPlace = kFoundPlace + kWorkBytes; // of 16 bytes: the number that the first block has claimed
constexpr int kBarrierPlace = kClaimPlace + 16;
//@else
constexpr int kBarrierPlace = kFoundPlace + kWorkBytes;
//@endif
constexpr int kTileBarriers = 2 + 6 + 3 * kQueryStages + 3 * kOutputStages;
constexpr int kPairBarriers = kPaired ? 3 + 4 * 2 + 2 : 0; // the keys of the other block, and what is sent
constexpr int kBarriers = kTileBarriers + 2 + kPairBarriers;
static_assert(kBarrierPlace + kBarriers * 8 <= kSmemBytes, "the plan gave too little shared memory");
static_assert(kBlockN == kConsumers * 64 && kConsumers == 2 && (kBlockM == 64 || kBlockM == 128), "a consumer warpgroup owns 64 keys");

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
