/*
 * fast_gelu_bf16: as fast_gelu, in fp32. The derivative takes that way anyway, and its tanh gives f too, closer than the packed arithmetic
 * of the forward.
 */
#ifndef GDPA_ACTIVATION_PAIR_FAST_GELU_BF16_CUH
#define GDPA_ACTIVATION_PAIR_FAST_GELU_BF16_CUH

#include "activation/fast_gelu_derivative.cuh"

struct ActivationPair {
    float value;
    float slope;
};

__device__ inline ActivationPair activation_pair(float x, float param)
{
    const float half = 0.5f * x;
    return {fma_rn_f32(half, tanh_approx_f32(gelu_argument(x)), half), activation_derivative(x, param)};
}

#endif
