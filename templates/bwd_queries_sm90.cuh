/*
 * The second kernel of a deterministic backward pass for Hopper (sm_90a): dQ from scratch, summed up in registers in one order.
 *
 * As in the forward, blocks are persistent, a query tile of kDqRows stays while keys and values pass by, kDqKeys at a time, and each consumer
 * warpgroup has 64 of its rows:
 *
 *     S = Q K^T,  dP = dO V^T      both are asked for before the first is waited for
 *     slopes f'(S)                 kSliceN keys at a time
 *     dS = f'(S) dP,  dQ += dS K   the products of a slice run under the slopes of the next one
 *
 * For the rest, the products of the other consumers fill the tensor cores.
 */
#ifndef GDPA_BWD_QUERIES_SM90_CUH
#define GDPA_BWD_QUERIES_SM90_CUH

#include "bwd_products_sm90.cuh"
#include "bwd_queries_mask_sm90.cuh"
#include "bwd_queries_producer_sm90.cuh"
#include "bwd_queries_work_sm90.cuh"
#include "config_default.cuh"
#include "packed_pair.cuh"
#include "params.h"
#include "ptx/barrier.cuh"
#include "ptx/named_barrier.cuh"
#include "ptx/setmaxnreg.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/special_registers.cuh"
#include "ptx/tma.cuh"
#include "ptx/warp.cuh"
#include "ptx/wgmma.cuh"
#include "ring.cuh"
#include "wgmma_depth.cuh"
#include "wgmma_dq_keys.cuh"

constexpr int kDqScores = kDqKeys / 2;       // a thread's share of 64 rows x kDqKeys
constexpr int kDqSlices = kDqKeys / kSliceN;

struct DqConsumer : DqMask {
    uint32_t tile = 0; // of queries, counted
    RingPlace<kDqKeyStages> key_place;

    /* A tile that only products read: once they are waited for, they have ended for the whole warpgroup. */
    __device__ void release_tile(uint32_t empty_barrier) const
    {
        if (tid_x() % kWarpgroupThreads == 0) {
            mbarrier_arrive(empty_barrier);
        }
    }

