/*
 * Barriers among some warps of a block, by number (1 to 15; 0 is the one of the whole block). PTX ISA, "bar".
 */
#ifndef GDPA_PTX_NAMED_BARRIER_CUH
#define GDPA_PTX_NAMED_BARRIER_CUH

#include "types.cuh"

__device__ inline void bar_sync(uint32_t number, uint32_t threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

/* Counts as arrived without waiting. */
__device__ inline void bar_arrive(uint32_t number, uint32_t threads)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

#endif
