/*
 * f(x) = max(x, 0), f'(x) = x > 0. Exact; no operation, it rides on the packing instruction.
 */
#ifndef GDPA_ACTIVATION_RELU_CUH
#define GDPA_ACTIVATION_RELU_CUH

#include "numeric.cuh"
#include "ptx/math.cuh"

__device__ inline float activation_value(float x, float param)
{
    return max_nan_f32(x, 0.0f);
}

__device__ inline float activation_derivative(float x, float param)
{
    return x > 0.0f ? 1.0f : 0.0f;
}

struct ActivationConstants {
    float scale;
    float epilogue;
    float turn; // -1 where the scale is negative, else 1
};

/* relu(s r) = |s| relu(r or -r): the scale moves to the output, but in fp16, where P would overflow in another place than f does. */
__device__ inline ActivationConstants activation_constants(float scale, float out_scale, float param)
{
    //@if bf16
    return {1.0f, out_scale * (scale < 0.0f ? -scale : scale), scale < 0.0f ? -1.0f : 1.0f};
    //@else
    return {scale, out_scale, 1.0f};
    //@endif
}

__device__ inline float activation_turn(const ActivationConstants &constants)
{
    return constants.turn;
}

__device__ inline uint32_t activation_pack(float score0, float score1, const ActivationConstants &constants)
{
    //@if bf16
    return pack_input_relu(score0, score1);
    //@else
    return pack_input_relu(score0 * constants.scale, score1 * constants.scale);
    //@endif
}

#endif
