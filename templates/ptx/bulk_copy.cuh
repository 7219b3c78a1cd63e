/*
 * Copies of consecutive bytes by the copy engine. PTX ISA, "cp.async.bulk", "cp.reduce.async.bulk" (sm_90).
 *
 * Addresses and sizes are multiples of 16.
 */
#ifndef GDPA_PTX_BULK_COPY_CUH
#define GDPA_PTX_BULK_COPY_CUH

#include "types.cuh"

/* Completes on `barrier` by its bytes. */
__device__ inline void cp_async_bulk_load(uint32_t shared, const void *global, uint32_t bytes, uint32_t barrier)
{
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared),
        "l"(global), "r"(bytes), "r"(barrier)
        : "memory");
}

/* Completes by its group: ptx/bulk_group.cuh. */
__device__ inline void cp_async_bulk_store(void *global, uint32_t shared, uint32_t bytes)
{
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global), "r"(shared), "r"(bytes)
                 : "memory");
}

/* Adds fp32 numbers to those in global memory; completes by its group. */
__device__ inline void cp_reduce_async_bulk_add_f32(float *global, uint32_t shared, uint32_t bytes)
{
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(global),
                 "r"(shared), "r"(bytes)
                 : "memory");
}

#endif
