/*
 * Stores of transposed 8x8 matrices: the inverse of ldmatrix_x4_trans. PTX ISA, "stmatrix" (sm_90).
 */
#ifndef GDPA_PTX_STMATRIX_TRANS_CUH
#define GDPA_PTX_STMATRIX_TRANS_CUH

#include "types.cuh"

__device__ inline void stmatrix_x4_trans(uint32_t address, uint32_t m0, uint32_t m1, uint32_t m2, uint32_t m3)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(m0),
                 "r"(m1), "r"(m2), "r"(m3)
                 : "memory");
}

#endif
