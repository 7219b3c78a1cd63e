/*
 * fast_silu, and silu too: with h = x/2 and t = tanh(h), 2 f = x (1 + t) and 2 f' - 1 = t + h (1 - t^2). For a raw score r and x = s r, the factors
 * 1/2 and s leave the loop in bf16. 4 operations and 1 special function.
 *
 * The tanh of a Hopper is within 9/8 2^-17 everywhere (tests/gpu/test_tanh.c tries all arguments), where the manual promises 2^-11: that keeps the bound of
 * the exact function.
 */
#ifndef GDPA_ACTIVATION_PACKED_PAIR_FAST_SILU_CUH
#define GDPA_ACTIVATION_PACKED_PAIR_FAST_SILU_CUH

#include "gradient.cuh"
#include "numeric.cuh"
#include "ptx/math.cuh"

struct PairConstants {
    float half_scale;
    float inner;           // of dP
    float weight_epilogue; // of dV
    float slope_epilogue;  // of dQ and dK
};

__device__ inline PairConstants pair_constants(const gdpa_bwd_params &params)
{
    const GradientFactors factors = gradient_factors(params);
    const float half_scale = 0.5f * params.scale;
    //@if bf16
    return {half_scale, factors.inner, half_scale * params.out_scale, 0.5f * factors.outer};
    //@else
    return {half_scale, factors.inner, params.out_scale, 0.5f * factors.outer};
    //@endif
}

__device__ inline void value_and_slope(float score, const PairConstants &constants, float &value, float &slope)
{
    const float half = score * constants.half_scale;
    const float t = tanh_approx_f32(half);
    //@if bf16
    value = fma_rn_f32(score, t, score);
    //@else
    value = fma_rn_f32(half, t, half);
    //@endif
    slope = fma_rn_f32(half, fma_rn_f32(-t, t, 1.0f), t);
}

__device__ inline void packed_pair(float score0, float score1, const PairConstants &constants, uint32_t &weights,
                                   uint32_t &slopes)
{
    float values[2];
    float both[2];
    value_and_slope(score0, constants, values[0], both[0]);
    value_and_slope(score1, constants, values[1], both[1]);
    weights = pack_input(values[0], values[1]);
    slopes = pack_input(both[0], both[1]);
}

__device__ inline uint32_t packed_gradient(uint32_t slopes, float product0, float product1, const PairConstants &constants)
{
    //@if fp16
    const uint32_t products = pack_input(product0 * constants.inner, product1 * constants.inner);
    //@else
    const uint32_t products = pack_input(product0, product1);
    //@endif
    return packed_fma(slopes, products, products); // the slopes are 2 f' - 1
}

#endif
