/*
 * The warp of the Hopper forward kernel that has the output of finished query tiles stored by the copy engine.
 *
 * A consumer leaves its 64 rows in shared memory, where its queries were, and goes on with the next tile; to wait until the copy engine has read
 * them is left to this warp, which gives the query tile back afterwards. What a sequence ends in, the consumers store themselves: a box knows
 * nothing of the rows behind, which are those of another sequence.
 */
#ifndef GDPA_STORER_SM90_CUH
#define GDPA_STORER_SM90_CUH

#include "config_default.cuh"
#include "params.h"
#include "ptx/bulk_group.cuh"
#include "ptx/special_registers.cuh"
#include "ptx/tma.cuh"
#include "ptx/tma_store.cuh"
#include "ring.cuh"
#include "work_sm90.cuh"

/* Follows the messages like a consumer. Called by one whole warp. */
struct Storer {
    Shared shared;
    const gdpa_fwd_sm90_params *params;
    RingPlace<kQueryStages> query_place;

    /* By one thread. Columns beyond the head dim are not in the tensor map. */
    __device__ void store(uint32_t work) const
    {
        const int32_t whole_warpgroups = read_word(work + kWorkValidRows) / 64;
        const int32_t row = read_word(work + kWorkRowQ);
        const int32_t head = read_word(work + kWorkHeadQ);
        const int32_t batch = read_word(work + kWorkBatchQ);
        for (int32_t number = 0; number < whole_warpgroups; ++number) {
            const uint32_t rows = shared.queries(query_place.slot()) + number * (64 * 128);
#pragma unroll
            for (int chunk = 0; chunk < kValueChunks; ++chunk) {
                cp_async_bulk_tensor_4d_store(&params->o_map, rows + chunk * kQueryChunkBytes, chunk * kChunkColumns,
                                              row + number * 64, head, batch);
            }
        }
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group_read<0>();
    }

    __device__ void run()
    {
        while (true) {
            mbarrier_wait_parity(shared.announced(query_place.slot()), query_place.phase());
            const uint32_t work = shared.work(query_place.slot());
            if (read_uniform_word(work + kWorkValidRows) == 0) {
                cp_async_bulk_wait_group<0>();
                return;
            }
            mbarrier_wait_parity(shared.outputs_staged(query_place.slot()), query_place.phase());
            if (tid_x() % 32 == 0) {
                store(work);
            }
            mbarrier_arrive(shared.queries_empty(query_place.slot())); // every lane has read the message
            ++query_place.uses;
        }
    }
};

#endif
