/*
 * f(x) = x clamp(x + 3, 0, 6) / 6; f'(x) = 0 up to -3, 1 from 3 on, x/3 + 1/2 between. Exact; 4 operations.
 *
 * clamp(x + 3, 0, 6) / 6 = saturate(x/6 + 1/2).
 */
#ifndef GDPA_ACTIVATION_HARDSWISH_CUH
#define GDPA_ACTIVATION_HARDSWISH_CUH

#include "numeric.cuh"
#include "ptx/math.cuh"

__device__ inline float activation_value(float x, float param)
{
    return x * fma_rn_sat_f32(x, 1.0f / 6.0f, 0.5f);
}

__device__ inline float activation_derivative(float x, float param)
{
    return x <= -3.0f ? 0.0f : x >= 3.0f ? 1.0f : fma_rn_f32(x, 1.0f / 3.0f, 0.5f);
}

/* For a raw score r: f = s r saturate(r s/6 + 1/2), whose factor s moves to the output, but in fp16. */
struct ActivationConstants {
    float scale;
    float sixth;
    float epilogue;
};

__device__ inline ActivationConstants activation_constants(float scale, float out_scale, float param)
{
    //@if bf16
    return {1.0f, scale / 6.0f, out_scale * scale};
    //@else
    return {scale, scale / 6.0f, out_scale};
    //@endif
}

__device__ inline float activation_turn(const ActivationConstants &constants)
{
    return 1.0f;
}

__device__ inline float activation_of_score(float score, const ActivationConstants &constants)
{
    const float gate = fma_rn_sat_f32(score, constants.sixth, 0.5f);
    //@if bf16
    return score * gate;
    //@else
    return score * constants.scale * gate;
    //@endif
}

__device__ inline uint32_t activation_pack(float score0, float score1, const ActivationConstants &constants)
{
    return pack_input(activation_of_score(score0, constants), activation_of_score(score1, constants));
}

#endif
