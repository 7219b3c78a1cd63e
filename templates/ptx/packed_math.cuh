/*
 * Arithmetic on two 16-bit floats in one register. PTX ISA, "Half Precision Floating Point Instructions" (bf16x2 forms of
 * fma need sm_80, of mul sm_90: products are written as fma with -0).
 */
#ifndef GDPA_PTX_PACKED_MATH_CUH
#define GDPA_PTX_PACKED_MATH_CUH

#include "types.cuh"

__device__ inline uint32_t fma_rn_bf16x2(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t d;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

__device__ inline uint32_t fma_rn_f16x2(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t d;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

/* Absolute error 2^-8 (sm_90 and later). */
__device__ inline uint32_t tanh_approx_bf16x2(uint32_t a)
{
    uint32_t d;
    asm("tanh.approx.bf16x2 %0, %1;" : "=r"(d) : "r"(a));
    return d;
}

/* Absolute error 2^-10.987 (sm_75 and later). */
__device__ inline uint32_t tanh_approx_f16x2(uint32_t a)
{
    uint32_t d;
    asm("tanh.approx.f16x2 %0, %1;" : "=r"(d) : "r"(a));
    return d;
}

#endif
