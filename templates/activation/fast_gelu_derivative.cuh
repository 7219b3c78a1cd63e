/*
 * The derivative of gelu_tanh through the hardware tanh t: (1 + t)/2 + x/2 (1 - t^2) u'(x). Approx: |error| <= 2^-10 max(1, |x|). 8 operations and
 * 1 special function.
 */
#ifndef GDPA_ACTIVATION_FAST_GELU_DERIVATIVE_CUH
#define GDPA_ACTIVATION_FAST_GELU_DERIVATIVE_CUH

#include "activation/gelu_argument.cuh"
#include "ptx/math.cuh"

/* u'(x) has come to 2 there. Beyond it 1 - t^2 is small, but t may be wrong by 2^-11, and a greater slope would carry that too far. */
constexpr float kSquareOfSlope2 = 11.23f;

__device__ inline float activation_derivative(float x, float param)
{
    const float t = tanh_approx_f32(gelu_argument(x));
    const float slope = gelu_argument_slope(min_nan_f32(x * x, kSquareOfSlope2));
    const float bend = fma_rn_f32(-t, t, 1.0f);
    return fma_rn_f32(0.5f * x * bend, slope, fma_rn_f32(0.5f, t, 0.5f));
}

#endif
