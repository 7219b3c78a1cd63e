/*
 * How two blocks of a cluster, which have neighbouring tiles of keys and meet the same queries, share what they add to dQ.
 *
 * The block of rank r makes 64 columns of dQ over the keys of both: each sends its dS to the other one, and has the columns of its K. So each sum
 * of dQ leaves the SMs half as often, and is complete where there are no more keys than those two tiles. Of the warpgroups of a block one
 * makes dQ of the even steps and the other one that of the odd steps.
 *
 *     consumers   dS(i) to shared memory
 *     warp 3      has the copy engine send it; waits for that of the other block, and tells it that it has arrived
 *     consumers   at step i + 2: dQ(i) of both, then tell both senders
 */
#ifndef GDPA_BWD_PAIR_SM90_CUH
#define GDPA_BWD_PAIR_SM90_CUH

#include "bwd_work_sm90.cuh"
#include "config_default.cuh"
#include "params.h"
#include "ptx/cluster.cuh"
#include "ptx/cluster_copy.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/special_registers.cuh"
#include "ptx/warp.cuh"
#include "ring.cuh"

static_assert(kCluster == 2 && kBlockM == 64 && kShareColumns == kChunkColumns, "two blocks with a chunk of dQ each");

__device__ inline uint32_t of_other_block(uint32_t address)
{
    return mapa_shared_cluster(address, cluster_ctarank() ^ 1);
}

/* Called by one whole warp. */
struct Exchanger {
    Shared shared;
    const gdpa_bwd_params *params;
    uint32_t tile = 0;
    RingPlace<kScoreSlots> step;

    __device__ void send() const
    {
        mbarrier_wait_parity(shared.scores_full(step.slot()), step.phase());
        mbarrier_wait_parity_cluster(shared.target_empty(step.slot()), step.phase() ^ 1);
        if (tid_x() % 32 == 0) {
            cp_async_bulk_to_cluster(of_other_block(shared.received_scores(step.slot())), shared.scores(step.slot()),
                                     kScoreBytes, of_other_block(shared.received_full(step.slot())));
        }
    }

    __device__ void receive() const
    {
        mbarrier_wait_parity(shared.received_full(step.slot()), step.phase());
        if (tid_x() % 32 == 0) {
            mbarrier_arrive_cluster(of_other_block(shared.scores_empty(step.slot())));
        }
    }

    __device__ void exchange()
    {
        if (tid_x() % 32 == 0) {
            mbarrier_arrive_expect_tx(shared.received_full(step.slot()), kScoreBytes);
        }
        send();
        receive();
        bar_warp_sync();
        ++step.uses;
    }

    __device__ void run()
    {
        while (true) {
            mbarrier_wait_parity(shared.work_full(tile), tile / 2 % 2);
            const uint32_t work = shared.work(tile);
            if (read_uniform_word(work + kWorkValidKeys) < 0) {
                return;
            }
            for (int32_t left = query_tiles(work).count() * params->heads_per_group; left > 0; --left) {
                exchange();
            }
            // The message may be there before the tile before is done with, whose phase this arrival must not count for.
            mbarrier_wait_parity(shared.of_values().empty, tile % 2 ^ 1);
            mbarrier_arrive(shared.of_values().empty);
            ++tile;
        }
    }
};

#endif
