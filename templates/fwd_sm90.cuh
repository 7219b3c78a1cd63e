/*
 * Forward kernel for Hopper (sm_90a): copies by TMA, products by wgmma, one feeding warpgroup and kConsumers consumer warpgroups.
 *
 * Blocks are persistent: each takes query tiles of kBlockM rows until there are no more. Tiles flow through rings of slots guarded by
 * pairs of barriers (full, empty), so that the loads of the next query tile run under the math of this one:
 *
 *     scout         Q | Q' | ...                               (finds work, asks for queries; a tile ahead)
 *     producer      K0 K1 V0 K2 V1 ... | K0' ...               (asks for the rest; both wait for empty slots only)
 *     consumer w    S = Q K0^T; P = f(S); O += P V0 | S = Q K1^T; ... | store O       on rows 64 w .. 64 w + 63
 *
 * A consumer overlaps the activation of a slice of P with the product of the slice before; for the rest, the other consumers' products fill
 * the tensor cores (docs/kernels.md has the measurements). Which tiles there are is decided by the scout alone and told in messages.
 */
#include "activation.cuh"
#include "config_default.cuh"
#include "epilogue_sm90.cuh"
#include "mask.cuh"
#include "numeric.cuh"
#include "params.h"
#include "producer_sm90.cuh"
#include "ptx/barrier.cuh"
#include "ptx/fence.cuh"
//@if q_in_registers
#include "ptx/ldmatrix.cuh"
//@endif
#include "ptx/named_barrier.cuh"
#include "ptx/setmaxnreg.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/special_registers.cuh"
#include "ptx/tma.cuh"
#include "ptx/warp.cuh"
#include "ptx/wgmma.cuh"
#include "ring.cuh"
#include "shared_tile.cuh"
//@if !out_fp32
#include "storer_sm90.cuh"
//@endif
//@if half_tiles
#include "wgmma_half_keys.cuh"
//@endif
#include "wgmma_keys.cuh"
#include "wgmma_values.cuh"
#include "work_sm90.cuh"

constexpr int kDepthSteps = (kHeadDim + 15) / 16;

/* A thread's share of the scores of 64 rows and so many keys. */
template <int kKeys> using Scores = float[kKeys / 2];

/* P of so many keys: the A fragments of 16 at a time. */
template <int kKeys> using Weights = uint32_t[kKeys / 16][4];

struct Consumer {
    Shared shared;
    const gdpa_fwd_params *params;
    uint32_t number; // of the warpgroup, from 0
    RingPlace<kQueryStages> query_place;
    RingPlace<kStages> tile_place; // keys and values run side by side
    bool releases; // whether this thread gives key tiles back, for its warpgroup
    //@if q_in_registers
    uint32_t queries[kDepthSteps][4]; // fragments of this warpgroup's rows
    //@endif

    __device__ uint32_t lane() const
    {
        return tid_x() % 32;
    }

    /*
     * Which 64 rows of the tile are this warpgroup's. Under a causal mask the lower ones see more keys: they are another one's each time, and
     * nobody waits for the others at the end of every tile.
     */
    __device__ uint32_t part() const
    {
        //@if causal
        return query_place.uses % 2 == 0 ? number : kConsumers - 1 - number;
        //@else
        return number;
        //@endif
    }

    /* A tile that only products read: once they are waited for, they have ended for the whole warpgroup. */
    __device__ void release_tile(uint32_t empty_barrier) const
    {
        if (releases) {
            mbarrier_arrive(empty_barrier);
        }
    }

    //@if q_in_registers
    /* By whole warps: 16 rows each. */
    __device__ void load_queries()
    {
        const uint32_t row = lane() % 16; // of the warp's; the rows above it are a multiple of 8, and do not change the swizzle
        const uint32_t first_place = shared.queries(query_place.slot()) +
                                     (part() * 64 + tid_x() % kWarpgroupThreads / 32 * 16 + row) * 128 +
                                     ((lane() / 16 ^ row % 8) << 4);
#pragma unroll
        for (int step = 0; step < kDepthSteps; ++step) {
            ldmatrix_x4(queries[step], (first_place ^ step % 4 << 5) + step / 4 * kQueryChunkBytes);
        }
    }
    //@endif

