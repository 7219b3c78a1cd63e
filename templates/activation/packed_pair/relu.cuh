/*
 * relu: the slopes are masks of the halves, all ones where S > 0.
 */
#ifndef GDPA_ACTIVATION_PACKED_PAIR_RELU_CUH
#define GDPA_ACTIVATION_PACKED_PAIR_RELU_CUH

#include "gradient.cuh"
#include "numeric.cuh"
#include "ptx/convert.cuh"
#include "ptx/prmt.cuh"

constexpr int kPairOperations = 1; // of fp32, for one score

struct PairConstants {
    float scale;           // of the raw score
    float inner;           // of dP
    float weight_epilogue; // of dV
    float slope_epilogue;  // of dQ and dK
};

__device__ inline PairConstants pair_constants(const gdpa_bwd_params &params)
{
    const GradientFactors factors = gradient_factors(params);
    return {params.scale, factors.inner, params.out_scale, factors.outer};
}

/*
 * A bf16 number has the exponents of an fp32 one, so max(S, 0) in bf16 is 0 just where S <= 0 (but for numbers below 2^-133). Any other one is at
 * least 1 as an integer, and adding 0x7fff carries into the sign, which prmt then copies to all of its half.
 */
__device__ inline void packed_pair(float score0, float score1, const PairConstants &constants, uint32_t &weights,
                                   uint32_t &slopes)
{
    const float low = score0 * constants.scale;
    const float high = score1 * constants.scale;
    weights = pack_input_relu(low, high);
    const uint32_t signs = cvt_rn_relu_bf16x2_f32(low, high) + 0x7fff7fffu;
    slopes = prmt_b32(signs, signs, 0xbb99);
}

__device__ inline uint32_t packed_gradient(uint32_t slopes, float product0, float product1,
                                           const PairConstants &constants)
{
    //@if bf16
    return pack_input(product0, product1) & slopes;
    //@else
    return pack_input(product0 * constants.inner, product1 * constants.inner) & slopes;
    //@endif
}

#endif
