/*
 * Made by libgdpajit 0.1.0. The kernel is at the end, what it calls before it.
 *
 * spec       bwd head_dim=64 dtype=bf16 activation=gelu causal layout_q=jagged layout_k=jagged schedule=dynamic arch=sm_90a
 * kernel     gdpa_bwd_sm90_d64_bf16_gelu_causal_jqjk_dynamic_c439d2e8
 * generator  (this version)
 * plan       sm90 block_m=128 block_n=128 slice_n=128 warps=12 threads=384 stages=2 q_in_registers=0 min_blocks=1 smem_bytes=229992 query_stages=3 value_columns=64 producer_registers=24 consumer_registers=240 dq_threads=256 depth_columns=64 share_columns=64
 * again      gdpa-jit show source "bwd head_dim=64 dtype=bf16 activation=gelu causal layout_q=jagged layout_k=jagged schedule=dynamic arch=sm_90a"
 */

// ---- templates/config_default.cuh, with the values of this kernel
constexpr int kArch = 90;               // compute capability * 10
constexpr int kHeadDim = 64;            // columns of q and k
constexpr int kHeadDimV = 64;           // columns of v and o
constexpr int kWindowLeft = -1;         // keys to the left of the aligned one; -1: unbounded
constexpr int kWindowRight = 0;         // keys to the right of it; -1: unbounded
constexpr int kBlockM = 128;            // query rows a step; of a block of the second kernel
constexpr int kBlockN = 128;            // keys a block
constexpr int kSliceN = 128;            // keys that are activated and multiplied at a time
constexpr int kWarps = 12;              // warps a block
constexpr int kThreads = 384;           // threads a block
constexpr int kStages = 2;              // query tiles in shared memory at a time
constexpr int kQueryStages = 3;         // query tiles in shared memory at a time
constexpr int kValueColumns = 64;       // columns of the output in registers
constexpr int kDepthColumns = 64;       // columns of dK in registers
constexpr int kShareColumns = 64;       // columns of dQ in registers
constexpr int kProducerRegisters = 24;  // of a thread that copies
constexpr int kConsumerRegisters = 240; // of a thread that computes
constexpr int kDqThreads = 256;         // threads a block of the second kernel
constexpr int kDqSmemBytes = 0;         // dynamic shared memory of the same
constexpr int kSmemBytes = 229992;      // dynamic shared memory of a block

// ---- templates/types.cuh
/*
 * Fixed-width integer names, those of a 64-bit Linux host: NVRTC compiles the generated source with no header at all.
 */

using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long;
using uint64_t = unsigned long;

// ---- templates/bwd_layout_sm90.cuh
/*
 * Where things are in the shared memory of the Hopper backward kernel, and in the messages in it.
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

constexpr int kConsumers = kWarps / 4 - 1; // warpgroups of 64 keys each; warpgroup 0 feeds them
constexpr int kWarpgroupThreads = 128;
// Named barriers of the feeding warps, each of that warp alone; consumers have the first ones (bwd_products_sm90.cuh).
constexpr uint32_t kProducerBarrier = 15;
constexpr uint32_t kRepairBarrier = 14; // of consumers, where dS has three slots: but then they hold no V
constexpr int kChunkColumns = 64;
constexpr bool kSumsQueries = true;
constexpr int kDepthChunks = (kHeadDim + kChunkColumns - 1) / kChunkColumns;
constexpr int kValueChunks = (kHeadDimV + kChunkColumns - 1) / kChunkColumns;
constexpr bool kWhole = false;
constexpr bool kPaired = false;
constexpr int kOutputStages = 2; // dO is read within one step
// The two warpgroups share dQ by its rows where a step has 128 of them, else by its columns.
constexpr bool kSharesRows = kBlockM == 128;
// dQ of a step follows two steps behind, and the other warpgroup may be one step behind that; with three slots it is waited for.
constexpr int kScoreSlots = kSharesRows ? 3 : 4;
constexpr int kScoreStages = kSumsQueries ? kScoreSlots : 0;
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
constexpr int kWorkPieces = 72;  // blocks that have the tile, each with some of the queries
constexpr int kWorkPiece = 76;   // which of them this one is
constexpr int kWorkRecords = 80; // 64 bits: address of the records of the pieces
constexpr int kWorkArrived = 88; // 64 bits: address of their counters
constexpr int kWorkWords = 24;
constexpr int kWorkBytes = 96;

/* The note on a step, written before its queries arrive, and read until its dQ is done. */
constexpr int kNoteOffset = 0;    // 64 bits: elements of dq_sum, or of dq, before row 0 of the query tile
constexpr int kNoteValidRows = 8; // of the query tile
constexpr int kNoteBytes = 16;
constexpr int kNotes = 8; // queries are kQueryStages steps ahead of those that are done with, and dQ lags behind by two

constexpr int kKeyPlace = 0;
constexpr int kOtherKeyPlace = kKeyPlace + kKeyBytes;
constexpr int kValuePlace = kOtherKeyPlace + (kPaired ? kKeyChunkBytes : 0);
constexpr int kQueryPlace = kValuePlace + kValueBytes;
constexpr int kOutputPlace = kQueryPlace + kQueryStages * kQueryBytes;
constexpr int kScorePlace = kOutputPlace + kOutputStages * kOutputBytes;
constexpr int kStagingPlace = kScorePlace + kScoreStages * kScoreBytes;
constexpr int kStagingBytes = 64 * 128;
constexpr int kStagings = kPaired ? 0 : kConsumers;
constexpr int kWorkPlace = kStagingPlace + kStagings * kStagingBytes;
constexpr int kNotePlace = kWorkPlace + 2 * kWorkBytes;
constexpr int kFoundPlace = kNotePlace + kNotes * kNoteBytes;
constexpr int kBarrierPlace = kFoundPlace + kWorkBytes;
constexpr int kTileBarriers = 2 + 6 + 3 * kQueryStages + 3 * kOutputStages;
constexpr int kPairBarriers = kPaired ? 3 + 4 * 2 + 2 : 0; // the keys of the other block, and what is sent
constexpr int kBarriers = kTileBarriers + 2 + kPairBarriers;
static_assert(kBarrierPlace + kBarriers * 8 <= kSmemBytes, "the plan gave too little shared memory");
static_assert(kBlockN == kConsumers * 64 && kConsumers == 2 && (kBlockM == 64 || kBlockM == 128), "a consumer warpgroup owns 64 keys");

// ---- templates/schedule_format.h
/*
 * The format of a schedule (gdpa_schedule_build), shared by host C and generated CUDA: 32-bit words on the device.
 *
 *     header    kScheduleHeaderWords: counters, in pairs {next place, blocks that are done}, all 0 between launches
 *     queries   the sequences, costliest query tiles first: for kernels whose blocks own query tiles
 *     keys      the sequences, costliest key tiles first: for the main kernel of a backward
 *
 * A list is kScheduleArrays arrays of schedule_stride(batch) words, by rank: the number of the sequence; then, for tiles of 64, 128 and 192
 * rows, how many tiles the sequences before it have together in one head, with their sum at [batch].
 */

enum {
    kScheduleHeaderWords = 64,
    kScheduleForwardCounters = 0,  /* words of the header */
    kScheduleBackwardCounters = 2, /* of the main kernel */
    kScheduleSecondCounters = 4,   /* of the second one */
    kScheduleQueries = 0,          /* lists */
    kScheduleKeys = 1,
    kScheduleLists = 2,
    kScheduleArrays = 4,    /* of a list: the order, then one for each height of tiles */
    kScheduleTileStep = 64, /* array 1 is that of tiles of 64 rows, and so on */
    kScheduleHeights = 3,
    kScheduleThreads = 1024, /* of each of the kScheduleLists blocks that make one */
    kScheduleClasses = 256,  /* of cost, in which sequences are counted */
    kScheduleSmemBytes = kScheduleThreads / 32 * (kScheduleClasses + kScheduleHeights) * 4 + kScheduleClasses * 4
};

// ---- templates/params.h
/*
 * The kernel arguments, shared by host C and generated CUDA: one struct, passed by value as the only parameter.
 *
 * The host fills it in runtime/launch_params.c; the generator pastes this file into the source without the include
 * guards and the host-only part. Strides are in elements. Fixed-width fields, widest first, no padding anywhere.
 */

/*
 * Of both kernels of a backward pass. The key tiles are those of the main kernel: kBlockN keys of one (sequence, kv head). The query
 * tiles are those of the second one: kBlockM rows of one (sequence, q head).
 */
struct gdpa_bwd_params {
    const void *q;
    const void *k;
    const void *v;
    const void *dout;
    void *dq; /* null: not wanted; dk and dv likewise */
    void *dk;
    void *dv;
    float *dq_sum; /* workspace of the dQ sums; null: a block has all keys and writes dq itself, or nobody sums up dQ */
    const int32_t *cu_seqlens_q; /* [batch + 1] or null: dense */
    const int32_t *cu_seqlens_k;
    const int32_t *seqused_q; /* [batch] or null */
    const int32_t *seqused_k;
    int64_t q_stride_batch, q_stride_row, q_stride_head;
    int64_t k_stride_batch, k_stride_row, k_stride_head;
    int64_t v_stride_batch, v_stride_row, v_stride_head;
    int64_t dout_stride_batch, dout_stride_row, dout_stride_head;
    int64_t dq_stride_batch, dq_stride_row, dq_stride_head;
    int64_t dk_stride_batch, dk_stride_row, dk_stride_head;
    int64_t dv_stride_batch, dv_stride_row, dv_stride_head;
    int64_t rows_q; /* dense: seqlen_q; jagged: total_q, the bound every offset is clamped to */
    int64_t rows_k;
    int64_t num_tiles;       /* key tiles of the whole launch; see templates/gradient_tiles.cuh */
    int64_t num_query_tiles; /* of the second kernel's launch */
    int32_t batch;
    int32_t heads_q;
    int32_t heads_k;
    int32_t heads_per_group;     /* heads_q / heads_k */
    int32_t tiles_per_seq;       /* key tiles a sequence may have; 0: find the sequence by search in cu_seqlens_k */
    int32_t query_tiles_per_seq; /* query tiles; 0: by search in cu_seqlens_q */
    float scale;                 /* inside the activation */
    float out_scale;             /* outside */
    float activation_param;
    int32_t accumulate; /* add to dq, dk and dv; fp32 gradients only */
};

/* What cuTensorMapEncodeTiled writes: opaque. (NVRTC ignores an attribute behind the brace.) */
struct __attribute__((aligned(64))) gdpa_tensor_map {
    uint64_t words[16];
};

/* The same of the backward. */
struct gdpa_bwd_sm90_params {
    struct gdpa_tensor_map q_map;    /* box 64 x kBlockM */
    struct gdpa_tensor_map k_map;    /* box 64 x kBlockN */
    struct gdpa_tensor_map v_map;    /* box 64 x kBlockN */
    struct gdpa_tensor_map dout_map; /* box 64 x kBlockM */
    struct gdpa_tensor_map dq_map;   /* box 64 x 16; only where a block or cluster has all keys, and dq is not fp32 */
    struct gdpa_bwd_params common;
};

// ---- templates/ptx/mbarrier.cuh
/*
 * Barriers in shared memory that count arrivals and bytes, and alternate between two phases. PTX ISA, "mbarrier".
 *
 * A wait for parity p returns once the phase of that parity is complete: parity 1 passes at once on a fresh barrier.
 */

__device__ inline void mbarrier_init(uint32_t barrier, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

/* After the inits, before the barrier that lets the other threads and the copy engine use them. */
__device__ inline void fence_mbarrier_init()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ inline void mbarrier_arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/* Arrives, and makes the phase wait for so many more bytes of asynchronous copies. */
__device__ inline void mbarrier_arrive_expect_tx(uint32_t barrier, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

/* One asm block with its own labels: a loop in C++ around try_wait costs registers where there are none to spare. */
__device__ inline void mbarrier_wait_parity(uint32_t barrier, uint32_t parity)
{
    asm volatile("{ .reg .pred p; \n"
                 "WAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; \n"
                 "@p bra DONE; \n"
                 "bra WAIT; \n"
                 "DONE: }" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

// ---- templates/ptx/shared_memory.cuh
/*
 * Shared memory by 32-bit address in the .shared window. PTX ISA, "ld", "st", "cvta".
 *
 * Kernels hold shared addresses as uint32_t and touch shared memory through these functions and the other wrappers of
 * ptx/ only, never through pointers.
 */

/* Address of the dynamic shared memory of the block, aligned to 1024 bytes. */
__device__ inline uint32_t dynamic_shared_base()
{
    extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
    return static_cast<uint32_t>(__cvta_generic_to_shared(dynamic_shared_memory));
}

__device__ inline void st_shared_b16(uint32_t address, uint16_t value)
{
    asm volatile("st.shared.b16 [%0], %1;" ::"r"(address), "h"(value) : "memory");
}

__device__ inline void st_shared_b32(uint32_t address, uint32_t value)
{
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

__device__ inline uint32_t ld_shared_b32(uint32_t address)
{
    uint32_t value;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
    return value;
}

__device__ inline void st_shared_b64(uint32_t address, int64_t value)
{
    asm volatile("st.shared.b64 [%0], %1;" ::"r"(address), "l"(value) : "memory");
}

__device__ inline int64_t ld_shared_b64(uint32_t address)
{
    int64_t value;
    asm volatile("ld.shared.b64 %0, [%1];" : "=l"(value) : "r"(address) : "memory");
    return value;
}

__device__ inline void st_shared_v4_b32(uint32_t address, const uint32_t (&value)[4])
{
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(value[0]), "r"(value[1]),
                 "r"(value[2]), "r"(value[3])
                 : "memory");
}

__device__ inline void ld_shared_v4_b32(uint32_t (&value)[4], uint32_t address)
{
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value[0]), "=r"(value[1]), "=r"(value[2]), "=r"(value[3])
                 : "r"(address)
                 : "memory");
}

// ---- templates/ptx/warp.cuh
/*
 * Exchange among the lanes of a full warp. PTX ISA, "vote.sync", "shfl.sync", "bar.warp.sync".
 */

/* Bit l is the predicate of lane l. */
__device__ inline uint32_t vote_sync_ballot(bool predicate)
{
    uint32_t ballot;
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; vote.sync.ballot.b32 %0, p, 0xffffffff; }"
                 : "=r"(ballot)
                 : "r"(static_cast<uint32_t>(predicate)));
    return ballot;
}

