/*
 * The warp of the Hopper backward that finds work: a key tile ahead of the producer, to which it leaves a message.
 *
 * Where there is a counter in the workspace, numbers are claimed from it when they are needed, so that blocks with little work take more of them.
 * Else block b takes b, b + grid, ... Numbers are those of tiles; but where all tiles cost the same, and the last round has some for few blocks
 * only, each of these has a number for each of several pieces, which are some of the queries, and blocks share it (Store::collect).
 *
 * With a schedule of the caller numbers are places in its list of keys (bwd_list_sm90.cuh). They are drawn from a counter of the schedule, so
 * that the workspace needs none, or go there and back through the rounds of the grid; no tile is shared.
 */
#ifndef GDPA_BWD_SCOUT_SM90_CUH
#define GDPA_BWD_SCOUT_SM90_CUH

//@if listed
#include "bwd_list_sm90.cuh"
//@endif
//@if paired
#include "bwd_pair_sm90.cuh"
#include "ptx/cluster.cuh"
#include "ptx/cluster_copy.cuh"
#include "ptx/fence.cuh"
//@endif
#include "bwd_message_sm90.cuh"
#include "bwd_producer_sm90.cuh"
#include "bwd_products_sm90.cuh"
#include "bwd_work_sm90.cuh"
#include "config_default.cuh"
#include "gradient.cuh"
#include "gradient_tiles.cuh"
#include "mask_queries.cuh"
#include "order_params.h"
#include "params.h"
#include "ptx/mbarrier.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/special_registers.cuh"
#include "ptx/warp.cuh"
#include "sequence.cuh"
//@if !listed
//@if !deterministic
#include "ptx/atomic.cuh"
//@endif
//@endif

/* Called by one whole warp. */
struct Scout : Messages {
    uint32_t found = 0; // messages, counted
    //@if paired
    RingPlace<1> claimed;
    //@endif

    /* The message is complete. By the whole warp. */
    __device__ void announce()
    {
        bar_warp_sync();
        if (lane() == 0) {
            mbarrier_arrive(shared.found_full());
        }
        ++found;
    }

    /* Leaves a message about a tile, if there is anything to do in it. `number` says which piece of it, where there are pieces. */
    __device__ void visit(const GradientTile &place, int64_t number)
    {
        const gdpa_bwd_params &common = *params;
        if (place.batch < 0) {
            return;
        }
        const Sequence k = find_sequence(common.cu_seqlens_k, common.seqused_k, common.rows_k, place.batch);
        if (place.first_row >= k.length && !writes_queries(common)) {
            return;
        }
        const Sequence q = find_sequence(common.cu_seqlens_q, common.seqused_q, common.rows_q, place.batch);
        if (lane() == 0) {
            write_message(place, q, k);
            //@if !deterministic
            write_piece(number);
            //@endif
        }
        announce();
    }

    //@if !listed
    //@if !deterministic
    /* The next number that nobody has. */
    __device__ int64_t claim() const
    {
        uint32_t number = 0;
        if (lane() == 0) {
            number = atom_global_add_u32(order->counter, 1);
        }
        return shfl_sync_idx(number, 0);
    }
    //@endif
    //@endif

    __device__ static uint32_t lane()
    {
        return tid_x() % 32;
    }

    //@if listed
    //@if dynamic
    /* What a block has drawn no other one can take, so none is drawn before it is asked for. */
    __device__ void follow_list()
    {
        KeyList list = {params, order};
        const PlaceCounter counter = {order->schedule + kScheduleBackwardCounters};
        const uint32_t places = list.places();
        uint32_t place = ctaid_x();
        while (place < places) {
            visit(list.find(place), place);
            wait_for_question();
            place = shfl_sync_idx(counter.draw(), 0);
        }
        if (lane() == 0) {
            counter.finish();
        }
    }
    //@else
    /* There and back through the places of each round of the grid. */
    __device__ void follow_list()
    {
        KeyList list = {params, order};
        const uint32_t places = list.places();
        uint32_t turn = ctaid_x();
        for (uint32_t round = 0; round < places; round += nctaid_x()) {
            if (round + turn < places) {
                wait_for_question();
                visit(list.find(round + turn), 0);
            }
            turn = nctaid_x() - 1 - turn;
        }
    }
    //@endif
    //@else
    /* The tile that a number stands for. */
    __device__ GradientTile find(int64_t number) const
    {
        const gdpa_bwd_params &common = *params;
        //@if !deterministic
        if (common.tiles_per_seq > 0) {
            const Division of_pair = divide(tile_of(number), order->turns);
            const Division of_group = divide(of_pair.quotient, common.tiles_per_seq);
            const Division of_batch = divide(of_group.quotient * order->turns + of_pair.remainder, common.heads_k);
            return {static_cast<int32_t>(of_batch.quotient), of_batch.remainder,
                    static_cast<int64_t>(of_group.remainder) * kTileKeys};
        }
        //@endif
        return find_key_tile(common, number);
    }

    //@if paired
    /* The same for both blocks: the first one claims. */
    __device__ int64_t claim_together()
    {
        uint32_t number = 0;
        if (cluster_ctarank() == 0) {
            number = static_cast<uint32_t>(claim());
            mbarrier_wait_parity_cluster(shared.claimed_empty(), claimed.phase() ^ 1);
            if (lane() == 0) {
                const uint32_t words[4] = {number, 0, 0, 0};
                st_shared_v4_b32(shared.claimed(), words);
                fence_proxy_async_shared();
                cp_async_bulk_to_cluster(of_other_block(shared.claimed()), shared.claimed(), 16,
                                         of_other_block(shared.claimed_full()));
            }
        } else {
            if (lane() == 0) {
                mbarrier_arrive_expect_tx(shared.claimed_full(), 16);
            }
            mbarrier_wait_parity(shared.claimed_full(), claimed.phase());
            number = shfl_sync_idx(ld_shared_b32(shared.claimed()), 0);
            bar_warp_sync();
            if (lane() == 0) {
                mbarrier_arrive_cluster(of_other_block(shared.claimed_empty()));
            }
        }
        bar_warp_sync();
        ++claimed.uses;
        return number;
    }

    //@endif

    __device__ void follow_numbers()
    {
        //@if paired
        int64_t number = ctaid_x() / kCluster;
        const uint32_t clusters = nctaid_x() / kCluster;
        //@else
        int64_t number = ctaid_x();
        const uint32_t clusters = nctaid_x();
        //@endif
        while (true) {
            wait_for_question(); // no tile is claimed before it is asked for
            //@if claims_alone
            if (order->counter != nullptr) {
                number = claim();
            }
            //@endif
            //@if paired
            if (order->counter != nullptr) {
                number = claim_together();
            }
            //@endif
            if (number >= order->num_numbers) {
                break;
            }
            visit(find(number), number);
            number += clusters;
        }
    }
    //@endif

    /* Until the producer has taken the message before. */
    __device__ void wait_for_question() const
    {
        mbarrier_wait_parity(shared.found_empty(), found % 2 ^ 1);
    }

    __device__ void run()
    {
        //@if listed
        follow_list();
        //@else
        follow_numbers();
        //@endif
        wait_for_question();
        if (lane() == 0) {
            write_word(shared.found() + kWorkValidKeys, -1);
        }
        announce();
    }
};

#endif
