/*
 * The parts of a step of the Hopper backward: the activation, the products that come first, and dS on its way to both warpgroups. Their
 * order is in bwd_sm90.cuh.
 */
#ifndef GDPA_BWD_STEP_SM90_CUH
#define GDPA_BWD_STEP_SM90_CUH

#include "bwd_mask_sm90.cuh"
//@if paired
#include "bwd_pair_sm90.cuh"
//@endif
#include "bwd_products_sm90.cuh"
#include "bwd_store_sm90.cuh"
#include "bwd_work_sm90.cuh"
#include "config_default.cuh"
#include "packed_pair.cuh"
#include "ptx/fence.cuh"
#include "ptx/named_barrier.cuh"
#include "ptx/stmatrix.cuh"
#include "ptx/wgmma.cuh"
#include "ring.cuh"

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

    //@if paired
    /* dS of both warpgroups of both blocks in a step. */
    __device__ void wait_for_scores(uint32_t step) const
    {
        const RingPlace<kScoreSlots> place = {step};
        mbarrier_wait_parity(shared.scores_full(place.slot()), place.phase());
        mbarrier_wait_parity(shared.received_full(place.slot()), place.phase());
    }

    /* Until the memory of dS of a step may be written to. */
    __device__ void wait_for_place(uint32_t step) const
    {
        const RingPlace<kScoreSlots> place = {step};
        mbarrier_wait_parity_cluster(shared.scores_empty(place.slot()), place.phase() ^ 1);
    }

    /* dQ of the step has been made. */
    __device__ void release_scores(uint32_t step) const
    {
        if (tid_x() % kWarpgroupThreads == 0) {
            mbarrier_arrive(shared.scores_empty(step));
            mbarrier_arrive_cluster(of_other_block(shared.target_empty(step)));
        }
    }

    //@else
    /* dS of both warpgroups in a step: this one's threads meet here, long after they wrote it. */
    __device__ void wait_for_scores(uint32_t step) const
    {
        bar_sync(scores_barrier(number ^ 1, step), kConsumers * kWarpgroupThreads);
    }

    //@endif
    /* Asks for dQ of a step. */
    __device__ void multiply_query_sums(float (&query_sums)[kQuerySums], uint32_t step) const
    {
        wait_for_scores(step);
        wgmma_fence();
        multiply_keys(query_sums, shared.scores(step), share_of_keys(), false);
        //@if paired
        multiply_keys(query_sums, shared.received_scores(step), shared.other_keys(), true);
        //@endif
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
        //@if paired
        release_scores(now - 2);
        //@endif
        if (writes_queries(*params)) {
            //@if paired
            wait_for_place(now); // where gradients are staged
            //@endif
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
        //@if paired
        wait_for_place(now);
        //@if stores_dq
        wait_for_stores(); // of dQ, which was staged there
        //@endif
        //@endif
        stage_scores(score_gradients, shared.scores(now));
        fence_proxy_async_shared();
        //@if paired
        bar_warp_sync();
        if (lane() == 0) {
            mbarrier_arrive(shared.scores_full(now));
        }
        //@else
        bar_arrive(scores_barrier(number, now), kConsumers * kWarpgroupThreads);
        //@endif
    }
};

#endif
