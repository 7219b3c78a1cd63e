/*
 * f(x) = x/2 (1 + tanh(u)) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3), and its derivative s + x s (1 - s) 2 u', s = sigmoid(2u). Exact: the tail
 * sigmoid(-2u) = 2^P(t) with a cubic P uses 0.75 of the bound of activations.def. 5 operations and 1 special function.
 */
#ifndef GDPA_ACTIVATION_GELU_TANH_CUH
#define GDPA_ACTIVATION_GELU_TANH_CUH

constexpr float kTailP0 = -0.995858907699585f;
constexpr float kTailP1 = -1.1692396402359009f;
constexpr float kTailP2 = -0.4472723603248596f;
constexpr float kTailP3 = -0.04236666113138199f;

#include "activation/exponential_tail.cuh"
#include "activation/gelu_argument.cuh"
#include "activation/logistic.cuh"

/* The derivative is 0 or 1 beyond it; a far x would carry the last place of the sigmoid too far. */
constexpr float kDerivativeEnd = 8.0f;

__device__ inline float activation_derivative(float x, float param)
{
    const float near = max_nan_f32(min_nan_f32(x, kDerivativeEnd), -kDerivativeEnd);
    const float s = logistic(2.0f * gelu_argument(near));
    return fma_rn_f32(2.0f * near * s * (1.0f - s), gelu_argument_slope(near * near), s);
}

#endif
