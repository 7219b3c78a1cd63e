/*
 * Loads from global memory that other threads have written in an earlier launch, or that this thread writes afterwards. PTX ISA, "ld".
 */
#ifndef GDPA_PTX_GLOBAL_LOAD_CUH
#define GDPA_PTX_GLOBAL_LOAD_CUH

#include "types.cuh"

__device__ inline float ld_global_f32(const float *address)
{
    float value;
    asm volatile("ld.global.f32 %0, [%1];" : "=f"(value) : "l"(address) : "memory");
    return value;
}

/* The address is aligned to 16 bytes. */
__device__ inline void ld_global_v4_f32(float (&value)[4], const float *address)
{
    asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(value[0]), "=f"(value[1]), "=f"(value[2]), "=f"(value[3])
                 : "l"(address)
                 : "memory");
}

#endif
