/*
 * f(x) = max(x, 0)^2, f'(x) = 2 max(x, 0). Exact; 2 operations.
 */
#ifndef GDPA_ACTIVATION_RELU_SQUARE_CUH
#define GDPA_ACTIVATION_RELU_SQUARE_CUH

#include "ptx/math.cuh"

__device__ inline float activation_value(float x, float param)
{
    const float positive = max_nan_f32(x, 0.0f);
    return positive * positive;
}

__device__ inline float activation_derivative(float x, float param)
{
    return 2.0f * max_nan_f32(x, 0.0f);
}

constexpr int kDegree = 2;

#include "activation/homogeneous.cuh"

#endif
