/*
 * Asynchronous copies global -> shared by the thread that asks. PTX ISA, "cp.async" (sm_80 and later).
 *
 * A copy has arrived for its own thread after the wait_group that covers it, and for the block after a barrier on top.
 */
#ifndef GDPA_PTX_CP_ASYNC_CUH
#define GDPA_PTX_CP_ASYNC_CUH

#include "types.cuh"

/* 16 bytes past L1; the last 16 - source_bytes are filled with zeros. source_bytes 0 reads nothing. */
__device__ inline void cp_async_cg_16(uint32_t shared, const void *global, uint32_t source_bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(source_bytes)
                 : "memory");
}

__device__ inline void cp_async_commit_group()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until at most kPending of this thread's latest groups are under way. */
template <int kPending> __device__ inline void cp_async_wait_group()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

#endif
