/*
 * sigmoid(x) = 1 / (1 + exp(-x)) by the special function unit: relative error below 2^-20, no overflow (exp(-x) becomes
 * infinite, its reciprocal 0). 2 operations and 2 special functions.
 */
#ifndef GDPA_ACTIVATION_LOGISTIC_CUH
#define GDPA_ACTIVATION_LOGISTIC_CUH

#include "ptx/math.cuh"

constexpr float kLog2E = 1.4426950408889634f;

__device__ inline float exponential(float x)
{
    return ex2_approx_ftz_f32(x * kLog2E);
}

__device__ inline float logistic(float x)
{
    return rcp_approx_ftz_f32(1.0f + ex2_approx_ftz_f32(x * -kLog2E));
}

#endif
