/*
 * What else can be done with an mbarrier: see ptx/mbarrier.cuh.
 */
#ifndef GDPA_PTX_MBARRIER_OBJECT_CUH
#define GDPA_PTX_MBARRIER_OBJECT_CUH

#include "types.cuh"

/* Makes the phase wait for so many more bytes, without arriving. */
__device__ inline void mbarrier_expect_tx(uint32_t barrier, uint32_t bytes)
{
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

/* Its 8 bytes may be used for something else. */
__device__ inline void mbarrier_inval(uint32_t barrier)
{
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

#endif
