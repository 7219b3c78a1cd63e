/*
 * The feeding side of the Hopper forward kernel, a warp each: the scout (scout_sm90.cuh) finds the work and asks the copy engine for queries,
 * the producer asks for keys and values, the repairer repairs value tiles.
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
#include "scout_sm90.cuh"
#include "work_sm90.cuh"

/* Whether a key tile holds rows in memory that are not of the sequence. */
__device__ inline bool needs_repair(const gdpa_fwd_params &params, int32_t length_k, int32_t tile)
{
    const bool cut = tile * kBlockN > length_k - kBlockN;
    return cut && (params.cu_seqlens_k != nullptr || params.seqused_k != nullptr);
}

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

    //@if values_first
    /* Values before the next keys: their slot is the first to become free, and they are needed first. */
    __device__ void load_tiles(uint32_t work)
    {
        const int32_t end_tile = read_uniform_word(work + kWorkEndTile);
        for (int32_t tile = read_uniform_word(work + kWorkFirstTile); tile < end_tile; ++tile) {
            load_keys(tile_place, work, tile);
            load_values(tile_place, work, tile);
            ++tile_place.uses;
        }
    }
    //@else
    /* Keys run one tile ahead of values: who is ahead of the others waits longer, and they stay closer together. */
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
    //@endif

    __device__ void run()
    {
        while (true) {
            mbarrier_wait_parity(shared.announced(query_place.slot()), query_place.phase());
            const uint32_t work = shared.work(query_place.slot());
            if (read_uniform_word(work + kWorkValidRows) == 0) {
                return;
            }
            //@if shared_out
            if (read_uniform_word(work + kWorkKept) == 0) {
                load_tiles(work);
            }
            //@else
            load_tiles(work);
            //@endif
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
            //@if shared_out
            if (read_uniform_word(work + kWorkKept) == 0) {
                repair(work);
            }
            //@else
            repair(work);
            //@endif
            mbarrier_arrive(shared.queries_empty(query_place.slot()));
            ++query_place.uses;
        }
    }
};

#endif
