/*
 * f(x) = x clamp(x + 3, 0, 6) / 6; f'(x) = 0 up to -3, 1 from 3 on, x/3 + 1/2 between. Exact; 4 operations.
 *
 * clamp(x + 3, 0, 6) / 6 = saturate(x/6 + 1/2).
 */
#ifndef GDPA_ACTIVATION_HARDSWISH_CUH
#define GDPA_ACTIVATION_HARDSWISH_CUH

#include "ptx/math.cuh"

__device__ inline float activation_value(float x, float param)
{
    return x * fma_rn_sat_f32(x, 1.0f / 6.0f, 0.5f);
}

__device__ inline float activation_derivative(float x, float param)
{
    return x <= -3.0f ? 0.0f : x >= 3.0f ? 1.0f : fma_rn_f32(x, 1.0f / 3.0f, 0.5f);
}

#include "activation/scaled.cuh"

#endif
