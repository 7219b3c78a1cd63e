/*
 * The producer side of the Hopper backward kernel: one warp asks the copy engine for tiles; a second one repairs them. A third one finds the work
 * (bwd_scout_sm90.cuh).
 *
 * A tile that reaches beyond its sequence, into rows that are there in memory, holds other sequences' numbers, perhaps NaN, and 0 * NaN is
 * not 0. Such a tile completes another barrier first (raw); the repair warp zeroes the rows and passes it on. With zeros in all
 * four operands, pairs beyond the end of a sequence add exactly nothing, and need no mask.
 */
#ifndef GDPA_BWD_PRODUCER_SM90_CUH
#define GDPA_BWD_PRODUCER_SM90_CUH

#include "bwd_work_sm90.cuh"
#include "config_default.cuh"
#include "gradient.cuh"
//@if paired
#include "ptx/cluster.cuh"
//@endif
#include "ptx/fence.cuh"
#include "ptx/named_barrier.cuh"
#include "ptx/special_registers.cuh"
#include "ptx/tma.cuh"
#include "ptx/warp.cuh"
#include "ring.cuh"

/* Chunks of a tile from column `first_column` on, by one thread. */
template <int kChunks, int kChunkBytes>
__device__ inline void load_box(uint32_t shared, const gdpa_tensor_map *map, uint32_t barrier, int32_t row, int32_t head,
                                int32_t batch, int32_t first_column = 0)
{
    mbarrier_arrive_expect_tx(barrier, kChunks * kChunkBytes);
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
        cp_async_bulk_tensor_4d_load(shared + chunk * kChunkBytes, map, barrier, first_column + chunk * kChunkColumns,
                                     row, head, batch);
    }
}

/* Whether a tile of kRows rows from `row` on holds rows in memory that are not of the sequence. */
template <int kRows> __device__ inline bool reaches_beyond(int32_t row, int32_t length, bool others_follow)
{
    return others_follow && row > length - kRows;
}

//@if paired
/* How many keys a tile of a sequence has, which may begin behind its end. */
__device__ inline int32_t keys_of_tile(int32_t first_key, int32_t length)
{
    const int32_t left = length - first_key;
    return left < 0 ? 0 : left < kBlockN ? left : kBlockN;
}

//@endif
/* Of keys; a tile without any, whose only work is to write zeros to dq, is not copied but zeroed. */
__device__ inline bool keys_need_repair(const gdpa_bwd_params &params, int32_t first_key, int32_t length)
{
    return length == 0 || reaches_beyond<kBlockN>(first_key, length, params.cu_seqlens_k != nullptr || params.seqused_k != nullptr);
}

__device__ inline bool others_follow_queries(const gdpa_bwd_params &params)
{
    return params.cu_seqlens_q != nullptr || params.seqused_q != nullptr;
}

/* Whether a block has all keys of a sequence and writes its dQ. */
__device__ inline bool writes_queries(const gdpa_bwd_params &params)
{
    //@if whole
    return params.dq != nullptr;
    //@else
    return kSumsQueries && params.dq != nullptr && params.dq_sum == nullptr;
    //@endif
}

struct Producer {
    Shared shared;
    const gdpa_bwd_sm90_params *params;
    uint32_t tile = 0; // of keys, counted
    RingPlace<kQueryStages> query_place;
    RingPlace<kOutputStages> output_place;

    /* By one thread: K or V of the tile that begins at key `row`, once its readers are done with the one before. */
    template <int kChunks>
    __device__ void load_keys(uint32_t to, const gdpa_tensor_map *map, const TileBarriers &barriers, int32_t row,
                              int32_t first_column = 0) const
    {
        const uint32_t work = shared.work(tile);
        mbarrier_wait_parity(barriers.empty, tile % 2 ^ 1);
        const int32_t length = read_word(work + kWorkLengthK);
        const bool raw = keys_need_repair(params->common, row, length);
        if (length == 0) {
            mbarrier_arrive(barriers.raw);
            return;
        }
        load_box<kChunks, kKeyChunkBytes>(to, map, raw ? barriers.raw : barriers.full, read_word(work + kWorkRowK) + row,
                                          read_word(work + kWorkHeadK), read_word(work + kWorkBatchK), first_column);
    }