/* The value of lane `source`. */
__device__ inline uint32_t shfl_sync_idx(uint32_t value, uint32_t source)
{
    uint32_t result;
    asm volatile("shfl.sync.idx.b32 %0, %1, %2, 31, 0xffffffff;" : "=r"(result) : "r"(value), "r"(source));
    return result;
}

/* A meeting of the warp's lanes; orders their memory accesses. PTX ISA, "bar.warp.sync". */
__device__ inline void bar_warp_sync()
{
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
}

// ---- templates/bwd_work_sm90.cuh
/*
 * Shared memory of the Hopper backward kernel: addresses, barriers, words of messages (bwd_layout_sm90.cuh has the map).
 */

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
    __device__ uint32_t staging(uint32_t consumer) const
    {
        return base + kStagingPlace + consumer * kStagingBytes;
    }
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

// ---- templates/ptx/convert.cuh
/*
 * Conversions between fp32 and 16-bit types, round to nearest even. PTX ISA, "cvt".
 *
 * Packed results have `low` in the lower half. Values beyond the largest finite fp16 become infinities.
 */

__device__ inline uint32_t cvt_rn_bf16x2_f32(float low, float high)
{
    uint32_t packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

/* max(x, 0) on the way; NaN stays NaN. */
__device__ inline uint32_t cvt_rn_relu_bf16x2_f32(float low, float high)
{
    uint32_t packed;
    asm("cvt.rn.relu.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

__device__ inline uint32_t cvt_rn_f16x2_f32(float low, float high)
{
    uint32_t packed;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

__device__ inline uint32_t cvt_rn_relu_f16x2_f32(float low, float high)
{
    uint32_t packed;
    asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

__device__ inline float cvt_f32_f16(uint16_t value)
{
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value));
    return wide;
}

/* The bits of an fp32 as they are. PTX ISA, "mov.b32". */
__device__ inline uint32_t float_as_bits(float value)
{
    uint32_t bits;
    asm("mov.b32 %0, %1;" : "=r"(bits) : "f"(value));
    return bits;
}

__device__ inline float bits_as_float(uint32_t bits)
{
    float value;
    asm("mov.b32 %0, %1;" : "=f"(value) : "r"(bits));
    return value;
}

// ---- templates/ptx/math.cuh
/*
 * Scalar fp32 arithmetic that must be one given instruction, and the special function unit. PTX ISA, "Floating Point
 * Instructions"; the error bounds are the manual's. Plain +, - and * are written as such in the templates.
 */

__device__ inline float fma_rn_f32(float a, float b, float c)
{
    float d;
    asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(d) : "f"(a), "f"(b), "f"(c));
    return d;
}

/* a * b + c clamped to [0, 1]; NaN gives 0. */
__device__ inline float fma_rn_sat_f32(float a, float b, float c)
{
    float d;
    asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(d) : "f"(a), "f"(b), "f"(c));
    return d;
}

__device__ inline float abs_f32(float a)
{
    float d;
    asm("abs.f32 %0, %1;" : "=f"(d) : "f"(a));
    return d;
}

/* NaN in one operand gives the other one. */
__device__ inline float max_f32(float a, float b)
{
    float d;
    asm("max.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
    return d;
}

/* NaN in any operand gives NaN. */
__device__ inline float max_nan_f32(float a, float b)
{
    float d;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
    return d;
}

__device__ inline float min_nan_f32(float a, float b)
{
    float d;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
    return d;
}

/* 2^a; relative error 2^-22; subnormal inputs and results are 0. */
__device__ inline float ex2_approx_ftz_f32(float a)
{
    float d;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(d) : "f"(a));
    return d;
}

/* log2 a; absolute error 2^-22 for a in [0.5, 2], relative elsewhere. */
__device__ inline float lg2_approx_ftz_f32(float a)
{
    float d;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(d) : "f"(a));
    return d;
}

/* 1 / a within 1 ulp; subnormal inputs and results are 0. */
__device__ inline float rcp_approx_ftz_f32(float a)
{
    float d;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(d) : "f"(a));
    return d;
}

/* tanh a; relative error 2^-11 (sm_75 and later). */
__device__ inline float tanh_approx_f32(float a)
{
    float d;
    asm("tanh.approx.f32 %0, %1;" : "=f"(d) : "f"(a));
    return d;
}

// ---- templates/ptx/packed_math.cuh
/*
 * Arithmetic on two 16-bit floats in one register. PTX ISA, "Half Precision Floating Point Instructions" (bf16x2 forms of
 * fma need sm_80, of mul sm_90: products are written as fma with -0).
 */

__device__ inline uint32_t fma_rn_bf16x2(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t d;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

__device__ inline uint32_t fma_rn_f16x2(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t d;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

/* Absolute error 2^-8 (sm_90 and later). */
__device__ inline uint32_t tanh_approx_bf16x2(uint32_t a)
{
    uint32_t d;
    asm("tanh.approx.bf16x2 %0, %1;" : "=r"(d) : "r"(a));
    return d;
}

/* Absolute error 2^-10.987 (sm_75 and later). */
__device__ inline uint32_t tanh_approx_f16x2(uint32_t a)
{
    uint32_t d;
    asm("tanh.approx.f16x2 %0, %1;" : "=r"(d) : "r"(a));
    return d;
}

// ---- templates/numeric.cuh
/*
 * The element types as the kernel sees them: two 16-bit elements in a register, lower index in the lower half.
 */

__device__ inline uint32_t pack_input(float low, float high)
{
    return cvt_rn_bf16x2_f32(low, high);
}

__device__ inline uint32_t pack_input_relu(float low, float high)
{
    return cvt_rn_relu_bf16x2_f32(low, high);
}

__device__ inline float unpack_input_low(uint32_t packed)
{
    return bits_as_float(packed << 16);
}

__device__ inline float unpack_input_high(uint32_t packed)
{
    return bits_as_float(packed & 0xffff0000u);
}

__device__ inline uint32_t packed_fma(uint32_t a, uint32_t b, uint32_t c)
{
    return fma_rn_bf16x2(a, b, c);
}

/* Before sm_90 there is no bf16 tanh: each half takes the way through fp32. */
__device__ inline uint32_t packed_tanh(uint32_t a)
{
    if constexpr (kArch >= 90) {
        return tanh_approx_bf16x2(a);
    } else {
        return pack_input(tanh_approx_f32(unpack_input_low(a)), tanh_approx_f32(unpack_input_high(a)));
    }
}

__device__ inline uint32_t packed_constant(float value)
{
    return pack_input(value, value);
}

/* The final factor. Adding +0 makes the empty sum +0 whatever the sign of the factor is. */
__device__ inline float scale_output(float sum, float factor)
{
    return fma_rn_f32(sum, factor, 0.0f);
}

__device__ inline uint32_t pack_output(float low, float high)
{
    return cvt_rn_bf16x2_f32(low, high);
}

// ---- templates/ptx/atomic.cuh
/*
 * Reductions and atomic operations on global memory, relaxed, of the whole device. PTX ISA, "red", "atom".
 */

__device__ inline void red_global_add_f32(float *address, float value)
{
    asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(address), "f"(value) : "memory");
}

/* Four neighbours at an address aligned to 16 bytes, each by itself (sm_90). */
__device__ inline void red_global_add_v4_f32(float *address, const float (&value)[4])
{
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(address), "f"(value[0]),
                 "f"(value[1]), "f"(value[2]), "f"(value[3])
                 : "memory");
}

/* Returns what was there before. */
__device__ inline uint32_t atom_global_add_u32(uint32_t *address, uint32_t value)
{
    uint32_t before;
    asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(address), "r"(value) : "memory");
    return before;
}

// ---- templates/ptx/global_load.cuh
/*
 * Loads from global memory that other threads have written in an earlier launch, or that this thread writes afterwards. PTX ISA, "ld".
 */

__device__ inline float ld_global_f32(const float *address)
{
    float value;
    asm volatile("ld.global.f32 %0, [%1];" : "=f"(value) : "l"(address) : "memory");
    return value;
}

/* The address is aligned to 16 bytes. */
__device__ inline void ld_global_v4_f32(float (&value)[4], const float *address)
{
    asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(value[0]), "=f"(value[1]), "=f"(value[2]), "=f"(value[3])
                 : "l"(address)
                 : "memory");
}

// ---- templates/ptx/global_memory.cuh
/*
 * Global memory by pointer. PTX ISA, "ld", "st".
 */

/* Read-only data: the compiler may keep or move the load. */
__device__ inline int32_t ld_global_nc_s32(const int32_t *address)
{
    int32_t value;
    asm("ld.global.nc.s32 %0, [%1];" : "=r"(value) : "l"(address));
    return value;
}

__device__ inline uint16_t ld_global_nc_b16(const void *address)
{
    uint16_t value;
    asm("ld.global.nc.b16 %0, [%1];" : "=h"(value) : "l"(address));
    return value;
}

__device__ inline void st_global_b16(void *address, uint16_t value)
{
    asm volatile("st.global.b16 [%0], %1;" ::"l"(address), "h"(value) : "memory");
}

__device__ inline void st_global_b32(void *address, uint32_t value)
{
    asm volatile("st.global.b32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

__device__ inline void st_global_v2_b32(void *address, uint32_t low, uint32_t high)
{
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(address), "r"(low), "r"(high) : "memory");
}

__device__ inline void st_global_v4_b32(void *address, const uint32_t (&value)[4])
{
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(value[0]), "r"(value[1]),
                 "r"(value[2]), "r"(value[3])
                 : "memory");
}

// ---- templates/gradient.cuh
/*
 * What all backward kernels have in common: the constant factors, where a gradient lies, and how two elements of one are written.
 *
 * With P = M f(S) and dS' = M f'(S) dP, S the scaled score, in 16 bits each:
 *
 *     dV = out_scale P^T dO        dQ = scale out_scale dS' K        dK = scale out_scale dS'^T Q
 *
 * The factors are applied once, to the fp32 sums. fp16, whose range is small, takes the factor of dS into dS' where it is smaller than 1,
 * or dS' would overflow where the result does not.
 */

struct GradientFactors {
    float inner; // of dS', before it is rounded; 1 in bf16
    float outer; // of the sums dQ and dK
};

__device__ inline GradientFactors gradient_factors(const gdpa_bwd_params &params)
{
    const float factor = params.scale * params.out_scale;
    return {1.0f, factor};
}

__device__ inline uint32_t packed_multiply(uint32_t a, uint32_t b)
{
    return packed_fma(a, b, 0x80008000u); // -0, which leaves the sign of a product of 0
}

using Gradient = uint16_t;

/* Columns of dq_sum. */
constexpr int kSumColumns = (kHeadDim + 15) / 16 * 16;

/*
 * dq_sum holds blocks of 16 rows and 16 columns, [block of rows][heads_q][group of columns], each in the order in which a warp holds its
 * fragments, so that one reduction of a warp goes to 512 bytes in a row: [upper or lower 8 rows][lane][4]. The four of a lane are those of row
 * lane / 4 and columns lane % 4 * 2, the next one, and the same 8 further on.
 */
constexpr int kSumBlock = 16 * 16;

/* First block of rows of a sequence: dense ones have as many as their rows need, jagged ones are counted as in the search of tiles. */
__device__ inline int64_t first_sum_block(const gdpa_bwd_params &params, int32_t batch, int64_t first_row)
{
    return params.cu_seqlens_q != nullptr ? first_row / 16 + batch : batch * ((params.rows_q + 15) / 16);
}

/* What lane 0 adds to in the upper rows of a block, for the first group of columns. */
__device__ inline float *sum_block(const gdpa_bwd_params &params, int64_t block, int32_t head)
{
    return params.dq_sum + (block * params.heads_q + head) * (16 * kSumColumns);
}

/* To four neighbours in dq_sum. */
__device__ inline void add_four(float *address, const float (&values)[4])
{
    if constexpr (kArch >= 90) {
        red_global_add_v4_f32(address, values);
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            red_global_add_f32(address + i, values[i]);
        }
    }
}

/* Two neighbours of a gradient: factor * sum, rounded once; added to what is there with `accumulate`. */
__device__ inline void store_gradients(Gradient *place, float low, float high, float factor, bool accumulate)
{
    low = scale_output(low, factor);
    high = scale_output(high, factor);
    const uint32_t packed = pack_output(low, high);
    st_global_b32(place, packed);
}

// ---- templates/ptx/fence.cuh
/*
 * Order between ordinary accesses and those of the copy engine and the tensor cores (the async proxy). PTX ISA, "fence.proxy".
 */

/* This thread's accesses to shared memory before it come before the async proxy's after it. */
__device__ inline void fence_proxy_async_shared()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// ---- templates/ptx/named_barrier.cuh
/*
 * Barriers among some warps of a block, by number (1 to 15; 0 is the one of the whole block). PTX ISA, "bar".
 */

