/*
 * The warp of the Hopper forward kernel that finds the work: it writes the messages, and asks the copy engine for the queries.
 *
 * It is ahead of everyone, by as many query tiles as there are slots: how long a search takes, and how far away the queries are, is then of
 * no importance, and the keys of the next tile follow those of this one without a gap.
 */
#ifndef GDPA_SCOUT_SM90_CUH
#define GDPA_SCOUT_SM90_CUH

#include "config_default.cuh"
//@if listed
#include "list_schedule.cuh"
//@endif
#include "mask.cuh"
#include "ptx/special_registers.cuh"
#include "ptx/tma.cuh"
#include "ptx/warp.cuh"
#include "ring.cuh"
#include "sequence.cuh"
//@if shared_out
#include "share_schedule.cuh"
//@endif
#include "tile_schedule.cuh"
#include "work_sm90.cuh"

/* All chunks of a tile, by one thread. */
template <int kChunks, int kChunkBytes>
__device__ inline void load_box(uint32_t shared, const gdpa_tensor_map *map, uint32_t barrier, int32_t row, int32_t head,
                                int32_t batch)
{
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
        cp_async_bulk_tensor_4d_load(shared + chunk * kChunkBytes, map, barrier, chunk * kChunkColumns, row, head, batch);
    }
}

/* Decides which tiles there are, and tells everyone. Called by one whole warp. */
struct Scout {
    Shared shared;
    const gdpa_fwd_sm90_params *params;
    RingPlace<kQueryStages> query_place;
    //@if dynamic
    static constexpr int32_t kShortTiles = 6; // keys of a query tile that are over before a place is drawn and looked up
    int32_t sent_tiles = 0;                   // keys of the tile that was sent last
    //@endif

    //@if listed
    /* A tile by its place in the schedule. */
    __device__ void send_listed(TileList &list, uint32_t place)
    {
        const gdpa_fwd_params &common = params->common;
        Sequence q;
        const TileWork work = list.find(place, q);
        if (work.batch >= 0) {
            send(work, q, find_sequence(common.cu_seqlens_k, common.seqused_k, common.rows_k, work.batch));
        }
    }

    //@if dynamic
    /*
     * The next place is drawn while this one is looked up, so that a short tile does not wait for it; behind a long tile only when there is a
     * slot for it: what a block has drawn, no other one can take.
     */
    __device__ void run_list()
    {
        TileList list = {&params->common, 0};
        const PlaceCounter counter = {params->common.schedule + kScheduleForwardCounters};
        const uint32_t places = list.start();
        uint32_t place = ctaid_x();
        while (place < places) {
            const bool early = sent_tiles <= kShortTiles;
            uint32_t drawn = 0;
            if (early) {
                drawn = counter.draw();
            }
            send_listed(list, place);
            if (!early) {
                mbarrier_wait_parity(shared.queries_empty(query_place.slot()), query_place.phase() ^ 1);
                drawn = counter.draw();
            }
            place = shfl_sync_idx(drawn, 0);
        }
        if (tid_x() % 32 == 0) {
            counter.finish();
        }
    }
    //@else
    /* There and back through the places of each round of the grid. */
    __device__ void run_list()
    {
        TileList list = {&params->common, 0};
        const uint32_t places = list.start();
        uint32_t turn = ctaid_x();
        for (uint32_t round = 0; round < places; round += nctaid_x()) {
            if (round + turn < places) {
                send_listed(list, round + turn);
            }
            turn = nctaid_x() - 1 - turn;
        }
    }
    //@endif
    //@else
    /* A tile by its number, if there is anything to do in it. */
    __device__ void send_numbered(int64_t tile)
    {
        const gdpa_fwd_params &common = params->common;
        const TileWork place = find_tile(common, tile);
        if (place.batch < 0) {
            return;
        }
        const Sequence q = find_sequence(common.cu_seqlens_q, common.seqused_q, common.rows_q, place.batch);
        if (place.first_row >= q.length) {
            return;
        }
        send(place, q, find_sequence(common.cu_seqlens_k, common.seqused_k, common.rows_k, place.batch));
    }
    //@endif

