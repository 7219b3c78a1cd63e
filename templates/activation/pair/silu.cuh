/*
 * silu: f = x s, f' = s (1 + x (1 - s)) of one sigmoid s, closer to f than the polynomial of the forward is. 5 operations and 2 special
 * functions.
 */
#ifndef GDPA_ACTIVATION_PAIR_SILU_CUH
#define GDPA_ACTIVATION_PAIR_SILU_CUH

#include "activation/logistic.cuh"

struct ActivationPair {
    float value;
    float slope;
};

/* The derivative is 1 beyond it; a far x would carry the last place of the sigmoid too far. */
constexpr float kDerivativeEnd = 32.0f;

__device__ inline ActivationPair activation_pair(float x, float param)
{
    const float s = logistic(x);
    return {x * s, s * fma_rn_f32(min_nan_f32(x, kDerivativeEnd), 1.0f - s, 1.0f)};
}

#endif
