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

__device__ inline float activation_derivative(float x, float param)
{
    const float s = logistic(2.0f * gelu_argument(x));
    const float slope = gelu_argument_slope(x);
    const float bend = s * (1.0f - s);
    // Where the bend is 0 the slope may be infinite: their product is 0, not NaN.
    return bend > 0.0f ? fma_rn_f32(2.0f * x * bend, slope, s) : s;
}

#endif
