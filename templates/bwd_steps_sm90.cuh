/*
 * The steps of a tile of keys in the Hopper backward, of one consumer warpgroup: their order is told in bwd_sm90.cuh.
 */
#ifndef GDPA_BWD_STEPS_SM90_CUH
#define GDPA_BWD_STEPS_SM90_CUH

#include "bwd_products_sm90.cuh"
#include "bwd_step_sm90.cuh"
#include "bwd_store_sm90.cuh"
#include "bwd_work_sm90.cuh"
#include "config_default.cuh"
#include "packed_pair.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/named_barrier.cuh"
#include "ptx/wgmma.cuh"
#include "ring.cuh"

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
        //@if masked
        if (kHides) {
            hide(weights, work, query_tile);
        }
        //@endif
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
        //@if masked
        if (kHides) {
            hide(score_gradients, work, query_tile);
        }
        //@endif
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
            //@if paired
            if (step % 2 != number) {
                continue;
            }
            //@endif
            multiply_query_sums(query_sums, step);
            wgmma_wait_group<0>();
            tie(query_sums);
            //@if paired
            release_scores(step);
            //@endif
            if (writes_queries(*params)) {
                //@if paired
                wait_for_place(step + kScoreSlots);
                //@endif
                write_queries(query_sums, step, constants.slope_epilogue);
            }
            //@if !whole
            const SumTarget target = find_sums(step);
#pragma unroll
            for (int block = 0; block < kShareBlocks; ++block) {
                add_columns(query_sums, target, block);
            }
            //@endif
        }
    }

    /* Behind the first two. Paired, each warpgroup makes dQ of every other one. */
    template <bool kHides>
    __device__ void later_step(float (&key_sums)[kKeySums], float (&value_sums)[kValueSums],
                             uint32_t (&score_gradients)[kQuerySteps][4], const Values &values, uint32_t work,
                             int32_t number_in_tile, int32_t query_tile, const PairConstants &constants)
    {
        //@if paired
        if (now % 2 != number) {
            step<2, kHides, false>(key_sums, value_sums, score_gradients, values, work, number_in_tile, query_tile,
                                   constants);
            return;
        }
        //@endif
        step<2, kHides, true>(key_sums, value_sums, score_gradients, values, work, number_in_tile, query_tile,
                              constants);
    }
};

#endif