    /* S = Q K^T or dP = dO V^T: 64 rows by kDqKeys. */
    template <int kSteps>
    __device__ void multiply(float (&products)[kDqScores], uint32_t rows, uint32_t keys) const
    {
        const uint64_t a = wgmma_descriptor_128b(rows + number * (64 * 128), 16, 1024);
        const uint64_t b = wgmma_descriptor_128b(keys, 16, 1024);
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
            wgmma_m64k16_ss<0, 0>(products, a + Products::along_columns<kDqRows>(step),
                                  b + Products::along_columns<kDqKeys>(step), step > 0);
        }
    }

    /* The slopes f' of the scores of a slice of the keys, packed as A fragments. */
    __device__ static void find_slopes(uint32_t (&slopes)[kDqSliceSteps][4], const float (&scores)[kDqScores], int slice,
                                       const PairConstants &constants)
    {
#pragma unroll
        for (int in_slice = 0; in_slice < kDqSliceSteps; ++in_slice) {
            const int step = slice * kDqSliceSteps + in_slice;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                uint32_t weights; // not used
                packed_pair(scores[8 * step + 2 * i], scores[8 * step + 2 * i + 1], constants, weights, slopes[in_slice][i]);
            }
            tie(slopes[in_slice]);
        }
    }

    /* Slopes of a slice -> dS = f'(S) dP. */
    __device__ static void apply_products(uint32_t (&slopes)[kDqSliceSteps][4], const float (&products)[kDqScores], int slice,
                                          const PairConstants &constants)
    {
#pragma unroll
        for (int in_slice = 0; in_slice < kDqSliceSteps; ++in_slice) {
            const int step = slice * kDqSliceSteps + in_slice;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                slopes[in_slice][i] =
                    packed_gradient(slopes[in_slice][i], products[8 * step + 2 * i], products[8 * step + 2 * i + 1], constants);
            }
        }
    }

    /* dQ += dS K of a key tile. */
    template <bool kHides>
    __device__ void add_tile(float (&sums)[kDqSums], uint32_t work, int32_t key_tile, bool accumulate,
                             const PairConstants &constants)
    {
        const TileBarriers of_keys = shared.of_keys(key_place.slot());
        const TileBarriers of_values = shared.of_values(key_place.slot());
        float scores[kDqScores];
        float gradients[kDqScores];
        mbarrier_wait_parity(of_keys.full, key_place.phase());
        wgmma_fence();
        multiply<kDepthSteps>(scores, shared.queries(), shared.keys(key_place.slot()));
        wgmma_commit_group();
        mbarrier_wait_parity(of_values.full, key_place.phase());
        multiply<kValueSteps>(gradients, shared.outputs(), shared.values(key_place.slot()));
        wgmma_commit_group();
        wgmma_wait_group<1>();
        tie(scores);
        const uint64_t keys = wgmma_descriptor_128b(shared.keys(key_place.slot()), kDqKeyChunkBytes, 1024);
        uint32_t score_gradients[kDqSlices][kDqSliceSteps][4];
#pragma unroll
        for (int slice = 0; slice < kDqSlices; ++slice) {
            find_slopes(score_gradients[slice], scores, slice, constants);
            if (slice == 0) {
                // Over long, but a loop that the assembler does not move the wait for dP across, up to where the slopes begin.
                mbarrier_wait_parity(of_keys.full, key_place.phase());
                wgmma_wait_group<0>();
                tie(gradients);
                release_tile(of_values.empty);
            }
            apply_products(score_gradients[slice], gradients, slice, constants);
            //@if masked
            if (kHides) {
                hide_slice(score_gradients[slice], slice, work, key_tile);
            }
            //@endif
            wgmma_fence();
#pragma unroll
            for (int in_slice = 0; in_slice < kDqSliceSteps; ++in_slice) {
                const int step = slice * kDqSliceSteps + in_slice;
                tie(score_gradients[slice][in_slice]);
                wgmma_m64k16_rs<1>(sums, score_gradients[slice][in_slice], keys + step * (16 * 128) / 16,
                                   step > 0 || accumulate);
            }
            wgmma_commit_group();
        }
        wgmma_wait_group<0>();
        tie(sums);
        release_tile(of_keys.empty);
        ++key_place.uses;
    }

    /* A key tile of which this warpgroup's rows see nothing. */
    __device__ void skip_tile()
    {
        const TileBarriers of_keys = shared.of_keys(key_place.slot());
        const TileBarriers of_values = shared.of_values(key_place.slot());
        mbarrier_wait_parity(of_keys.full, key_place.phase());
        mbarrier_wait_parity(of_values.full, key_place.phase());
        // Products keep the warps of a warpgroup together; without any, one could be left behind by a whole turn of the ring.
        bar_sync(1 + number, kWarpgroupThreads);
        release_tile(of_keys.empty);
        release_tile(of_values.empty);
        ++key_place.uses;
    }

    /* A key tile that is not plain. False: this warpgroup's rows see nothing of it. */
    __device__ bool other_tile(float (&sums)[kDqSums], uint32_t work, int32_t key_tile, bool accumulate,
                               const PairConstants &constants)
    {
        //@if masked
        if (has_rows(work) && !sees_nothing(work, key_tile)) {
            add_tile<true>(sums, work, key_tile, accumulate, constants);
            return true;
        }
        //@endif
        skip_tile();
        return false;
    }

    /* dQ of the query tile. */
    __device__ void add_tiles(float (&sums)[kDqSums], uint32_t work, const PairConstants &constants)
    {
        bool started = false;
        int32_t key_tile = read_uniform_word(work + kDqWorkFirstTile);
        while (true) {
            // What decides about a tile stays out of the loop over those that need no decision.
            for (const int32_t end = plain_end(work, key_tile); key_tile < end; ++key_tile) {
                add_tile<false>(sums, work, key_tile, started, constants);
                started = true;
            }
            if (key_tile >= read_uniform_word(work + kDqWorkEndTile)) {
                break;
            }
            started = other_tile(sums, work, key_tile, started, constants) || started;
            ++key_tile;
        }
        if (!started) {
            Consumer::zero(sums);
        }
    }

    __device__ void run()
    {
        const PairConstants constants = pair_constants(*params);
        while (true) {
            mbarrier_wait_parity(shared.work_full(tile), tile / 2 % 2);
            const uint32_t work = shared.work(tile);
            if (read_uniform_word(work + kDqWorkValidRows) == 0) {
                return;
            }
            float sums[kDqSums];
            mbarrier_wait_parity(shared.rows_full(), tile % 2);
            add_tiles(sums, work, constants);
            store(sums, work, constants.slope_epilogue);
            ++tile;
        }
    }
};

extern "C" __global__ __launch_bounds__(kDqThreads, 1) void gdpa_kernel_entry_dq(
    const __grid_constant__ gdpa_bwd_sm90_params params)
{
    const DqShared shared = {dynamic_shared_base()};
    if (tid_x() == 0) {
        init_barriers(shared);
        prefetch_tensormap(&params.q_map);
        prefetch_tensormap(&params.k_map);
        prefetch_tensormap(&params.v_map);
        prefetch_tensormap(&params.dout_map);
    }
    bar_sync_0();
    const uint32_t warpgroup = shfl_sync_idx(tid_x() / kWarpgroupThreads, 0);
    if (warpgroup == 0) {
        setmaxnreg_dec<kDqProducerRegisters>();
        if (tid_x() < 32) {
            DqProducer producer = {shared, &params};
            producer.run();
        } else if (tid_x() < 64) {
            DqRepairer repairer = {shared, &params.common};
            repairer.run();
        }
    } else {
        setmaxnreg_inc<kDqConsumerRegisters>();
        DqConsumer consumer;
        consumer.shared = shared;
        consumer.params = &params.common;
        consumer.number = warpgroup - 1;
        consumer.run();
    }
}

#endif
