/*
 * The producer side of the second kernel of a deterministic Hopper backward: one warp finds query tiles and asks the copy engine for what they
 * need; a second one repairs key and value tiles, as in the main kernel.
 *
 * Keys are repaired, for 0 * NaN is not 0, and values too: what dP holds beyond the end of a sequence is multiplied by those zeros. Then pairs there
 * add exactly nothing and need no mask. Queries and dO need no repair: what their rows spoil is not stored.
 */
#ifndef GDPA_BWD_QUERIES_PRODUCER_SM90_CUH
#define GDPA_BWD_QUERIES_PRODUCER_SM90_CUH

#include "bwd_producer_sm90.cuh"
#include "bwd_queries_work_sm90.cuh"
#include "bwd_repair_sm90.cuh"
#include "config_default.cuh"
#include "gradient_tiles.cuh"
#include "mask.cuh"
#include "ptx/special_registers.cuh"
#include "ptx/warp.cuh"
#include "ring.cuh"
#include "sequence.cuh"

/* Whether a key tile holds rows in memory that are not of the sequence. */
__device__ inline bool dq_needs_repair(const gdpa_bwd_params &params, int32_t key_tile, int32_t length_k)
{
    return reaches_beyond<kDqKeys>(key_tile * kDqKeys, length_k,
                                   params.cu_seqlens_k != nullptr || params.seqused_k != nullptr);
}

struct DqProducer {
    DqShared shared;
    const gdpa_bwd_sm90_params *params;
    uint32_t tile = 0; // of queries, counted
    RingPlace<kDqKeyStages> key_place;

    /*
     * Tiles of rows that are all there come first, then the last ones of all sequences, which are shorter: at the end of a launch, small pieces
     * fill the gap between blocks that have one more tile and those that have one less. Masks make other differences, which `run` sees to.
     */
    __device__ GradientTile find_rows(int64_t number) const
    {
        const gdpa_bwd_params &common = params->common;
        const int32_t tiles = common.query_tiles_per_seq;
        //@if !masked
        const bool cut = common.cu_seqlens_q != nullptr || static_cast<uint32_t>(common.rows_q) % kDqRows != 0;
        if (tiles > 1 && cut) {
            const int64_t whole = static_cast<int64_t>(common.batch) * common.heads_q * (tiles - 1);
            const bool last = number >= whole;
            GradientTile place = find_tile<kDqRows>({common.cu_seqlens_q, common.batch, common.heads_q, last ? 1 : tiles - 1},
                                                    last ? number - whole : number);
            place.first_row += last ? static_cast<int64_t>(tiles - 1) * kDqRows : 0;
            return place;
        }
        //@endif
        return find_tile<kDqRows>({common.cu_seqlens_q, common.batch, common.heads_q, tiles}, number);
    }

    /* Writes the message of a query tile. False: there is no such tile. Called by the whole warp. */
    __device__ bool assign(int64_t number) const
    {
        const gdpa_bwd_params &common = params->common;
        const GradientTile place = find_rows(number);
        if (place.batch < 0) {
            return false;
        }
        const Sequence q = find_sequence(common.cu_seqlens_q, common.seqused_q, common.rows_q, place.batch);
        if (place.first_row >= q.length) {
            return false;
        }
        write_rows(place, q);
        write_keys(place, q.length);
        return true;
    }

    /* The part of the message about the query rows. */
    __device__ void write_rows(const GradientTile &place, const Sequence &q) const
    {
        const gdpa_bwd_params &common = params->common;
        const int32_t first_row = static_cast<int32_t>(place.first_row);
        const int32_t rows_left = q.length - first_row;
        const int64_t row = q.first_row + first_row;
        if (tid_x() == 0) {
            const uint32_t work = shared.work(tile);
            st_shared_b64(work + kDqWorkOffset, place.batch * common.dq_stride_batch + row * common.dq_stride_row +
                                                    place.head * common.dq_stride_head);
            write_word(work + kDqWorkFirstRow, first_row);
            write_word(work + kDqWorkValidRows, rows_left < kDqRows ? rows_left : kDqRows);
            write_word(work + kDqWorkLengthQ, q.length);
            write_word(work + kDqWorkHeadQ, place.head);
            write_word(work + kDqWorkHeadK, place.head / common.heads_per_group);
            write_word(work + kDqWorkRowQ, static_cast<int32_t>(row));
            write_word(work + kDqWorkBatchQ, common.cu_seqlens_q == nullptr ? place.batch : 0);
        }
    }

    /* And that about the keys. */
    __device__ void write_keys(const GradientTile &place, int32_t length_q) const
    {
        const gdpa_bwd_params &common = params->common;
        const Sequence k = find_sequence(common.cu_seqlens_k, common.seqused_k, common.rows_k, place.batch);
        const int64_t end_row = place.first_row + kDqRows;
        const int64_t last_row = (end_row < length_q ? end_row : length_q) - 1;
        const KeyRange range = visible_keys(place.first_row, last_row, length_q, k.length);
        if (tid_x() == 0) {
            const uint32_t work = shared.work(tile);
            write_word(work + kDqWorkLengthK, k.length);
            write_word(work + kDqWorkFirstTile, range.begin / kDqKeys);
            write_word(work + kDqWorkEndTile, (range.end + kDqKeys - 1) / kDqKeys);
            write_word(work + kDqWorkRowK, static_cast<int32_t>(k.first_row));
            write_word(work + kDqWorkBatchK, common.cu_seqlens_k == nullptr ? place.batch : 0);
        }
    }

