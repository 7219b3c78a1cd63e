/*
 * Value and derivative of two scores at a time, packed, for the Hopper backward: P, and the slopes f' that dP is multiplied by.
 *
 * Here as activation_pair has them. Where constant factors can leave the loop, or packed arithmetic does, activation/packed_pair/<file>.cuh
 * takes the place of this file.
 */
#ifndef GDPA_ACTIVATION_PACKED_PAIR_CUH
#define GDPA_ACTIVATION_PACKED_PAIR_CUH

#include "activation_pair.cuh"
#include "gradient.cuh"
#include "numeric.cuh"

constexpr int kPairOperations = 8; // of fp32, for one score: as if they were many

struct PairConstants {
    float scale; // of the raw score
    float param;
    float inner;           // of dP
    float weight_epilogue; // of dV
    float slope_epilogue;  // of dQ and dK
};

__device__ inline PairConstants pair_constants(const gdpa_bwd_params &params)
{
    const GradientFactors factors = gradient_factors(params);
    return {params.scale, params.activation_param, factors.inner, params.out_scale, factors.outer};
}

/* Two raw scores -> P and f', `score0` in the lower halves. */
__device__ inline void packed_pair(float score0, float score1, const PairConstants &constants, uint32_t &weights,
                                   uint32_t &slopes)
{
    const ActivationPair low = activation_pair(score0 * constants.scale, constants.param);
    const ActivationPair high = activation_pair(score1 * constants.scale, constants.param);
    weights = pack_input(low.value, high.value);
    slopes = pack_input(low.slope, high.slope);
}

/* dS = f' dP of two pairs. */
__device__ inline uint32_t packed_gradient(uint32_t slopes, float product0, float product1,
                                           const PairConstants &constants)
{
    //@if fp16
    return packed_multiply(slopes, pack_input(product0 * constants.inner, product1 * constants.inner));
    //@else
    return packed_multiply(slopes, pack_input(product0, product1));
    //@endif
}

#endif
