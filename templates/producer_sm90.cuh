/*
 * The feeding side of the Hopper forward kernel, a warp each: the scout finds the work and asks the copy engine for queries, the producer
 * asks for keys and values, the repairer repairs value tiles.
 *
 * The scout is ahead of everyone, by as many query tiles as there are slots: how long a search takes, and how far away the queries are,
 * is then of no importance, and the keys of the next tile follow those of this one without a gap.
 *
 * A value tile that reaches beyond its sequence, into rows that are there in memory, holds other sequences' values, perhaps NaN, and 0 * NaN is
 * not 0. Such a tile completes another barrier first (values_raw); the repair warp zeroes the rows and passes it on. Keys and queries
 * need no repair: what they spoil is masked, or not stored.
 */
#ifndef GDPA_PRODUCER_SM90_CUH
#define GDPA_PRODUCER_SM90_CUH

#include "config_default.cuh"
#include "mask.cuh"
#include "ptx/fence.cuh"
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

/* Whether a key tile holds rows in memory that are not of the sequence. */
__device__ inline bool needs_repair(const gdpa_fwd_params &params, int32_t length_k, int32_t tile)
{
    const bool cut = tile * kBlockN > length_k - kBlockN;
    return cut && (params.cu_seqlens_k != nullptr || params.seqused_k != nullptr);
}

/* Decides which tiles there are, and tells everyone. Called by one whole warp. */
struct Scout {
    Shared shared;
    const gdpa_fwd_sm90_params *params;
    RingPlace<kQueryStages> query_place;

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

    /* Writes the message of a tile, once a query slot is empty, and asks for the queries. */
    __device__ void send(const TileWork &place, const Sequence &q, const Sequence &k)
    {
        const gdpa_fwd_params &common = params->common;
        const int32_t first_row = static_cast<int32_t>(place.first_row);
        const int32_t rows_left = q.length - first_row;
        const int32_t valid_rows = rows_left < kBlockM ? rows_left : kBlockM;
        const KeyRange range = visible_keys(first_row, first_row + valid_rows - 1, q.length, k.length);
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
        }
        announce_and_load();
    }

    __device__ void announce_and_load()
    {
        if (tid_x() % 32 == 0) {
            const uint32_t full = shared.queries_full(query_place.slot());
            const uint32_t work = shared.work(query_place.slot());
            mbarrier_arrive(shared.announced(query_place.slot()));
            mbarrier_arrive_expect_tx(full, kDepthChunks * kQueryChunkBytes);
            load_box<kDepthChunks, kQueryChunkBytes>(shared.queries(query_place.slot()), &params->q_map, full,
                                                     read_word(work + kWorkRowQ), read_word(work + kWorkHeadQ),
                                                     read_word(work + kWorkBatchQ));
        }
        ++query_place.uses;
    }

    /* Places block, block + grid, ... of the order of tiles. */
    __device__ void run_in_turn()
    {
        const gdpa_fwd_params &common = params->common;
        //@if shared_out
        // Sequences may have a number of tiles that divides the grid, and their last ones are short: each round begins at the next block.
        uint32_t turn = ctaid_x();
        for (int64_t round = 0; round < common.num_tiles; round += nctaid_x()) {
            if (round + turn < common.num_tiles) {
                send_numbered(round + turn);
            }
            turn = turn + 1 < nctaid_x() ? turn + 1 : 0;
        }
        //@else
        uint32_t step = first_step(common);
        for (int64_t place = ctaid_x(); place < common.num_tiles + common.gap_size;
             place += step, step = 2 * nctaid_x() - step) {
            const int64_t tile = place < common.gap_begin ? place : place - common.gap_size;
            const bool in_gap = tile < common.gap_begin && place >= common.gap_begin;
            if (!in_gap) {
                send_numbered(tile);
            }
        }
        //@endif
    }

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
                for (int32_t tile = share.tile; tile < costs.tiles && share.place < share.end; ++tile) {
                    send({share.batch, head, static_cast<int64_t>(tile) * kBlockM}, pair.q, pair.k);
                    share.place += costs.cost;
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
        run_in_turn();
        //@endif
        stop();
    }

    /* A work message without rows: there is no more. */
    __device__ void stop() const
    {
        mbarrier_wait_parity(shared.queries_empty(query_place.slot()), query_place.phase() ^ 1);
        if (tid_x() % 32 == 0) {
            write_word(shared.work(query_place.slot()) + kWorkValidRows, 0);
            mbarrier_arrive(shared.announced(query_place.slot()));
            mbarrier_arrive(shared.queries_full(query_place.slot()));
        }
    }
};

/* Asks for the keys and values of the messages. Called by one whole warp. */
struct Producer {
    Shared shared;
    const gdpa_fwd_sm90_params *params;
    RingPlace<kQueryStages> query_place;
    RingPlace<kStages> tile_place; // of the key tile that comes next

