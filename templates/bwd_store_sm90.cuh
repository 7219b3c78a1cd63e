/*
 * How gradients leave a consumer warpgroup of the Hopper backward: parts of dQ as reductions, whole ones through shared memory.
 */
#ifndef GDPA_BWD_STORE_SM90_CUH
#define GDPA_BWD_STORE_SM90_CUH

#include "bwd_products_sm90.cuh"
#include "bwd_work_sm90.cuh"
#include "config_default.cuh"
#include "gradient.cuh"
#include "packed_pair.cuh"
#include "params.h"
#include "ptx/global_memory.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/stmatrix.cuh"
#include "ptx/warp.cuh"
//@if stores_dq
#include "ptx/bulk_copy.cuh"
#include "ptx/bulk_group.cuh"
#include "ptx/fence.cuh"
#include "ptx/tma_store.cuh"
//@endif
//@if !deterministic
#include "bwd_collect_sm90.cuh"
#include "ptx/atomic.cuh"
//@endif

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

//@if deterministic
using StoreBase = Products;
//@else
using StoreBase = Collect;
//@endif

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

    //@if stores_dq
    /* Until the copy engine has read what the warp has staged of dQ. */
    __device__ void wait_for_stores() const
    {
        cp_async_bulk_wait_group_read<0>();
        bar_warp_sync();
    }

    /* By the copy engine: rows of a sequence's end one by one, since a box knows nothing of the rows behind them. */
    __device__ void store_rows(uint32_t note, int32_t first_row, int32_t valid_rows, int32_t columns) const
    {
        const int32_t row = first_row + static_cast<int32_t>(lane());
        const bool boxed = valid_rows >= 16;
        if (boxed && lane() == 0) {
            cp_async_bulk_tensor_4d_store(dq_map, staging_address(0, 0, true), static_cast<int32_t>(first_share_column()),
                                          read_word(note + kNoteRow) + row, read_word(note + kNoteHead),
                                          read_word(note + kNoteBatch));
        }
        if (!boxed && static_cast<int32_t>(lane()) < valid_rows) {
            cp_async_bulk_store(static_cast<Gradient *>(params->dq) + ld_shared_b64(note + kNoteOffset) +
                                    row * params->dq_stride_row + first_share_column(),
                                staging_address(lane(), 0, false), static_cast<uint32_t>(columns) * 2);
        }
        cp_async_bulk_commit_group();
    }

    //@endif
    /* All keys of the sequence are in this tile: dQ is complete. */
    __device__ void write_queries(const float (&sums)[kQuerySums], uint32_t step, float factor) const
    {
        const uint32_t note = shared.note(step);
        const int32_t first_row = static_cast<int32_t>(first_share_row() + tid_x() % kWarpgroupThreads / 32 * 16);
        // Not one more: those behind are the other warpgroup's.
        const int32_t left = kHeadDim - static_cast<int32_t>(first_share_column());
        const int32_t columns = left < kShareColumns ? left : kShareColumns;
        //@if stores_dq
        const int32_t valid_rows = read_uniform_word(note + kNoteValidRows) - first_row;
        wait_for_stores();
        stage(sums, 0, factor, valid_rows >= 16);
        fence_proxy_async_shared();
        bar_warp_sync();
        store_rows(note, first_row, valid_rows, columns);
        //@else
        Gradient *const target = static_cast<Gradient *>(params->dq) + ld_shared_b64(note + kNoteOffset) +
                                 first_row * params->dq_stride_row + first_share_column();
        store_columns(sums, 0, target, params->dq_stride_row, read_word(note + kNoteValidRows) - first_row, columns,
                      factor);
        //@endif
    }

    /*
     * 64 columns, or as many as there are, of the warp's 16 rows of a gradient, as far as they exist. target: row and column 0 of them.
     */
    template <int kSums>
    __device__ void store_columns(const float (&sums)[kSums], int first_sum, Gradient *target, int64_t row_stride,
                                  int32_t valid_rows, int32_t columns, float factor) const
    {
        //@if out_fp32
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int32_t row = static_cast<int32_t>(lane() / 4) + half * 8;
#pragma unroll
            for (int n = 0; n < kChunkColumns / 8; ++n) {
                const int sum = first_sum + 4 * n + 2 * half;
                if (sum < kSums && row < valid_rows && n * 8 < columns) {
                    store_gradients(target + row * row_stride + n * 8 + lane() % 4 * 2, sums[sum], sums[sum + 1],
                                    factor, params->accumulate != 0);
                }
            }
        }
        //@else
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
        //@endif
    }

    //@if !out_fp32
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
    //@endif

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
        //@if !deterministic
        const SharedTile tile = {read_uniform_word(work + kWorkPieces), read_uniform_word(work + kWorkPiece),
                                 reinterpret_cast<float *>(ld_shared_b64(work + kWorkRecords)),
                                 reinterpret_cast<uint32_t *>(ld_shared_b64(work + kWorkArrived))};
        //@endif
        const int32_t valid_keys = read_uniform_word(work + kWorkValidKeys);
        Gradient *const dk = static_cast<Gradient *>(params->dk) + ld_shared_b64(work + kWorkOffsetK);
        Gradient *const dv = static_cast<Gradient *>(params->dv) + ld_shared_b64(work + kWorkOffsetV);
        mbarrier_arrive(shared.of_values().empty); // V and the message have been read
        //@if stores_dq
        wait_for_stores();
        //@endif
        //@if !deterministic
        if (tile.pieces > 1 && !collect(key_sums, value_sums, tile)) {
            return;
        }
        //@endif
        if (params->dv != nullptr) {
            store_sums<kHeadDimV>(value_sums, dv, params->dv_stride_row, valid_keys, constants.weight_epilogue);
        }
        if (params->dk != nullptr) {
            store_sums<kHeadDim>(key_sums, dk, params->dk_stride_row, valid_keys, constants.slope_epilogue);
        }
    }
};

#endif
