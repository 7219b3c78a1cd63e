/*
 * f(x) = f'(x) = exp(x). Exact; 1 operation and 1 special function. Overflows to infinity like a cast.
 */
#ifndef GDPA_ACTIVATION_EXP_CUH
#define GDPA_ACTIVATION_EXP_CUH

#include "activation/logistic.cuh"

__device__ inline float activation_value(float x, float param)
{
    return exponential(x);
}

__device__ inline float activation_derivative(float x, float param)
{
    return exponential(x);
}

#include "activation/scaled.cuh"

#endif
