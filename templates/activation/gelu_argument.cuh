/*
 * The argument of the tanh in the tanh form of gelu: u(x) = sqrt(2/pi) (x + 0.044715 x^3) = x (k0 + k1 x^2), and u'(x) of x^2.
 */
#ifndef GDPA_ACTIVATION_GELU_ARGUMENT_CUH
#define GDPA_ACTIVATION_GELU_ARGUMENT_CUH

#include "ptx/math.cuh"

constexpr float kGeluK0 = 0.7978845608028654f;  // sqrt(2/pi)
constexpr float kGeluK1 = 0.03567740813636141f; // 0.044715 sqrt(2/pi)

__device__ inline float gelu_argument(float x)
{
    return x * fma_rn_f32(kGeluK1, x * x, kGeluK0);
}

__device__ inline float gelu_argument_slope(float square)
{
    return fma_rn_f32(3.0f * kGeluK1, square, kGeluK0);
}

#endif
