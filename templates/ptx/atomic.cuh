/*
 * Reductions and atomic operations on global memory, relaxed, of the whole device. PTX ISA, "red", "atom".
 */
#ifndef GDPA_PTX_ATOMIC_CUH
#define GDPA_PTX_ATOMIC_CUH

#include "types.cuh"

__device__ inline void red_global_add_f32(float *address, float value)
{
    asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(address), "f"(value) : "memory");
}

/* Four neighbours at an address aligned to 16 bytes, each by itself (sm_90). */
__device__ inline void red_global_add_v4_f32(float *address, const float (&value)[4])
{
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(address), "f"(value[0]),
                 "f"(value[1]), "f"(value[2]), "f"(value[3])
                 : "memory");
}

/* Returns what was there before. */
__device__ inline uint32_t atom_global_add_u32(uint32_t *address, uint32_t value)
{
    uint32_t before;
    asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(address), "r"(value) : "memory");
    return before;
}

#endif
