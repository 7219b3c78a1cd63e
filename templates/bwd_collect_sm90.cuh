/*
 * Tiles of the Hopper backward that several blocks have, each with some of the queries: how their sums of dK and dV come together.
 */
#ifndef GDPA_BWD_COLLECT_SM90_CUH
#define GDPA_BWD_COLLECT_SM90_CUH

#include "bwd_products_sm90.cuh"
#include "bwd_work_sm90.cuh"
#include "config_default.cuh"
#include "ptx/atomic.cuh"
#include "ptx/fresh_registers.cuh"
#include "ptx/global_memory.cuh"
#include "ptx/global_order.cuh"
#include "ptx/warp.cuh"

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

#endif
