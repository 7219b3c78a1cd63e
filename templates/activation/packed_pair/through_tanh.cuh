/*
 * Activations of the form f(x) = x/2 (1 + t), t = tanh(u(x)) with an odd polynomial u: f' = 1/2 (1 + t + x u' (1 - t^2)).
 *
 * A file that includes this one defines kReach and find_argument, which gives u and the quotient x u' / y of y = x / kReach. P is y (1 + t) and the slope
 * 2 f' - 1; what is missing to both of them, kReach/2 and 1/2, is in the epilogue. Neither is larger than f and f', so fp16 has the range for them, too.
 *
 * As P (1 - t) = y (1 - t^2), the slope needs no product of y of its own. Where t is -1, P is exactly 0, and so is that product where t is 1.
 *
 * The tanh of a Hopper is within 9/8 2^-17 everywhere (tests/gpu/test_tanh.c tries all arguments), where the manual promises 2^-11: that keeps the bound of
 * the exact functions.
 */
#ifndef GDPA_ACTIVATION_PACKED_PAIR_THROUGH_TANH_CUH
#define GDPA_ACTIVATION_PACKED_PAIR_THROUGH_TANH_CUH

#include "gradient.cuh"
#include "numeric.cuh"
#include "ptx/math.cuh"

struct PairConstants {
    float reach;           // of a raw score
    float inner;           // of dP
    float weight_epilogue; // of dV
    float slope_epilogue;  // of dQ and dK
};

__device__ inline PairConstants pair_constants(const gdpa_bwd_params &params)
{
    const GradientFactors factors = gradient_factors(params);
    return {params.scale / kReach, factors.inner, 0.5f * kReach * params.out_scale, 0.5f * factors.outer};
}

__device__ inline void value_and_slope(float score, const PairConstants &constants, float &value, float &slope)
{
    const float y = score * constants.reach;
    float argument, rise;
    find_argument(y, argument, rise);
    const float t = tanh_approx_f32(argument);
    value = fma_rn_f32(y, t, y);
    slope = fma_rn_f32(rise, fma_rn_f32(-value, t, value), t);
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

__device__ inline uint32_t packed_gradient(uint32_t slopes, float product0, float product1,
                                           const PairConstants &constants)
{
    //@if fp16
    const uint32_t products = pack_input(product0 * constants.inner, product1 * constants.inner);
    //@else
    const uint32_t products = pack_input(product0, product1);
    //@endif
    return packed_fma(slopes, products, products); // the slopes are 2 f' - 1
}

#endif