    /* S = Q K^T of the tile, or of its first keys. */
    template <int kCount> __device__ void multiply_keys(float (&scores)[kCount]) const
    {
        //@if !q_in_registers
        const uint64_t queries =
            wgmma_descriptor_128b(shared.queries(query_place.slot()) + part() * (64 * 128), 16, 1024);
        //@endif
        const uint64_t keys = wgmma_descriptor_128b(shared.keys(tile_place.slot()), 16, 1024);
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < kDepthSteps; ++step) {
            const int in_chunk = step % 4 * 32;
            //@if q_in_registers
            wgmma_m64k16_rs<0>(scores, queries[step], keys + (step / 4 * kKeyChunkBytes + in_chunk) / 16, step > 0);
            //@else
            wgmma_m64k16_ss<0, 0>(scores, queries + (step / 4 * kQueryChunkBytes + in_chunk) / 16,
                                  keys + (step / 4 * kKeyChunkBytes + in_chunk) / 16, step > 0);
            //@endif
        }
        wgmma_commit_group();
        wgmma_wait_group<0>();
        tie(scores);
    }

    /*
     * O += f(S) V, kSliceN keys at a time: the products of a slice run under the activation of the next one. There is no row maximum
     * to wait for, so a slice is final as soon as it is activated. The mask has a copy of this code of its own: its mere presence
     * costs tiles that need none 5 %.
     */
    template <bool kHide, int kKeys>
    __device__ void activate_and_multiply(float (&output)[kOutputs], Scores<kKeys> &scores, uint32_t work, int32_t tile,
                                          const ActivationConstants &constants) const
    {
        constexpr int kSliceSteps = (kSliceN < kKeys ? kSliceN : kKeys) / 16;
        const uint64_t values = wgmma_descriptor_128b(shared.values(tile_place.slot()), kKeyChunkBytes, 1024);
        if (kHide) {
#pragma unroll
            for (int i = 0; i < kKeys / 2; ++i) {
                scores[i] *= activation_turn(constants);
            }
        }
        Weights<kKeys> weights;
#pragma unroll
        for (int first_step = 0; first_step < kKeys / 16; first_step += kSliceSteps) {
#pragma unroll
            for (int step = first_step; step < first_step + kSliceSteps; ++step) {
                activate(weights[step], &scores[8 * step], constants);
            }
            if (kHide) {
                hide_slice<kSliceSteps>(&weights[first_step], first_step * 16, work, tile);
            }
            if (first_step == 0) {
                mbarrier_wait_parity(shared.values_full(tile_place.slot()), tile_place.phase());
            }
            wgmma_fence();
#pragma unroll
            for (int step = first_step; step < first_step + kSliceSteps; ++step) {
                wgmma_m64k16_rs<1>(output, weights[step], values + step * (16 * 128) / 16, true);
            }
            wgmma_commit_group();
        }
        wgmma_wait_group<0>();
        tie(output);
    }

    /* f of the scores of 16 keys -> packed A fragments of P. */
    __device__ static void activate(uint32_t (&weights)[4], const float *scores, const ActivationConstants &constants)
    {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            weights[i] = activation_pack(scores[2 * i], scores[2 * i + 1], constants);
        }
        tie(weights);
    }

    /* Whether this warpgroup's rows see nothing of a tile: there are no such rows, or all of it is hidden. */
    __device__ bool sees_nothing(uint32_t work, int32_t tile) const
    {
        const int32_t first_row = static_cast<int32_t>(part()) * 64;
        bool nothing = first_row >= read_uniform_word(work + kWorkValidRows);
        //@if masked
        const int64_t aligned_row = first_aligned_row(work);
        const int32_t key = tile * kBlockN;
        //@endif
        //@if window_left
        nothing = nothing || key + kBlockN - 1 < aligned_row - kWindowLeft;
        //@endif
        //@if window_right
        nothing = nothing || key > aligned_row + 63 + kWindowRight;
        //@endif
        return nothing;
    }

    //@if half_tiles
    /* Whether a tile is the last of its sequence, and at most half of it exists. */
    __device__ bool first_half_is_enough(uint32_t work, int32_t tile) const
    {
        //@if window_right
        // Or the second half is to the right of all that this warpgroup's rows see: a diagonal ends in each half every other time.
        if (static_cast<int64_t>(tile) * kBlockN + kBlockN / 2 > first_aligned_row(work) + 63 + kWindowRight) {
            return true;
        }
        //@endif
        return static_cast<int64_t>(tile) * kBlockN + kBlockN / 2 >= read_uniform_word(work + kWorkLengthK);
    }
    //@endif

    /*
     * Behind the last of the tiles from `tile` on of which this warpgroup's rows see every key; `tile` itself when there is none. Scores
     * that have to be turned, by a negative scale, take the slower way, too.
     */
    __device__ int32_t plain_end(uint32_t work, int32_t tile, const ActivationConstants &constants) const
    {
        if (activation_turn(constants) != 1.0f ||
            static_cast<int32_t>(part()) * 64 >= read_uniform_word(work + kWorkValidRows)) {
            return tile;
        }
        int64_t end_key = read_uniform_word(work + kWorkLengthK);
        //@if masked
        const int64_t aligned_row = first_aligned_row(work);
        //@endif
        //@if window_left
        if (tile * kBlockN < aligned_row + 63 - kWindowLeft) {
            return tile;
        }
        //@endif
        //@if window_right
        const int64_t behind_rightmost = aligned_row + kWindowRight + 1;
        end_key = behind_rightmost < end_key ? behind_rightmost : end_key;
        //@endif
        const int32_t end = static_cast<int32_t>(end_key < 0 ? 0 : end_key) / kBlockN;
        const int32_t end_tile = read_uniform_word(work + kWorkEndTile);
        return end < tile ? tile : end < end_tile ? end : end_tile;
    }

    //@if masked
    /* Where this warpgroup's first row stands among the keys. */
    __device__ int64_t first_aligned_row(uint32_t work) const
    {
        return read_uniform_word(work + kWorkFirstRow) + static_cast<int64_t>(part() * 64) +
               key_offset(read_uniform_word(work + kWorkLengthQ), read_uniform_word(work + kWorkLengthK));
    }
    //@endif

    /* Zeroes the hidden pairs of a slice. Bounds are columns of the slice, relative to the thread's first one. */
    template <int kSliceSteps>
    __device__ void hide_slice(uint32_t (*weights)[4], int first_column, uint32_t work, int32_t tile) const
    {
        const int64_t key = static_cast<int64_t>(tile) * kBlockN + first_column + lane() % 4 * 2;
        const int64_t last = read_uniform_word(work + kWorkLengthK) - 1 - key;
#pragma unroll
        for (int half = 0; half < 2; ++half) { // the upper and the lower 8 rows of the warp's 16
            int64_t highest = last;
            //@if masked
            const int64_t aligned_row =
                first_aligned_row(work) + tid_x() % kWarpgroupThreads / 32 * 16 + lane() / 4 + half * 8;
            //@endif
            //@if window_right
            const int64_t rightmost = aligned_row + kWindowRight - key;
            highest = rightmost < highest ? rightmost : highest;
            //@endif
            const int32_t high = clamp_to_tile(highest);
            //@if window_left
            const int32_t low = clamp_to_tile(aligned_row - kWindowLeft - key);
            //@endif
#pragma unroll
            for (int pair = 0; pair < kSliceSteps * 2; ++pair) {
                const int32_t column = pair * 8;
                bool left = column <= high;
                bool right = column + 1 <= high;
                //@if window_left
                left = left && column >= low;
                right = right && column + 1 >= low;
                //@endif
                weights[pair / 2][pair % 2 * 2 + half] &=
                    (left ? 0x0000ffffu : 0) | (right ? 0xffff0000u : 0);
            }
        }
    }

    __device__ static int32_t clamp_to_tile(int64_t key)
    {
        return static_cast<int32_t>(key < -1 ? -1 : key > kBlockN ? kBlockN : key);
    }

    /* Both products, once the keys are there. */
    template <bool kHide, int kKeys>
    __device__ void multiply_tile(float (&output)[kOutputs], uint32_t work, int32_t tile, const ActivationConstants &constants) const
    {
        Scores<kKeys> scores;
        multiply_keys(scores);
        release_tile(shared.keys_empty(tile_place.slot()));
        activate_and_multiply<kHide, kKeys>(output, scores, work, tile, constants);
    }

    /* A tile of which every row sees every key. */
    __device__ void plain_tile(float (&output)[kOutputs], const ActivationConstants &constants)
    {
        mbarrier_wait_parity(shared.keys_full(tile_place.slot()), tile_place.phase());
        multiply_tile<false, kBlockN>(output, 0, 0, constants);
        release_tile(shared.values_empty(tile_place.slot()));
        ++tile_place.uses;
    }

    /* A tile with something to hide. */
    __device__ void other_tile(float (&output)[kOutputs], uint32_t work, int32_t tile, const ActivationConstants &constants)
    {
        const bool visible = !sees_nothing(work, tile);
        //@if half_tiles
        const bool half = visible && first_half_is_enough(work, tile);
        //@endif
        mbarrier_wait_parity(shared.keys_full(tile_place.slot()), tile_place.phase());
        //@if half_tiles
        if (half) {
            multiply_tile<true, kBlockN / 2>(output, work, tile, constants);
        } else
        //@endif
        if (visible) {
            multiply_tile<true, kBlockN>(output, work, tile, constants);
        } else {
            // Products keep the warps of a warpgroup together; without any, one could be left behind by a whole turn of the ring.
            mbarrier_wait_parity(shared.values_full(tile_place.slot()), tile_place.phase());
            bar_sync(1 + number, kWarpgroupThreads);
            release_tile(shared.keys_empty(tile_place.slot()));
        }
        release_tile(shared.values_empty(tile_place.slot()));
        ++tile_place.uses;
    }

    __device__ void run()
    {
        const ActivationConstants constants =
            activation_constants(params->scale, params->out_scale, params->activation_param);
        while (true) {
            mbarrier_wait_parity(shared.queries_full(query_place.slot()), query_place.phase());
            const uint32_t work = shared.work(query_place.slot());
            if (read_uniform_word(work + kWorkValidRows) == 0) {
                return;
            }
            //@if q_in_registers
            load_queries();
            //@endif
            // Sums from 0, always: were the first product to begin them anew, their registers would count as taken from the beginning of
            // the message before, and the epilogue would have to do without them.
            float output[kOutputs];
#pragma unroll
            for (int i = 0; i < kOutputs; ++i) {
                output[i] = 0.0f;
            }
            int32_t tile = read_uniform_word(work + kWorkFirstTile);
            releases = tid_x() % kWarpgroupThreads == 0;
            //@if shared_out
            const bool keeps = read_uniform_word(work + kWorkKeeps) != 0;
            releases = releases && !keeps;
            //@endif
            while (true) {
                // What decides about a tile stays out of the loop over those that need no decision.
                for (const int32_t end = plain_end(work, tile, constants); tile < end; ++tile) {
                    plain_tile(output, constants);
                }
                if (tile >= read_uniform_word(work + kWorkEndTile)) {
                    break;
                }
                other_tile(output, work, tile, constants);
                ++tile;
            }
            //@if shared_out
            if (keeps) {
                tile_place.uses -= read_uniform_word(work + kWorkEndTile);
            }
            //@endif
            const Epilogue epilogue = {shared, params, part(), query_place.slot()};
            epilogue.store(output, work, constants.epilogue);
            ++query_place.uses;
        }
    }
};

