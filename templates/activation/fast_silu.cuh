/*
 * silu through the hardware tanh: f(x) = h (1 + tanh h), h = x/2. Approx: the tanh has a relative error of 2^-11, so
 * |error| <= 2^-12 |x|, and the small negative tail is lost; nothing overflows. 2 operations and 1 special function.
 */
#ifndef GDPA_ACTIVATION_FAST_SILU_CUH
#define GDPA_ACTIVATION_FAST_SILU_CUH

#include "numeric.cuh"
#include "ptx/math.cuh"

__device__ inline float activation_value(float x, float param)
{
    const float half = 0.5f * x;
    return fma_rn_f32(half, tanh_approx_f32(half), half);
}

__device__ inline float activation_derivative(float x, float param)
{
    const float s = fma_rn_f32(0.5f, tanh_approx_f32(0.5f * x), 0.5f);
    return s * fma_rn_f32(x, 1.0f - s, 1.0f);
}

/*
 * For a raw score r and x = s r: f = (s/2) r (1 + tanh(r s/2)), whose factor s/2 moves to the output. fp16 keeps the factor, or P
 * would overflow where f does not.
 */
struct ActivationConstants {
    float half_scale;
    float epilogue;
};

__device__ inline ActivationConstants activation_constants(float scale, float out_scale, float param)
{
    const float half_scale = 0.5f * scale;
    //@if bf16
    return {half_scale, out_scale * half_scale};
    //@else
    return {half_scale, out_scale};
    //@endif
}

__device__ inline float activation_turn(const ActivationConstants &constants)
{
    return 1.0f;
}

__device__ inline float activation_of_score(float score, const ActivationConstants &constants)
{
    const float half = score * constants.half_scale;
    //@if bf16
    return fma_rn_f32(score, tanh_approx_f32(half), score);
    //@else
    return fma_rn_f32(half, tanh_approx_f32(half), half);
    //@endif
}

__device__ inline uint32_t activation_pack(float score0, float score1, const ActivationConstants &constants)
{
    return pack_input(activation_of_score(score0, constants), activation_of_score(score1, constants));
}

#endif
