/*
 * gelu_tanh in packed 16-bit arithmetic of the input type, two scores an instruction: f(x) = h (1 + tanh(x (k0 + k1 x^2))), h = x/2.
 * Approx: |error| <= 2^-7 max(1, |x|) + 2^-9 in bf16 (8-bit steps in x, the argument and the tanh), less in fp16. 2 packed operations a
 * score and 1 special function. The derivative is that of fast_gelu in fp32.
 */
#ifndef GDPA_ACTIVATION_FAST_GELU_BF16_CUH
#define GDPA_ACTIVATION_FAST_GELU_BF16_CUH

#include "activation/fast_gelu_derivative.cuh"
#include "activation/gelu_argument.cuh"
#include "numeric.cuh"
#include "ptx/packed_math.cuh"

__device__ inline uint32_t fast_gelu_packed(uint32_t x)
{
    const uint32_t minus_zero = 0x80008000u;
    const uint32_t half = packed_fma(x, packed_constant(0.5f), minus_zero);
    const uint32_t square = packed_fma(x, x, minus_zero);
    const uint32_t slope = packed_fma(square, packed_constant(kGeluK1), packed_constant(kGeluK0));
    const uint32_t t = packed_tanh(packed_fma(x, slope, minus_zero));
    return packed_fma(half, t, half);
}

__device__ inline float activation_value(float x, float param)
{
    return unpack_input_low(fast_gelu_packed(pack_input(x, x)));
}

//@if bf16
/* Scales beyond it give the same result, and their cube would overflow. */
constexpr float kLargestFoldedScale = 1099511627776.0f; // 2^40

/* As in fast_gelu: for a raw score r, u = r (k0 s + k1 s^3 r^2), and f = (s/2) (r + r tanh u), whose factor s/2 moves to the output. */
struct ActivationConstants {
    uint32_t linear;
    uint32_t cubic;
    float epilogue;
};

__device__ inline ActivationConstants activation_constants(float scale, float out_scale, float param)
{
    const float size = min_nan_f32(max_nan_f32(scale, -kLargestFoldedScale), kLargestFoldedScale);
    return {packed_constant(kGeluK0 * size), packed_constant(kGeluK1 * size * size * size), out_scale * (0.5f * scale)};
}

__device__ inline uint32_t activation_pack(float score0, float score1, const ActivationConstants &constants)
{
    const uint32_t minus_zero = 0x80008000u;
    const uint32_t scores = pack_input(score0, score1);
    // Not cubic * score^2, which is 0 * infinity where the scale is 0 and the score large.
    const uint32_t slope = packed_fma(packed_fma(constants.cubic, scores, minus_zero), scores, constants.linear);
    return packed_fma(scores, packed_tanh(packed_fma(scores, slope, minus_zero)), scores);
}
//@else
constexpr float kLowestFp16 = -65504.0f;

/* The scale stays inside, or P would overflow where f does not. */
struct ActivationConstants {
    float scale;
    float epilogue;
};

__device__ inline ActivationConstants activation_constants(float scale, float out_scale, float param)
{
    return {scale, out_scale};
}

__device__ inline uint32_t activation_pack(float score0, float score1, const ActivationConstants &constants)
{
    // An infinite x would give inf - inf on the negative side, where f is 0.
    return fast_gelu_packed(pack_input(max_nan_f32(score0 * constants.scale, kLowestFp16),
                                       max_nan_f32(score1 * constants.scale, kLowestFp16)));
}
//@endif

__device__ inline float activation_turn(const ActivationConstants &constants)
{
    return 1.0f;
}

#endif