    __device__ void load_keys(RingPlace<kStages> place, uint32_t work, int32_t tile) const
    {
        mbarrier_wait_parity(shared.keys_empty(place.slot()), place.phase() ^ 1);
        if (tid_x() % 32 == 0) {
            const uint32_t full = shared.keys_full(place.slot());
            mbarrier_arrive_expect_tx(full, kKeyBytes);
            load_box<kDepthChunks, kKeyChunkBytes>(shared.keys(place.slot()), &params->k_map, full,
                                                   read_word(work + kWorkRowK) + tile * kBlockN,
                                                   read_word(work + kWorkHeadK), read_word(work + kWorkBatchK));
        }
    }

    __device__ void load_values(RingPlace<kStages> place, uint32_t work, int32_t tile) const
    {
        mbarrier_wait_parity(shared.values_empty(place.slot()), place.phase() ^ 1);
        if (tid_x() % 32 == 0) {
            const bool repair = needs_repair(params->common, read_word(work + kWorkLengthK), tile);
            const uint32_t full = repair ? shared.values_raw(place.slot()) : shared.values_full(place.slot());
            mbarrier_arrive_expect_tx(full, kValueBytes);
            load_box<kValueChunks, kKeyChunkBytes>(shared.values(place.slot()), &params->v_map, full,
                                                   read_word(work + kWorkRowK) + tile * kBlockN,
                                                   read_word(work + kWorkHeadK), read_word(work + kWorkBatchK));
        }
    }

    /* Keys run one tile ahead of values: slots are asked for in the order in which they become free. */
    __device__ void load_tiles(uint32_t work)
    {
        const int32_t first_tile = read_uniform_word(work + kWorkFirstTile);
        const int32_t end_tile = read_uniform_word(work + kWorkEndTile);
        if (first_tile < end_tile) {
            load_keys(tile_place, work, first_tile);
        }
        for (int32_t tile = first_tile; tile < end_tile; ++tile) {
            const RingPlace<kStages> values_place = tile_place;
            ++tile_place.uses;
            if (tile + 1 < end_tile) {
                load_keys(tile_place, work, tile + 1);
            }
            load_values(values_place, work, tile);
        }
    }

    __device__ void run()
    {
        while (true) {
            mbarrier_wait_parity(shared.announced(query_place.slot()), query_place.phase());
            const uint32_t work = shared.work(query_place.slot());
            if (read_uniform_word(work + kWorkValidRows) == 0) {
                return;
            }
            load_tiles(work);
            mbarrier_arrive(shared.queries_empty(query_place.slot()));
            ++query_place.uses;
        }
    }
};

/* Zeroes the rows of value tiles that are not of the sequence. Follows the messages like a consumer. Called by one whole warp. */
struct Repairer {
    Shared shared;
    const gdpa_fwd_params *params;
    RingPlace<kQueryStages> query_place;
    RingPlace<kStages> tile_place; // of the first tile of the message
    uint32_t raw_phases = 0;       // one bit a slot

    __device__ void zero_rows(uint32_t slot, int32_t first_row) const
    {
        const uint32_t lane = tid_x() % 32;
        const uint32_t zeros[4] = {0, 0, 0, 0};
        for (uint32_t chunk = 0; chunk < kValueChunks; ++chunk) {
            const uint32_t place = shared.values(slot) + chunk * kKeyChunkBytes;
            for (uint32_t offset = first_row * 128 + lane * 16; offset < kKeyChunkBytes; offset += 32 * 16) {
                st_shared_v4_b32(place + offset, zeros); // whole rows: their swizzle does not matter
            }
        }
        fence_proxy_async_shared();
    }

    /* Only the last tile of a message can reach beyond the sequence. */
    __device__ void repair(uint32_t work)
    {
        const int32_t length_k = read_uniform_word(work + kWorkLengthK);
        const int32_t tiles = read_uniform_word(work + kWorkEndTile) - read_uniform_word(work + kWorkFirstTile);
        const int32_t last = read_uniform_word(work + kWorkEndTile) - 1;
        if (tiles > 0 && needs_repair(*params, length_k, last)) {
            RingPlace<kStages> place = tile_place;
            place.uses += tiles - 1;
            mbarrier_wait_parity(shared.values_raw(place.slot()), raw_phases >> place.slot() & 1);
            raw_phases ^= 1u << place.slot();
            zero_rows(place.slot(), length_k - last * kBlockN);
            bar_warp_sync();
            if (tid_x() % 32 == 0) {
                mbarrier_arrive(shared.values_full(place.slot()));
            }
        }
        tile_place.uses += tiles;
    }

    __device__ void run()
    {
        while (true) {
            mbarrier_wait_parity(shared.queries_full(query_place.slot()), query_place.phase());
            const uint32_t work = shared.work(query_place.slot());
            if (read_uniform_word(work + kWorkValidRows) == 0) {
                return;
            }
            repair(work);
            mbarrier_arrive(shared.queries_empty(query_place.slot()));
            ++query_place.uses;
        }
    }
};

#endif