__device__ inline void bar_sync(uint32_t number, uint32_t threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

/* Counts as arrived without waiting. */
__device__ inline void bar_arrive(uint32_t number, uint32_t threads)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// ---- templates/ptx/special_registers.cuh
/*
 * Who am I: %tid, %ctaid, %nctaid. PTX ISA, "Special Registers". Blocks are one-dimensional; a grid has a second dimension
 * when it has more blocks than the first may have.
 */

__device__ inline uint32_t tid_x()
{
    return threadIdx.x;
}

__device__ inline uint32_t ctaid_x()
{
    return blockIdx.x;
}

__device__ inline uint32_t ctaid_y()
{
    return blockIdx.y;
}

__device__ inline uint32_t nctaid_x()
{
    return gridDim.x;
}

// ---- templates/ptx/tma.cuh
/*
 * Copies of boxes of a tensor by the copy engine. PTX ISA, "cp.async.bulk.tensor" (sm_90). One thread asks for all of it.
 *
 * Boxes, strides, swizzle and bounds are in the tensor map; elements outside the tensor become zeros, and count as bytes.
 */

__device__ inline void prefetch_tensormap(const gdpa_tensor_map *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* Coordinates of the box's first element, fastest dimension first. Completes on `barrier` by its bytes. */
__device__ inline void cp_async_bulk_tensor_4d_load(uint32_t shared, const gdpa_tensor_map *map, uint32_t barrier, int32_t c0,
                                                    int32_t c1, int32_t c2, int32_t c3)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
                 "[%2];" ::"r"(shared),
                 "l"(map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
                 : "memory");
}

// ---- templates/ring.cuh
/*
 * A place in a ring of shared-memory slots, as the number of the uses before it: which slot, and in which of its alternating uses.
 * The parity of a slot's `full` barrier in a use is phase(); that of its `empty` barrier before the use is phase() ^ 1, which passes at once
 * the first time round.
 */

template <int kSlots> struct RingPlace {
    uint32_t uses = 0;

    __device__ uint32_t slot() const
    {
        return uses % kSlots;
    }

    __device__ uint32_t phase() const
    {
        return uses / kSlots % 2;
    }
};

// ---- templates/bwd_producer_sm90.cuh
/*
 * The producer side of the Hopper backward kernel: one warp asks the copy engine for tiles; a second one repairs them. A third one finds the work
 * (bwd_scout_sm90.cuh).
 *
 * A tile that reaches beyond its sequence, into rows that are there in memory, holds other sequences' numbers, perhaps NaN, and 0 * NaN is
 * not 0. Such a tile completes another barrier first (raw); the repair warp zeroes the rows and passes it on. With zeros in all
 * four operands, pairs beyond the end of a sequence add exactly nothing, and need no mask.
 */

/* Chunks of a tile from column `first_column` on, by one thread. */
template <int kChunks, int kChunkBytes>
__device__ inline void load_box(uint32_t shared, const gdpa_tensor_map *map, uint32_t barrier, int32_t row, int32_t head,
                                int32_t batch, int32_t first_column = 0)
{
    mbarrier_arrive_expect_tx(barrier, kChunks * kChunkBytes);
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
        cp_async_bulk_tensor_4d_load(shared + chunk * kChunkBytes, map, barrier, first_column + chunk * kChunkColumns,
                                     row, head, batch);
    }
}

/* Whether a tile of kRows rows from `row` on holds rows in memory that are not of the sequence. */
template <int kRows> __device__ inline bool reaches_beyond(int32_t row, int32_t length, bool others_follow)
{
    return others_follow && row > length - kRows;
}

/* Of keys; a tile without any, whose only work is to write zeros to dq, is not copied but zeroed. */
__device__ inline bool keys_need_repair(const gdpa_bwd_params &params, int32_t first_key, int32_t length)
{
    return length == 0 || reaches_beyond<kBlockN>(first_key, length, params.cu_seqlens_k != nullptr || params.seqused_k != nullptr);
}

__device__ inline bool others_follow_queries(const gdpa_bwd_params &params)
{
    return params.cu_seqlens_q != nullptr || params.seqused_q != nullptr;
}

/* Whether a block has all keys of a sequence and writes its dQ. */
__device__ inline bool writes_queries(const gdpa_bwd_params &params)
{
    return kSumsQueries && params.dq != nullptr && params.dq_sum == nullptr;
}

struct Producer {
    Shared shared;
    const gdpa_bwd_sm90_params *params;
    uint32_t tile = 0; // of keys, counted
    RingPlace<kQueryStages> query_place;
    RingPlace<kOutputStages> output_place;

    /* By one thread: K or V of the tile that begins at key `row`, once its readers are done with the one before. */
    template <int kChunks>
    __device__ void load_keys(uint32_t to, const gdpa_tensor_map *map, const TileBarriers &barriers, int32_t row,
                              int32_t first_column = 0) const
    {
        const uint32_t work = shared.work(tile);
        mbarrier_wait_parity(barriers.empty, tile % 2 ^ 1);
        const int32_t length = read_word(work + kWorkLengthK);
        const bool raw = keys_need_repair(params->common, row, length);
        if (length == 0) {
            mbarrier_arrive(barriers.raw);
            return;
        }
        load_box<kChunks, kKeyChunkBytes>(to, map, raw ? barriers.raw : barriers.full, read_word(work + kWorkRowK) + row,
                                          read_word(work + kWorkHeadK), read_word(work + kWorkBatchK), first_column);
    }

    /* By one thread: where the dQ of a step goes. */
    __device__ void write_note(int32_t head, int32_t query_tile) const
    {
        const gdpa_bwd_params &common = params->common;
        const uint32_t work = shared.work(tile);
        const int64_t batch = read_word(work + kWorkBatchQ);
        const int64_t row = static_cast<int64_t>(read_word(work + kWorkRowQ)) + query_tile * kBlockM;
        int64_t offset = batch * common.dq_stride_batch + row * common.dq_stride_row + head * common.dq_stride_head;
        if (common.dq_sum != nullptr) {
            const int64_t block = ld_shared_b64(work + kWorkSumBlock) + query_tile * (kBlockM / 16);
            offset = (block * common.heads_q + head) * (16 * kSumColumns);
        }
        const uint32_t note = shared.note(query_place.uses);
        st_shared_b64(note + kNoteOffset, offset);
        write_word(note + kNoteValidRows, read_word(work + kWorkLengthQ) - query_tile * kBlockM);
    }

    /* By one thread: the query tile of a step. */
    template <int kChunks>
    __device__ void load_step(uint32_t to, const gdpa_tensor_map *map, const TileBarriers &barriers, int32_t head,
                              int32_t query_tile) const
    {
        const uint32_t work = shared.work(tile);
        const int32_t row = query_tile * kBlockM;
        const bool raw =
            reaches_beyond<kBlockM>(row, read_word(work + kWorkLengthQ), others_follow_queries(params->common));
        load_box<kChunks, kQueryChunkBytes>(to, map, raw ? barriers.raw : barriers.full,
                                            read_word(work + kWorkRowQ) + row, head, read_word(work + kWorkBatchQ));
    }

    __device__ void load_queries(int32_t head, int32_t query_tile)
    {
        const TileBarriers barriers = shared.of_queries(query_place.slot());
        mbarrier_wait_parity(barriers.empty, query_place.phase() ^ 1);
        write_note(head, query_tile);
        load_step<kDepthChunks>(shared.queries(query_place.slot()), &params->q_map,
                                barriers, head, query_tile);
        ++query_place.uses;
    }

    __device__ void load_outputs(int32_t head, int32_t query_tile)
    {
        const TileBarriers barriers = shared.of_outputs(output_place.slot());
        mbarrier_wait_parity(barriers.empty, output_place.phase() ^ 1);
        load_step<kValueChunks>(shared.outputs(output_place.slot()), &params->dout_map, barriers, head, query_tile);
        ++output_place.uses;
    }

    __device__ void load_keys_and_values() const
    {
        const int32_t row = read_word(shared.work(tile) + kWorkFirstKey);
        load_keys<kDepthChunks>(shared.keys(), &params->k_map, shared.of_keys(), row);
        load_keys<kValueChunks>(shared.values(), &params->v_map, shared.of_values(), row);
    }

    /* By one thread. The first queries do not wait for the key tile before: they load while it is stored. */
    __device__ void load(const QueryTiles &queries)
    {
        const int32_t first_head = read_word(shared.work(tile) + kWorkHeadK) * params->common.heads_per_group;
        const int32_t end_head = first_head + params->common.heads_per_group;
        if (queries.count() == 0) { // the phases of the slots go on
            load_keys_and_values();
            return;
        }
        for (int32_t head = first_head; head < end_head; ++head) {
            int32_t query_tile = queries.start;
            for (int32_t i = 0; i < queries.count(); ++i, query_tile = queries.next(query_tile)) {
                load_queries(head, query_tile);
                if (i == 0 && head == first_head) {
                    load_keys_and_values();
                }
                load_outputs(head, query_tile);
            }
        }
    }

    /* The scout's message to where all read it. By the whole warp. */
    __device__ void pass_on() const
    {
        mbarrier_wait_parity(shared.found_full(), tile % 2);
        const bool is_last = read_uniform_word(shared.found() + kWorkValidKeys) < 0; // no other word was written
        const int place = static_cast<int>(tid_x()) * 4;
        if (is_last ? place == kWorkValidKeys : place < kWorkWords * 4) {
            st_shared_b32(shared.work(tile) + place, ld_shared_b32(shared.found() + place));
        }
        mbarrier_arrive(shared.found_empty());
        mbarrier_arrive(shared.work_full(tile));
        mbarrier_wait_parity(shared.work_full(tile), tile / 2 % 2); // lanes read each other's words
    }

    __device__ void run()
    {
        while (true) {
            pass_on();
            const uint32_t work = shared.work(tile);
            if (read_uniform_word(work + kWorkValidKeys) < 0) {
                return;
            }
            const QueryTiles queries = query_tiles(work);
            if (tid_x() == 0) {
                load(queries);
            }
            // One lane has waited for the readers of the message that all of them write over next.
            bar_sync(kProducerBarrier, 32);
            ++tile;
        }
    }
};

// ---- templates/ptx/ldmatrix.cuh
/*
 * Loads of 8x8 matrices of 16-bit elements, four at a time. PTX ISA, "ldmatrix".
 *
 * Lane l gives the address of row l % 8 of matrix l / 8 (16 bytes, aligned). Register i of lane l gets the elements
 * (row l / 4, columns 2 (l % 4) and + 1) of matrix i, or of its transpose.
 */

__device__ inline void ldmatrix_x4(uint32_t (&matrix)[4], uint32_t address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrix[0]), "=r"(matrix[1]), "=r"(matrix[2]), "=r"(matrix[3])
                 : "r"(address)
                 : "memory");
}

__device__ inline void ldmatrix_x4_trans(uint32_t (&matrix)[4], uint32_t address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrix[0]), "=r"(matrix[1]), "=r"(matrix[2]), "=r"(matrix[3])
                 : "r"(address)
                 : "memory");
}

// ---- templates/ptx/wgmma.cuh
/*
 * Asynchronous products of a warpgroup (4 warps, the first one a multiple of 4). PTX ISA, "wgmma" (sm_90a).
 *
 * wgmma_m64k16_ss and _rs, one pair a width in wgmma_n<width>.cuh and told apart by the size of the accumulator, compute
 * D = A B (+ D when accumulate) with A 64 x 16, B 16 x N, D 64 x N in fp32. A is a matrix in shared memory (ss) or fragments in
 * registers (rs); B is in shared memory. With thread t of the warpgroup
 *     D  d[4 j + c] is row 16 (t / 32) + t % 32 / 4 + 8 (c / 2), column 8 j + 2 (t % 4) + c % 2
 *     A  a[i] holds row 16 (t / 32) + t % 32 / 4 + 8 (i % 2), columns 2 (t % 4) + 8 (i / 2) and the next
 *
 * Order: wgmma_fence after registers or shared memory were touched, products, wgmma_commit_group, wgmma_wait_group. Until the wait,
 * neither d nor a may be touched; tie() after it keeps the compiler from reading d earlier.
 */

__device__ inline void wgmma_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ inline void wgmma_commit_group()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Waits until at most kPending of the latest groups are under way. */
template <int kPending> __device__ inline void wgmma_wait_group()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

/* Registers as they are after everything above. */
template <int kCount> __device__ inline void tie(float (&registers)[kCount])
{
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
        asm volatile("" : "+f"(registers[i])::"memory");
    }
}

template <int kCount> __device__ inline void tie(uint32_t (&registers)[kCount])
{
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
        asm volatile("" : "+r"(registers[i])::"memory");
    }
}

/*
 * Descriptor of a matrix in shared memory stored with the 128-byte swizzle: rows of 128 bytes, groups of 8 rows 1024 bytes long and
 * aligned. leading: bytes from one 64-column chunk to the next (matrices whose columns are not the K dimension); stride: bytes
 * from one group of 8 rows to the next.
 */
__device__ inline uint64_t wgmma_descriptor_128b(uint32_t address, uint32_t leading, uint32_t stride)
{
    return static_cast<uint64_t>((address & 0x3ffff) >> 4) | static_cast<uint64_t>(leading >> 4) << 16 |
           static_cast<uint64_t>(stride >> 4) << 32 | 1ull << 62;
}

// ---- templates/ptx/wgmma_n64.cuh
/*
 * Products of a warpgroup, m64n64k16: D (+)= A B. Fragments and rules are in ptx/wgmma.cuh. Written by scripts/make-wgmma.py.
 */

// clang-format off
template <int kTransA, int kTransB>
__device__ inline void wgmma_m64k16_ss(float (&d)[32], uint64_t a, uint64_t b, bool accumulate)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0; "
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31 "
                 "}, %32, %33, p, 1, 1, %35, %36; }"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                   "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                   "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),
                   "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                   "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
                   "+f"(d[30]), "+f"(d[31])
                 : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)), "n"(kTransA), "n"(kTransB));
}

template <int kTransB>
__device__ inline void wgmma_m64k16_rs(float (&d)[32], const uint32_t (&a)[4], uint64_t b, bool accumulate)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %37, 0; "
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31 "
                 "}, {%32, %33, %34, %35}, %36, p, 1, 1, %38; }"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                   "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                   "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),
                   "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                   "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
                   "+f"(d[30]), "+f"(d[31])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(accumulate)), "n"(kTransB));
}
// clang-format on

