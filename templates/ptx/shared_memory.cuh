/*
 * Shared memory by 32-bit address in the .shared window. PTX ISA, "ld", "st", "cvta".
 *
 * Kernels hold shared addresses as uint32_t and touch shared memory through these functions and the other wrappers of
 * ptx/ only, never through pointers.
 */
#ifndef GDPA_PTX_SHARED_MEMORY_CUH
#define GDPA_PTX_SHARED_MEMORY_CUH

#include "types.cuh"

/* Address of the dynamic shared memory of the block, aligned to 1024 bytes. */
__device__ inline uint32_t dynamic_shared_base()
{
    extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
    return static_cast<uint32_t>(__cvta_generic_to_shared(dynamic_shared_memory));
}

__device__ inline void st_shared_b16(uint32_t address, uint16_t value)
{
    asm volatile("st.shared.b16 [%0], %1;" ::"r"(address), "h"(value) : "memory");
}

__device__ inline void st_shared_b32(uint32_t address, uint32_t value)
{
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

__device__ inline uint32_t ld_shared_b32(uint32_t address)
{
    uint32_t value;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
    return value;
}

__device__ inline void st_shared_b64(uint32_t address, int64_t value)
{
    asm volatile("st.shared.b64 [%0], %1;" ::"r"(address), "l"(value) : "memory");
}

__device__ inline int64_t ld_shared_b64(uint32_t address)
{
    int64_t value;
    asm volatile("ld.shared.b64 %0, [%1];" : "=l"(value) : "r"(address) : "memory");
    return value;
}

__device__ inline void st_shared_v4_b32(uint32_t address, const uint32_t (&value)[4])
{
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(value[0]), "r"(value[1]),
                 "r"(value[2]), "r"(value[3])
                 : "memory");
}

__device__ inline void ld_shared_v4_b32(uint32_t (&value)[4], uint32_t address)
{
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value[0]), "=r"(value[1]), "=r"(value[2]), "=r"(value[3])
                 : "r"(address)
                 : "memory");
}

#endif
