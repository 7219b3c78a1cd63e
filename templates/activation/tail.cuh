/*
 * Activations of the form f(x) = x G(x) with G(x) + G(-x) = 1 (gelu, gelu_tanh, silu): f is max(x, 0) less a small tail,
 *
 *     f(x) = max(x, 0) - |x| T(|x|),   T(t) = G(-t) in (0, 1/2],   or   2 f(x) = x + |x| (1 - 2 T(|x|))
 *
 * A file that includes this one defines TailConstants, tail_constants(size of s) and tail_bracket(t, constants) = 1 - 2 T(|s| t). The
 * tail is needed to the absolute bound only, so few terms do, and nothing cancels.
 *
 * For a raw score r and x = |s| r: 2 f(x) = |s| (r + |r| (1 - 2 T(|s| |r|))), whose factor |s|/2 moves to the output. Where s is negative the
 * kernel turns the sign of the scores first (activation_turn). fp16 keeps the factor, or P would overflow where f does not.
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
    float half_scale;
    float epilogue;
    float turn; // -1 where the scale is negative, else 1
};

__device__ inline ActivationConstants activation_constants(float scale, float out_scale, float param)
{
    const float size = min_nan_f32(scale < 0.0f ? -scale : scale, kLargestFoldedScale);
    const float half_scale = scale < 0.0f ? -0.5f * scale : 0.5f * scale;
    //@if bf16
    return {tail_constants(size), half_scale, out_scale * half_scale, scale < 0.0f ? -1.0f : 1.0f};
    //@else
    return {tail_constants(size), half_scale, out_scale, scale < 0.0f ? -1.0f : 1.0f};
    //@endif
}

__device__ inline float activation_turn(const ActivationConstants &constants)
{
    return constants.turn;
}

__device__ inline float activation_of_score(float score, const ActivationConstants &constants)
{
    const float bracket = tail_bracket(abs_f32(score), constants.tail);
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
    return fma_rn_f32(abs_f32(half), tail_bracket(abs_f32(x), tail_constants(1.0f)), half);
}

#endif