extern "C" __global__ __launch_bounds__(kThreads, 1) void gdpa_kernel_entry(
    const __grid_constant__ gdpa_fwd_sm90_params params)
{
    const Shared shared = {dynamic_shared_base()};
    if (tid_x() == 0) {
        init_barriers(shared);
        prefetch_tensormap(&params.q_map);
        prefetch_tensormap(&params.k_map);
        prefetch_tensormap(&params.v_map);
        //@if !out_fp32
        prefetch_tensormap(&params.o_map);
        //@endif
    }
    //@if shared_out
    if (is_shared_out(params.common)) {
        add_up_shares(params.common, shared.keys(0));
    }
    //@endif
    bar_sync_0();
    const uint32_t warpgroup = shfl_sync_idx(tid_x() / kWarpgroupThreads, 0);
    if (warpgroup == 0) {
        setmaxnreg_dec<kProducerRegisters>();
        if (tid_x() < 32) {
            Producer producer = {shared, &params};
            producer.run();
        } else if (tid_x() < 64) {
            Repairer repairer = {shared, &params.common};
            repairer.run();
        } else if (tid_x() < 96) {
            Scout scout = {shared, &params};
            scout.run();
        }
        //@if !out_fp32
        else {
            Storer storer = {shared, &params};
            storer.run();
        }
        //@endif
    } else {
        setmaxnreg_inc<kConsumerRegisters>();
        Consumer consumer;
        consumer.shared = shared;
        consumer.params = &params.common;
        consumer.number = warpgroup - 1;
        consumer.run();
    }
}
//@if listed

#include "list_build.cuh"
//@endif
