/*
 * f(x) = x s, f'(x) = s (1 + x (1 - s)) with s = sigmoid(x). Exact: the tail sigmoid(-t) = e / (1 + e), e = exp(-t), with the quotient as a polynomial
 * e q(e), uses 0.23 of the bound of activations.def with degree 4 (bf16), 0.04 with degree 5 (fp16); q(1) = 1/2, so that f keeps its slope at 0. 7 or 8
 * operations and 1 special function, against 2 special functions and fewer operations with a reciprocal: the special function unit is what is
 * short.
 */
#ifndef GDPA_ACTIVATION_SILU_CUH
#define GDPA_ACTIVATION_SILU_CUH

#include "ptx/math.cuh"

//@if bf16
constexpr int kQuotientDegree = 4;
__device__ constexpr float kQuotient[] = {0.9992856383323669f, -0.9790858626365662f, 0.8441089987754822f, -0.5022667646408081f,
                               0.13795797526836395f};
//@else
constexpr int kQuotientDegree = 5;
__device__ constexpr float kQuotient[] = {0.9998617172241211f,  -0.9945144653320312f, 0.9432860016822815f,
                               -0.7466492056846619f, 0.39319923520088196f, -0.09518327564001083f};
//@endif

struct TailConstants {
    float exponent; // of |s| t
};

__device__ inline TailConstants tail_constants(float size)
{
    return {-1.4426950408889634f * size};
}

__device__ inline float tail_bracket(float t, const TailConstants &constants)
{
    const float e = ex2_approx_ftz_f32(t * constants.exponent);
    float q = kQuotient[kQuotientDegree];
#pragma unroll
    for (int i = kQuotientDegree - 1; i >= 0; --i) {
        q = fma_rn_f32(q, e, kQuotient[i]);
    }
    return fma_rn_f32(q * e, -2.0f, 1.0f);
}

#include "activation/logistic.cuh"
#include "activation/tail.cuh"

/* The derivative is 1 beyond it; a far x would carry the last place of the sigmoid too far. */
constexpr float kDerivativeEnd = 32.0f;

__device__ inline float activation_derivative(float x, float param)
{
    const float s = logistic(x);
    return s * fma_rn_f32(min_nan_f32(x, kDerivativeEnd), 1.0f - s, 1.0f);
}

#endif
