/*
 * Bytes of two registers in any order. PTX ISA, "prmt".
 */
#ifndef GDPA_PTX_PRMT_CUH
#define GDPA_PTX_PRMT_CUH

#include "types.cuh"

/*
 * Byte i of the result is byte n of b:a (a has 0 to 3, b 4 to 7), n the lower three bits of nibble i of the selector; with its fourth bit set, all
 * bits of it are the sign of that byte: selector 0xbb99 makes 16-bit masks of the signs of two packed floats.
 */
__device__ inline uint32_t prmt_b32(uint32_t a, uint32_t b, uint32_t selector)
{
    uint32_t d;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(selector));
    return d;
}

#endif
