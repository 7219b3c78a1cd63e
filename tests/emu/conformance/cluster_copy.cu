/*
 * Two blocks of a cluster send each other a piece of shared memory a turn, in two copies: what came in the turn before, xor a piece of the input.
 * Each reads what comes back to front, and all its threads tell the other block when they have. It writes 128 words a turn.
 */
#include "types.cuh"

#include "ptx/barrier.cuh"
#include "ptx/cluster.cuh"
#include "ptx/cluster_copy.cuh"
#include "ptx/fence.cuh"
#include "ptx/global_memory.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/special_registers.cuh"

struct cluster_copy_params {
    const uint32_t *input;
    uint32_t *output;
};

constexpr uint32_t kTurns = 5;
constexpr uint32_t kThreads = 128;
constexpr uint32_t kBytes = 4 * kThreads;
constexpr uint32_t kFirstBytes = 368;

extern "C" __global__ __launch_bounds__(kThreads) __cluster_dims__(2, 1, 1) void conformance(
    const __grid_constant__ cluster_copy_params params)
{
    const uint32_t outgoing = dynamic_shared_base();
    const uint32_t incoming = outgoing + kBytes;
    const uint32_t full = incoming + kBytes;
    const uint32_t taken = full + 8;
    const uint32_t other = cluster_ctarank() ^ 1;
    if (tid_x() == 0) {
        mbarrier_init(full, 1);
        mbarrier_init(taken, kThreads);
        fence_mbarrier_init();
    }
    barrier_cluster_arrive();
    barrier_cluster_wait();
    const uint32_t *input = params.input + ctaid_x() * kTurns * kThreads;
    uint32_t *output = params.output + ctaid_x() * kTurns * kThreads;
    uint32_t word = 0;
    for (uint32_t turn = 0; turn < kTurns; ++turn) {
        if (turn > 0) {
            mbarrier_wait_parity_cluster(taken, (turn - 1) & 1);
        }
        const uint32_t i = turn * kThreads + tid_x();
        word ^= static_cast<uint32_t>(ld_global_nc_s32(reinterpret_cast<const int32_t *>(input) + i));
        st_shared_b32(outgoing + tid_x() * 4, word);
        fence_proxy_async_shared();
        bar_sync_0();
        if (tid_x() == 0) {
            const uint32_t to = mapa_shared_cluster(incoming, other);
            const uint32_t signal = mapa_shared_cluster(full, other);
            mbarrier_arrive_expect_tx(full, kBytes);
            cp_async_bulk_to_cluster(to + kFirstBytes, outgoing + kFirstBytes, kBytes - kFirstBytes, signal);
            cp_async_bulk_to_cluster(to, outgoing, kFirstBytes, signal);
        }
        mbarrier_wait_parity_cluster(full, turn & 1);
        word = ld_shared_b32(incoming + kBytes - 4 - tid_x() * 4);
        mbarrier_arrive_cluster(mapa_shared_cluster(taken, other));
        st_global_b32(output + i, word);
    }
    barrier_cluster_arrive(); // nobody leaves while the other one may still read or arrive here
    barrier_cluster_wait();
}
