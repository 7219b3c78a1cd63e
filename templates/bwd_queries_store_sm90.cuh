/*
 * How dQ leaves a consumer warpgroup of the second kernel of a deterministic Hopper backward.
 */
#ifndef GDPA_BWD_QUERIES_STORE_SM90_CUH
#define GDPA_BWD_QUERIES_STORE_SM90_CUH

#include "bwd_queries_work_sm90.cuh"
#include "config_default.cuh"
#include "gradient.cuh"
#include "numeric.cuh"
#include "params.h"
#include "ptx/fence.cuh"
#include "ptx/global_memory.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/special_registers.cuh"
#include "ptx/stmatrix.cuh"
#include "ptx/warp.cuh"

constexpr int kDqSums = kDepthColumns / 2; // a thread's share of 64 rows x kDepthColumns

struct DqStore {
    DqShared shared;
    const gdpa_bwd_params *params;
    uint32_t number; // of the warpgroup, from 0

    __device__ uint32_t lane() const
    {
        return tid_x() % 32;
    }

    /* Row of the query tile where this thread's warp begins. */
    __device__ uint32_t warp_row() const
    {
        return number * 64 + tid_x() / 32 % 4 * 16;
    }

    /* Writes the rows that exist, and gives the query tile back. */
    __device__ void store(const float (&sums)[kDqSums], uint32_t work, float factor) const
    {
        const int32_t valid_rows = read_uniform_word(work + kDqWorkValidRows);
        Gradient *const target = static_cast<Gradient *>(params->dq) + ld_shared_b64(work + kDqWorkOffset);
        //@if out_fp32
        mbarrier_arrive(shared.rows_empty());
        const int32_t row = static_cast<int32_t>(warp_row() + lane() / 4);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            Gradient *const place = target + (row + half * 8) * params->dq_stride_row + lane() % 4 * 2;
#pragma unroll
            for (int n = 0; n < kHeadDim / 8; ++n) {
                if (row + half * 8 < valid_rows) {
                    store_gradients(place + n * 8, sums[4 * n + 2 * half], sums[4 * n + 2 * half + 1], factor,
                                    params->accumulate != 0);
                }
            }
        }
        //@else
        stage(sums, factor);
        bar_warp_sync();
        uint32_t words[kDqStoreLoads][4];
        load_staged(words);
        fence_proxy_async_shared(); // the copy engine writes the next Q where the sums were staged
        mbarrier_arrive(shared.rows_empty());
        store_staged(words, target, valid_rows);
        //@endif
    }

    //@if !out_fp32
    static constexpr int kDqUnits = kHeadDim / 8; // of 16 bytes in a row
    static constexpr int kDqStoreLoads = (16 * kDqUnits + 31) / 32;

    __device__ uint32_t staging_address(uint32_t row, uint32_t unit) const
    {
        return shared.queries() + unit / 8 * kDqRowChunkBytes + row * 128 + ((unit % 8 ^ row % 8) << 4);
    }

    /* The warp's 16 rows of dQ over its own rows of Q, which nobody else reads. */
    __device__ void stage(const float (&sums)[kDqSums], float factor) const
    {
        const uint32_t row = warp_row() + lane() % 16;
#pragma unroll
        for (int n = 0; n < kDqSums / 8; ++n) { // 16 columns
            uint32_t packed[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                packed[i] = pack_output(scale_output(sums[8 * n + 2 * i], factor), scale_output(sums[8 * n + 2 * i + 1], factor));
            }
            stmatrix_x4(staging_address(row, 2 * n + lane() / 16), packed[0], packed[1], packed[2], packed[3]);
        }
    }

    __device__ void load_staged(uint32_t (&words)[kDqStoreLoads][4]) const
    {
#pragma unroll
        for (int i = 0; i < kDqStoreLoads; ++i) {
            const uint32_t index = i * 32 + lane();
            if (index < 16 * kDqUnits) {
                ld_shared_v4_b32(words[i], staging_address(warp_row() + index / kDqUnits, index % kDqUnits));
            }
        }
    }

    __device__ void store_staged(const uint32_t (&words)[kDqStoreLoads][4], Gradient *target, int32_t valid_rows) const
    {
#pragma unroll
        for (int i = 0; i < kDqStoreLoads; ++i) {
            const uint32_t index = i * 32 + lane();
            const uint32_t row = warp_row() + index / kDqUnits;
            if (index < 16 * kDqUnits && static_cast<int32_t>(row) < valid_rows) {
                st_global_v4_b32(target + row * params->dq_stride_row + index % kDqUnits * 8, words[i]);
            }
        }
    }
    //@endif
};

#endif
