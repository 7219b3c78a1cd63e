/*
 * gelu: f = x Phi(x), f' = Phi(x) + x phi(x). Phi comes from its tail T(t) = Phi(-t) = 2^P(t), with the longer of the polynomials of
 * activation/gelu.cuh: the derivative needs it closer than f does. 14 operations and 2 special functions.
 */
#ifndef GDPA_ACTIVATION_PAIR_GELU_CUH
#define GDPA_ACTIVATION_PAIR_GELU_CUH

#include "ptx/math.cuh"

struct ActivationPair {
    float value;
    float slope;
};

constexpr float kInverseSqrt2Pi = 0.3989422804014327f;
constexpr float kMinusHalfLog2E = -0.7213475204444817f;

__device__ inline float normal_tail(float t)
{
    float p = -0.0004716706171166152f;
    p = fma_rn_f32(p, t, 0.007095948327332735f);
    p = fma_rn_f32(p, t, -0.051938559859991074f);
    p = fma_rn_f32(p, t, -0.4597456455230713f);
    p = fma_rn_f32(p, t, -1.1509746313095093f);
    return ex2_approx_ftz_f32(fma_rn_f32(p, t, -1.0f));
}

__device__ inline ActivationPair activation_pair(float x, float param)
{
    const float tail = normal_tail(abs_f32(x));
    const float distribution = x > 0.0f ? 1.0f - tail : tail;
    const float density = kInverseSqrt2Pi * ex2_approx_ftz_f32(kMinusHalfLog2E * x * x);
    // Far out tail and density are exactly 0, and x times 0 is 0 for every finite x.
    return {x * distribution, fma_rn_f32(x, density, distribution)};
}

#endif
