/*
 * gelu_tanh through the hardware tanh: f(x) = x/2 (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715 x^3). Approx: the tanh has a relative
 * error of 2^-11, so |error| <= 2^-12 |x|, and the small negative tail beyond -3 is lost. 4 operations and 1 special function.
 */
#ifndef GDPA_ACTIVATION_FAST_GELU_CUH
#define GDPA_ACTIVATION_FAST_GELU_CUH

#include "activation/fast_gelu_derivative.cuh"
#include "activation/gelu_argument.cuh"
#include "numeric.cuh"

__device__ inline float activation_value(float x, float param)
{
    const float half = 0.5f * x;
    return fma_rn_f32(half, tanh_approx_f32(gelu_argument(x)), half);
}

/* Scales beyond it give the same result, and their cube would overflow. */
constexpr float kLargestFoldedScale = 1099511627776.0f; // 2^40

/*
 * For a raw score r and x = s r: u = r (k0 s + k1 s^3 r^2), and f = (s/2) r (1 + tanh u), whose factor s/2 moves to the output.
 * fp16 keeps the factor, or P would overflow where f does not.
 */
struct ActivationConstants {
    float linear;
    float cubic;
    float half_scale;
    float epilogue;
};

__device__ inline ActivationConstants activation_constants(float scale, float out_scale, float param)
{
    const float half_scale = 0.5f * scale;
    const float size = min_nan_f32(max_nan_f32(scale, -kLargestFoldedScale), kLargestFoldedScale);
    //@if bf16
    const float epilogue = out_scale * half_scale;
    //@else
    const float epilogue = out_scale;
    //@endif
    return {kGeluK0 * size, kGeluK1 * size * size * size, half_scale, epilogue};
}

__device__ inline float activation_turn(const ActivationConstants &constants)
{
    return 1.0f;
}

__device__ inline float activation_of_score(float score, const ActivationConstants &constants)
{
    // Not cubic * score^2, which is 0 * infinity where the scale is 0 and the score large.
    const float u = score * fma_rn_f32(constants.cubic * score, score, constants.linear);
    //@if bf16
    return fma_rn_f32(score, tanh_approx_f32(u), score);
    //@else
    const float half = score * constants.half_scale;
    return fma_rn_f32(half, tanh_approx_f32(u), half);
    //@endif
}

__device__ inline uint32_t activation_pack(float score0, float score1, const ActivationConstants &constants)
{
    return pack_input(activation_of_score(score0, constants), activation_of_score(score1, constants));
}

#endif
