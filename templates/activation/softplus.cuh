/*
 * f(x) = log(1 + exp(x)), and x itself beyond 20 as in PyTorch; f'(x) = sigmoid(x), 1 beyond 20. Exact; 4 operations and 2
 * special functions.
 */
#ifndef GDPA_ACTIVATION_SOFTPLUS_CUH
#define GDPA_ACTIVATION_SOFTPLUS_CUH

#include "activation/logistic.cuh"

constexpr float kLinearFrom = 20.0f;
constexpr float kLn2 = 0.6931471805599453f;

__device__ inline float activation_value(float x, float param)
{
    return x > kLinearFrom ? x : kLn2 * lg2_approx_ftz_f32(1.0f + exponential(x));
}

__device__ inline float activation_derivative(float x, float param)
{
    return x > kLinearFrom ? 1.0f : logistic(x);
}

#include "activation/scaled.cuh"

#endif
