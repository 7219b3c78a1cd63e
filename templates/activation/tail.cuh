/*
 * Activations of the form f(x) = x G(x) with G(x) + G(-x) = 1 (gelu, gelu_tanh, silu): f is max(x, 0) less a small tail,
 *
 *     f(x) = max(x, 0) - |x| T(|x|),   T(t) = G(-t) in (0, 1/2],   or   2 f(x) = x + |x| (1 - 2 T(|x|))
 *
 * A file that includes this one defines TailConstants, tail_constants(scale) and tail_bracket(t, sign, constants) = sign (1 - 2 T(|s| t)). The
 * tail is needed to the absolute bound only, so few terms do, and nothing cancels.
 *
 * For a raw score r, x = s r, with the sign and size of s: 2 f(x) = s (r + |r| sign (1 - 2 T(|s| |r|))), whose factor s/2 moves to the output.
 * fp16 keeps the factor, or P would overflow where f does not.
 */
#ifndef GDPA_ACTIVATION_TAIL_CUH
#define GDPA_ACTIVATION_TAIL_CUH

#include "config_default.cuh"
#include "numeric.cuh"
#include "ptx/math.cuh"

/* Scales beyond it give the same result, and their powers would overflow. */
constexpr float kLargestFoldedScale = 1099511627776.0f; // 2^40

struct ActivationConstants {
    TailConstants tail;
    float sign;
    float half_scale;
    float epilogue;
};

__device__ inline ActivationConstants activation_constants(float scale, float out_scale, float param)
{
    const float size = min_nan_f32(scale < 0.0f ? -scale : scale, kLargestFoldedScale);
    const float half_scale = 0.5f * scale;
    //@if bf16
    return {tail_constants(size), scale < 0.0f ? -1.0f : 1.0f, half_scale, out_scale * half_scale};
    //@else
    return {tail_constants(size), 1.0f, half_scale, out_scale};
    //@endif
}

__device__ inline float activation_of_score(float score, const ActivationConstants &constants)
{
    const float bracket = tail_bracket(abs_f32(score), constants.sign, constants.tail);
    //@if bf16
    return fma_rn_f32(abs_f32(score), bracket, score);
    //@else
    const float half = score * constants.half_scale;
    return fma_rn_f32(abs_f32(half), bracket, half);
    //@endif
}

__device__ inline uint32_t activation_pack(float score0, float score1, const ActivationConstants &constants)
{
    return pack_input(activation_of_score(score0, constants), activation_of_score(score1, constants));
}

__device__ inline float activation_value(float x, float param)
{
    const float half = 0.5f * x;
    return fma_rn_f32(abs_f32(half), tail_bracket(abs_f32(x), 1.0f, tail_constants(1.0f)), half);
}

#endif
