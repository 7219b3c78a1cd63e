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
#ifndef GDPA_BWD_LAYOUT_SM90_CUH
#define GDPA_BWD_LAYOUT_SM90_CUH

#include "config_default.cuh"
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

#endif
