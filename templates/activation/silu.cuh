/*
 * f(x) = x s, f'(x) = s (1 + x (1 - s)) with s = sigmoid(x). Exact: the tail sigmoid(-t) = e / (1 + e), e = exp(-t), with the quotient as a polynomial
 * e (q0 + q1 e + q2 e^2 + q3 e^3), uses 0.88 of the bound of activations.def. 6 operations and 1 special function, against 2 special functions and
 * fewer operations with a reciprocal: the special function unit is what is short.
 */
#ifndef GDPA_ACTIVATION_SILU_CUH
#define GDPA_ACTIVATION_SILU_CUH

#include "ptx/math.cuh"

constexpr float kQuotient0 = 0.9975393414497375f;
constexpr float kQuotient1 = -0.9435955882072449f;
constexpr float kQuotient2 = 0.6793202757835388f;
constexpr float kQuotient3 = -0.23661330342292786f;

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
    float q = fma_rn_f32(kQuotient3, e, kQuotient2);
    q = fma_rn_f32(q, e, kQuotient1);
    q = fma_rn_f32(q, e, kQuotient0);
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
