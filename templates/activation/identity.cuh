/*
 * f(x) = x, f'(x) = 1. Exact; no operation.
 */
#ifndef GDPA_ACTIVATION_IDENTITY_CUH
#define GDPA_ACTIVATION_IDENTITY_CUH

__device__ inline float activation_value(float x, float param)
{
    return x;
}

__device__ inline float activation_derivative(float x, float param)
{
    return 1.0f;
}

constexpr int kDegree = 1;

#include "activation/homogeneous.cuh"

#endif
