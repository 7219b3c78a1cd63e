/*
 * Shared memory of the Hopper forward kernel, and the messages in it.
 *
 *     Q      kQueryStages x [kBlockM x head dim]     the output is staged in a query tile, by the warps that own its rows
 *     K, V   kStages x [kBlockN x head dim] each
 *     messages and barriers
 *
 * Every tile consists of chunks of 64 columns, [rows][128 bytes] with the 128-byte swizzle of the copy engine; columns beyond the head dim
 * are zeros.
 */
#ifndef GDPA_WORK_SM90_CUH
#define GDPA_WORK_SM90_CUH

#include "config_default.cuh"
#include "params.h"
#include "ptx/mbarrier.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/warp.cuh"
#include "types.cuh"

constexpr int kConsumers = kWarps / 4 - 1; // warpgroups of 64 query rows each; warpgroup 0 feeds them
constexpr int kWarpgroupThreads = 128;
constexpr int kChunkColumns = 64;
constexpr int kDepthChunks = (kHeadDim + kChunkColumns - 1) / kChunkColumns;
constexpr int kValueChunks = (kHeadDimV + kChunkColumns - 1) / kChunkColumns;
constexpr int kQueryChunks = kDepthChunks > kValueChunks ? kDepthChunks : kValueChunks; // room for the output, too
constexpr int kQueryChunkBytes = kBlockM * 128;
constexpr int kKeyChunkBytes = kBlockN * 128;
constexpr int kKeyBytes = kDepthChunks * kKeyChunkBytes;
constexpr int kValueBytes = kValueChunks * kKeyChunkBytes;

/*
 * The message of a query tile, written by the scout before the tile's barriers complete: 32-bit words at these bytes. Who feeds reads its
 * own part again each time: it has few registers.
 */
constexpr int kWorkOffset = 0;     // 64 bits: elements of o before row 0 of the tile
constexpr int kWorkFirstRow = 8;   // of the tile, in its sequence
constexpr int kWorkValidRows = 12; // rows of the tile that exist; 0: no more work
constexpr int kWorkLengthQ = 16;
constexpr int kWorkLengthK = 20;
constexpr int kWorkFirstTile = 24; // key tiles [first, end)
constexpr int kWorkEndTile = 28;
constexpr int kWorkHeadQ = 32; // coordinates in the tensor maps
constexpr int kWorkHeadK = 36;
constexpr int kWorkRowQ = 40; // of the tile
constexpr int kWorkRowK = 44; // of the sequence; 0 in dense tensors
constexpr int kWorkBatchQ = 48; // 0 in jagged tensors
constexpr int kWorkBatchK = 52;
//@if shared_out
constexpr int kWorkKept = 56;  // whether the key tiles are those of the message before, and are still there
constexpr int kWorkKeeps = 60; // whether those of the next message will be these
//@endif
constexpr int kWorkBytes = 64;

constexpr int kQueryPlace = 0;
constexpr int kKeyPlace = kQueryPlace + kQueryStages * kQueryChunks * kQueryChunkBytes;
constexpr int kValuePlace = kKeyPlace + kStages * kKeyBytes;
constexpr int kWorkPlace = kValuePlace + kStages * kValueBytes;
constexpr int kBarrierPlace = kWorkPlace + kQueryStages * kWorkBytes;
constexpr int kBarriers = 4 * kQueryStages + 5 * kStages;
static_assert(kBarrierPlace + kBarriers * 8 <= kSmemBytes, "the plan gave too little shared memory");
static_assert(kBlockM == kConsumers * 64 && kBlockN % 16 == 0, "a consumer warpgroup owns 64 rows");

/* Addresses of everything, from the base of dynamic shared memory. */
struct Shared {
    uint32_t base;

    __device__ uint32_t queries(uint32_t slot) const
    {
        return base + kQueryPlace + slot * (kQueryChunks * kQueryChunkBytes);
    }
    __device__ uint32_t keys(uint32_t slot) const
    {
        return base + kKeyPlace + slot * kKeyBytes;
    }
    __device__ uint32_t values(uint32_t slot) const
    {
        return base + kValuePlace + slot * kValueBytes;
    }
    __device__ uint32_t work(uint32_t slot) const
    {
        return base + kWorkPlace + slot * kWorkBytes;
    }
    __device__ uint32_t barrier(uint32_t number) const
    {
        return base + kBarrierPlace + number * 8;
    }
    __device__ uint32_t queries_full(uint32_t slot) const
    {
        return barrier(slot);
    }
    __device__ uint32_t queries_empty(uint32_t slot) const
    {
        return barrier(kQueryStages + slot);
    }
    /* The message is there; the queries may be still under way. */
    __device__ uint32_t announced(uint32_t slot) const
    {
        return barrier(2 * kQueryStages + slot);
    }
    __device__ uint32_t keys_full(uint32_t slot) const
    {
        return barrier(3 * kQueryStages + slot);
    }
    __device__ uint32_t keys_empty(uint32_t slot) const
    {
        return barrier(3 * kQueryStages + kStages + slot);
    }
    __device__ uint32_t values_full(uint32_t slot) const
    {
        return barrier(3 * kQueryStages + 2 * kStages + slot);
    }
    __device__ uint32_t values_empty(uint32_t slot) const
    {
        return barrier(3 * kQueryStages + 3 * kStages + slot);
    }
    /* The values have arrived, but rows of another sequence among them are still to be zeroed. */
    __device__ uint32_t values_raw(uint32_t slot) const
    {
        return barrier(3 * kQueryStages + 4 * kStages + slot);
    }
    /* The consumers are done with a query tile, and what the copy engine shall store of their output lies there. */
    __device__ uint32_t outputs_staged(uint32_t slot) const
    {
        return barrier(3 * kQueryStages + 5 * kStages + slot);
    }
};

/* By one thread, followed by a barrier of the block. */
__device__ inline void init_barriers(const Shared &shared)
{
    for (uint32_t slot = 0; slot < kQueryStages; ++slot) {
        mbarrier_init(shared.queries_full(slot), 1);
        mbarrier_init(shared.announced(slot), 32);
        // Every thread that reads the message: of two feeding warps and the consumers, or of the storer, which waits for these.
        //@if out_fp32
        mbarrier_init(shared.queries_empty(slot), 64 + kConsumers * kWarpgroupThreads);
        //@else
        mbarrier_init(shared.queries_empty(slot), 64 + 32);
        mbarrier_init(shared.outputs_staged(slot), kConsumers * kWarpgroupThreads);
        //@endif
    }
    for (uint32_t slot = 0; slot < kStages; ++slot) {
        mbarrier_init(shared.keys_full(slot), 1);
        mbarrier_init(shared.keys_empty(slot), kConsumers); // one thread a warpgroup: products end for all of it
        mbarrier_init(shared.values_full(slot), 1);
        mbarrier_init(shared.values_empty(slot), kConsumers);
        mbarrier_init(shared.values_raw(slot), 1);
    }
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

#endif
