/*
 * f(x) = x Phi(x), f'(x) = Phi(x) + x phi(x) with the normal distribution function Phi and its density phi. Exact: the tail Phi(-t) = 2^P(t) with a
 * cubic P uses 0.49 of the bound of activations.def. 5 operations and 1 special function.
 */
#ifndef GDPA_ACTIVATION_GELU_CUH
#define GDPA_ACTIVATION_GELU_CUH

constexpr float kTailP0 = -1.003495216369629f;
constexpr float kTailP1 = -1.1266604661941528f;
constexpr float kTailP2 = -0.5031237006187439f;
constexpr float kTailP3 = -0.023397056385874748f;

#include "activation/exponential_tail.cuh"

constexpr float kDistributionEnd = 4.4f;
constexpr float kInverseSqrt2Pi = 0.3989422804014327f;
constexpr float kMinusHalfLog2E = -0.7213475204444817f;

/*
 * Phi(x) = saturate(1/2 + x Q(x^2)) on |x| <= 4.4, where it has become exactly 0 or 1: the minimax polynomial for an error of 2^-14 (0.41 of it is
 * used), a little beyond +-1/2 at the end so that the clamp is exact. The derivative needs Phi itself near 0, closer than the tail has it.
 */
__device__ inline float normal_distribution(float x)
{
    const float clamped = max_nan_f32(min_nan_f32(x, kDistributionEnd), -kDistributionEnd);
    const float square = clamped * clamped;
    float q = 3.6522600915800396e-11f;
    q = fma_rn_f32(q, square, -3.836178930072265e-09f);
    q = fma_rn_f32(q, square, 1.7752344660948438e-07f);
    q = fma_rn_f32(q, square, -4.803703177458374e-06f);
    q = fma_rn_f32(q, square, 8.536461973562837e-05f);
    q = fma_rn_f32(q, square, -0.0010637071682140231f);
    q = fma_rn_f32(q, square, 0.009683470241725445f);
    q = fma_rn_f32(q, square, -0.06617022305727005f);
    q = fma_rn_f32(q, square, 0.3988368511199951f);
    return fma_rn_sat_f32(clamped, q, 0.5f);
}

__device__ inline float activation_derivative(float x, float param)
{
    const float density = kInverseSqrt2Pi * ex2_approx_ftz_f32(kMinusHalfLog2E * x * x);
    // Far out the density is exactly 0, and x times 0 is 0 for every finite x.
    return fma_rn_f32(x, density, normal_distribution(x));
}

#endif
