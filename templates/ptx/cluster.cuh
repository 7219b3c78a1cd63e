/*
 * Blocks of a cluster. PTX ISA, "%cluster_ctarank", "mapa", "barrier.cluster" (sm_90).
 */
#ifndef GDPA_PTX_CLUSTER_CUH
#define GDPA_PTX_CLUSTER_CUH

#include "types.cuh"

/* Number of this block in its cluster. */
__device__ inline uint32_t cluster_ctarank()
{
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

__device__ inline uint32_t cluster_nctarank()
{
    uint32_t count;
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(count));
    return count;
}

/* The address, for this block, of what block `rank` has at shared address `address`. */
__device__ inline uint32_t mapa_shared_cluster(uint32_t address, uint32_t rank)
{
    uint32_t mapped;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
    return mapped;
}

/* All threads of all blocks of the cluster arrive, and wait. */
__device__ inline void barrier_cluster_arrive()
{
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

__device__ inline void barrier_cluster_wait()
{
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/* At the barrier of any block of the cluster: an address from mapa_shared_cluster. */
__device__ inline void mbarrier_arrive_cluster(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/* As mbarrier_wait_parity, at a barrier of this block: what any block of the cluster did before it arrived there has happened. */
__device__ inline void mbarrier_wait_parity_cluster(uint32_t barrier, uint32_t parity)
{
    asm volatile("{ .reg .pred p; \n"
                 "WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1; \n"
                 "@p bra DONE; \n"
                 "bra WAIT; \n"
                 "DONE: }" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

#endif
