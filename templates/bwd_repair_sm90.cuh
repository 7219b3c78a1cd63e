/*
 * The warp of the Hopper backward that zeroes the rows of tiles which are not of the sequence, before the consumers see them.
 */
#ifndef GDPA_BWD_REPAIR_SM90_CUH
#define GDPA_BWD_REPAIR_SM90_CUH

#include "bwd_producer_sm90.cuh"
#include "bwd_products_sm90.cuh"
#include "bwd_work_sm90.cuh"
#include "config_default.cuh"
#include "params.h"
#include "ptx/fence.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/named_barrier.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/special_registers.cuh"
#include "ptx/warp.cuh"

static_assert(!kHoldsValues || kScoreSlots != 3, "the named barrier of repairs is no one else's");

/* Follows the messages like a consumer. Called by one whole warp. */
struct Repairer {
    Shared shared;
    const gdpa_bwd_params *params;
    uint32_t tile = 0;
    uint32_t steps = 0;        // before the tile
    uint32_t key_phase = 0;    // of the barriers `raw`
    //@if paired
    uint32_t other_key_phase = 0;
    //@endif
    uint32_t query_phases = 0; // one bit a slot
    uint32_t output_phases = 0;

    template <int kRows, int kChunks> __device__ void zero_rows(uint32_t place, int32_t first_row) const
    {
        const uint32_t lane = tid_x() % 32;
        const uint32_t zeros[4] = {0, 0, 0, 0};
        for (uint32_t chunk = 0; chunk < kChunks; ++chunk) {
            const uint32_t begin = place + chunk * (kRows * 128);
            for (uint32_t offset = first_row * 128 + lane * 16; offset < kRows * 128; offset += 32 * 16) {
                st_shared_v4_b32(begin + offset, zeros); // whole rows: their swizzle does not matter
            }
        }
        fence_proxy_async_shared();
    }

    template <int kRows, int kChunks>
    __device__ void repair(uint32_t place, const TileBarriers &barriers, uint32_t phase, int32_t first_row) const
    {
        mbarrier_wait_parity(barriers.raw, phase);
        zero_rows<kRows, kChunks>(place, first_row);
        if (kHoldsValues) { // consumers read V by ordinary loads
            bar_sync(kRepairBarrier, 32);
        } else {
            bar_warp_sync();
        }
        if (tid_x() % 32 == 0) {
            mbarrier_arrive(barriers.full);
        }
    }

    __device__ void repair_keys(uint32_t work)
    {
        const int32_t first_key = read_uniform_word(work + kWorkFirstKey);
        if (keys_need_repair(*params, first_key, read_uniform_word(work + kWorkLengthK))) {
            const int32_t valid_keys = read_uniform_word(work + kWorkValidKeys);
            repair<kBlockN, kDepthChunks>(shared.keys(), shared.of_keys(), key_phase, valid_keys);
            repair<kBlockN, kValueChunks>(shared.values(), shared.of_values(), key_phase, valid_keys);
            key_phase ^= 1;
        }
        //@if paired
        const int32_t length_k = read_uniform_word(work + kWorkLengthK);
        const int32_t other_key = first_key ^ kBlockN;
        if (keys_need_repair(*params, other_key, length_k)) {
            repair<kBlockN, 1>(shared.other_keys(), shared.of_other_keys(), other_key_phase,
                               keys_of_tile(other_key, length_k));
            other_key_phase ^= 1;
        }
        //@endif
    }

    /* Of each head only the last query tile can reach beyond the sequence. */
    __device__ void repair_queries(uint32_t work)
    {
        const QueryTiles queries = query_tiles(work);
        const int32_t row = (queries.end - 1) * kBlockM;
        const int32_t length_q = read_uniform_word(work + kWorkLengthQ);
        const bool raw = reaches_beyond<kBlockM>(row, length_q, others_follow_queries(*params));
        for (int32_t head = 0; head < params->heads_per_group && queries.count() > 0; ++head) {
            const uint32_t step = steps + static_cast<uint32_t>(queries.end - 1 - queries.start);
            if (raw) {
                const uint32_t query_slot = step % kQueryStages;
                repair<kBlockM, kDepthChunks>(shared.queries(query_slot), shared.of_queries(query_slot),
                                              query_phases >> query_slot & 1, length_q - row);
                query_phases ^= 1u << query_slot;
                const uint32_t output_slot = step % kOutputStages;
                repair<kBlockM, kValueChunks>(shared.outputs(output_slot), shared.of_outputs(output_slot),
                                              output_phases >> output_slot & 1, length_q - row);
                output_phases ^= 1u << output_slot;
            }
            steps += static_cast<uint32_t>(queries.count());
        }
    }

    __device__ void run()
    {
        while (true) {
            mbarrier_wait_parity(shared.work_full(tile), tile / 2 % 2);
            const uint32_t work = shared.work(tile);
            if (read_uniform_word(work + kWorkValidKeys) < 0) {
                return;
            }
            repair_keys(work);
            repair_queries(work);
            // The message may be there before the tile before is done with, whose phase this arrival must not count for.
            mbarrier_wait_parity(shared.of_values().empty, tile % 2 ^ 1);
            mbarrier_arrive(shared.of_values().empty);
            ++tile;
        }
    }
};

#endif
