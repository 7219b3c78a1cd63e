/*
 * f(x) = 1 / (1 + exp(-x)), f'(x) = f (1 - f). Exact; 2 operations and 2 special functions.
 */
#ifndef GDPA_ACTIVATION_SIGMOID_CUH
#define GDPA_ACTIVATION_SIGMOID_CUH

#include "activation/logistic.cuh"

__device__ inline float activation_value(float x, float param)
{
    return logistic(x);
}

__device__ inline float activation_derivative(float x, float param)
{
    const float s = logistic(x);
    return s * (1.0f - s);
}

#include "activation/scaled.cuh"

#endif
