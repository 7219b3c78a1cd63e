/*
 * %tid, read anew each time: what is computed of it is not kept in registers from one use to the next, however far apart. PTX ISA, "Special Registers".
 */
#ifndef GDPA_PTX_FRESH_REGISTERS_CUH
#define GDPA_PTX_FRESH_REGISTERS_CUH

#include "types.cuh"

__device__ inline uint32_t fresh_tid_x()
{
    uint32_t value;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(value));
    return value;
}

#endif
