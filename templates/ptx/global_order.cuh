/*
 * Global memory in which blocks of one launch exchange sums. PTX ISA, "membar", "fence", "ld".
 */
#ifndef GDPA_PTX_GLOBAL_ORDER_CUH
#define GDPA_PTX_GLOBAL_ORDER_CUH

#include "types.cuh"

/* Order for relaxed accesses on both sides of it, also those of other threads that barriers have told this one of. */
__device__ inline void fence_acq_rel_gpu()
{
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
}

/* From where reductions take place, past the caches of the SM. The address is aligned to 16 bytes. */
__device__ inline void ld_global_relaxed_v4_f32(float (&value)[4], const float *address)
{
    asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(value[0]), "=f"(value[1]), "=f"(value[2]), "=f"(value[3])
                 : "l"(address)
                 : "memory");
}

#endif
