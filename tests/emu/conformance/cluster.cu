/*
 * Two blocks of a cluster: block 0 loads a box for both, all threads tell block 1 when they have read it, which then does the same.
 * Each writes 512 words.
 */
#include "types.cuh"

#include "params.h"
#include "ptx/barrier.cuh"
#include "ptx/cluster.cuh"
#include "ptx/global_memory.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/special_registers.cuh"
#include "ptx/tma.cuh"
#include "ptx/tma_load.cuh"

struct cluster_params {
    gdpa_tensor_map map; // 2 dimensions, 16-bit; boxes of 16 x 8
    uint32_t *output;
};

constexpr uint32_t kBoxBytes = 16 * 8 * 2;

extern "C" __global__ __launch_bounds__(128) __cluster_dims__(2, 1, 1) void conformance(
    const __grid_constant__ cluster_params params)
{
    const uint32_t shared = dynamic_shared_base();
    const uint32_t full = shared + 4096;
    const uint32_t empty = full + 8;
    const uint32_t rank = cluster_ctarank();
    if (tid_x() == 0) {
        mbarrier_init(full, 1);
        mbarrier_init(empty, 2 * 128);
        fence_mbarrier_init();
    }
    barrier_cluster_arrive();
    barrier_cluster_wait();
    uint32_t *output = params.output + ctaid_x() * 512;
    for (uint32_t turn = 0; turn < 2; ++turn) {
        if (tid_x() == 0) {
            mbarrier_arrive_expect_tx(full, kBoxBytes);
            if (rank == turn) {
                if (turn > 0) {
                    mbarrier_wait_parity(empty, 0);
                }
                cp_async_bulk_tensor_2d_load_multicast(shared, &params.map, full, 3, static_cast<int32_t>(turn * 8), 1);
            }
        }
        mbarrier_wait_parity(full, turn & 1);
        if (tid_x() < kBoxBytes / 4) {
            st_global_b32(output + turn * 128 + tid_x(), ld_shared_b32(shared + tid_x() * 4));
        }
        if (turn == 0) {
            mbarrier_arrive_cluster(mapa_shared_cluster(empty, 1)); // block 1 loads next, into both
        }
    }
    if (tid_x() == 0) {
        st_global_b32(output + 256, rank);
        st_global_b32(output + 257, cluster_nctarank());
    }
    barrier_cluster_arrive(); // nobody leaves while the other one may still arrive at its barrier
    barrier_cluster_wait();
}
