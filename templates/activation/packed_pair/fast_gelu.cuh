/*
 * fast_gelu, and gelu_tanh too: with u = sqrt(2/pi) (x + 0.044715 x^3) and t = tanh(u), 2 f = x (1 + t) and 2 f' - 1 = t + x u' (1 - t^2). For a raw
 * score r and x = s r, the factors 1/2 and s leave the loop in bf16. 9 operations and 1 special function.
 *
 * The tanh of a Hopper is within 9/8 2^-17 everywhere (tests/gpu/test_tanh.c tries all arguments), where the manual promises 2^-11: that keeps the bound of
 * the exact functions.
 */
#ifndef GDPA_ACTIVATION_PACKED_PAIR_FAST_GELU_CUH
#define GDPA_ACTIVATION_PACKED_PAIR_FAST_GELU_CUH

#include "activation/gelu_argument.cuh"
#include "gradient.cuh"
#include "numeric.cuh"
#include "ptx/math.cuh"

/* t is 1 there, and stays it; without an end, scores whose cube overflows would give infinity times 0. */
constexpr float kSquareOfEnd = 36.0f;

/* Of raw scores, whatever the scale: scale 0 would have none, and the square of a far score would be infinity times 0. */
constexpr float kLargestEnd = 1.7014118346046923e38f; // 2^127

/* Scales beyond it give the same result, and their cube would overflow. */
constexpr float kLargestFoldedScale = 1099511627776.0f; // 2^40

struct PairConstants {
    float linear;
    float cubic;
    float cubic_slope;
    float end;             // of the square of a raw score
    float half_scale;      // of P in fp16
    float inner;           // of dP
    float weight_epilogue; // of dV
    float slope_epilogue;  // of dQ and dK
};

__device__ inline PairConstants pair_constants(const gdpa_bwd_params &params)
{
    const GradientFactors factors = gradient_factors(params);
    const float size = min_nan_f32(max_nan_f32(params.scale, -kLargestFoldedScale), kLargestFoldedScale);
    const float cubic = kGeluK1 * size * size * size;
    const float half_scale = 0.5f * params.scale;
    //@if bf16
    const float weight_epilogue = half_scale * params.out_scale;
    //@else
    const float weight_epilogue = params.out_scale;
    //@endif
    const float end = min_nan_f32(kSquareOfEnd / (size * size), kLargestEnd);
    return {kGeluK0 * size, cubic, 3.0f * cubic, end, half_scale, factors.inner, weight_epilogue, 0.5f * factors.outer};
}

__device__ inline void value_and_slope(float score, const PairConstants &constants, float &value, float &slope)
{
    const float square = min_nan_f32(score * score, constants.end);
    const float u = score * fma_rn_f32(constants.cubic, square, constants.linear);
    const float t = tanh_approx_f32(u);
    const float bend = fma_rn_f32(-t, t, 1.0f);
    const float rise = score * fma_rn_f32(constants.cubic_slope, square, constants.linear);
    //@if bf16
    value = fma_rn_f32(score, t, score);
    //@else
    const float half = score * constants.half_scale;
    value = fma_rn_f32(half, t, half);
    //@endif
    slope = fma_rn_f32(rise, bend, t);
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