// ---- templates/ptx/wgmma_n128.cuh
/*
 * Products of a warpgroup, m64n128k16: D (+)= A B. Fragments and rules are in ptx/wgmma.cuh. Written by scripts/make-wgmma.py.
 */

// clang-format off
template <int kTransA, int kTransB>
__device__ inline void wgmma_m64k16_ss(float (&d)[64], uint64_t a, uint64_t b, bool accumulate)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0; "
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, "
                 "%40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, "
                 "%56, %57, %58, %59, %60, %61, %62, %63 "
                 "}, %64, %65, p, 1, 1, %67, %68; }"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                   "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                   "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),
                   "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                   "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
                   "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
                   "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
                   "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
                   "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]),
                   "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),
                   "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
                 : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)), "n"(kTransA), "n"(kTransB));
}

template <int kTransB>
__device__ inline void wgmma_m64k16_rs(float (&d)[64], const uint32_t (&a)[4], uint64_t b, bool accumulate)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %69, 0; "
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, "
                 "%40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, "
                 "%56, %57, %58, %59, %60, %61, %62, %63 "
                 "}, {%64, %65, %66, %67}, %68, p, 1, 1, %70; }"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                   "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                   "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),
                   "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                   "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
                   "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
                   "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
                   "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
                   "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]),
                   "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),
                   "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(accumulate)), "n"(kTransB));
}
// clang-format on

// ---- templates/bwd_products_sm90.cuh
/*
 * The five products of a step of the Hopper backward, of one consumer warpgroup; who owns what, and the named barriers.
 */

constexpr int kScores = kBlockM / 2;          // a thread's share of 64 keys x kBlockM queries
constexpr int kKeySums = kDepthColumns / 2;   // of dK, 64 x kDepthColumns (head_dim rounded up to a width of wgmma)
constexpr int kValueSums = kValueColumns / 2; // of dV
constexpr int kQuerySums = kShareColumns / 2; // of dQ, kBlockM x kShareColumns
constexpr int kShareBlocks = kShareColumns / 16;
constexpr int kDepthSteps = (kHeadDim + 15) / 16;
constexpr int kValueSteps = (kHeadDimV + 15) / 16;
constexpr int kQuerySteps = kBlockM / 16;
constexpr int kKeySteps = kBlockN / 16;

/* The sums of dK and dV of one of the blocks that share a tile of keys, in words: of each warp a piece. */
constexpr int kRecordOfWarp = 32 * (kKeySums + kValueSums);
constexpr int kRecord = kConsumers * 4 * kRecordOfWarp;

/*
 * Where there are registers for it, a warpgroup holds its rows of V, as left operands of dP: products with both operands in shared memory take
 * all of its bandwidth.
 */
constexpr bool kHoldsValues = kBlockM == 64 && kKeySums + kValueSums <= 96;
constexpr int kHeldSteps = kHoldsValues ? kValueSteps : 0;

struct Values {
    uint32_t fragments[kHoldsValues ? kValueSteps : 1][4];
};

struct Products {
    Shared shared;
    const gdpa_bwd_params *params;
    uint32_t number; // of the warpgroup, from 0

    __device__ uint32_t lane() const
    {
        return tid_x() % 32;
    }

    /* First of the warp's 16 keys in the tile. */
    __device__ uint32_t warp_key() const
    {
        return number * 64 + tid_x() / 32 % 4 * 16;
    }

    /* A tile that only products read: once they are waited for, they have ended for the whole warpgroup. */
    __device__ void release_tile(uint32_t empty_barrier) const
    {
        if (tid_x() % kWarpgroupThreads == 0) {
            mbarrier_arrive(empty_barrier);
        }
    }

    /* 16 columns of a tile whose rows have kRows x 128 bytes a chunk, as a distance of descriptors. */
    template <int kRows> __device__ static constexpr uint64_t along_columns(int step)
    {
        return (step / 4 * (kRows * 128) + step % 4 * 32) / 16;
    }

    /* S = K Q^T, 64 keys by kBlockM queries. */
    __device__ void multiply_scores(float (&scores)[kScores], uint32_t queries) const
    {
        const uint64_t a = wgmma_descriptor_128b(shared.keys() + number * (64 * 128), 16, 1024);
        const uint64_t b = wgmma_descriptor_128b(queries, 16, 1024);
#pragma unroll
        for (int step = 0; step < kDepthSteps; ++step) {
            wgmma_m64k16_ss<0, 0>(scores, a + along_columns<kBlockN>(step), b + along_columns<kBlockM>(step), step > 0);
        }
    }

    /* The warpgroup's rows of V, where registers hold them. */
    __device__ void load_values(Values &values) const
    {
        const uint32_t row = warp_key() + lane() % 16;
#pragma unroll
        for (int step = 0; step < kHeldSteps; ++step) {
            const uint32_t unit = step % 4 * 2 + lane() / 16;
            ldmatrix_x4(values.fragments[step],
                        shared.values() + step / 4 * kKeyChunkBytes + row * 128 + ((unit ^ row % 8) << 4));
        }
    }

    /* dP = V dO^T */
    __device__ void multiply_outputs(float (&slopes)[kScores], const Values &values, uint32_t outputs) const
    {
        const uint64_t a = wgmma_descriptor_128b(shared.values() + number * (64 * 128), 16, 1024);
        const uint64_t b = wgmma_descriptor_128b(outputs, 16, 1024);
#pragma unroll
        for (int step = 0; step < kValueSteps; ++step) {
            if constexpr (kHoldsValues) {
                wgmma_m64k16_rs<0>(slopes, values.fragments[step], b + along_columns<kBlockM>(step), step > 0);
            } else {
                wgmma_m64k16_ss<0, 0>(slopes, a + along_columns<kBlockN>(step), b + along_columns<kBlockM>(step),
                                      step > 0);
            }
        }
    }

    /* dV += P dO, or dK += dS Q: the right operand is read along its rows. */
    template <int kSums>
    __device__ static void add_products(float (&sums)[kSums], const uint32_t (&left)[kQuerySteps][4], uint32_t right,
                                        bool accumulate)
    {
        const uint64_t b = wgmma_descriptor_128b(right, kQueryChunkBytes, 1024);
#pragma unroll
        for (int step = 0; step < kQuerySteps; ++step) {
            wgmma_m64k16_rs<1>(sums, left[step], b + step * (16 * 128) / 16, step > 0 || accumulate);
        }
    }

    /* The columns of K that this warpgroup makes of dQ. */
    __device__ uint32_t share_of_keys() const
    {
        const uint32_t columns = first_share_column();
        return shared.keys() + columns / kChunkColumns * kKeyChunkBytes + columns % kChunkColumns * 2;
    }

    /* This warpgroup's rows or columns of dQ = dS^T K, or dQ +=, over the keys of both. */
    __device__ void multiply_keys(float (&sums)[kQuerySums], uint32_t scores, uint32_t keys, bool accumulate) const
    {
        const uint64_t a = wgmma_descriptor_128b(scores + first_share_row() * (kBlockN * 2), 16, 1024);
        const uint64_t b = wgmma_descriptor_128b(keys, kKeyChunkBytes, 1024);
#pragma unroll
        for (int step = 0; step < kKeySteps; ++step) {
            wgmma_m64k16_ss<1, 1>(sums, a + step * (16 * 128) / 16, b + step * (16 * 128) / 16, step > 0 || accumulate);
        }
    }

    /* Of the part of dQ that is this warpgroup's. */
    __device__ uint32_t first_share_row() const
    {
        return kSharesRows ? number * 64 : 0;
    }

    __device__ uint32_t first_share_column() const
    {
        return kSharesRows ? 0 : number * kShareColumns;
    }

    /* In the query tile, the upper one of the two rows that the thread has of dQ. */
    __device__ int32_t share_row() const
    {
        return static_cast<int32_t>(first_share_row() + tid_x() % kWarpgroupThreads / 32 * 16 + lane() / 4);
    }

    /* Named barriers, 0 being the block's: one for each warpgroup itself, */
    __device__ uint32_t own_barrier() const
    {
        return 1 + number;
    }

    /* that dS of a step of warpgroup w is there, */
    __device__ static uint32_t scores_barrier(uint32_t warpgroup, uint32_t step)
    {
        return 1 + kConsumers + warpgroup * kScoreSlots + step % kScoreSlots;
    }

    /* and that w has made its part of the dQ of a step. */
    __device__ static uint32_t read_barrier(uint32_t warpgroup, uint32_t step)
    {
        return 1 + kConsumers + kConsumers * kScoreSlots + warpgroup * kScoreSlots + step % kScoreSlots;
    }
};

// ---- templates/bwd_repair_sm90.cuh
/*
 * The warp of the Hopper backward that zeroes the rows of tiles which are not of the sequence, before the consumers see them.
 */

static_assert(!kHoldsValues || kScoreSlots != 3, "the named barrier of repairs is no one else's");

/* Follows the messages like a consumer. Called by one whole warp. */
struct Repairer {
    Shared shared;
    const gdpa_bwd_params *params;
    uint32_t tile = 0;
    uint32_t steps = 0;        // before the tile
    uint32_t key_phase = 0;    // of the barriers `raw`
    uint32_t query_phases = 0; // one bit a slot
    uint32_t output_phases = 0;

    template <int kRows, int kChunks> __device__ void zero_rows(uint32_t place, int32_t first_row) const
    {
        const uint32_t lane = tid_x() % 32;
        const uint32_t zeros[4] = {0, 0, 0, 0};
        for (uint32_t chunk = 0; chunk < kChunks; ++chunk) {
            const uint32_t begin = place + chunk * (kRows * 128);
            for (uint32_t offset = first_row * 128 + lane * 16; offset < kRows * 128; offset += 32 * 16) {
                st_shared_v4_b32(begin + offset, zeros); // whole rows: their swizzle does not matter
            }
        }
        fence_proxy_async_shared();
    }

    template <int kRows, int kChunks>
    __device__ void repair(uint32_t place, const TileBarriers &barriers, uint32_t phase, int32_t first_row) const
    {
        mbarrier_wait_parity(barriers.raw, phase);
        zero_rows<kRows, kChunks>(place, first_row);
        if (kHoldsValues) { // consumers read V by ordinary loads
            bar_sync(kRepairBarrier, 32);
        } else {
            bar_warp_sync();
        }
        if (tid_x() % 32 == 0) {
            mbarrier_arrive(barriers.full);
        }
    }

    __device__ void repair_keys(uint32_t work)
    {
        const int32_t first_key = read_uniform_word(work + kWorkFirstKey);
        if (keys_need_repair(*params, first_key, read_uniform_word(work + kWorkLengthK))) {
            const int32_t valid_keys = read_uniform_word(work + kWorkValidKeys);
            repair<kBlockN, kDepthChunks>(shared.keys(), shared.of_keys(), key_phase, valid_keys);
            repair<kBlockN, kValueChunks>(shared.values(), shared.of_values(), key_phase, valid_keys);
            key_phase ^= 1;
        }
    }

    /* Of each head only the last query tile can reach beyond the sequence. */
    __device__ void repair_queries(uint32_t work)
    {
        const QueryTiles queries = query_tiles(work);
        const int32_t row = (queries.end - 1) * kBlockM;
        const int32_t length_q = read_uniform_word(work + kWorkLengthQ);
        const bool raw = reaches_beyond<kBlockM>(row, length_q, others_follow_queries(*params));
        for (int32_t head = 0; head < params->heads_per_group && queries.count() > 0; ++head) {
            const uint32_t step = steps + static_cast<uint32_t>(queries.end - 1 - queries.start);
            if (raw) {
                const uint32_t query_slot = step % kQueryStages;
                repair<kBlockM, kDepthChunks>(shared.queries(query_slot), shared.of_queries(query_slot),
                                              query_phases >> query_slot & 1, length_q - row);
                query_phases ^= 1u << query_slot;
                const uint32_t output_slot = step % kOutputStages;
                repair<kBlockM, kValueChunks>(shared.outputs(output_slot), shared.of_outputs(output_slot),
                                              output_phases >> output_slot & 1, length_q - row);
                output_phases ^= 1u << output_slot;
            }
            steps += static_cast<uint32_t>(queries.count());
        }
    }

    __device__ void run()
    {
        while (true) {
            mbarrier_wait_parity(shared.work_full(tile), tile / 2 % 2);
            const uint32_t work = shared.work(tile);
            if (read_uniform_word(work + kWorkValidKeys) < 0) {
                return;
            }
            repair_keys(work);
            repair_queries(work);
            // The message may be there before the tile before is done with, whose phase this arrival must not count for.
            mbarrier_wait_parity(shared.of_values().empty, tile % 2 ^ 1);
            mbarrier_arrive(shared.of_values().empty);
            ++tile;
        }
    }
};

// ---- templates/ptx/integer.cuh
/*
 * Integer helpers that are one instruction. PTX ISA, "Integer Arithmetic Instructions".
 */

__device__ inline uint32_t popc_b32(uint32_t bits)
{
    uint32_t count;
    asm("popc.b32 %0, %1;" : "=r"(count) : "r"(bits));
    return count;
}

// ---- templates/gradient_tiles.cuh
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

struct GradientTile {
    int32_t batch; // -1: no such sequence
    int32_t head;
    int64_t first_row; // of the tile, in its sequence; may lie beyond its end
};

constexpr int kTileKeys = kBlockN;

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

// ---- templates/list_places.cuh
/*
 * What readers of a schedule (schedule_format.h) have in common: its arrays, the search in them, and the counter of places.
 */

/* An array of a list. */
__device__ inline uint32_t *schedule_array(uint32_t *schedule, int32_t batch, int32_t list, int32_t array)
{
    const int64_t stride = (static_cast<int64_t>(batch) + kScheduleHeaderWords) / kScheduleHeaderWords * kScheduleHeaderWords;
    return schedule + kScheduleHeaderWords + (list * kScheduleArrays + array) * stride;
}

__device__ inline uint32_t read_schedule(const uint32_t *array, uint32_t rank)
{
    return static_cast<uint32_t>(ld_global_nc_s32(reinterpret_cast<const int32_t *>(array) + rank));
}

