/*
 * Loads of words from global memory that this launch has written, behind a barrier. PTX ISA, "ld".
 */
#ifndef GDPA_PTX_GLOBAL_LOAD_B32_CUH
#define GDPA_PTX_GLOBAL_LOAD_B32_CUH

#include "types.cuh"

__device__ inline uint32_t ld_global_b32(const uint32_t *address)
{
    uint32_t value;
    asm volatile("ld.global.b32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    return value;
}

#endif
