/*
 * Shared memory of the second kernel of a deterministic Hopper backward, and the messages in it.
 *
 *     Q, dO    one tile each [kDqRows x head dim]       dQ is staged over Q, by the warps that own its rows
 *     K, V     kDqKeyStages x [kDqKeys x head dim] each
 *     messages and barriers
 *
 * Every tile consists of chunks of 64 columns, as in the main kernel.
 */
#ifndef GDPA_BWD_QUERIES_WORK_SM90_CUH
#define GDPA_BWD_QUERIES_WORK_SM90_CUH

#include "bwd_work_sm90.cuh"
#include "config_default.cuh"
#include "ptx/mbarrier.cuh"
#include "types.cuh"

constexpr int kDqConsumers = kDqThreads / kWarpgroupThreads - 1; // warpgroups of 64 query rows each; warpgroup 0 feeds them
constexpr int kDqRowChunkBytes = kDqRows * 128;
constexpr int kDqKeyChunkBytes = kDqKeys * 128;
constexpr int kDqQueryBytes = kDepthChunks * kDqRowChunkBytes;
constexpr int kDqOutputBytes = kValueChunks * kDqRowChunkBytes;
constexpr int kDqKeyBytes = kDepthChunks * kDqKeyChunkBytes;
constexpr int kDqValueBytes = kValueChunks * kDqKeyChunkBytes;

/* The message of a query tile, written by the producer: 32-bit words at these bytes. */
constexpr int kDqWorkOffset = 0;     // 64 bits: elements of dq before row 0 of the tile
constexpr int kDqWorkFirstRow = 8;   // of the tile, in its sequence
constexpr int kDqWorkValidRows = 12; // rows of the tile that exist; 0: no more work
constexpr int kDqWorkLengthQ = 16;
constexpr int kDqWorkLengthK = 20;
constexpr int kDqWorkFirstTile = 24; // key tiles [first, end)
constexpr int kDqWorkEndTile = 28;
constexpr int kDqWorkHeadQ = 32; // coordinates in the tensor maps
constexpr int kDqWorkHeadK = 36;
constexpr int kDqWorkRowQ = 40; // of the tile
constexpr int kDqWorkRowK = 44; // of the sequence; 0 in dense tensors
constexpr int kDqWorkBatchQ = 48; // 0 in jagged tensors
constexpr int kDqWorkBatchK = 52;
constexpr int kDqWorkBytes = 64;

constexpr int kDqQueryPlace = 0;
constexpr int kDqOutputPlace = kDqQueryPlace + kDqQueryBytes;
constexpr int kDqKeyPlace = kDqOutputPlace + kDqOutputBytes;
constexpr int kDqValuePlace = kDqKeyPlace + kDqKeyStages * kDqKeyBytes;
constexpr int kDqWorkPlace = kDqValuePlace + kDqKeyStages * kDqValueBytes;
constexpr int kDqBarrierPlace = kDqWorkPlace + 2 * kDqWorkBytes;
constexpr int kDqBarriers = 4 + 6 * kDqKeyStages;
static_assert(kDqBarrierPlace + kDqBarriers * 8 <= kDqSmemBytes, "the plan gave too little shared memory");
static_assert(kDqRows == kDqConsumers * 64 && kDqKeys % kSliceN == 0, "a consumer warpgroup owns 64 rows");

/* Addresses of everything, from the base of dynamic shared memory. */
struct DqShared {
    uint32_t base;

    __device__ uint32_t queries() const
    {
        return base + kDqQueryPlace;
    }
    __device__ uint32_t outputs() const
    {
        return base + kDqOutputPlace;
    }
    __device__ uint32_t keys(uint32_t slot) const
    {
        return base + kDqKeyPlace + slot * kDqKeyBytes;
    }
    __device__ uint32_t values(uint32_t slot) const
    {
        return base + kDqValuePlace + slot * kDqValueBytes;
    }
    __device__ uint32_t work(uint32_t tile) const
    {
        return base + kDqWorkPlace + tile % 2 * kDqWorkBytes;
    }
    __device__ uint32_t barrier(uint32_t number) const
    {
        return base + kDqBarrierPlace + number * 8;
    }
    __device__ uint32_t work_full(uint32_t tile) const
    {
        return barrier(tile % 2);
    }
    /* Of Q and dO, which come and go together. */
    __device__ uint32_t rows_full() const
    {
        return barrier(2);
    }
    __device__ uint32_t rows_empty() const
    {
        return barrier(3);
    }
    __device__ TileBarriers of_keys(uint32_t slot) const
    {
        return {barrier(4 + 6 * slot), barrier(5 + 6 * slot), barrier(6 + 6 * slot)};
    }
    __device__ TileBarriers of_values(uint32_t slot) const
    {
        return {barrier(7 + 6 * slot), barrier(8 + 6 * slot), barrier(9 + 6 * slot)};
    }
};

/* By one thread, followed by a barrier of the block. */
__device__ inline void init_barriers(const DqShared &shared)
{
    mbarrier_init(shared.work_full(0), 1);
    mbarrier_init(shared.work_full(1), 1);
    mbarrier_init(shared.rows_full(), 2);                                          // Q and dO
    mbarrier_init(shared.rows_empty(), kDqConsumers * kWarpgroupThreads + 32); // every reader, of the message too
    for (uint32_t slot = 0; slot < kDqKeyStages; ++slot) {
        init_tile_barriers(shared.of_keys(slot), kDqConsumers); // one thread a warpgroup: products end for all of it
        init_tile_barriers(shared.of_values(slot), kDqConsumers);
    }
    fence_mbarrier_init();
}

#endif