/* Moves to the last sequence from `list.rank` on whose tiles begin at or before `tile`, and returns where they begin. By whole warps. */
template <typename List> __device__ inline uint32_t move_to(List &list, int32_t batch, uint32_t tile)
{
    const uint32_t lane = tid_x() % 32;
    uint32_t count = static_cast<uint32_t>(batch) - list.rank;
    uint32_t step = 1; // mostly it is one of the next 32
    while (true) {
        const uint32_t begin = lane * step < count ? list.begin_of(list.rank + lane * step) : 0xffffffff;
        const uint32_t before = popc_b32(vote_sync_ballot(begin <= tile));
        const uint32_t passed = before > 1 ? before - 1 : 0;
        list.rank += passed * step;
        const uint32_t left = count - passed * step;
        if (step == 1 && (passed < 31 || left == 1)) {
            return shfl_sync_idx(begin, passed);
        }
        count = step == 1 || left < step ? left : step;
        step = (count + 31) / 32;
    }
}

/* Of a sequence's places, all heads of it. */
struct PlaceInSequence {
    uint32_t head;
    uint32_t tile;
};

/* Groups of kGroup heads take turns, tile after tile; `count` tiles a head. */
template <uint32_t kGroup>
__device__ inline PlaceInSequence take_turns(uint32_t place, uint32_t count, uint32_t heads)
{
    const uint32_t group = place / (count * kGroup);
    const uint32_t heads_left = heads - group * kGroup;
    const uint32_t heads_here = heads_left < kGroup ? heads_left : kGroup;
    const uint32_t in_group = place - group * kGroup * count;
    return {group * kGroup + in_group % heads_here, in_group / heads_here};
}

/*
 * The counter of the places that were handed out: every block begins with that of its number, and draws the others. Between launches it
 * is 0: the last block to have drawn one that does not exist resets it, behind all draws.
 */
struct PlaceCounter {
    uint32_t *words;

    /* For lane 0; the others get nothing. The answer is not waited for before it is used. */
    __device__ uint32_t draw() const
    {
        return tid_x() % 32 == 0 ? atom_global_add_u32(words, 1) + nctaid_x() : 0;
    }

    /* Called by one thread of a block that will draw no more. */
    __device__ void finish() const
    {
        if (atom_global_add_u32(words + 1, 1) == nctaid_x() - 1) {
            st_global_b32(words, 0);
            st_global_b32(words + 1, 0);
        }
    }
};

// ---- templates/order_params.h
/*
 * The order in which the blocks of the Hopper backward take key tiles (templates/bwd_scout_sm90.cuh), as the host says it; shared by host C and
 * generated CUDA like templates/params.h.
 */

#define GDPA_BWD_MOST_SHARED 8 /* tiles that several blocks have */
/* Bytes of the counter of claims and of those of the warps that share tiles, behind which the records lie. */
#define GDPA_BWD_COUNTER_BYTES 512

struct gdpa_bwd_order {
    uint32_t *counter; /* of the numbers that are claimed, and others behind it, zeros at the start; null: each block has numbers of its own */
    float *records;    /* sums of tiles that several blocks have */
    int64_t num_numbers;
    int64_t first_shared; /* tiles from this one on have `pieces` numbers each, the others one */
    int32_t pieces;
    int32_t turns; /* (sequence, kv head) pairs whose tiles take turns; direct mapping only */
    uint32_t *schedule; /* templates/schedule_format.h; last, so that kernels without one do not have it */
};

struct gdpa_bwd_sm90_main_params {
    struct gdpa_bwd_sm90_params tiles;
    struct gdpa_bwd_order order;
};

// ---- templates/sequence.cuh
/*
 * Where a sequence lies and how long it is, from the offsets and lengths on the device. Nothing in them is trusted: whatever
 * they hold, rows stay inside [0, rows).
 */

struct Sequence {
    int64_t first_row; // in the tensor; jagged layout only, else 0
    int32_t length;
};

__device__ inline int64_t clamp_row(int64_t row, int64_t lowest, int64_t highest)
{
    return row < lowest ? lowest : row > highest ? highest : row;
}

/* cu_seqlens [batch + 1]: jagged; null: every sequence has `rows` rows. seqused [batch] shortens, null: does not. */
__device__ inline Sequence find_sequence(const int32_t *cu_seqlens, const int32_t *seqused, int64_t rows, int32_t batch)
{
    int64_t first = 0;
    int64_t end = rows;
    if (cu_seqlens != nullptr) {
        first = clamp_row(ld_global_nc_s32(cu_seqlens + batch), 0, rows);
        end = clamp_row(ld_global_nc_s32(cu_seqlens + batch + 1), first, rows);
    }
    int64_t length = end - first;
    if (seqused != nullptr) {
        length = clamp_row(ld_global_nc_s32(seqused + batch), 0, length);
    }
    return {first, static_cast<int32_t>(length)};
}

// ---- templates/bwd_list_sm90.cuh
/*
 * Which key tile a block of the Hopper backward works on, by the list of keys of a schedule (schedule_format.h): place -> sequence, kv head,
 * tile in the sequence.
 *
 * The places of all sequences follow each other in the order of the list, costliest sequences first. In a sequence without a mask the tile
 * runs fastest, so that blocks which run together share their queries in L2, then the head. With a mask the first tiles, which see most under
 * a causal one, come first: groups of kKeyHeadsInGroup heads go through their tiles together.
 *
 * Nothing in a schedule is trusted: places stay below the bound of the host, sequences below the batch, rows inside their sequence.
 */

constexpr int32_t kKeyHeightArray = kBlockN / kScheduleTileStep;
static_assert(kBlockN % kScheduleTileStep == 0 && kKeyHeightArray <= kScheduleHeights, "tiles of a height that schedules know");

constexpr uint32_t kKeyHeadsInGroup = 4; // as many as take turns without a schedule

/* What a warp knows of the list. Places are asked for in rising order. */
struct KeyList {
    const gdpa_bwd_params *params;
    const gdpa_bwd_order *order;
    uint32_t rank = 0; // of the sequence found last

    __device__ const uint32_t *array(int32_t number) const
    {
        return schedule_array(order->schedule, params->batch, kScheduleKeys, number);
    }

    /* How many places there are, of all heads. Where a block has all keys, sequences without any have their dq, and so a place. */
    __device__ uint32_t places() const
    {
        const uint32_t sequences = static_cast<uint32_t>(params->batch);
        const uint32_t tiles = writes_queries(*params) ? sequences : read_schedule(array(kKeyHeightArray), sequences);
        const int64_t all = static_cast<int64_t>(tiles) * params->heads_k;
        return static_cast<uint32_t>(all < order->num_numbers ? all : order->num_numbers);
    }

    /* Where the tiles of a sequence begin. */
    __device__ uint32_t begin_of(uint32_t of_rank) const
    {
        return read_schedule(array(kKeyHeightArray), of_rank);
    }

    /* By place; batch -1: not in this schedule. Called by whole warps. */
    __device__ GradientTile find(uint32_t place)
    {
        const uint32_t heads = static_cast<uint32_t>(params->heads_k);
        if (writes_queries(*params)) { // a tile each
            const uint32_t batch = read_schedule(array(0), place / heads);
            const bool exists = batch < static_cast<uint32_t>(params->batch);
            return {exists ? static_cast<int32_t>(batch) : -1, static_cast<int32_t>(place % heads), 0};
        }
        const uint32_t in_sequence = place - move_to(*this, params->batch, place / heads) * heads;
        const uint32_t batch = read_schedule(array(0), rank);
        if (batch >= static_cast<uint32_t>(params->batch)) {
            return {-1, 0, 0};
        }
        const Sequence k = find_sequence(params->cu_seqlens_k, params->seqused_k, params->rows_k, static_cast<int32_t>(batch));
        const uint32_t count = (static_cast<uint32_t>(k.length) + kBlockN - 1) / kBlockN;
        if (count == 0 || in_sequence / heads >= count) {
            return {-1, 0, 0};
        }
        const PlaceInSequence found = take_turns<kKeyHeadsInGroup>(in_sequence, count, heads);
        return {static_cast<int32_t>(batch), static_cast<int32_t>(found.head), static_cast<int64_t>(found.tile) * kBlockN};
    }
};

// ---- templates/mask.cuh
/*
 * Visibility: which keys a query sees. Position i of the queries stands at position i + offset of the keys, offset = length_k -
 * length_q (bottom_right) or 0 (top_left), and sees the keys from i + offset - kWindowLeft to i + offset + kWindowRight, as far as they exist.
 */

/* The keys that any row of a query tile sees, [begin, end); begin >= end: none. */
struct KeyRange {
    int32_t begin;
    int32_t end;
};

/* What to add to a query's position to get the key position it stands at. */
__device__ inline int64_t key_offset(int32_t length_q, int32_t length_k)
{
    return static_cast<int64_t>(length_k) - length_q;
}

/* first_row, last_row: of the query tile, in its sequence. */
__device__ inline KeyRange visible_keys(int64_t first_row, int64_t last_row, int32_t length_q, int32_t length_k)
{
    int64_t begin = 0;
    int64_t end = length_k;
    const int64_t offset = key_offset(length_q, length_k);
    const int64_t behind_rightmost = last_row + offset + kWindowRight + 1;
    end = behind_rightmost < end ? behind_rightmost : end;
    if (end <= begin) {
        return {0, 0};
    }
    return {static_cast<int32_t>(begin), static_cast<int32_t>(end)};
}

/* Whether some pair of the query tile and the key tile at `key` is hidden. */
__device__ inline bool tile_needs_mask(int64_t first_row, int64_t last_row, int64_t offset, int32_t key)
{
    bool needs_mask = false;
    needs_mask = needs_mask || key + kBlockN - 1 > first_row + offset + kWindowRight;
    return needs_mask;
}

/* aligned_row: position of the query among the keys, i + offset. */
__device__ inline bool is_visible(int64_t aligned_row, int64_t key)
{
    bool visible = true;
    visible = visible && key <= aligned_row + kWindowRight;
    return visible;
}

/* Zeroes the hidden ones of two packed elements of P at keys `key` and `key + 1`. */
__device__ inline uint32_t hide(uint32_t packed, int64_t aligned_row, int64_t key)
{
    const uint32_t low = is_visible(aligned_row, key) ? 0x0000ffffu : 0;
    const uint32_t high = is_visible(aligned_row, key + 1) ? 0xffff0000u : 0;
    return packed & (low | high);
}

// ---- templates/mask_queries.cuh
/*
 * Visibility as the backward asks for it: which queries see a key. See templates/mask.cuh.
 */

/* The queries that see any key of a key tile, [begin, end); begin >= end: none. */
struct QueryRange {
    int32_t begin;
    int32_t end;
};

/* first_key, last_key: of the key tile, in its sequence. */
__device__ inline QueryRange visible_queries(int64_t first_key, int64_t last_key, int32_t length_q, int32_t length_k)
{
    int64_t begin = 0;
    int64_t end = length_q;
    const int64_t offset = key_offset(length_q, length_k);
    const int64_t first_seeing = first_key - offset - kWindowRight;
    begin = first_seeing > 0 ? first_seeing : 0;
    if (end <= begin || last_key < first_key) {
        return {0, 0};
    }
    return {static_cast<int32_t>(begin), static_cast<int32_t>(end)};
}

/*
 * distance: from a key to where a query stands among the keys, i + offset - j. Between rows and keys that exist it lies within +-(2^31 - 2^16),
 * and a tile does not add 2^16: 32 bits do.
 */
__device__ inline bool is_visible_at(int32_t distance)
{
    bool visible = true;
    visible = visible && distance >= -kWindowRight;
    return visible;
}

/* Zeroes the hidden ones of two packed elements of P^T at one key: those of a query at `distance` and of the next one. */
__device__ inline uint32_t hide_queries(uint32_t packed, int32_t distance)
{
    const uint32_t low = is_visible_at(distance) ? 0x0000ffffu : 0;
    const uint32_t high = is_visible_at(distance + 1) ? 0xffff0000u : 0;
    return packed & (low | high);
}

/* The same of P: those of a query at a key at `distance` and at the next key. */
__device__ inline uint32_t hide_next_key(uint32_t packed, int32_t distance)
{
    const uint32_t low = is_visible_at(distance) ? 0x0000ffffu : 0;
    const uint32_t high = is_visible_at(distance - 1) ? 0xffff0000u : 0;
    return packed & (low | high);
}

// ---- templates/bwd_message_sm90.cuh
/*
 * The message about a key tile of the Hopper backward, as the scout leaves it to the producer: where the tile is, which queries it meets, and
 * which blocks share it.
 */

/* By one thread, but for what says otherwise. */
struct Messages {
    Shared shared;
    const gdpa_bwd_params *params;
    const gdpa_bwd_order *order;

    /* The query tiles that a key tile has to meet. */
    __device__ QueryTiles find_queries(int32_t first_key, int32_t valid_keys, int32_t length_q, int32_t length_k) const
    {
        QueryRange range = visible_queries(first_key, first_key + valid_keys - 1, length_q, length_k);
        if (writes_queries(*params)) { // rows that see no key get their zeros here, too
            range = {0, length_q};
        }
        QueryTiles queries;
        queries.first = range.begin / kBlockM;
        queries.end = (range.end + kBlockM - 1) / kBlockM;
        queries.start = queries.first;
        return queries;
    }

