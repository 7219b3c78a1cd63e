/*
 * Global memory by pointer. PTX ISA, "ld", "st".
 */
#ifndef GDPA_PTX_GLOBAL_MEMORY_CUH
#define GDPA_PTX_GLOBAL_MEMORY_CUH

#include "types.cuh"

/* Read-only data: the compiler may keep or move the load. */
__device__ inline int32_t ld_global_nc_s32(const int32_t *address)
{
    int32_t value;
    asm("ld.global.nc.s32 %0, [%1];" : "=r"(value) : "l"(address));
    return value;
}

__device__ inline uint16_t ld_global_nc_b16(const void *address)
{
    uint16_t value;
    asm("ld.global.nc.b16 %0, [%1];" : "=h"(value) : "l"(address));
    return value;
}

__device__ inline void st_global_b16(void *address, uint16_t value)
{
    asm volatile("st.global.b16 [%0], %1;" ::"l"(address), "h"(value) : "memory");
}

__device__ inline void st_global_b32(void *address, uint32_t value)
{
    asm volatile("st.global.b32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

__device__ inline void st_global_v2_b32(void *address, uint32_t low, uint32_t high)
{
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(address), "r"(low), "r"(high) : "memory");
}

__device__ inline void st_global_v4_b32(void *address, const uint32_t (&value)[4])
{
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(value[0]), "r"(value[1]),
                 "r"(value[2]), "r"(value[3])
                 : "memory");
}

#endif
