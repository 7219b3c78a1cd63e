/*
 * f(x) = x s, f'(x) = s (1 + x (1 - s)) with s = sigmoid(x). Exact; 3 operations and 2 special functions.
 */
#ifndef GDPA_ACTIVATION_SILU_CUH
#define GDPA_ACTIVATION_SILU_CUH

#include "activation/logistic.cuh"

__device__ inline float activation_value(float x, float param)
{
    return x * logistic(x);
}

__device__ inline float activation_derivative(float x, float param)
{
    const float s = logistic(x);
    return s * fma_rn_f32(x, 1.0f - s, 1.0f);
}

#include "activation/scaled.cuh"

#endif
