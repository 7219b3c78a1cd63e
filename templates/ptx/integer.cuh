/*
 * Integer helpers that are one instruction. PTX ISA, "Integer Arithmetic Instructions".
 */
#ifndef GDPA_PTX_INTEGER_CUH
#define GDPA_PTX_INTEGER_CUH

#include "types.cuh"

__device__ inline uint32_t popc_b32(uint32_t bits)
{
    uint32_t count;
    asm("popc.b32 %0, %1;" : "=r"(count) : "r"(bits));
    return count;
}

#endif