    /* By one thread: where the dQ of a step goes. */
    __device__ void write_note(int32_t head, int32_t query_tile) const
    {
        const gdpa_bwd_params &common = params->common;
        const uint32_t work = shared.work(tile);
        const int64_t batch = read_word(work + kWorkBatchQ);
        const int64_t row = static_cast<int64_t>(read_word(work + kWorkRowQ)) + query_tile * kBlockM;
        int64_t offset = batch * common.dq_stride_batch + row * common.dq_stride_row + head * common.dq_stride_head;
        //@if !whole
        if (common.dq_sum != nullptr) {
            const int64_t block = ld_shared_b64(work + kWorkSumBlock) + query_tile * (kBlockM / 16);
            offset = (block * common.heads_q + head) * (16 * kSumColumns);
        }
        //@endif
        const uint32_t note = shared.note(query_place.uses);
        st_shared_b64(note + kNoteOffset, offset);
        write_word(note + kNoteValidRows, read_word(work + kWorkLengthQ) - query_tile * kBlockM);
        //@if whole
        write_word(note + kNoteRow, static_cast<int32_t>(row));
        write_word(note + kNoteHead, head);
        write_word(note + kNoteBatch, static_cast<int32_t>(batch));
        //@endif
    }

    /* By one thread: the query tile of a step. */
    template <int kChunks>
    __device__ void load_step(uint32_t to, const gdpa_tensor_map *map, const TileBarriers &barriers, int32_t head,
                              int32_t query_tile) const
    {
        const uint32_t work = shared.work(tile);
        const int32_t row = query_tile * kBlockM;
        const bool raw =
            reaches_beyond<kBlockM>(row, read_word(work + kWorkLengthQ), others_follow_queries(params->common));
        load_box<kChunks, kQueryChunkBytes>(to, map, raw ? barriers.raw : barriers.full,
                                            read_word(work + kWorkRowQ) + row, head, read_word(work + kWorkBatchQ));
    }

    __device__ void load_queries(int32_t head, int32_t query_tile)
    {
        const TileBarriers barriers = shared.of_queries(query_place.slot());
        mbarrier_wait_parity(barriers.empty, query_place.phase() ^ 1);
        write_note(head, query_tile);
        load_step<kDepthChunks>(shared.queries(query_place.slot()), &params->q_map,
                                barriers, head, query_tile);
        ++query_place.uses;
    }

    __device__ void load_outputs(int32_t head, int32_t query_tile)
    {
        const TileBarriers barriers = shared.of_outputs(output_place.slot());
        mbarrier_wait_parity(barriers.empty, output_place.phase() ^ 1);
        load_step<kValueChunks>(shared.outputs(output_place.slot()), &params->dout_map, barriers, head, query_tile);
        ++output_place.uses;
    }

    __device__ void load_keys_and_values() const
    {
        const int32_t row = read_word(shared.work(tile) + kWorkFirstKey);
        load_keys<kDepthChunks>(shared.keys(), &params->k_map, shared.of_keys(), row);
        //@if paired
        load_keys<1>(shared.other_keys(), &params->k_map, shared.of_other_keys(), row ^ kBlockN,
                     static_cast<int32_t>(cluster_ctarank()) * kChunkColumns);
        //@endif
        load_keys<kValueChunks>(shared.values(), &params->v_map, shared.of_values(), row);
    }

    /* By one thread. The first queries do not wait for the key tile before: they load while it is stored. */
    __device__ void load(const QueryTiles &queries)
    {
        const int32_t first_head = read_word(shared.work(tile) + kWorkHeadK) * params->common.heads_per_group;
        const int32_t end_head = first_head + params->common.heads_per_group;
        if (queries.count() == 0) { // the phases of the slots go on
            load_keys_and_values();
            return;
        }
        for (int32_t head = first_head; head < end_head; ++head) {
            int32_t query_tile = queries.start;
            for (int32_t i = 0; i < queries.count(); ++i, query_tile = queries.next(query_tile)) {
                load_queries(head, query_tile);
                if (i == 0 && head == first_head) {
                    load_keys_and_values();
                }
                load_outputs(head, query_tile);
            }
        }
    }

    /* The scout's message to where all read it. By the whole warp. */
    __device__ void pass_on() const
    {
        mbarrier_wait_parity(shared.found_full(), tile % 2);
        const bool is_last = read_uniform_word(shared.found() + kWorkValidKeys) < 0; // no other word was written
        const int place = static_cast<int>(tid_x()) * 4;
        if (is_last ? place == kWorkValidKeys : place < kWorkWords * 4) {
            st_shared_b32(shared.work(tile) + place, ld_shared_b32(shared.found() + place));
        }
        mbarrier_arrive(shared.found_empty());
        mbarrier_arrive(shared.work_full(tile));
        mbarrier_wait_parity(shared.work_full(tile), tile / 2 % 2); // lanes read each other's words
    }

    __device__ void run()
    {
        while (true) {
            pass_on();
            const uint32_t work = shared.work(tile);
            if (read_uniform_word(work + kWorkValidKeys) < 0) {
                return;
            }
            const QueryTiles queries = query_tiles(work);
            if (tid_x() == 0) {
                load(queries);
            }
            // One lane has waited for the readers of the message that all of them write over next.
            bar_sync(kProducerBarrier, 32);
            ++tile;
        }
    }
};

#endif
