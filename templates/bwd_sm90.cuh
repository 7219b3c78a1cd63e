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
#include "types.cuh"

//@if paired
#include "bwd_pair_sm90.cuh"
//@endif
#include "bwd_producer_sm90.cuh"
#include "bwd_products_sm90.cuh"
#include "bwd_repair_sm90.cuh"
#include "bwd_scout_sm90.cuh"
#include "bwd_steps_sm90.cuh"
#include "bwd_store_sm90.cuh"
#include "bwd_work_sm90.cuh"
#include "config_default.cuh"
#include "order_params.h"
#include "packed_pair.cuh"
#include "params.h"
#include "ptx/barrier.cuh"
//@if paired
#include "ptx/cluster.cuh"
//@endif
#include "ptx/fence.cuh"
#include "ptx/named_barrier.cuh"
#include "ptx/setmaxnreg.cuh"
#include "ptx/special_registers.cuh"
#include "ptx/tma.cuh"
#include "ptx/warp.cuh"
#include "ptx/wgmma.cuh"
#include "ring.cuh"

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
        //@if paired
        mbarrier_wait_parity(shared.of_other_keys().full, tile % 2);
        //@endif
        Values values;
        load_values(values);
        if (steps > 0) {
            const QueryTiles tiles = query_tiles(work);
            int32_t query_tile = tiles.start;
            //@if masked
            int32_t plain_first, plain_end;
            find_plain_tiles(work, plain_first, plain_end);
            constexpr bool kMayHide = true; // the first two do not ask: a mask that hides nothing does no harm
            //@else
            constexpr bool kMayHide = false;
            //@endif
            step<0, kMayHide, true>(key_sums, value_sums, score_gradients, values, work, 0, query_tile, constants);
            if (steps > 1) {
                query_tile = tiles.next(query_tile);
                step<1, kMayHide, true>(key_sums, value_sums, score_gradients, values, work, 1, query_tile, constants);
            }
            for (int32_t i = 2; i < steps; ++i) {
                query_tile = tiles.next(query_tile);
                //@if masked
                if (query_tile < plain_first || query_tile >= plain_end) {
                    later_step<true>(key_sums, value_sums, score_gradients, values, work, i, query_tile, constants);
                    continue;
                }
                //@endif
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
        //@if paired
        release_tile(shared.of_other_keys().empty);
        wait_for_place(now + (now + number) % kScoreSlots); // gradients are staged there
        //@endif
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

//@if paired
/* All threads of the cluster: barriers are there from now on, or nobody will use them any more. */
__device__ inline void sync_cluster()
{
    barrier_cluster_arrive();
    barrier_cluster_wait();
}

extern "C" __global__ __cluster_dims__(kCluster, 1, 1)
//@else
extern "C" __global__
//@endif
__launch_bounds__(kThreads, 1) void gdpa_kernel_entry(const __grid_constant__ gdpa_bwd_sm90_main_params params)
{
    const Shared shared = {dynamic_shared_base()};
    if (tid_x() == 0) {
        init_barriers(shared);
        prefetch_tensormap(&params.tiles.q_map);
        prefetch_tensormap(&params.tiles.k_map);
        prefetch_tensormap(&params.tiles.v_map);
        prefetch_tensormap(&params.tiles.dout_map);
    }
    //@if paired
    sync_cluster();
    //@else
    bar_sync_0();
    //@endif
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
        //@if paired
        else {
            Exchanger exchanger = {shared, &params.tiles.common};
            exchanger.run();
        }
        //@endif
    } else {
        setmaxnreg_inc<kConsumerRegisters>();
        Consumer consumer;
        consumer.shared = shared;
        consumer.params = &params.tiles.common;
        consumer.number = warpgroup - 1;
        //@if whole
        consumer.dq_map = &params.tiles.dq_map;
        //@endif
        consumer.run();
    }
    //@if paired
    sync_cluster();
    //@endif
}

//@if deterministic
#include "bwd_queries_sm90.cuh"
//@else
/* What the sums of dQ are multiplied by. */
__device__ inline float sums_factor(const gdpa_bwd_params &params)
{
    return pair_constants(params).slope_epilogue;
}

#include "bwd_convert.cuh"
//@endif
