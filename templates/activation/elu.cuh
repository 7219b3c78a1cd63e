/*
 * f(x) = x > 0 ? x : a (exp(x) - 1), f'(x) = x > 0 ? 1 : a exp(x), with a = activation_param (1). Exact; 4 operations and 1
 * special function.
 */
#ifndef GDPA_ACTIVATION_ELU_CUH
#define GDPA_ACTIVATION_ELU_CUH

#include "activation/logistic.cuh"

__device__ inline float activation_value(float x, float param)
{
    return x > 0.0f ? x : param * (exponential(x) - 1.0f);
}

__device__ inline float activation_derivative(float x, float param)
{
    return x > 0.0f ? 1.0f : param * exponential(x);
}

#include "activation/scaled.cuh"

#endif
