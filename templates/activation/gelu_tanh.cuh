/*
 * f(x) = x/2 (1 + tanh(u)) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3), and its derivative
 * s + x s (1 - s) 2 u', s = sigmoid(2u). Exact; 5 operations and 2 special functions.
 *
 * Far out x^2 overflows; the sigmoid is then exactly 0 or 1, as it should be.
 */
#ifndef GDPA_ACTIVATION_GELU_TANH_CUH
#define GDPA_ACTIVATION_GELU_TANH_CUH

#include "activation/logistic.cuh"
#include "activation/gelu_argument.cuh"

__device__ inline float activation_value(float x, float param)
{
    return x * logistic(2.0f * gelu_argument(x));
}

__device__ inline float activation_derivative(float x, float param)
{
    const float s = logistic(2.0f * gelu_argument(x));
    const float slope = gelu_argument_slope(x);
    const float bend = s * (1.0f - s);
    // Where the bend is 0 the slope may be infinite: their product is 0, not NaN.
    return bend > 0.0f ? fma_rn_f32(2.0f * x * bend, slope, s) : s;
}

#include "activation/scaled.cuh"

#endif
