/*
 * softplus: f = log(1 + e), f' = e / (1 + e) of one e = exp(x), x and 1 beyond 20. 6 operations and 3 special functions.
 */
#ifndef GDPA_ACTIVATION_PAIR_SOFTPLUS_CUH
#define GDPA_ACTIVATION_PAIR_SOFTPLUS_CUH

#include "activation/logistic.cuh"

struct ActivationPair {
    float value;
    float slope;
};

constexpr float kLinearFrom = 20.0f;
constexpr float kLn2 = 0.6931471805599453f;

__device__ inline ActivationPair activation_pair(float x, float param)
{
    const float power = exponential(min_nan_f32(x, kLinearFrom));
    const float sum = 1.0f + power;
    const bool linear = x > kLinearFrom;
    return {linear ? x : kLn2 * lg2_approx_ftz_f32(sum), linear ? 1.0f : power * rcp_approx_ftz_f32(sum)};
}

#endif