    /* By one thread: Q and dO, once the readers of the tile before are done. */
    __device__ void load_rows() const
    {
        const uint32_t work = shared.work(tile);
        mbarrier_wait_parity(shared.rows_empty(), tile % 2 ^ 1);
        const int32_t row = read_word(work + kDqWorkRowQ);
        const int32_t head = read_word(work + kDqWorkHeadQ);
        const int32_t batch = read_word(work + kDqWorkBatchQ);
        load_box<kDepthChunks, kDqRowChunkBytes>(shared.queries(), &params->q_map, shared.rows_full(), row, head, batch);
        load_box<kValueChunks, kDqRowChunkBytes>(shared.outputs(), &params->dout_map, shared.rows_full(), row, head, batch);
    }

    /* By one thread: K or V of a key tile into its slot. */
    template <int kChunks>
    __device__ void load_key_tile(uint32_t to, const gdpa_tensor_map *map, const TileBarriers &barriers, int32_t key_tile) const
    {
        const uint32_t work = shared.work(tile);
        mbarrier_wait_parity(barriers.empty, key_place.phase() ^ 1);
        const bool raw = dq_needs_repair(params->common, key_tile, read_word(work + kDqWorkLengthK));
        load_box<kChunks, kDqKeyChunkBytes>(to, map, raw ? barriers.raw : barriers.full,
                                            read_word(work + kDqWorkRowK) + key_tile * kDqKeys,
                                            read_word(work + kDqWorkHeadK), read_word(work + kDqWorkBatchK));
    }

    __device__ void load_keys_and_values(int32_t key_tile)
    {
        const uint32_t slot = key_place.slot();
        load_key_tile<kDepthChunks>(shared.keys(slot), &params->k_map, shared.of_keys(slot), key_tile);
        load_key_tile<kValueChunks>(shared.values(slot), &params->v_map, shared.of_values(slot), key_tile);
        ++key_place.uses;
    }

    /* By one thread. The first keys do not wait for the query tile before: they load while it is stored. */
    __device__ void load()
    {
        const int32_t first_tile = read_word(shared.work(tile) + kDqWorkFirstTile);
        const int32_t end_tile = read_word(shared.work(tile) + kDqWorkEndTile);
        if (first_tile < end_tile) {
            load_keys_and_values(first_tile);
        }
        load_rows();
        for (int32_t key_tile = first_tile + 1; key_tile < end_tile; ++key_tile) {
            load_keys_and_values(key_tile);
        }
    }

    __device__ void run()
    {
        // Rounds go forth and back: who had the longest tile of one round, where masks make them differ, has the shortest of the next.
        uint32_t step = 2 * (nctaid_x() - ctaid_x()) - 1;
        for (int64_t number = ctaid_x(); number < params->common.num_query_tiles;
             number += step, step = 2 * nctaid_x() - step) {
            if (!assign(number)) {
                continue;
            }
            if (tid_x() == 0) {
                mbarrier_arrive(shared.work_full(tile));
                load();
            }
            bar_warp_sync();
            ++tile;
        }
        if (tid_x() == 0) { // there is no more
            write_word(shared.work(tile) + kDqWorkValidRows, 0);
            mbarrier_arrive(shared.work_full(tile));
        }
    }
};

/* Zeroes the rows of key and value tiles that are not of the sequence. Follows the messages like a consumer. Called by one whole warp. */
struct DqRepairer {
    DqShared shared;
    const gdpa_bwd_params *params;
    uint32_t tile = 0;
    RingPlace<kDqKeyStages> key_place; // of the first key tile of the message
    uint32_t raw_phases = 0;           // one bit a slot

    /* Only the last key tile of a message can reach beyond the sequence. */
    __device__ void repair(uint32_t work)
    {
        const int32_t length_k = read_uniform_word(work + kDqWorkLengthK);
        const int32_t tiles = read_uniform_word(work + kDqWorkEndTile) - read_uniform_word(work + kDqWorkFirstTile);
        const int32_t last = read_uniform_word(work + kDqWorkEndTile) - 1;
        if (tiles > 0 && dq_needs_repair(*params, last, length_k)) {
            const uint32_t slot = (key_place.uses + static_cast<uint32_t>(tiles) - 1) % kDqKeyStages;
            const uint32_t phase = raw_phases >> slot & 1;
            repair_rows<kDepthChunks>(shared.keys(slot), shared.of_keys(slot), phase, length_k - last * kDqKeys);
            repair_rows<kValueChunks>(shared.values(slot), shared.of_values(slot), phase, length_k - last * kDqKeys);
            raw_phases ^= 1u << slot;
        }
        key_place.uses += static_cast<uint32_t>(tiles);
    }

    template <int kChunks>
    __device__ static void repair_rows(uint32_t place, const TileBarriers &barriers, uint32_t phase, int32_t first_row)
    {
        const Repairer of_main_kernel = {}; // what it does to a tile does not depend on which kernel the tile is of
        of_main_kernel.repair<kDqKeys, kChunks>(place, barriers, phase, first_row);
    }

    __device__ void run()
    {
        while (true) {
            mbarrier_wait_parity(shared.work_full(tile), tile / 2 % 2);
            const uint32_t work = shared.work(tile);
            if (read_uniform_word(work + kDqWorkValidRows) == 0) {
                return;
            }
            repair(work);
            // The message may be there before the tile before is done with, whose phase this arrival must not count for.
            mbarrier_wait_parity(shared.rows_empty(), tile % 2 ^ 1);
            mbarrier_arrive(shared.rows_empty());
            ++tile;
        }
    }
};

#endif
