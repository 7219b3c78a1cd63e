/*
 * Barriers in shared memory that count arrivals and bytes, and alternate between two phases. PTX ISA, "mbarrier".
 *
 * A wait for parity p returns once the phase of that parity is complete: parity 1 passes at once on a fresh barrier.
 */
#ifndef GDPA_PTX_MBARRIER_CUH
#define GDPA_PTX_MBARRIER_CUH

#include "types.cuh"

__device__ inline void mbarrier_init(uint32_t barrier, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

/* After the inits, before the barrier that lets the other threads and the copy engine use them. */
__device__ inline void fence_mbarrier_init()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ inline void mbarrier_arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/* Arrives, and makes the phase wait for so many more bytes of asynchronous copies. */
__device__ inline void mbarrier_arrive_expect_tx(uint32_t barrier, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

/* One asm block with its own labels: a loop in C++ around try_wait costs registers where there are none to spare. */
__device__ inline void mbarrier_wait_parity(uint32_t barrier, uint32_t parity)
{
    asm volatile("{ .reg .pred p; \n"
                 "WAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; \n"
                 "@p bra DONE; \n"
                 "bra WAIT; \n"
                 "DONE: }" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

#endif
