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

#include "bwd_queries_producer_sm90.cuh"
#include "bwd_queries_work_sm90.cuh"
#include "config_default.cuh"
#include "gradient.cuh"
#include "mask.cuh"
#include "numeric.cuh"
#include "packed_pair.cuh"
#include "params.h"
#include "ptx/barrier.cuh"
#include "ptx/fence.cuh"
#include "ptx/global_memory.cuh"
#include "ptx/named_barrier.cuh"
#include "ptx/setmaxnreg.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/special_registers.cuh"
#include "ptx/stmatrix.cuh"
#include "ptx/tma.cuh"
#include "ptx/warp.cuh"
#include "ptx/wgmma.cuh"
#include "ring.cuh"
#include "wgmma_depth.cuh"
#include "wgmma_dq_keys.cuh"

constexpr int kDqScores = kDqKeys / 2;       // a thread's share of 64 rows x kDqKeys
constexpr int kDqSums = kDepthColumns / 2;   // of dQ, 64 x kDepthColumns
constexpr int kDqSliceSteps = kSliceN / 16;
constexpr int kDqSlices = kDqKeys / kSliceN;

struct DqConsumer {
    DqShared shared;
    const gdpa_bwd_params *params;
    uint32_t number;   // of the warpgroup, from 0
    uint32_t tile = 0; // of queries, counted
    RingPlace<kDqKeyStages> key_place;

    __device__ uint32_t lane() const
    {
        return tid_x() % 32;
    }

    /* Row of the query tile where this thread's warp begins. */
    __device__ uint32_t warp_row() const
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

    /* S = Q K^T or dP = dO V^T: 64 rows by kDqKeys. */
    template <int kSteps>
    __device__ void multiply(float (&products)[kDqScores], uint32_t rows, uint32_t keys) const
    {
        const uint64_t a = wgmma_descriptor_128b(rows + number * (64 * 128), 16, 1024);
        const uint64_t b = wgmma_descriptor_128b(keys, 16, 1024);
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
            wgmma_m64k16_ss<0, 0>(products, a + Consumer::along_columns<kDqRows>(step),
                                  b + Consumer::along_columns<kDqKeys>(step), step > 0);
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

    //@if masked
    /* Where this warpgroup's first row stands among the keys. */
    __device__ int64_t first_aligned_row(uint32_t work) const
    {
        return read_uniform_word(work + kDqWorkFirstRow) + static_cast<int64_t>(number * 64) +
               key_offset(read_uniform_word(work + kDqWorkLengthQ), read_uniform_word(work + kDqWorkLengthK));
    }

    /* Whether this warpgroup's rows see nothing of a key tile. */
    __device__ bool sees_nothing(uint32_t work, int32_t key_tile) const
    {
        const int64_t aligned_row = first_aligned_row(work);
        const int64_t key = static_cast<int64_t>(key_tile) * kDqKeys;
        bool nothing = false;
        //@if window_left
        nothing = nothing || key + kDqKeys - 1 < aligned_row - kWindowLeft;
        //@endif
        //@if window_right
        nothing = nothing || key > aligned_row + 63 + kWindowRight;
        //@endif
        return nothing;
    }

    /* Zeroes the hidden pairs of a slice. Bounds are columns of the slice, relative to the thread's first one. */
    __device__ void hide_slice(uint32_t (&pairs)[kDqSliceSteps][4], int slice, uint32_t work, int32_t key_tile) const
    {
        const int64_t key = static_cast<int64_t>(key_tile) * kDqKeys + slice * kSliceN + lane() % 4 * 2;
#pragma unroll
        for (int half = 0; half < 2; ++half) { // the upper and the lower 8 rows of the warp's 16
            const int64_t aligned_row =
                first_aligned_row(work) + tid_x() % kWarpgroupThreads / 32 * 16 + lane() / 4 + half * 8;
            //@if window_left
            const int32_t low = clamp_to_slice(aligned_row - kWindowLeft - key);
            //@endif
            //@if window_right
            const int32_t high = clamp_to_slice(aligned_row + kWindowRight - key);
            //@endif
#pragma unroll
            for (int pair = 0; pair < kDqSliceSteps * 2; ++pair) {
                const int32_t column = pair * 8;
                bool left = true;
                bool right = true;
                //@if window_left
                left = left && column >= low;
                right = right && column + 1 >= low;
                //@endif
                //@if window_right
                left = left && column <= high;
                right = right && column + 1 <= high;
                //@endif
                pairs[pair / 2][pair % 2 * 2 + half] &= (left ? 0x0000ffffu : 0) | (right ? 0xffff0000u : 0);
            }
        }
    }

    __device__ static int32_t clamp_to_slice(int64_t key)
    {
        return static_cast<int32_t>(key < -1 ? -1 : key > kSliceN ? kSliceN : key);
    }
    //@endif

    /*
     * Behind the last of the key tiles from `key_tile` on of which every row of this warpgroup sees every key; `key_tile` itself when there is
     * none. Keys beyond the sequence are zeros, and count as seen.
     */
    __device__ int32_t plain_end(uint32_t work, int32_t key_tile) const
    {
        const int32_t end_tile = read_uniform_word(work + kDqWorkEndTile);
        if (static_cast<int32_t>(number) * 64 >= read_uniform_word(work + kDqWorkValidRows)) {
            return key_tile;
        }
        //@if masked
        const int64_t aligned_row = first_aligned_row(work);
        //@endif
        //@if window_left
        if (static_cast<int64_t>(key_tile) * kDqKeys < aligned_row + 63 - kWindowLeft) {
            return key_tile;
        }
        //@endif
        //@if window_right
        const int64_t seen = aligned_row + kWindowRight + 1; // keys, by all rows
        const int64_t end = seen < 0 ? 0 : seen / kDqKeys;
        return end < key_tile ? key_tile : end < end_tile ? static_cast<int32_t>(end) : end_tile;
        //@else
        return end_tile;
        //@endif
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
        if (static_cast<int32_t>(number) * 64 < read_uniform_word(work + kDqWorkValidRows) && !sees_nothing(work, key_tile)) {
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
        DqConsumer consumer = {shared, &params.common, warpgroup - 1};
        consumer.run();
    }
}

#endif
