/*
 * A tail of the form T(t) = 2^P(t) with a polynomial P: log2 of a distribution function is smooth and nearly quadratic, so a few terms hold the
 * bound all the way out, where 2^P has become 0. P(0) = -1 exactly, so that f keeps its slope of 1/2 at 0, where the bound says little. The
 * including file defines kTailDegree and kTail, the minimax coefficients of t, t^2 ...: fewer for bf16, which rounds P to 8 bits anyway.
 */
#ifndef GDPA_ACTIVATION_EXPONENTIAL_TAIL_CUH
#define GDPA_ACTIVATION_EXPONENTIAL_TAIL_CUH

#include "ptx/math.cuh"

struct TailConstants {
    float p[kTailDegree]; // of |s| t
};

__device__ inline TailConstants tail_constants(float size)
{
    TailConstants constants;
    float power = 1.0f;
#pragma unroll
    for (int i = 0; i < kTailDegree; ++i) {
        power *= size;
        constants.p[i] = kTail[i] * power;
    }
    return constants;
}

__device__ inline float tail_bracket(float t, const TailConstants &constants)
{
    float p = constants.p[kTailDegree - 1];
#pragma unroll
    for (int i = kTailDegree - 2; i >= 0; --i) {
        p = fma_rn_f32(p, t, constants.p[i]);
    }
    return fma_rn_f32(ex2_approx_ftz_f32(fma_rn_f32(p, t, -1.0f)), -2.0f, 1.0f);
}

#include "activation/tail.cuh"

#endif
