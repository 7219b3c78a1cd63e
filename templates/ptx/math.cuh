/*
 * Scalar fp32 arithmetic that must be one given instruction, and the special function unit. PTX ISA, "Floating Point
 * Instructions"; the error bounds are the manual's. Plain +, - and * are written as such in the templates.
 */
#ifndef GDPA_PTX_MATH_CUH
#define GDPA_PTX_MATH_CUH

#include "types.cuh"

__device__ inline float fma_rn_f32(float a, float b, float c)
{
    float d;
    asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(d) : "f"(a), "f"(b), "f"(c));
    return d;
}

/* a * b + c clamped to [0, 1]; NaN gives 0. */
__device__ inline float fma_rn_sat_f32(float a, float b, float c)
{
    float d;
    asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(d) : "f"(a), "f"(b), "f"(c));
    return d;
}

__device__ inline float abs_f32(float a)
{
    float d;
    asm("abs.f32 %0, %1;" : "=f"(d) : "f"(a));
    return d;
}

/* NaN in one operand gives the other one. */
__device__ inline float max_f32(float a, float b)
{
    float d;
    asm("max.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
    return d;
}

/* NaN in any operand gives NaN. */
__device__ inline float max_nan_f32(float a, float b)
{
    float d;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
    return d;
}

__device__ inline float min_nan_f32(float a, float b)
{
    float d;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
    return d;
}

/* 2^a; relative error 2^-22; subnormal inputs and results are 0. */
__device__ inline float ex2_approx_ftz_f32(float a)
{
    float d;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(d) : "f"(a));
    return d;
}

/* log2 a; absolute error 2^-22 for a in [0.5, 2], relative elsewhere. */
__device__ inline float lg2_approx_ftz_f32(float a)
{
    float d;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(d) : "f"(a));
    return d;
}

/* 1 / a within 1 ulp; subnormal inputs and results are 0. */
__device__ inline float rcp_approx_ftz_f32(float a)
{
    float d;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(d) : "f"(a));
    return d;
}

/* tanh a; relative error 2^-11 (sm_75 and later). */
__device__ inline float tanh_approx_f32(float a)
{
    float d;
    asm("tanh.approx.f32 %0, %1;" : "=f"(d) : "f"(a));
    return d;
}

#endif
