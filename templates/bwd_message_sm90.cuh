/*
 * The message about a key tile of the Hopper backward, as the scout leaves it to the producer: where the tile is, which queries it meets, and
 * which blocks share it.
 */
#ifndef GDPA_BWD_MESSAGE_SM90_CUH
#define GDPA_BWD_MESSAGE_SM90_CUH

#include "bwd_producer_sm90.cuh"
#include "bwd_products_sm90.cuh"
#include "bwd_work_sm90.cuh"
#include "config_default.cuh"
#include "gradient.cuh"
#include "gradient_tiles.cuh"
#include "mask_queries.cuh"
#include "order_params.h"
#include "params.h"
//@if paired
#include "ptx/cluster.cuh"
//@endif
#include "ptx/shared_memory.cuh"
#include "sequence.cuh"

//@if !listed
//@if !deterministic
constexpr int kFirstArrived = 64; // word behind the counter of claims: how often each warp of a shared tile has come
static_assert((kFirstArrived + GDPA_BWD_MOST_SHARED * kConsumers * 4) * 4 <= GDPA_BWD_COUNTER_BYTES, "all counters fit");

//@endif
//@endif

/* By one thread, but for what says otherwise. */
struct Messages {
    Shared shared;
    const gdpa_bwd_params *params;
    const gdpa_bwd_order *order;

    /* The query tiles that a key tile has to meet. */
    __device__ QueryTiles find_queries(int32_t first_key, int32_t valid_keys, int32_t length_q, int32_t length_k) const
    {
        QueryRange range = visible_queries(first_key, first_key + valid_keys - 1, length_q, length_k);
        if (writes_queries(*params)) { // rows that see no key get their zeros here, too
            range = {0, length_q};
        }
        QueryTiles queries;
        queries.first = range.begin / kBlockM;
        queries.end = (range.end + kBlockM - 1) / kBlockM;
        queries.start = queries.first;
        //@if !window_right
        if (queries.count() > 0) { // bounded on the right, tiles begin at different queries by themselves
            queries.start += static_cast<int32_t>(static_cast<uint32_t>(first_key) / kBlockM %
                                                  static_cast<uint32_t>(queries.count()));
        }
        //@endif
        return queries;
    }

    /* By one thread: the message of a key tile. */
    __device__ void write_message(const GradientTile &place, const Sequence &q, const Sequence &k) const
    {
        const gdpa_bwd_params &common = *params;
        const uint32_t work = shared.found();
        //@if paired
        // Both blocks meet the same queries in the same order.
        const int32_t first_of_pair = static_cast<int32_t>(place.first_row);
        const int32_t pair_left = k.length - first_of_pair;
        const int32_t valid_of_pair = pair_left < kTileKeys ? pair_left : kTileKeys;
        const int32_t first_key = first_of_pair + static_cast<int32_t>(cluster_ctarank()) * kBlockN;
        const int32_t valid_keys = keys_of_tile(first_key, k.length);
        const QueryTiles queries = find_queries(first_of_pair, valid_of_pair, q.length, k.length);
        //@else
        const int32_t first_key = static_cast<int32_t>(place.first_row);
        const int32_t keys_left = k.length - first_key;
        const int32_t valid_keys = keys_left < kBlockN ? keys_left : kBlockN;
        const QueryTiles queries = find_queries(first_key, valid_keys, q.length, k.length);
        //@endif
        const int64_t key_row = k.first_row + first_key;
        st_shared_b64(work + kWorkOffsetK, place.batch * common.dk_stride_batch + key_row * common.dk_stride_row +
                                               place.head * common.dk_stride_head);
        st_shared_b64(work + kWorkOffsetV, place.batch * common.dv_stride_batch + key_row * common.dv_stride_row +
                                               place.head * common.dv_stride_head);
        st_shared_b64(work + kWorkSumBlock, first_sum_block(common, place.batch, q.first_row));
        write_word(work + kWorkFirstKey, first_key);
        write_word(work + kWorkValidKeys, valid_keys);
        write_word(work + kWorkLengthQ, q.length);
        write_word(work + kWorkLengthK, k.length);
        write_word(work + kWorkFirstTile, queries.first);
        write_word(work + kWorkEndTile, queries.end);
        write_word(work + kWorkStartTile, queries.start);
        write_word(work + kWorkHeadK, place.head);
        write_word(work + kWorkRowQ, static_cast<int32_t>(q.first_row));
        write_word(work + kWorkRowK, static_cast<int32_t>(k.first_row));
        write_word(work + kWorkBatchQ, common.cu_seqlens_q == nullptr ? place.batch : 0);
        write_word(work + kWorkBatchK, common.cu_seqlens_k == nullptr ? place.batch : 0);
    }

    //@if !deterministic
    /* By one thread: nobody shares the tile. */
    __device__ void write_whole() const
    {
        const uint32_t work = shared.found();
        write_word(work + kWorkPieces, 1);
        write_word(work + kWorkPiece, 0);
        st_shared_b64(work + kWorkRecords, 0);
        st_shared_b64(work + kWorkArrived, 0);
    }

    //@if listed
    __device__ void write_piece(int64_t) const
    {
        write_whole();
    }
    //@else
    /* Tiles behind each other have numbers behind each other; those that are shared have one for each piece. */
    __device__ int64_t tile_of(int64_t number) const
    {
        const int64_t shared_numbers = number - order->first_shared;
        return shared_numbers <= 0 ? number : order->first_shared + divide(shared_numbers, order->pieces).quotient;
    }

    __device__ int64_t number_of(int64_t tile) const
    {
        const int64_t shared_tiles = tile - order->first_shared;
        return shared_tiles <= 0 ? tile : order->first_shared + shared_tiles * order->pieces;
    }

    /* By one thread: of a tile that several blocks have, the message is about some of the queries only. */
    __device__ void write_piece(int64_t number) const
    {
        const int64_t tile = tile_of(number);
        const int64_t shared_tile = tile - order->first_shared;
        const uint32_t work = shared.found();
        if (shared_tile < 0) {
            write_whole();
            return;
        }
        const int64_t piece = number - number_of(tile);
        const int64_t first = read_word(work + kWorkFirstTile);
        const int64_t count = read_word(work + kWorkEndTile) - first;
        const int64_t begin = first + divide(count * piece, order->pieces).quotient;
        const int64_t end = first + divide(count * (piece + 1), order->pieces).quotient;
        write_word(work + kWorkFirstTile, static_cast<int32_t>(begin));
        write_word(work + kWorkStartTile, static_cast<int32_t>(begin));
        write_word(work + kWorkEndTile, static_cast<int32_t>(end));
        write_word(work + kWorkPieces, order->pieces);
        write_word(work + kWorkPiece, static_cast<int32_t>(piece));
        st_shared_b64(work + kWorkRecords,
                      reinterpret_cast<int64_t>(order->records + shared_tile * order->pieces * kRecord));
        st_shared_b64(work + kWorkArrived,
                      reinterpret_cast<int64_t>(order->counter + kFirstArrived + shared_tile * (kConsumers * 4)));
    }
    //@endif
    //@endif
};

#endif
