/*
 * f(x) = x Phi(x), f'(x) = Phi(x) + x phi(x) with the normal distribution function Phi and its density phi. Exact: the tail Phi(-t) = 2^P(t)
 * uses 0.77 of the bound of activations.def with a cubic P (bf16), 0.01 with degree 5 (fp16). 5 or 7 operations and 1 special function.
 */
#ifndef GDPA_ACTIVATION_GELU_CUH
#define GDPA_ACTIVATION_GELU_CUH

//@if bf16
constexpr int kTailDegree = 3;
__device__ constexpr float kTail[] = {-1.1394695043563843f, -0.491949200630188f, -0.026086166501045227f};
//@else
constexpr int kTailDegree = 5;
__device__ constexpr float kTail[] = {-1.1509746313095093f, -0.4597456455230713f, -0.051938559859991074f,
                           0.007095948327332735f, -0.0004716706171166152f};
//@endif

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
