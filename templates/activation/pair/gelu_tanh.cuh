/*
 * gelu_tanh: f = x s, f' = s + x s (1 - s) 2 u' of one sigmoid s = sigmoid(2u), closer to f than the polynomial of the forward is. 11
 * operations and 2 special functions.
 */
#ifndef GDPA_ACTIVATION_PAIR_GELU_TANH_CUH
#define GDPA_ACTIVATION_PAIR_GELU_TANH_CUH

#include "activation/gelu_argument.cuh"
#include "activation/logistic.cuh"

struct ActivationPair {
    float value;
    float slope;
};

/* The derivative is 0 or 1 beyond it, and f is 0 or x; a far x would carry the last place of the sigmoid too far. */
constexpr float kDerivativeEnd = 8.0f;

__device__ inline ActivationPair activation_pair(float x, float param)
{
    const float near = max_nan_f32(min_nan_f32(x, kDerivativeEnd), -kDerivativeEnd);
    const float s = logistic(2.0f * gelu_argument(near));
    return {max_nan_f32(x, -kDerivativeEnd) * s, fma_rn_f32(2.0f * near * s * (1.0f - s), gelu_argument_slope(near * near), s)};
}

#endif
