/*
 * Copies from shared memory of this block to that of another one of the cluster, by the copy engine. PTX ISA, "cp.async.bulk" (sm_90).
 */
#ifndef GDPA_PTX_CLUSTER_COPY_CUH
#define GDPA_PTX_CLUSTER_COPY_CUH

#include "types.cuh"

/*
 * `to` and `barrier` are addresses from mapa_shared_cluster, of the same block; `from` is shared memory of this one. Addresses and size are
 * multiples of 16. Completes on `barrier` by its bytes: whoever has waited there may read what came, and whoever learns of that wait may
 * write over `from`. The writes of `from` come first through fence_proxy_async_shared and a barrier.
 */
__device__ inline void cp_async_bulk_to_cluster(uint32_t to, uint32_t from, uint32_t bytes, uint32_t barrier)
{
    asm volatile(
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
        "r"(from), "r"(bytes), "r"(barrier)
        : "memory");
}

#endif