    /* By one thread: the message of a key tile. */
    __device__ void write_message(const GradientTile &place, const Sequence &q, const Sequence &k) const
    {
        const gdpa_bwd_params &common = *params;
        const uint32_t work = shared.found();
        const int32_t first_key = static_cast<int32_t>(place.first_row);
        const int32_t keys_left = k.length - first_key;
        const int32_t valid_keys = keys_left < kBlockN ? keys_left : kBlockN;
        const QueryTiles queries = find_queries(first_key, valid_keys, q.length, k.length);
        const int64_t key_row = k.first_row + first_key;
        st_shared_b64(work + kWorkOffsetK, place.batch * common.dk_stride_batch + key_row * common.dk_stride_row +
                                               place.head * common.dk_stride_head);
        st_shared_b64(work + kWorkOffsetV, place.batch * common.dv_stride_batch + key_row * common.dv_stride_row +
                                               place.head * common.dv_stride_head);
        st_shared_b64(work + kWorkSumBlock, first_sum_block(common, place.batch, q.first_row));
        write_word(work + kWorkFirstKey, first_key);
        write_word(work + kWorkValidKeys, valid_keys);
        write_word(work + kWorkLengthQ, q.length);
        write_word(work + kWorkLengthK, k.length);
        write_word(work + kWorkFirstTile, queries.first);
        write_word(work + kWorkEndTile, queries.end);
        write_word(work + kWorkStartTile, queries.start);
        write_word(work + kWorkHeadK, place.head);
        write_word(work + kWorkRowQ, static_cast<int32_t>(q.first_row));
        write_word(work + kWorkRowK, static_cast<int32_t>(k.first_row));
        write_word(work + kWorkBatchQ, common.cu_seqlens_q == nullptr ? place.batch : 0);
        write_word(work + kWorkBatchK, common.cu_seqlens_k == nullptr ? place.batch : 0);
    }

    /* By one thread: nobody shares the tile. */
    __device__ void write_whole() const
    {
        const uint32_t work = shared.found();
        write_word(work + kWorkPieces, 1);
        write_word(work + kWorkPiece, 0);
        st_shared_b64(work + kWorkRecords, 0);
        st_shared_b64(work + kWorkArrived, 0);
    }

    __device__ void write_piece(int64_t) const
    {
        write_whole();
    }
};

// ---- templates/bwd_scout_sm90.cuh
/*
 * The warp of the Hopper backward that finds work: a key tile ahead of the producer, to which it leaves a message.
 *
 * Where there is a counter in the workspace, numbers are claimed from it when they are needed, so that blocks with little work take more of them.
 * Else block b takes b, b + grid, ... Numbers are those of tiles; but where all tiles cost the same, and the last round has some for few blocks
 * only, each of these has a number for each of several pieces, which are some of the queries, and blocks share it (Store::collect).
 *
 * With a schedule of the caller numbers are places in its list of keys (bwd_list_sm90.cuh). They are drawn from a counter of the schedule, so
 * that the workspace needs none, or go there and back through the rounds of the grid; no tile is shared.
 */

/* Called by one whole warp. */
struct Scout : Messages {
    uint32_t found = 0; // messages, counted

    /* The message is complete. By the whole warp. */
    __device__ void announce()
    {
        bar_warp_sync();
        if (lane() == 0) {
            mbarrier_arrive(shared.found_full());
        }
        ++found;
    }

    /* Leaves a message about a tile, if there is anything to do in it. `number` says which piece of it, where there are pieces. */
    __device__ void visit(const GradientTile &place, int64_t number)
    {
        const gdpa_bwd_params &common = *params;
        if (place.batch < 0) {
            return;
        }
        const Sequence k = find_sequence(common.cu_seqlens_k, common.seqused_k, common.rows_k, place.batch);
        if (place.first_row >= k.length && !writes_queries(common)) {
            return;
        }
        const Sequence q = find_sequence(common.cu_seqlens_q, common.seqused_q, common.rows_q, place.batch);
        if (lane() == 0) {
            write_message(place, q, k);
            write_piece(number);
        }
        announce();
    }

    __device__ static uint32_t lane()
    {
        return tid_x() % 32;
    }

    /* What a block has drawn no other one can take, so none is drawn before it is asked for. */
    __device__ void follow_list()
    {
        KeyList list = {params, order};
        const PlaceCounter counter = {order->schedule + kScheduleBackwardCounters};
        const uint32_t places = list.places();
        uint32_t place = ctaid_x();
        while (place < places) {
            visit(list.find(place), place);
            wait_for_question();
            place = shfl_sync_idx(counter.draw(), 0);
        }
        if (lane() == 0) {
            counter.finish();
        }
    }

    /* Until the producer has taken the message before. */
    __device__ void wait_for_question() const
    {
        mbarrier_wait_parity(shared.found_empty(), found % 2 ^ 1);
    }

    __device__ void run()
    {
        follow_list();
        wait_for_question();
        if (lane() == 0) {
            write_word(shared.found() + kWorkValidKeys, -1);
        }
        announce();
    }
};

// ---- templates/activation/packed_pair/gelu.cuh
/*
 * gelu: Phi(x) as 1/2 (1 + tanh(u)), u of degree 5. u' (1 - t^2) would not be close enough to the density; a polynomial of its own in the place of u'
 * is. Both were fitted together, weighted with the bounds of activations.def less what the tanh is off: 0.86 of that is used. 10 operations and 1
 * special function.
 */

constexpr int kPairOperations = 10; // of fp32, for one score
constexpr float kReach = 6.0f;      // t is 1 there
__device__ constexpr float kArgument[] = {4.780135631561279f, 8.102730751037598f, -3.051765203475952f};
__device__ constexpr float kRise[] = {4.783950328826904f, 24.000648498535156f, -13.194168090820312f};

/* u and what stands for x u' / y, for x = kReach y. Beyond 1 u goes on as a straight line, the other one stays. */
__device__ inline void find_argument(float y, float &argument, float &rise)
{
    const float square = fma_rn_sat_f32(y, y, 0.0f);
    argument = y * fma_rn_f32(fma_rn_f32(kArgument[2], square, kArgument[1]), square, kArgument[0]);
    rise = fma_rn_f32(fma_rn_f32(kRise[2], square, kRise[1]), square, kRise[0]);
}

// ---- templates/activation/packed_pair/through_tanh.cuh
/*
 * Activations of the form f(x) = x/2 (1 + t), t = tanh(u(x)) with an odd polynomial u: f' = 1/2 (1 + t + x u' (1 - t^2)).
 *
 * A file that includes this one defines kReach and find_argument, which gives u and the quotient x u' / y of y = x / kReach. P is y (1 + t) and the slope
 * 2 f' - 1; what is missing to both of them, kReach/2 and 1/2, is in the epilogue. Neither is larger than f and f', so fp16 has the range for them, too.
 *
 * As P (1 - t) = y (1 - t^2), the slope needs no product of y of its own. Where t is -1, P is exactly 0, and so is that product where t is 1.
 *
 * The tanh of a Hopper is within 9/8 2^-17 everywhere (tests/gpu/test_tanh.c tries all arguments), where the manual promises 2^-11: that keeps the bound of
 * the exact functions.
 */

struct PairConstants {
    float reach;           // of a raw score
    float inner;           // of dP
    float weight_epilogue; // of dV
    float slope_epilogue;  // of dQ and dK
};

__device__ inline PairConstants pair_constants(const gdpa_bwd_params &params)
{
    const GradientFactors factors = gradient_factors(params);
    return {params.scale / kReach, factors.inner, 0.5f * kReach * params.out_scale, 0.5f * factors.outer};
}

__device__ inline void value_and_slope(float score, const PairConstants &constants, float &value, float &slope)
{
    const float y = score * constants.reach;
    float argument, rise;
    find_argument(y, argument, rise);
    const float t = tanh_approx_f32(argument);
    value = fma_rn_f32(y, t, y);
    slope = fma_rn_f32(rise, fma_rn_f32(-value, t, value), t);
}

__device__ inline void packed_pair(float score0, float score1, const PairConstants &constants, uint32_t &weights,
                                   uint32_t &slopes)
{
    float values[2];
    float both[2];
    value_and_slope(score0, constants, values[0], both[0]);
    value_and_slope(score1, constants, values[1], both[1]);
    weights = pack_input(values[0], values[1]);
    slopes = pack_input(both[0], both[1]);
}

__device__ inline uint32_t packed_gradient(uint32_t slopes, float product0, float product1,
                                           const PairConstants &constants)
{
    const uint32_t products = pack_input(product0, product1);
    return packed_fma(slopes, products, products); // the slopes are 2 f' - 1
}

// ---- templates/ptx/stmatrix.cuh
/*
 * Stores of 8x8 matrices of 16-bit elements, four at a time: the inverse of ldmatrix_x4. PTX ISA, "stmatrix" (sm_90).
 */

__device__ inline void stmatrix_x4(uint32_t address, uint32_t m0, uint32_t m1, uint32_t m2, uint32_t m3)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(m0), "r"(m1),
                 "r"(m2), "r"(m3)
                 : "memory");
}

// ---- templates/ptx/fresh_registers.cuh
/*
 * %tid, read anew each time: what is computed of it is not kept in registers from one use to the next, however far apart. PTX ISA, "Special Registers".
 */

__device__ inline uint32_t fresh_tid_x()
{
    uint32_t value;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(value));
    return value;
}

// ---- templates/ptx/global_order.cuh
/*
 * Global memory in which blocks of one launch exchange sums. PTX ISA, "membar", "fence", "ld".
 */

/* Order for relaxed accesses on both sides of it, also those of other threads that barriers have told this one of. */
__device__ inline void fence_acq_rel_gpu()
{
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
}

/* From where reductions take place, past the caches of the SM. The address is aligned to 16 bytes. */
__device__ inline void ld_global_relaxed_v4_f32(float (&value)[4], const float *address)
{
    asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(value[0]), "=f"(value[1]), "=f"(value[2]), "=f"(value[3])
                 : "l"(address)
                 : "memory");
}

// ---- templates/bwd_collect_sm90.cuh
/*
 * Tiles of the Hopper backward that several blocks have, each with some of the queries: how their sums of dK and dV come together.
 */

/* A tile that several blocks have. */
struct SharedTile {
    int32_t pieces;
    int32_t piece;
    float *records;
    uint32_t *arrived;
};

struct Collect : Products {
    /* A thread's sums to where the block that is last reads them. */
    template <int kSums> __device__ static void give(const float (&sums)[kSums], float *place)
    {
#pragma unroll
        for (int i = 0; i < kSums; i += 4) {
            const uint32_t words[4] = {float_as_bits(sums[i]), float_as_bits(sums[i + 1]), float_as_bits(sums[i + 2]),
                                       float_as_bits(sums[i + 3])};
            st_global_v4_b32(place + i * 32, words);
        }
    }

    template <int kSums> __device__ static void add(float (&sums)[kSums], const float *place)
    {
#pragma unroll
        for (int i = 0; i < kSums; i += 4) {
            float four[4];
            ld_global_relaxed_v4_f32(four, place + i * 32);
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                sums[i + j] += four[j];
            }
        }
    }

    template <int kSums> __device__ static void clear(float (&sums)[kSums])
    {
#pragma unroll
        for (int i = 0; i < kSums; ++i) {
            sums[i] = 0.0f;
        }
    }

    /*
     * Of a tile that several blocks have, each with some of the queries: the warp that comes last of its likes gets the sums of all, added in the
     * order of the pieces, so that they have the same bits on every run. False for the others.
     */
    __device__ bool collect(float (&key_sums)[kKeySums], float (&value_sums)[kValueSums], const SharedTile &tile) const
    {
        const uint32_t thread = fresh_tid_x() % kWarpgroupThreads;
        const uint32_t warp = number * 4 + thread / 32;
        float *place = tile.records + warp * kRecordOfWarp + thread % 32 * 4;
        give(key_sums, place + tile.piece * kRecord);
        give(value_sums, place + tile.piece * kRecord + 32 * kKeySums);
        bar_warp_sync();
        uint32_t before = 0;
        if (thread % 32 == 0) {
            fence_acq_rel_gpu();
            before = atom_global_add_u32(tile.arrived + warp, 1);
            fence_acq_rel_gpu();
        }
        before = shfl_sync_idx(before, 0);
        bar_warp_sync();
        if (static_cast<int32_t>(before) + 1 < tile.pieces) {
            return false;
        }
        clear(key_sums);
        clear(value_sums);
#pragma unroll 1
        for (int32_t piece = 0; piece < tile.pieces; ++piece) {
            add(key_sums, place);
            add(value_sums, place + 32 * kKeySums);
            place += kRecord;
        }
        return true;
    }
};

// ---- templates/bwd_store_sm90.cuh
/*
 * How gradients leave a consumer warpgroup of the Hopper backward: parts of dQ as reductions, whole ones through shared memory.
 */

/*
 * Cheap activations want dP early, under the second half of them, and reductions without a branch for each; where one is dear, or a step has 128
 * queries, the reductions need all of the activations to be spread between, and branches that hold them there.
 */
constexpr bool kEarlyOutputs = kBlockM == 64 && kPairOperations <= 4;

/* Where a thread's part of the dQ of a step is added to the sums: nowhere, or in blocks of 16 columns from here on. */
struct SumTarget {
    float *place;
    bool upper; // whether its row of the upper 8 exists
    bool lower;
};

using StoreBase = Collect;

struct Store : StoreBase {
    /* Each warp has 16 rows of the query tile, and in them blocks of 16 columns. */
    __device__ SumTarget find_sums(uint32_t step) const
    {
        const uint32_t note = shared.note(step);
        const int32_t row = share_row();
        const int32_t valid_rows = params->dq_sum != nullptr ? read_word(note + kNoteValidRows) : 0;
        float *const place = params->dq_sum + ld_shared_b64(note + kNoteOffset) +
                             row / 16 * (params->heads_q * static_cast<int64_t>(16 * kSumColumns)) +
                             first_share_column() * 16 + lane() * 4;
        if (kEarlyOutputs) { // the same for the warp: a block has room for all of its 16 rows
            const int32_t warp_row = static_cast<int32_t>(shfl_sync_idx(row, 0));
            const bool exists = params->dq_sum != nullptr && warp_row < read_uniform_word(note + kNoteValidRows);
            return {place, exists, exists};
        }
        return {place, row < valid_rows, row + 8 < valid_rows};
    }