    /*
     * Writes the message of a tile, once a query slot is empty, and asks for the queries. kept, keeps: whether the message before, and the
     * next one, are of the same keys, all of which stay where they are.
     */
    __device__ void send(const TileWork &place, const Sequence &q, const Sequence &k, bool kept = false,
                         bool keeps = false)
    {
        const gdpa_fwd_params &common = params->common;
        const int32_t first_row = static_cast<int32_t>(place.first_row);
        const int32_t rows_left = q.length - first_row;
        const int32_t valid_rows = rows_left < kBlockM ? rows_left : kBlockM;
        const KeyRange range = visible_keys(first_row, first_row + valid_rows - 1, q.length, k.length);
        //@if dynamic
        sent_tiles = (range.end - range.begin) / kBlockN;
        //@endif
        mbarrier_wait_parity(shared.queries_empty(query_place.slot()), query_place.phase() ^ 1);
        if (tid_x() % 32 == 0) {
            const uint32_t work = shared.work(query_place.slot());
            st_shared_b64(work + kWorkOffset, place.batch * common.o_stride_batch +
                                                  (q.first_row + first_row) * common.o_stride_row +
                                                  place.head * common.o_stride_head);
            write_word(work + kWorkFirstRow, first_row);
            write_word(work + kWorkValidRows, valid_rows);
            write_word(work + kWorkLengthQ, q.length);
            write_word(work + kWorkLengthK, k.length);
            write_word(work + kWorkFirstTile, range.begin / kBlockN);
            write_word(work + kWorkEndTile, (range.end + kBlockN - 1) / kBlockN);
            write_word(work + kWorkHeadQ, place.head);
            write_word(work + kWorkHeadK, place.head / common.heads_per_group);
            write_word(work + kWorkRowQ, static_cast<int32_t>(q.first_row) + first_row);
            write_word(work + kWorkRowK, static_cast<int32_t>(k.first_row));
            write_word(work + kWorkBatchQ, common.cu_seqlens_q != nullptr ? 0 : place.batch);
            write_word(work + kWorkBatchK, common.cu_seqlens_k != nullptr ? 0 : place.batch);
            //@if shared_out
            write_word(work + kWorkKept, kept);
            write_word(work + kWorkKeeps, keeps);
            //@endif
        }
        announce_and_load();
    }

    /* Every lane announces the message: all of them have read the sums where the first keys go. */
    __device__ void announce_and_load()
    {
        mbarrier_arrive(shared.announced(query_place.slot()));
        if (tid_x() % 32 == 0) {
            const uint32_t full = shared.queries_full(query_place.slot());
            const uint32_t work = shared.work(query_place.slot());
            mbarrier_arrive_expect_tx(full, kDepthChunks * kQueryChunkBytes);
            load_box<kDepthChunks, kQueryChunkBytes>(shared.queries(query_place.slot()), &params->q_map, full,
                                                     read_word(work + kWorkRowQ), read_word(work + kWorkHeadQ),
                                                     read_word(work + kWorkBatchQ));
        }
        ++query_place.uses;
    }

    //@if !listed
    /* A place of each round of the grid through the order of tiles. */
    __device__ void run_in_turn()
    {
        const gdpa_fwd_params &common = params->common;
        //@if causal
        uint32_t step = first_step(common);
        for (int64_t place = ctaid_x(); place < common.num_tiles; place += step, step = 2 * nctaid_x() - step) {
            send_numbered(place);
        }
        //@else
        // Sequences may have a number of tiles that divides the grid, and their last ones are short: rounds begin at different blocks.
        const uint32_t shift = static_cast<uint32_t>(common.round_shift);
        uint32_t turn = ctaid_x();
        for (int64_t round = 0; round < common.num_tiles; round += nctaid_x()) {
            if (round + turn < common.num_tiles) {
                send_numbered(round + turn);
            }
            turn += shift;
            turn = turn < nctaid_x() ? turn : turn - nctaid_x();
        }
        //@endif
    }
    //@endif

    //@if shared_out
    /* A piece of the line of tiles. */
    __device__ void run_share()
    {
        const gdpa_fwd_params &common = params->common;
        Share share = take_share(common, shared.keys(0));
        while (share.place < share.end && share.batch < common.batch) {
            const SequencePair pair = find_sequences(common, share.batch);
            const TileCosts costs = tile_costs(pair.q.length, pair.k.length);
            for (int32_t head = share.head; head < common.heads_q; ++head) {
                bool kept = false;
                for (int32_t tile = share.tile; tile < costs.tiles && share.place < share.end; ++tile) {
                    share.place += costs.cost;
                    const bool keeps =
                        pair.k.length <= kStages * kBlockN && tile + 1 < costs.tiles && share.place < share.end;
                    send({share.batch, head, static_cast<int64_t>(tile) * kBlockM}, pair.q, pair.k, kept, keeps);
                    kept = keeps;
                }
                share.tile = 0;
            }
            share.head = 0;
            ++share.batch;
        }
    }
    //@endif

    __device__ void run()
    {
        //@if shared_out
        if (is_shared_out(params->common)) {
            run_share();
        } else {
            run_in_turn();
        }
        //@else
        //@if listed
        run_list();
        //@else
        run_in_turn();
        //@endif
        //@endif
        stop();
    }

    /* A work message without rows: there is no more. */
    __device__ void stop() const
    {
        mbarrier_wait_parity(shared.queries_empty(query_place.slot()), query_place.phase() ^ 1);
        if (tid_x() % 32 == 0) {
            write_word(shared.work(query_place.slot()) + kWorkValidRows, 0);
            mbarrier_arrive(shared.queries_full(query_place.slot()));
        }
        mbarrier_arrive(shared.announced(query_place.slot()));
    }
};

#endif
