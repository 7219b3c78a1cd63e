/*
 * Activations with f(s r) = s^k f(r) for s > 0 (identity, relu, leaky_relu: k = 1; square, relu_square: k = 2): they run on raw scores, and
 * the scale moves to the output. Where the scale is negative the kernel turns the sign of the scores first (activation_turn).
 *
 * A file that includes this one defines kDegree and activation_value. fp16, whose range is small, keeps the scale inside: P overflows where
 * f does.
 */
#ifndef GDPA_ACTIVATION_HOMOGENEOUS_CUH
#define GDPA_ACTIVATION_HOMOGENEOUS_CUH

//@if bf16
#include "numeric.cuh"

/* Squares of raw scores overflow from 2^64 on. Below this scale, and at 0, that may be where f does not: such a scale stays inside. */
constexpr float kSmallestFoldedScale = 9.5367431640625e-7f; // 2^-20

struct ActivationConstants {
    float param;
    float epilogue;
    float turn; // -1 where the scale is negative, else 1; or the scale
};

__device__ inline ActivationConstants activation_constants(float scale, float out_scale, float param)
{
    const float size = scale < 0.0f ? -scale : scale;
    if (kDegree == 2 && size < kSmallestFoldedScale) {
        return {param, out_scale, scale};
    }
    return {param, out_scale * (kDegree == 2 ? size * size : size), scale < 0.0f ? -1.0f : 1.0f};
}

__device__ inline float activation_turn(const ActivationConstants &constants)
{
    return constants.turn;
}

__device__ inline uint32_t activation_pack(float score0, float score1, const ActivationConstants &constants)
{
    return pack_input(activation_value(score0, constants.param), activation_value(score1, constants.param));
}
//@else
#include "activation/scaled.cuh"
//@endif

#endif
