/*
 * identity: P = S, dS = dP. In bf16 the scale leaves the loop.
 */
#ifndef GDPA_ACTIVATION_PACKED_PAIR_IDENTITY_CUH
#define GDPA_ACTIVATION_PACKED_PAIR_IDENTITY_CUH

#include "gradient.cuh"
#include "numeric.cuh"

constexpr int kPairOperations = 0; // of fp32, for one score

struct PairConstants {
    float scale;           // of P; 1 in bf16
    float inner;           // of dP
    float weight_epilogue; // of dV
    float slope_epilogue;  // of dQ and dK
};

__device__ inline PairConstants pair_constants(const gdpa_bwd_params &params)
{
    const GradientFactors factors = gradient_factors(params);
    //@if bf16
    return {1.0f, 1.0f, params.scale * params.out_scale, factors.outer};
    //@else
    return {params.scale, factors.inner, params.out_scale, factors.outer};
    //@endif
}

__device__ inline void packed_pair(float score0, float score1, const PairConstants &constants, uint32_t &weights,
                                   uint32_t &slopes)
{
    //@if bf16
    weights = pack_input(score0, score1);
    //@else
    weights = pack_input(score0 * constants.scale, score1 * constants.scale);
    //@endif
    slopes = 0; // not used
}

__device__ inline uint32_t packed_gradient(uint32_t slopes, float product0, float product1,
                                           const PairConstants &constants)
{
    //@if bf16
    return pack_input(product0, product1);
    //@else
    return pack_input(product0 * constants.inner, product1 * constants.inner);
    //@endif
}

#endif
