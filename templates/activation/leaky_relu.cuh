/*
 * f(x) = x > 0 ? x : a x, f'(x) = x > 0 ? 1 : a, with a = activation_param (0.01). Exact; 2 operations.
 */
#ifndef GDPA_ACTIVATION_LEAKY_RELU_CUH
#define GDPA_ACTIVATION_LEAKY_RELU_CUH

__device__ inline float activation_value(float x, float param)
{
    return x > 0.0f ? x : param * x;
}

__device__ inline float activation_derivative(float x, float param)
{
    return x > 0.0f ? 1.0f : param;
}

constexpr int kDegree = 1;

#include "activation/homogeneous.cuh"

#endif