    /* Adds a block of 16 columns. */
    __device__ void add_columns(const float (&sums)[kQuerySums], const SumTarget &target, int block) const
    {
        if (first_share_column() + block * 16 >= kSumColumns) {
            return;
        }
        const float upper[4] = {sums[8 * block], sums[8 * block + 1], sums[8 * block + 4], sums[8 * block + 5]};
        const float lower[4] = {sums[8 * block + 2], sums[8 * block + 3], sums[8 * block + 6], sums[8 * block + 7]};
        if (target.upper) {
            add_four(target.place + block * kSumBlock, upper);
        }
        if (target.lower) {
            add_four(target.place + block * kSumBlock + kSumBlock / 2, lower);
        }
    }

    /* All keys of the sequence are in this tile: dQ is complete. */
    __device__ void write_queries(const float (&sums)[kQuerySums], uint32_t step, float factor) const
    {
        const uint32_t note = shared.note(step);
        const int32_t first_row = static_cast<int32_t>(first_share_row() + tid_x() % kWarpgroupThreads / 32 * 16);
        // Not one more: those behind are the other warpgroup's.
        const int32_t left = kHeadDim - static_cast<int32_t>(first_share_column());
        const int32_t columns = left < kShareColumns ? left : kShareColumns;
        Gradient *const target = static_cast<Gradient *>(params->dq) + ld_shared_b64(note + kNoteOffset) +
                                 first_row * params->dq_stride_row + first_share_column();
        store_columns(sums, 0, target, params->dq_stride_row, read_word(note + kNoteValidRows) - first_row, columns,
                      factor);
    }

    /*
     * 64 columns, or as many as there are, of the warp's 16 rows of a gradient, as far as they exist. target: row and column 0 of them.
     */
    template <int kSums>
    __device__ void store_columns(const float (&sums)[kSums], int first_sum, Gradient *target, int64_t row_stride,
                                  int32_t valid_rows, int32_t columns, float factor) const
    {
        stage(sums, first_sum, factor, true);
        bar_warp_sync();
#pragma unroll
        for (int i = 0; i < 4; ++i) { // 4 rows of 8 units of 16 bytes
            const uint32_t row = i * 4 + lane() / 8;
            const uint32_t unit = lane() % 8;
            if (static_cast<int32_t>(row) < valid_rows && static_cast<int32_t>(unit) * 8 < columns) {
                uint32_t words[4];
                ld_shared_v4_b32(words, staging_address(row, unit, true));
                st_global_v4_b32(target + row * row_stride + unit * 8, words);
            }
        }
        bar_warp_sync();
    }

    /* Of the warp's own rows: with the swizzle of the copy engine, which spares bank conflicts, or a row as it is. */
    __device__ uint32_t staging_address(uint32_t row, uint32_t unit, bool swizzled) const
    {
        const uint32_t rows = tid_x() % kWarpgroupThreads / 32 * 16;
        return shared.staging(number) + (rows + row) * 128 + ((unit ^ (swizzled ? row % 8 : 0)) << 4);
    }

    template <int kSums>
    __device__ void stage(const float (&sums)[kSums], int first_sum, float factor, bool swizzled) const
    {
#pragma unroll
        for (int n = 0; n < kChunkColumns / 16; ++n) { // 16 columns
            uint32_t packed[4] = {0, 0, 0, 0};
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int sum = first_sum + 8 * n + 2 * i;
                if (sum < kSums) {
                    packed[i] = pack_output(scale_output(sums[sum], factor), scale_output(sums[sum + 1], factor));
                }
            }
            stmatrix_x4(staging_address(lane() % 16, 2 * n + lane() / 16, swizzled), packed[0], packed[1], packed[2], packed[3]);
        }
    }

    /* dK or dV of the warp's keys. target: key 0 of the tile. */
    template <int kColumns, int kSums>
    __device__ void store_sums(const float (&sums)[kSums], Gradient *target, int64_t row_stride, int32_t valid_keys,
                               float factor) const
    {
        const int32_t first_key = static_cast<int32_t>(warp_key());
#pragma unroll
        for (int column = 0; column < kColumns; column += kChunkColumns) {
            store_columns(sums, column / 2, target + first_key * row_stride + column, row_stride,
                          valid_keys - first_key, kColumns - column, factor);
        }
    }

    /* dK and dV of the tile. */
    __device__ void store(float (&key_sums)[kKeySums], float (&value_sums)[kValueSums], uint32_t work,
                          const PairConstants &constants) const
    {
        const SharedTile tile = {read_uniform_word(work + kWorkPieces), read_uniform_word(work + kWorkPiece),
                                 reinterpret_cast<float *>(ld_shared_b64(work + kWorkRecords)),
                                 reinterpret_cast<uint32_t *>(ld_shared_b64(work + kWorkArrived))};
        const int32_t valid_keys = read_uniform_word(work + kWorkValidKeys);
        Gradient *const dk = static_cast<Gradient *>(params->dk) + ld_shared_b64(work + kWorkOffsetK);
        Gradient *const dv = static_cast<Gradient *>(params->dv) + ld_shared_b64(work + kWorkOffsetV);
        mbarrier_arrive(shared.of_values().empty); // V and the message have been read
        if (tile.pieces > 1 && !collect(key_sums, value_sums, tile)) {
            return;
        }
        if (params->dv != nullptr) {
            store_sums<kHeadDimV>(value_sums, dv, params->dv_stride_row, valid_keys, constants.weight_epilogue);
        }
        if (params->dk != nullptr) {
            store_sums<kHeadDim>(key_sums, dk, params->dk_stride_row, valid_keys, constants.slope_epilogue);
        }
    }
};

// ---- templates/bwd_mask_sm90.cuh
/*
 * Masks of the Hopper backward: which steps hide something from a warpgroup, and how pairs are zeroed.
 */

struct Mask : Store {
    /* Zeroes the hidden pairs. Bounds are queries of the tile, relative to the thread's first one. */
    __device__ void hide(uint32_t (&pairs)[kQuerySteps][4], uint32_t work, int32_t query_tile) const
    {
        const int64_t offset = key_offset(read_uniform_word(work + kWorkLengthQ), read_uniform_word(work + kWorkLengthK));
        const int64_t first_query = static_cast<int64_t>(query_tile) * kBlockM + lane() % 4 * 2;
#pragma unroll
        for (int half = 0; half < 2; ++half) { // the upper and the lower 8 keys of the warp's 16
            const int64_t key = read_uniform_word(work + kWorkFirstKey) + warp_key() + lane() / 4 + half * 8;
            const int32_t low = clamp_to_tile(key - kWindowRight - offset - first_query);
#pragma unroll
            for (int pair = 0; pair < kQuerySteps * 2; ++pair) {
                const int32_t column = pair * 8;
                bool left = true;
                bool right = true;
                left = left && column >= low;
                right = right && column + 1 >= low;
                pairs[pair / 2][pair % 2 * 2 + half] &= (left ? 0x0000ffffu : 0) | (right ? 0xffff0000u : 0);
            }
        }
    }

    __device__ static int32_t clamp_to_tile(int64_t query)
    {
        return static_cast<int32_t>(query < -1 ? -1 : query > kBlockM ? kBlockM : query);
    }

    /* The query tiles of which every row sees all keys of the warpgroup, [first, end). */
    __device__ void find_plain_tiles(uint32_t work, int32_t &first, int32_t &end) const
    {
        const int64_t offset = key_offset(read_uniform_word(work + kWorkLengthQ), read_uniform_word(work + kWorkLengthK));
        const int64_t first_key = read_uniform_word(work + kWorkFirstKey) + static_cast<int64_t>(number) * 64;
        first = 0;
        end = read_uniform_word(work + kWorkEndTile);
        const int64_t first_row = first_key + 63 - kWindowRight - offset;
        first = first_row <= 0 ? 0 : clamp_tile((first_row + kBlockM - 1) / kBlockM, end);
    }

    __device__ static int32_t clamp_tile(int64_t tile, int32_t highest)
    {
        return static_cast<int32_t>(tile < highest ? tile : highest);
    }
};

// ---- templates/bwd_step_sm90.cuh
/*
 * The parts of a step of the Hopper backward: the activation, the products that come first, and dS on its way to both warpgroups. Their
 * order is in bwd_sm90.cuh.
 */

/* Of the activations of a step, 16 queries each, how many run while dQ is made, and how many while dP is. */
constexpr int kBefore = kEarlyOutputs ? kQuerySteps / 4 : 0;
constexpr int kUnderOutputs = kEarlyOutputs ? kQuerySteps / 2 : 0;

/* Without reductions dear activations are no shorter than dK: its queries, which come from memory, are given back before dP. */
constexpr bool kReleasesEarly = kWhole && !kEarlyOutputs;

struct Step : Mask {
    uint32_t now = 0; // the step, counted over all tiles

    /* P and the slopes f' of the scores, packed as left operands, 16 queries at a time. */
    __device__ static void activate(uint32_t (&weights)[4], uint32_t (&slopes)[4], const float (&scores)[kScores],
                                    int step, const PairConstants &constants)
    {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            packed_pair(scores[8 * step + 2 * i], scores[8 * step + 2 * i + 1], constants, weights[i], slopes[i]);
        }
        tie(weights);
        tie(slopes);
    }

    /* dS = f'(S) dP. */
    __device__ static void apply_slopes(uint32_t (&score_gradients)[kQuerySteps][4],
                                        const uint32_t (&slopes)[kQuerySteps][4], const float (&gradients)[kScores],
                                        const PairConstants &constants)
    {
#pragma unroll
        for (int step = 0; step < kQuerySteps; ++step) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                score_gradients[step][i] = packed_gradient(slopes[step][i], gradients[8 * step + 2 * i],
                                                           gradients[8 * step + 2 * i + 1], constants);
            }
            tie(score_gradients[step]);
        }
    }

    /* dS where both warpgroups read it: [keys][queries], a row of 128 bytes. */
    __device__ void stage_scores(const uint32_t (&scores)[kQuerySteps][4], uint32_t place) const
    {
        const uint32_t row = warp_key() + lane() % 16;
#pragma unroll
        for (int step = 0; step < kQuerySteps; ++step) {
            const uint32_t unit = 2 * step + lane() / 16;
            const uint32_t chunk = place + step / 4 * (kBlockN * 128);
            stmatrix_x4(chunk + row * 128 + ((unit % 8 ^ row % 8) << 4), scores[step][0], scores[step][1],
                        scores[step][2], scores[step][3]);
        }
    }

    /* dS of both warpgroups in a step: this one's threads meet here, long after they wrote it. */
    __device__ void wait_for_scores(uint32_t step) const
    {
        bar_sync(scores_barrier(number ^ 1, step), kConsumers * kWarpgroupThreads);
    }

    /* Asks for dQ of a step. */
    __device__ void multiply_query_sums(float (&query_sums)[kQuerySums], uint32_t step) const
    {
        wait_for_scores(step);
        wgmma_fence();
        multiply_keys(query_sums, shared.scores(step), share_of_keys(), false);
        wgmma_commit_group();
    }

    /* Asks for S, dQ of two steps before and dK of the one before, a group each. */
    template <int kBehind, bool kAddsQueries>
    __device__ void multiply_first(float (&scores)[kScores], float (&query_sums)[kQuerySums],
                                   float (&key_sums)[kKeySums], const uint32_t (&score_gradients)[kQuerySteps][4]) const
    {
        const RingPlace<kQueryStages> place = {now};
        const RingPlace<kQueryStages> place_before = {now - 1};
        mbarrier_wait_parity(shared.of_queries(place.slot()).full, place.phase());
        wgmma_fence();
        multiply_scores(scores, shared.queries(place.slot()));
        wgmma_commit_group();
        if (kAddsQueries) {
            multiply_query_sums(query_sums, now - 2);
        }
        if (kBehind > 0) {
            add_products(key_sums, score_gradients, shared.queries(place_before.slot()), kBehind > 1);
            wgmma_commit_group();
        }
    }

    /* dQ of two steps before has been made. */
    __device__ void receive_queries(float (&query_sums)[kQuerySums], const PairConstants &constants)
    {
        tie(query_sums);
        if (kScoreSlots == 3) {
            bar_arrive(read_barrier(number, now), kConsumers * kWarpgroupThreads);
        }
        if (writes_queries(*params)) {
            write_queries(query_sums, now - 2, constants.slope_epilogue);
        }
    }

    /* dS to where both warpgroups read it two steps later. */
    template <int kBehind>
    __device__ void pass_scores(const uint32_t (&score_gradients)[kQuerySteps][4], int32_t number_in_tile) const
    {
        if (kScoreSlots == 3 && kBehind == 2 && number_in_tile > 2) { // the slot was that of the step three before
            bar_sync(read_barrier(number ^ 1, now - 1), kConsumers * kWarpgroupThreads);
        }
        stage_scores(score_gradients, shared.scores(now));
        fence_proxy_async_shared();
        bar_arrive(scores_barrier(number, now), kConsumers * kWarpgroupThreads);
    }
};

// ---- templates/bwd_steps_sm90.cuh
/*
 * The steps of a tile of keys in the Hopper backward, of one consumer warpgroup: their order is told in bwd_sm90.cuh.
 */

