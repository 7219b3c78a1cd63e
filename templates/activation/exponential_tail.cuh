/*
 * A tail of the form T(t) = 2^P(t) with a cubic P: log2 of a distribution function is smooth and nearly quadratic, so a cubic holds the exact bound
 * all the way out, where 2^P has become 0. The including file defines kTailP0 to kTailP3, the minimax coefficients for that bound.
 *
 * With the bracket and the last step: 5 operations and 1 special function a score, for an exact activation.
 */
#ifndef GDPA_ACTIVATION_EXPONENTIAL_TAIL_CUH
#define GDPA_ACTIVATION_EXPONENTIAL_TAIL_CUH

#include "ptx/math.cuh"

struct TailConstants {
    float p1; // of |s| t
    float p2;
    float p3;
};

__device__ inline TailConstants tail_constants(float size)
{
    return {kTailP1 * size, kTailP2 * size * size, kTailP3 * size * size * size};
}

__device__ inline float tail_bracket(float t, const TailConstants &constants)
{
    const float p = fma_rn_f32(fma_rn_f32(fma_rn_f32(constants.p3, t, constants.p2), t, constants.p1), t, kTailP0);
    return fma_rn_f32(ex2_approx_ftz_f32(p), -2.0f, 1.0f);
}

#include "activation/tail.cuh"

#endif
