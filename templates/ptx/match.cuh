/*
 * Which lanes of a full warp hold the same value. PTX ISA, "match.sync".
 */
#ifndef GDPA_PTX_MATCH_CUH
#define GDPA_PTX_MATCH_CUH

#include "types.cuh"

/* Bit l: lane l has the value of this lane. */
__device__ inline uint32_t match_sync_any(uint32_t value)
{
    uint32_t lanes;
    asm volatile("match.any.sync.b32 %0, %1, 0xffffffff;" : "=r"(lanes) : "r"(value));
    return lanes;
}

#endif