struct Steps : Step {
    /*
     * One step. kBehind: how many steps of the tile lie behind it, 2 standing for more. The first two are instances of their own, since
     * products that are issued or not by a run-time condition would be serialised by the compiler; and so are those with something to hide, whose
     * code would take registers from the others. kMakesQueries: whether the warpgroup makes dQ of such steps.
     */
    template <int kBehind, bool kHides, bool kMakesQueries>
    __device__ void step(float (&key_sums)[kKeySums], float (&value_sums)[kValueSums],
                         uint32_t (&score_gradients)[kQuerySteps][4], const Values &values, uint32_t work,
                         int32_t number_in_tile, int32_t query_tile, const PairConstants &constants)
    {
        constexpr bool kAddsQueries = kBehind == 2 && kSumsQueries && kMakesQueries;
        float scores[kScores];
        float query_sums[kQuerySums];
        const RingPlace<kOutputStages> output_place = {now};
        const uint32_t outputs = shared.outputs(output_place.slot());
        multiply_first<kBehind, kAddsQueries>(scores, query_sums, key_sums, score_gradients);
        SumTarget target = {};
        if (kAddsQueries && !kWhole) {
            target = find_sums(now - 2);
        }
        uint32_t weights[kQuerySteps][4];
        uint32_t slopes[kQuerySteps][4];
        if (kBefore > 0) {
            wgmma_wait_group<(kAddsQueries ? 1 : 0) + (kBehind > 0 ? 1 : 0)>();
            tie(scores);
        }
#pragma unroll
        for (int i = 0; i < kBefore; ++i) {
            activate(weights[i], slopes[i], scores, i, constants);
        }
        if (kSumsQueries) {
            mbarrier_wait_parity(shared.of_outputs(output_place.slot()).full, output_place.phase());
        }
        wgmma_wait_group<(kBehind > 0 ? 1 : 0)>();
        tie(scores);
        if (kAddsQueries) {
            receive_queries(query_sums, constants);
        }
        constexpr int kUnder = kHides ? 0 : kUnderOutputs; // all that is hidden is hidden before dP
#pragma unroll
        for (int block = 0; kAddsQueries && !kWhole && kEarlyOutputs && block < kShareBlocks; ++block) {
            add_columns(query_sums, target, block);
        }
#pragma unroll
        for (int i = kBefore; i < kQuerySteps - kUnder; ++i) {
            activate(weights[i], slopes[i], scores, i, constants);
            // Reductions between the activations: a burst of them would wait for its way out of the SM.
            if (kAddsQueries && !kWhole && !kEarlyOutputs && i < kShareBlocks) {
                add_columns(query_sums, target, i);
            }
        }
        if (kHides) {
            hide(weights, work, query_tile);
        }
        if (!kSumsQueries) {
            mbarrier_wait_parity(shared.of_outputs(output_place.slot()).full, output_place.phase());
        }
        if (kReleasesEarly && kBehind > 0) {
            wgmma_wait_group<0>();
            tie(key_sums);
            const RingPlace<kQueryStages> place_before = {now - 1};
            release_tile(shared.of_queries(place_before.slot()).empty);
        }
        float gradients[kScores];
        wgmma_fence();
        multiply_outputs(gradients, values, outputs);
        wgmma_commit_group();
        if (kUnder > 0) { // they are there; but ptxas moves no activation up across a loop
            mbarrier_wait_parity(shared.of_outputs(output_place.slot()).full, output_place.phase());
        }
#pragma unroll
        for (int i = kQuerySteps - kUnder; i < kQuerySteps; ++i) {
            activate(weights[i], slopes[i], scores, i, constants);
        }
        if (kUnder > 0) { // P has changed since
            wgmma_fence();
        }
        add_products(value_sums, weights, outputs, kBehind > 0);
        wgmma_commit_group();
        wgmma_wait_group<1>();
        tie(gradients);
        if (!kReleasesEarly && kBehind > 0) {
            tie(key_sums);
            const RingPlace<kQueryStages> place_before = {now - 1};
            release_tile(shared.of_queries(place_before.slot()).empty);
        }
        apply_slopes(score_gradients, slopes, gradients, constants);
        if (kHides) {
            hide(score_gradients, work, query_tile);
        }
        if (kSumsQueries) {
            pass_scores<kBehind>(score_gradients, number_in_tile);
        }
        wgmma_wait_group<0>();
        tie(value_sums);
        release_tile(shared.of_outputs(output_place.slot()).empty);
        ++now;
    }

    /* Behind the last step: its dK, and dQ of the last two. */
    __device__ void drain(float (&key_sums)[kKeySums], const uint32_t (&score_gradients)[kQuerySteps][4], int32_t steps,
                          const PairConstants &constants)
    {
        const RingPlace<kQueryStages> place_before = {now - 1};
        float query_sums[kQuerySums];
        wgmma_fence();
        add_products(key_sums, score_gradients, shared.queries(place_before.slot()), steps > 1);
        wgmma_commit_group();
        wgmma_wait_group<0>();
        tie(key_sums);
        release_tile(shared.of_queries(place_before.slot()).empty);
        if (kScoreSlots == 3 && kSumsQueries && steps > 2) { // the last step has arrived there, too
            bar_sync(read_barrier(number ^ 1, now - 1), kConsumers * kWarpgroupThreads);
        }
        for (uint32_t step = now - (steps > 1 ? 2 : 1); kSumsQueries && step != now; ++step) {
            multiply_query_sums(query_sums, step);
            wgmma_wait_group<0>();
            tie(query_sums);
            if (writes_queries(*params)) {
                write_queries(query_sums, step, constants.slope_epilogue);
            }
            const SumTarget target = find_sums(step);
#pragma unroll
            for (int block = 0; block < kShareBlocks; ++block) {
                add_columns(query_sums, target, block);
            }
        }
    }

    /* Behind the first two. Paired, each warpgroup makes dQ of every other one. */
    template <bool kHides>
    __device__ void later_step(float (&key_sums)[kKeySums], float (&value_sums)[kValueSums],
                             uint32_t (&score_gradients)[kQuerySteps][4], const Values &values, uint32_t work,
                             int32_t number_in_tile, int32_t query_tile, const PairConstants &constants)
    {
        step<2, kHides, true>(key_sums, value_sums, score_gradients, values, work, number_in_tile, query_tile,
                              constants);
    }
};

// ---- templates/ptx/barrier.cuh
/*
 * Block-wide barrier. PTX ISA, "bar.sync".
 */

/* All threads of the block; orders their shared and global accesses. */
__device__ inline void bar_sync_0()
{
    asm volatile("bar.sync 0;" ::: "memory");
}

// ---- templates/ptx/setmaxnreg.cuh
/*
 * Registers moved between warpgroups. PTX ISA, "setmaxnreg" (sm_90a). All warps of a warpgroup execute it; the sum over the block
 * after it must not pass what the block had at entry.
 */

template <int kRegisters> __device__ inline void setmaxnreg_inc()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

template <int kRegisters> __device__ inline void setmaxnreg_dec()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// ---- templates/bwd_sm90.cuh
/*
 * Backward kernel for Hopper (sm_90a): copies by TMA, products by wgmma, one producer warpgroup and two consumer warpgroups.
 *
 * Blocks are persistent: each takes tiles of kBlockN keys of one (sequence, key head) until there are no more. A tile's K and V stay in shared
 * memory while the queries that see it pass by, kBlockM at a time, of all the heads of the group; each consumer owns 64 keys, whose sums of
 * dK and dV it holds in registers. Scores are transposed, keys by queries, so that P and dS come out of the accumulators as the left
 * operands of dV and dK:
 *
 *     step i    S = K Q^T           dQ = dS^T K of step i - 2      dK += dS Q of step i - 1
 *               P = f(S)
 *               dP = V dO^T         dV += P dO
 *               dS = f'(S) dP       to shared memory, for the other consumer
 *
 * dQ needs the dS of both consumers; each makes one half of its columns. Two steps behind, it never waits for the other one, and the products of
 * a step always have others beside them while its elements are worked on (docs/kernels.md).
 *
 * Paired, two blocks of a cluster take neighbouring tiles of keys, and each makes half of the columns of dQ for both (bwd_pair_sm90.cuh).
 */

struct Consumer : Steps {
    uint32_t tile = 0; // of keys, counted

    __device__ void key_tile(uint32_t work, const PairConstants &constants)
    {
        const int32_t steps = query_tiles(work).count() * params->heads_per_group;
        float key_sums[kKeySums];
        float value_sums[kValueSums];
        uint32_t score_gradients[kQuerySteps][4];
        mbarrier_wait_parity(shared.of_keys().full, tile % 2);
        mbarrier_wait_parity(shared.of_values().full, tile % 2);
        Values values;
        load_values(values);
        if (steps > 0) {
            const QueryTiles tiles = query_tiles(work);
            int32_t query_tile = tiles.start;
            int32_t plain_first, plain_end;
            find_plain_tiles(work, plain_first, plain_end);
            constexpr bool kMayHide = true; // the first two do not ask: a mask that hides nothing does no harm
            step<0, kMayHide, true>(key_sums, value_sums, score_gradients, values, work, 0, query_tile, constants);
            if (steps > 1) {
                query_tile = tiles.next(query_tile);
                step<1, kMayHide, true>(key_sums, value_sums, score_gradients, values, work, 1, query_tile, constants);
            }
            for (int32_t i = 2; i < steps; ++i) {
                query_tile = tiles.next(query_tile);
                if (query_tile < plain_first || query_tile >= plain_end) {
                    later_step<true>(key_sums, value_sums, score_gradients, values, work, i, query_tile, constants);
                    continue;
                }
                later_step<false>(key_sums, value_sums, score_gradients, values, work, i, query_tile, constants);
            }
            drain(key_sums, score_gradients, steps, constants);
        } else {
            zero(key_sums);
            zero(value_sums);
            // Steps keep the warps of a warpgroup together. Without any, one could fall a whole turn of the barriers behind.
            bar_sync(own_barrier(), kWarpgroupThreads);
        }
        release_tile(shared.of_keys().empty);
        store(key_sums, value_sums, work, constants);
    }

    template <int kSums> __device__ static void zero(float (&sums)[kSums])
    {
#pragma unroll
        for (int i = 0; i < kSums; ++i) {
            sums[i] = 0.0f;
        }
    }

    __device__ void run()
    {
        const PairConstants constants = pair_constants(*params);
        while (true) {
            mbarrier_wait_parity(shared.work_full(tile), tile / 2 % 2);
            const uint32_t work = shared.work(tile);
            if (read_uniform_word(work + kWorkValidKeys) < 0) {
                return;
            }
            key_tile(work, constants);
            ++tile;
        }
    }
};

extern "C" __global__
__launch_bounds__(kThreads, 1) void gdpa_bwd_sm90_d64_bf16_gelu_causal_jqjk_dynamic_c439d2e8(const __grid_constant__ gdpa_bwd_sm90_main_params params)
{
    const Shared shared = {dynamic_shared_base()};
    if (tid_x() == 0) {
        init_barriers(shared);
        prefetch_tensormap(&params.tiles.q_map);
        prefetch_tensormap(&params.tiles.k_map);
        prefetch_tensormap(&params.tiles.v_map);
        prefetch_tensormap(&params.tiles.dout_map);
    }
    bar_sync_0();
    const uint32_t warpgroup = shfl_sync_idx(tid_x() / kWarpgroupThreads, 0);
    if (warpgroup == 0) {
        setmaxnreg_dec<kProducerRegisters>();
        if (tid_x() < 32) {
            Producer producer = {shared, &params.tiles};
            producer.run();
        } else if (tid_x() < 64) {
            Repairer repairer = {shared, &params.tiles.common};
            repairer.run();
        } else if (tid_x() < 96) {
            Scout scout = {shared, &params.tiles.common, &params.order};
            scout.run();
        }
    } else {
        setmaxnreg_inc<kConsumerRegisters>();
        Consumer consumer;
        consumer.shared = shared;
        consumer.params = &params.tiles.common;
        consumer.number = warpgroup - 1;
        consumer.run();
    }
}

/* What the sums of dQ are multiplied by. */
__device__ inline float sums_factor(const gdpa_bwd_params &params)
{
    return pair_constants(params).slope_epilogue;
}

// ---- templates/bwd_convert.cuh
/*
 * The second kernel of a backward pass: dq = factor * the sums in dq_sum, rounded once. A block has kBlockM query rows of one
 * (sequence, head). The factor is sums_factor of the main kernel. Rows that saw no key have sums of 0; rows outside of every sequence are not written.
 */

extern "C" __global__ __launch_bounds__(kDqThreads) void gdpa_bwd_sm90_d64_bf16_gelu_causal_jqjk_dynamic_c439d2e8_dq(
    const __grid_constant__ gdpa_bwd_params params)
{
    const int64_t tile = block_number();
    if (tile >= params.num_query_tiles) {
        return;
    }
    const GradientTile work = find_query_tile(params, tile);
    if (work.batch < 0) {
        return;
    }
    const Sequence q = find_sequence(params.cu_seqlens_q, params.seqused_q, params.rows_q, work.batch);
    if (work.first_row >= q.length) {
        return;
    }
    const int32_t first_row = static_cast<int32_t>(work.first_row);
    const int32_t valid_rows = q.length - first_row < kBlockM ? q.length - first_row : kBlockM;
    const int64_t block = first_sum_block(params, work.batch, q.first_row) + first_row / 16;
    const float factor = sums_factor(params);
    const bool accumulate = params.accumulate != 0;
    Gradient *const dq = static_cast<Gradient *>(params.dq) + work.batch * params.dq_stride_batch +
                         (q.first_row + first_row) * params.dq_stride_row + work.head * params.dq_stride_head;
    constexpr uint32_t kBlockQuads = 16 * kSumColumns / 4; // of a block of 16 rows: four sums, two and two neighbours
    for (uint32_t index = tid_x(); index < (valid_rows + 15) / 16 * kBlockQuads; index += kDqThreads) {
        const uint32_t quad = index % kBlockQuads;
        const uint32_t row = index / kBlockQuads * 16 + quad % 64 / 4 % 8 + quad % 64 / 32 * 8;
        const uint32_t column = quad / 64 * 16 + quad % 4 * 2;
        if (row < static_cast<uint32_t>(valid_rows)) {
            float sums[4];
            ld_global_v4_f32(sums, sum_block(params, block + index / kBlockQuads, work.head) + quad * 4);
            Gradient *const place = dq + row * params.dq_stride_row + column;
            store_gradients(place, sums[0], sums[1], factor, accumulate);
            if (column + 8 < kHeadDim) {
                store_gradients(place + 8, sums[2], sums[3], factor, accumulate);
            }
        }
    }
}

